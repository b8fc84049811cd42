"""Output formats: YAML, JSON, names as kubectl prints them, and tables; and when stdout is colored.

PyYAML leaves strings unquoted that other parsers read as numbers (1e3, 0o14). Here a string is unquoted only if it is a
string in every version of YAML.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import yaml

from rukpak.controller.content.limits import one_line

WIDTH = 100
"""Columns of prose."""
_LEAST_LAST = 20
"""Columns that the last cell of a row keeps on a narrow terminal."""
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
# Words, paths and versions that start with a letter: no number, date or YAML indicator does.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*")
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_ODD = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff"
_BLOCK = re.compile(rf"[^\s{_ODD}][^{_ODD}]*\n")


class Color(Enum):
    """How a word or a line is shown on a terminal."""

    NONE = ""
    BOLD = "1"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"

    def paint(self, text: str) -> str:
        """Return a text in this color."""
        return f"\x1b[{self.value}m{text}\x1b[0m" if self.value and text else text


def is_colored(choice: str) -> bool:
    """Return whether stdout is colored.

    Args:
        choice: the value of `--color`. `auto` is a terminal, unless NO_COLOR is set (https://no-color.org).
    """
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the contract of PyYAML
        """Never write anchors: objects share equal parts in memory."""
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        style = None
    else:
        style = "|" if _BLOCK.fullmatch(text) and "\n" in text[:-1] else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(value: Any) -> str:
    """Return one YAML document that keeps the order of keys."""
    try:
        text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1 << 20, allow_unicode=True)
    except RecursionError:  # as objects of others may be nested; JSON is YAML
        return to_json(value)
    return text


def to_json(value: Any) -> str:
    """Return a value as JSON, indented as kubectl does."""
    return json.dumps(value, indent=4, ensure_ascii=False) + "\n"


def dump_as(output: str, value: Any) -> str:
    """Return a value as `-o json` or `yaml`."""
    return to_json(value) if output == "json" else to_yaml(value)


def list_of(items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return objects as one object of kind List."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def name_of(manifest: Mapping[str, Any]) -> str:
    """Return `deployment.apps/web`, `configmap/settings`."""
    group, slash, _ = manifest["apiVersion"].partition("/")
    return f"{manifest['kind'].lower()}{f'.{group}' if slash else ''}/{manifest['metadata']['name']}"


def show(objects: Sequence[Mapping[str, Any]], output: str) -> str:
    """Return objects as kubectl prints them with `-o name`, `json` or `yaml`, without managedFields."""
    if output == "name":
        return "".join(f"{name_of(each)}\n" for each in objects)
    shown = [_without_managed_fields(each) for each in objects]
    value = shown[0] if len(shown) == 1 else list_of(shown)
    return dump_as(output, value)


def _without_managed_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: member for key, member in value["metadata"].items() if key != "managedFields"}
    return {key: metadata if key == "metadata" else member for key, member in value.items()}


def fit(lines: Iterable[str]) -> str:
    """Return lines without control characters, each broken at spaces before it exceeds the width."""
    return "".join(f"{part}\n" for line in lines for part in _break(one_line(line)))


def _break(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    margin = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, WIDTH, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


@dataclass(frozen=True, slots=True)
class Painted:
    """A cell of a table with a color."""

    text: str
    color: Color


Cell = str | Painted


def to_table(heading: Sequence[str], rows: Iterable[Sequence[Cell]], *, least: int = 0, width: int = 0) -> str:
    """Return a table as kubectl prints it; the last column is not padded.

    Args:
        heading: of the columns.
        rows: their cells.
        least: width of all columns but the last, at least, so that later rows are likely to be aligned.
        width: of the terminal, to which the last column is cut; 0: it is not.
    """
    lines = [[_plain(cell) for cell in line] for line in (heading, *rows)]
    columns = range(len(heading) - 1)
    widths = [max(len(line[column].text) for line in lines) + 3 for column in columns]
    widths = [max(each, least and max(least, len(heading[column]) + 3)) for column, each in enumerate(widths)]
    room = max(width - sum(widths), _LEAST_LAST) if width else None
    return "".join(f"{_join(line, widths, room)}\n" for line in lines)


def _plain(cell: Cell) -> Painted:
    return Painted(one_line(cell), Color.NONE) if isinstance(cell, str) else Painted(one_line(cell.text), cell.color)


def _join(cells: Sequence[Painted], widths: Sequence[int], room: int | None) -> str:
    # Widths are those of the plain text: escape sequences take no columns.
    *padded, last = cells
    shown = (
        f"{cell.color.paint(cell.text)}{' ' * (width - len(cell.text))}"
        for cell, width in zip(padded, widths, strict=True)
    )
    text = last.text if room is None or len(last.text) <= room else f"{last.text[: room - 1]}…"
    return "".join([*shown, last.color.paint(text)]).rstrip()


def age(seconds: float) -> str:
    """Return a duration as kubectl shows an age: 5s, 3h, 8d."""
    unit, letter = next((unit for unit in _UNITS if seconds >= 2 * unit[0]), _UNITS[-1])
    return f"{max(int(seconds), 0) // unit}{letter}"
