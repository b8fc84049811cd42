"""The flags and environment variables of the options, made from the fields of Settings.

A flag wins over its variable (`--log-format` over `RUKPAK_LOG_FORMAT`), the variable over the default. No option can
exist in one place only.
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

    name: str
    flag: str
    variable: str
    default: str
    """As it would be given to the flag; empty if there is none."""
    help: str


def describe_options() -> list[OptionText]:
    """Return all options in order, as `--help` and the documentation list them."""
    return [
        OptionText(
            name=option.name,
            flag=f"--{option.name.replace('_', '-')}",
            variable=f"RUKPAK_{option.name.upper()}",
            default=_write(option.default),
            help=option.metadata["help"],
        )
        for option in fields(Settings)
    ]


def _write(value: Any) -> str:
    """Return a value of an option as text that the flag accepts."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def add_options(
    parser: argparse.ArgumentParser, environment: Mapping[str, str], only: Collection[str] | None = None
) -> None:
    """Add one flag for each field of Settings; its default comes from the environment, and is checked like a flag.

    Args:
        parser: to add them to.
        environment: variables.
        only: names of the fields; by default all.
    """
    options = zip(fields(Settings), describe_options(), strict=True)
    for option, text in ((option, text) for option, text in options if only is None or option.name in only):
        parser.add_argument(
            text.flag,
            default=environment.get(text.variable, option.default),
            type=_reader(option, text.variable, environment.get(text.variable)),
            metavar="|".join(option.metadata["choices"]) or option.name.rsplit("_", maxsplit=1)[-1].upper(),
            help=f"{text.help} [{'; '.join(filter(None, (text.variable, text.default)))}]".replace("%", "%%"),
            # A switch needs no value: --require-service-account alone says true.
            nargs="?" if isinstance(option.default, bool) else None,
            const=True if isinstance(option.default, bool) else None,
        )


def _reader(option: Field[Any], variable: str, found: str | None) -> Callable[[str], Any]:
    """Return what reads the text of an option. Unlike `choices` of argparse it reads defaults that are texts, too.

    Args:
        option: what is read is one of its choices, if it has any, and has the type of its default.
        variable: from which the default may come: a mistake says where to look.
        found: what the variable holds, if it is set.
    """
    default, choices = option.default, option.metadata["choices"]

    def read(text: str) -> Any:
        given = f" ({variable})" if text == found else ""
        if choices and text not in choices:
            raise argparse.ArgumentTypeError(f'"{text}" is not one of {", ".join(choices)}{given}')
        if isinstance(default, bool) and text not in ("true", "false"):
            raise argparse.ArgumentTypeError(f'"{text}" is neither true nor false{given}')
        if isinstance(default, bool):
            return text == "true"
        if isinstance(default, int) and not (text.isdecimal() and int(text) >= (default > 0)):
            raise argparse.ArgumentTypeError(f'"{text}" is not a whole number{" above 0" * (default > 0)}{given}')
        return str(text) if isinstance(default, str) else int(text)

    return read


def parse_options(arguments: Sequence[str], environment: Mapping[str, str], program: str = "rukpak run") -> Settings:
    """Read the options; on a mistake argparse prints it and exits with status 2."""
    parser = argparse.ArgumentParser(
        prog=program,
        usage="%(prog)s [OPTION…]; %(prog)s --help lists them",  # all of them would hide what is wrong
        description="Run the controller.",
    )
    add_options(parser, environment)
    settings = Settings(**vars(parser.parse_args(arguments)))
    if problem := settings.problem():
        parser.error(problem)
    return settings
