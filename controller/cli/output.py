"""The forms of results: YAML that Kubernetes reads as it was meant, JSON, names as kubectl writes them, tables.

PyYAML leaves strings plain that only look like strings to itself (1e3, 0o14): here a string is plain only where no
reader of any version of YAML can take it for something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from controller.content.limits import visible

# Words, paths and versions with a letter in front: no number, date or sign of YAML begins like that.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*")
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_ODD = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff"
_BLOCK = re.compile(rf"[^\s{_ODD}][^{_ODD}]*\n")


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the contract of PyYAML
        """Write every value where it stands: equal parts of objects are shared in memory."""
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        style = None
    else:
        style = "|" if _BLOCK.fullmatch(text) and "\n" in text[:-1] else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(value: Any) -> str:
    """Return one document, its keys in the order of the value."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1 << 20, allow_unicode=True)
    return text


def to_json(value: Any) -> str:
    """Return a value as kubectl writes JSON."""
    return json.dumps(value, indent=4, ensure_ascii=False) + "\n"


def list_of(items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return objects as one object of kind List."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def name_of(manifest: Mapping[str, Any]) -> str:
    """Return `deployment.apps/web`, `configmap/settings`."""
    group, slash, _ = manifest["apiVersion"].partition("/")
    kind = manifest["kind"].lower()
    return f"{kind}.{group}/{manifest['metadata']['name']}" if slash else f"{kind}/{manifest['metadata']['name']}"


def one_line(text: str) -> str:
    """Return a text from outside as a terminal may have it: on one line, its control characters written out."""
    return visible(text.replace("\n", " "))


def to_table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as kubectl writes it: the last column is as wide as it likes."""
    lines = [[one_line(cell) for cell in line] for line in (heading, *rows)]
    widths = [max(len(line[column]) for line in lines) + 3 for column in range(len(heading) - 1)]
    padded = ("".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)) for line in lines)
    return "".join(f"{line.rstrip()}\n" for line in padded)
