"""Completion of command lines, for shells and, as its plug-ins are completed, for kubectl."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from rukpak.controller.cli.command import connect
from rukpak.controller.cli.parser import Parser
from rukpak.controller.cli.verbs import VERBS, make_parser

HELP = "help"
_NAME = "NAME"
"""How arguments are shown that are names of BundleDeployments."""
_BASH = """\
# Load it with: source <(rukpak completion bash)
_rukpak() {
    local IFS=$'\\n' found last
    found=($(rukpak __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [ "${#found[@]}" -gt 0 ] || return
    last=$((${#found[@]} - 1))
    [ "${found[last]}" = ":0" ] && compopt -o default
    unset "found[last]"
    COMPREPLY=("${found[@]%%$'\\t'*}")
}
complete -F _rukpak rukpak
"""
_ZSH = """\
#compdef rukpak
# Load it with: source <(rukpak completion zsh)
_rukpak() {
    local -a found described
    found=("${(@f)$(rukpak __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    local directive=${found[-1]}
    described=("${(@)found[1,-2]//:/\\\\:}")
    described=("${(@)described/$'\\t'/:}")
    (( ${#described} )) && _describe rukpak described
    [[ $directive == :0 ]] && _files
}
compdef _rukpak rukpak
"""
_FISH = """\
# Load it with: rukpak completion fish | source
function __rukpak_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (rukpak __complete $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 1
        printf '%s\\n' $found[1..-2]
    end
    if test "$found[-1]" = ':0'
        __fish_complete_path (commandline -ct)
    end
end
complete -c rukpak -f -a '(__rukpak_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


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
    given = [
        word
        for word, previous in zip(before, ("", *before), strict=False)
        if not (word.startswith("-") or (previous in flags and flags[previous].takes_value))
    ]
    return _complete_argument(_find_argument(verb, len(given)), given, last, find_names)


def _values(flag: Flag, begun: str, prefix: str = "") -> Completion:
    if not flag.values:
        return Completion({}, Directive.FILES)
    return _matching({f"{prefix}{value}": "" for value in flag.values}, f"{prefix}{begun}")


def _find_argument(verb: str, place: int) -> argparse.Action | None:
    arguments = [action for action in make_parser(verb).actions() if not action.option_strings]
    if arguments and arguments[-1].nargs == "*":
        return arguments[min(place, len(arguments) - 1)]
    return arguments[place] if place < len(arguments) else None


def _complete_argument(
    argument: argparse.Action | None, given: Sequence[str], begun: str, find_names: Callable[[], Iterable[str]]
) -> Completion:
    if argument is None:
        return Completion({})
    if argument.metavar == _NAME:
        return _matching(dict.fromkeys((each for each in find_names() if each not in given), ""), begun)
    words = getattr(argument.type, "words", ())
    return _matching(dict.fromkeys(words, ""), begun) if words else Completion({}, Directive.FILES)


def _matching(words: Mapping[str, str], begun: str) -> Completion:
    return Completion({word: text for word, text in words.items() if word.startswith(begun)})


def show_script(options: argparse.Namespace) -> int:
    """Print the script of a shell; return the exit status."""
    print(SCRIPTS[options.shell], end="")
    return 0


def answer(words: Sequence[str] | None = None) -> int:
    """Print what the last word may become; return the exit status."""
    line = list(sys.argv[1:] if words is None else words)
    for each in complete(line, lambda: _find_names(line)).lines():
        print(each)
    return 0


def _find_names(line: Sequence[str]) -> Iterable[str]:
    # A shell shows no errors.
    from rukpak.controller.kube.errors import ApiError, ConfigurationError  # noqa: PLC0415
    from rukpak.controller.views.access import Deployments  # noqa: PLC0415 - slow, and rarely needed

    options = argparse.Namespace(kubeconfig=_value(line, "--kubeconfig"), context=_value(line, "--context"))
    try:
        return sorted(value["metadata"]["name"] for value in Deployments(connect(options)).all())
    except (ApiError, ConfigurationError):
        return ()


def _value(line: Sequence[str], flag: str) -> str:
    apart = [value for word, value in pairwise(line) if word == flag]
    joined = [word.partition("=")[2] for word in line if word.startswith(f"{flag}=")]
    return next(iter(apart + joined), os.environ.get(f"RUKPAK_{flag[2:].upper()}", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A flag of a verb."""

    names: tuple[str, ...]
    """Such as `-o` and `--output`."""
    help: str
    takes_value: bool
    """Whether a value follows; a switch takes none, and is also listed with `--no-`."""
    values: tuple[str, ...] = ()
    """The values that are valid; empty: any."""


def list_verbs() -> dict[str, str]:
    """Return each verb with its summary, in the order of help."""
    return {name: verb.summary for name, verb in VERBS.items()}


def list_flags(verb: str) -> list[Flag]:
    """Return the flags of a verb, in the order of its help.

    Raises: KeyError if there is no such verb.
    """
    parser = make_parser(verb)
    return [flag for action in parser.actions() for flag in _flags_of(parser, action)]


def _flags_of(parser: Parser, action: argparse.Action) -> Iterator[Flag]:
    names = tuple(action.option_strings)
    if not names:
        return
    text, is_switch = (action.help or "").replace("%%", "%"), names[-1] in parser.switches
    values = tuple(getattr(action.type, "words", ())) or _alternatives(action)
    yield Flag(
        names=names, help=text, takes_value=action.nargs != 0 and not is_switch, values=() if is_switch else values
    )
    if is_switch:
        yield Flag(names=(f"--no-{names[-1][2:]}",), help=f"not: {text}", takes_value=False)


def _alternatives(action: argparse.Action) -> tuple[str, ...]:
    name = str(action.metavar or "")
    return tuple(name.split("|")) if "|" in name else ()
