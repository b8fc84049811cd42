"""The flags and environment variables of the options, generated from the fields of Settings.

A flag takes precedence over its variable (`--log-format` over `RUKPAK_LOG_FORMAT`), the variable over the default.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, Protocol

from rukpak.controller.settings import GROUPS, Settings

YES, NO = "yes", "no"
_BOOLEANS = {"true": True, "false": False, YES: True, NO: False}


class Flags(Protocol):
    """What flags are added to: a parser that knows switches."""

    def add_flag(self, group: str, flags: tuple[str, ...], **options: Any) -> None:
        """Add a flag with a value to a group of help."""

    def add_switch(self, group: str, flag: str, *, words: tuple[str, str], **options: Any) -> None:
        """Add a flag to a group of help that stands for the first word, and with `--no-` for the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionText:
    """How an option is documented."""

    flag: str
    variable: str
    default: str
    """As the flag accepts it; empty if there is none."""
    help: str


def describe_options() -> list[OptionText]:
    """Return all options in the order of `--help` and the documentation."""
    return [
        OptionText(
            flag=f"--{option.name.replace('_', '-')}",
            variable=f"RUKPAK_{option.name.upper()}",
            default=str(option.default).lower() if isinstance(option.default, bool) else str(option.default),
            help=option.metadata["help"],
        )
        for option in fields(Settings)
    ]


def add_options(parser: Flags, environment: Mapping[str, str], only: Collection[str] | None = None) -> None:
    """Add a flag for each field of Settings, or for `only` these; values from the environment are validated alike."""
    for (option, group), text in zip(_grouped(), describe_options(), strict=True):
        if only is None or option.name in only:
            _add_option(parser, group, option, text, environment.get(text.variable))


def _grouped() -> Iterator[tuple[Field[Any], str]]:
    group = ""
    for option in fields(Settings):
        group = GROUPS.get(option.name, group)
        yield option, group


def _add_option(parser: Flags, group: str, option: Field[Any], text: OptionText, value: str | None) -> None:
    origin = f"env: {text.variable}" + (f", default: {text.default}" if text.default else "")
    options = {
        "default": option.default if value is None else value,
        "type": _reader(option, text.variable, value),
        "help": f"{text.help} [{origin}]".replace("%", "%%"),
    }
    choices = option.metadata["choices"]
    if isinstance(option.default, bool) or YES in choices:
        parser.add_switch(group, text.flag, words=(YES, NO), **options)
        return
    name = "N" if isinstance(option.default, int) else option.name.rsplit("_", maxsplit=1)[-1].upper()
    flags = (*option.metadata["short"].split(), text.flag)
    parser.add_flag(group, flags, metavar="|".join(choices) or name, **options)


def _reader(option: Field[Any], variable: str, value: str | None) -> Callable[[str], Any]:
    """Return what parses an option by the type of its default; an error about the value of its variable names that.

    Unlike `choices` of argparse, it validates defaults that are text, too.
    """
    default, choices = option.default, option.metadata["choices"]

    def _read(text: str) -> Any:
        source = f" ({variable})" if text == value else ""
        if choices and text not in choices:
            raise argparse.ArgumentTypeError(f'"{text}" is not one of {", ".join(choices)}{source}')
        if isinstance(default, bool):
            if text not in _BOOLEANS:
                raise argparse.ArgumentTypeError(f'"{text}" is neither true nor false{source}')
            return _BOOLEANS[text]
        if isinstance(default, int) and not (text.isdecimal() and int(text) >= (default > 0)):
            raise argparse.ArgumentTypeError(f'"{text}" is not a whole number{" above 0" * (default > 0)}{source}')
        return text if isinstance(default, str) else int(text)

    return _read
