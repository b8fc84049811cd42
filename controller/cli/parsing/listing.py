"""Verbs and flags as data, for shell completion and documentation: no need to read help."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from controller.cli.parsing.parser import Parser
from controller.cli.parsing.verbs import VERBS, make_parser


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
    return [flag for action in parser.actions() for flag in _describe(parser, action)]


def takes_names(verb: str) -> bool:
    """Return whether the arguments of a verb are names of BundleDeployments.

    Raises: KeyError if there is no such verb.
    """
    return any(action.metavar == "NAME" and not action.option_strings for action in make_parser(verb).actions())


def _describe(parser: Parser, action: argparse.Action) -> Iterator[Flag]:
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
