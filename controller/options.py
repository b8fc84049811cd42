"""The flags and environment variables of the options, generated from the fields of Settings.

A flag takes precedence over its variable (`--log-format` over `RUKPAK_LOG_FORMAT`), the variable over the default.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from typing import Any

from controller.settings import Settings


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


def add_options(
    parser: argparse.ArgumentParser, environment: Mapping[str, str], only: Collection[str] | None = None
) -> None:
    """Add a flag for each field of Settings, or for `only` these; values from the environment are validated alike."""
    for option, text in zip(fields(Settings), describe_options(), strict=True):
        if only is None or option.name in only:
            _add_option(parser, option, text, environment.get(text.variable))


def _add_option(parser: argparse.ArgumentParser, option: Field[Any], text: OptionText, value: str | None) -> None:
    origin = f"env: {text.variable}" + (f", default: {text.default}" if text.default else "")
    is_switch, is_number = isinstance(option.default, bool), isinstance(option.default, int)
    words = ("true", "false") if is_switch else option.metadata["choices"]
    parser.add_argument(
        text.flag,
        default=option.default if value is None else value,
        type=_reader(option, text.variable, value),
        metavar="|".join(words) or ("N" if is_number else option.name.rsplit("_", maxsplit=1)[-1].upper()),
        help=f"{text.help} [{origin}]".replace("%", "%%"),
        # A switch needs no value: --require-service-account alone is true.
        nargs="?" if is_switch else None,
        const=True if is_switch else None,
    )


def _reader(option: Field[Any], variable: str, value: str | None) -> Callable[[str], Any]:
    """Return what parses an option by the type of its default; an error about the value of its variable names that.

    Unlike `choices` of argparse, it validates defaults that are text, too.
    """
    default, choices = option.default, option.metadata["choices"]

    def _read(text: str) -> Any:
        source = f" ({variable})" if text == value else ""
        if choices and text not in choices:
            raise argparse.ArgumentTypeError(f'"{text}" is not one of {", ".join(choices)}{source}')
        if isinstance(default, bool) and text not in ("true", "false"):
            raise argparse.ArgumentTypeError(f'"{text}" is neither true nor false{source}')
        if isinstance(default, bool):
            return text == "true"
        if isinstance(default, int) and not (text.isdecimal() and int(text) >= (default > 0)):
            raise argparse.ArgumentTypeError(f'"{text}" is not a whole number{" above 0" * (default > 0)}{source}')
        return text if isinstance(default, str) else int(text)

    return _read


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the options; on a mistake argparse prints it and exits with status 2."""
    parser = argparse.ArgumentParser(
        prog="rukpak run",
        usage="%(prog)s [OPTION…]; %(prog)s --help lists them",  # all of them would bury the error
        description="Run the controller.",
    )
    add_options(parser, environment)
    settings = Settings(**vars(parser.parse_args(arguments)))
    if problem := settings.problem():
        parser.error(problem)
    return settings
