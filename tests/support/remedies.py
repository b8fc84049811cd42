"""What messages tell people to do, from the strings of the program: fields to set, commands to run, annotations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILLED_IN = "x"
"""Stands for what is filled in."""
_FIELD = re.compile(r"\bspec(?:\.[a-z][A-Za-z]*)+")
_VALUE = re.compile(rf"\b(?:set|add|allow it in) ({_FIELD.pattern})(?: to |: )(true|false|[A-Z][A-Za-z]+)")
_COMMAND = re.compile(r"(?:kubectl )?\brukpak ((?:[a-z]+)(?: (?:-{1,2})?[a-zA-Z][\w:/.-]*)*)")
_QUOTED = re.compile(r'"([^"]*rukpak [^"]*)"')
_ANNOTATION = re.compile(r"\bcore\.rukpak\.io/[a-z-]+")


@cache
def texts() -> tuple[str, ...]:
    """Return the strings of the program on one line each, with {…} for what is filled in."""
    paths = [path for folder in ("api", "controller") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = (" ".join(text.split()) for path in paths for text in _strings(path))
    return tuple(text for text in found if " " in text and "self." not in text)  # neither names nor CEL


def _strings(path: Path) -> Iterator[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    # Docstrings are shown to nobody, except those of the API's models, which are the descriptions of its fields.
    unseen = () if path.parent.name == "v1alpha2" else {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in unseen:
            yield node.value


def fields() -> set[str]:
    """Return the fields of a spec that messages name."""
    return {field for text in texts() for field in _FIELD.findall(text)}


def settings() -> set[tuple[str, str]]:
    """Return the fields that messages tell people to set, and the values: a word, true or false."""
    return {(field, value) for text in texts() for field, value in _VALUE.findall(text)}


def commands() -> set[str]:
    """Return the command lines of rukpak in quotes that messages tell people to run."""
    quoted = (found for text in texts() for found in _QUOTED.findall(text.replace("{…}", FILLED_IN)))
    return {command for text in quoted for command in _COMMAND.findall(text)}


def marks() -> set[str]:
    """Return the labels and annotations of ours that strings name."""
    return {name for text in texts() for name in _ANNOTATION.findall(text)}


def nested(field: str, value: str) -> dict[str, Any]:
    """Return the members of a spec with one of `settings`."""
    made: Any = {"true": True, "false": False}.get(value, value)
    for name in reversed(field.split(".")[1:]):
        made = {name: made}
    return dict(made)
