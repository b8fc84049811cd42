"""Whether a template that failed needs what `lookup` finds, which is nothing: charts are rendered without a cluster.

A template needs it if its file calls `lookup`, or includes a template that is defined in such a file. Computed names
are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from api.plugins import MEBIBYTE

_MOST_BYTES = 8 * MEBIBYTE
"""Of all templates: larger charts are not searched."""
_FOLDER = "templates"
_PLACE = re.compile(r"\btemplates/([^\s:]{1,500}):\d")
_CALL = re.compile(rb'\blookup\s+["`$.(]')
_INCLUDED = re.compile(rb'\b(?:include|template)\s+"([^"\n]{1,200})"')
_DEFINED = re.compile(rb'\b(?:define|block)\s+"([^"\n]{1,200})"')


class _Template(NamedTuple):
    calls_lookup: bool
    included: frozenset[bytes]
    defined: frozenset[bytes]


def needs_lookup(folder: Path, error: str) -> bool:
    """Return whether a template that an error of Helm names reaches a call of `lookup`.

    Args:
        folder: with the files of the chart and of its dependencies.
        error: of a template that was executed.
    """
    templates = _read_templates(folder)
    defining: dict[bytes, list[str]] = {}
    for name, template in templates.items():
        for defined in template.defined:
            defining.setdefault(defined, []).append(name)
    seen: set[str] = set()
    waiting = _find_named(error, templates)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if templates[name].calls_lookup:
            return True
        for included in templates[name].included:
            waiting += defining.pop(included, ())  # those are seen from now on, whoever includes them
    return False


def _find_named(error: str, templates: Iterable[str]) -> list[str]:
    """Return the templates that an error names, by their path in their chart: Helm replaces that of the chart."""
    named = set(_PLACE.findall(error))
    return [name for name in templates if _path_in_chart(name) in named]


def _path_in_chart(path: str) -> str:
    _, found, rest = path.partition(f"{_FOLDER}/")
    return rest if found else ""


def _read_templates(folder: Path) -> dict[str, _Template]:
    """Return the templates by their path in the folder; none if they are too large."""
    files = list(_find_files(folder))
    if sum(path.stat().st_size for path in files) > _MOST_BYTES:
        return {}
    return {str(path.relative_to(folder)): _read_template(path.read_bytes()) for path in files}


def _find_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if _FOLDER in path.relative_to(folder).parts[:-1] and path.is_file():
            yield path


def _read_template(text: bytes) -> _Template:
    return _Template(
        calls_lookup=_CALL.search(text) is not None,
        included=frozenset(_INCLUDED.findall(text)),
        defined=frozenset(_DEFINED.findall(text)),
    )
