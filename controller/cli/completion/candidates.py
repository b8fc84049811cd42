"""What may come next on a command line, from the parsers of the verbs. Pure: names come from a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from controller.cli.parsing.listing import Flag, list_flags, list_verbs, takes_names
from controller.cli.parsing.verbs import VERBS, make_parser

HELP = "help"


class Directive(IntEnum):
    """What else a shell may offer, in the numbers of cobra, which kubectl reads."""

    FILES = 0
    NO_FILES = 4


@dataclass(frozen=True, slots=True)
class Completion:
    """The words that may come next."""

    words: Mapping[str, str]
    """Each with a description, which may be empty."""
    directive: Directive = Directive.NO_FILES

    def lines(self) -> Iterator[str]:
        """Yield them as kubectl and the scripts read them."""
        for word, text in self.words.items():
            yield f"{word}\t{text}" if text else word
        yield f":{self.directive:d}"


def complete(line: Sequence[str], find_names: Callable[[], Iterable[str]]) -> Completion:
    """Return what the last word of a line may become.

    Args:
        line: the words after `rukpak`, the last of which is incomplete and may be empty.
        find_names: returns the names of all BundleDeployments.
    """
    *before, last = _without_separators(line)
    if not before or before == [HELP]:
        return _matching(list_verbs(), last)
    if before[0] not in VERBS:
        return Completion({})
    return _complete_verb(before[0], before[1:], last, find_names)


def _without_separators(line: Sequence[str]) -> list[str]:
    """Return the words without those that bash makes of the `=` between a flag and its value."""
    words = [word for word in line if word != "="]
    return [*words, ""] if not line or line[-1] == "=" else words


def _complete_verb(verb: str, before: Sequence[str], last: str, find_names: Callable[[], Iterable[str]]) -> Completion:
    flags = {name: flag for flag in list_flags(verb) for name in flag.names}
    previous = flags.get(before[-1]) if before else None
    if previous and previous.takes_value:
        return _values(previous, last)
    name, separator, value = last.partition("=")
    if separator and name in flags:
        return _values(flags[name], value, f"{name}=")
    if last.startswith("-"):
        return _matching({each: flag.help for each, flag in flags.items() if each.startswith("--")}, last)
    if takes_names(verb):
        given = set(before)
        return _matching(dict.fromkeys((each for each in find_names() if each not in given), ""), last)
    return _arguments(verb, last)


def _values(flag: Flag, begun: str, prefix: str = "") -> Completion:
    if not flag.values:
        return Completion({}, Directive.FILES)
    return _matching({f"{prefix}{value}": "" for value in flag.values}, f"{prefix}{begun}")


def _arguments(verb: str, begun: str) -> Completion:
    """Return the valid words of an argument, or leave it to the shell to offer files."""
    arguments = [action for action in make_parser(verb).actions() if not action.option_strings]
    words = [word for action in arguments for word in getattr(action.type, "words", ())]
    if arguments and not words:
        return Completion({}, Directive.FILES)
    return _matching(dict.fromkeys(words, ""), begun)


def _matching(words: Mapping[str, str], begun: str) -> Completion:
    return Completion({word: text for word, text in words.items() if word.startswith(begun)})
