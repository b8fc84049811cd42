"""The parser of a verb: argparse, with shorter help, and mistakes in two lines that name the nearest valid word."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from rukpak.controller.cli.command import MISUSE, tell
from rukpak.controller.untrusted import is_object_name

FLAGS = "flags"
"""Title of the flags that only one verb has."""
WIDEST = 100
"""Columns of help on a wide terminal: longer lines are hard to read."""


def program() -> str:
    """Return the command as the user typed it: `kubectl rukpak` for the plugin of kubectl."""
    return "kubectl rukpak" if Path(sys.argv[0]).name == "kubectl-rukpak" else "rukpak"


class _Formatter(argparse.HelpFormatter):
    """Formats flags as kubectl does (`-f, --file FILE`); lines that start with a space are kept as they are."""

    def __init__(self, prog: str) -> None:
        columns = min(shutil.get_terminal_size().columns, WIDEST)
        super().__init__(prog, max_help_position=28, width=max(columns - 2, 40))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        is_switch = action.metavar == ""
        names = [f"--[no-]{name[2:]}" if is_switch else name for name in action.option_strings]
        value = "" if action.nargs == 0 or is_switch else f" {action.metavar or action.dest.upper()}"
        return f"{', '.join(names)}{value}"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            line if line.startswith(" ") else textwrap.fill(line, width, initial_indent=indent)
            for line in text.splitlines()
        )


class Parser(argparse.ArgumentParser):
    """The parser of one verb.

    Args:
        verb: its name.
        examples: command lines after `rukpak`, each with what it does.
        hidden: titles of groups that only `--help=all` shows.
    """

    def __init__(
        self,
        verb: str,
        *,
        description: str = "",
        examples: Mapping[str, str] | None = None,
        hidden: Collection[str] = (),
    ) -> None:
        super().__init__(
            prog=f"{program()} {verb}",
            description=description,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.verb, self._examples, self._hidden = verb, _show_examples(examples or {}), hidden
        self.switches: dict[str, str] = {}
        """What `--flag` and `--no-flag` stand for, where flags need no value: `--flag=WORD`."""
        self._positionals.title, self._optionals.title = "arguments", FLAGS
        self._titled = {FLAGS: self._optionals}
        self.add_argument("-h", "--help", action="help", help="show this help")

    def add_flag(self, group: str, flags: tuple[str, ...], **options: Any) -> None:
        """Add a flag to a group of help."""
        self.group(group).add_argument(*flags, **options)

    def add_switch(self, group: str, flag: str, *, words: tuple[str, str], **options: Any) -> None:
        """Add a flag that is set by `--flag`, `--no-flag` or `--flag=WORD`."""
        self.switches |= {flag: f"{flag}={words[0]}", f"--no-{flag[2:]}": f"{flag}={words[1]}"}
        self.group(group).add_argument(flag, metavar="", **options)

    def group(self, title: str) -> argparse._ArgumentGroup:
        """Return a group of help, by its title."""
        if title not in self._titled:
            self._titled[title] = self.add_argument_group(title)
        return self._titled[title]

    def format_help(self, *, is_whole: bool = False) -> str:
        """Return help: examples first, and without the hidden groups unless it is to be whole."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        formatter.add_text(self._examples)
        left_out = []
        for group in self._action_groups:
            if not is_whole and group.title in self._hidden:
                left_out.append(str(group.title))
                continue
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions)  # noqa: SLF001 - as the method that this replaces
            formatter.end_section()
        if left_out:
            formatter.add_text(f'Use "{self.prog} --help=all" for flags about: {", ".join(left_out)}.')
        return formatter.format_help()

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options, with the name of the verb; on a mistake print it and exit with status 2."""
        if "--help=all" in arguments:
            print(self.format_help(is_whole=True), end="")
            self.exit()
        options, unknown = self.parse_known_args([self.switches.get(word, word) for word in arguments])
        flags = [word for word in unknown if word.startswith("-") and word != "-"]
        if flags:
            flag = flags[0].partition("=")[0]
            known = (each for action in self._actions for each in action.option_strings)
            self.error(f'unknown flag "{flag}"{suggest(flag, dict.fromkeys([*known, *self.switches]))}')
        if unknown:
            self.error(f'unexpected argument "{unknown[0]}"')
        options.verb = self.verb
        return options

    def error(self, message: str) -> NoReturn:
        """Print a mistake and how to get help, then exit with status 2."""
        tell(f"rukpak {self.verb}: {message.removeprefix('argument ')}")
        tell(f'See "{self.prog} --help" for usage')
        self.exit(MISUSE)

    def actions(self) -> list[argparse.Action]:
        """Return everything that it accepts, in the order of help."""
        return list(self._actions)


def suggest(word: str, valid: Iterable[str]) -> str:
    """Return `; did you mean "x"?` for the valid word that is most like a mistyped one; empty if none is near."""
    likely = get_close_matches(word, list(valid), n=3, cutoff=0.6)
    found = next((each for each in likely if each.startswith(word) or _are_near(word, each)), "")
    return f'; did you mean "{found}"?' if found else ""


def _are_near(word: str, other: str) -> bool:
    word, other = word.lstrip("-"), other.lstrip("-")
    same = sum(block.size for block in SequenceMatcher(None, word, other, autojunk=False).get_matching_blocks())
    longest = max(len(word), len(other))
    return longest - same <= max(longest // 3, 1)


def object_name(text: str) -> str:
    """Return the name of an object: a type for argparse.

    Raises: ArgumentTypeError if no object can have it.
    """
    if not is_object_name(text):
        allowed = 'lowercase letters and digits, with "-" and "." between them'
        raise argparse.ArgumentTypeError(f'"{text}" cannot be the name of an object; use {allowed}')
    return text


@dataclass(frozen=True, slots=True)
class OneOf:
    """A type for argparse that accepts certain words."""

    words: tuple[str, ...]
    is_optional: bool = False
    """Whether an empty text is accepted, too, for the default."""
    remedies: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What to do instead of a text that starts so."""

    def __call__(self, text: str) -> str:
        """Return a valid value.

        Raises: ArgumentTypeError for any other.
        """
        if text in self.words or (self.is_optional and not text):
            return text
        remedy = next((f"; {each}" for start, each in self.remedies.items() if text.startswith(start)), "")
        hint = remedy or suggest(text, self.words)
        raise argparse.ArgumentTypeError(f'"{text}" is not one of {", ".join(self.words)}{hint}')


def _show_examples(examples: Mapping[str, str]) -> str:
    lines = [f"  # {text}\n  {program()} {command}" for command, text in examples.items()]
    return "examples:\n" + "\n".join(lines) if lines else ""
