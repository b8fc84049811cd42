"""Refuses references in `values.schema.json` that lead outside the schema.

Helm before 3.18.5 fetches the target of a `$ref`: network addresses, and files of this machine such as `/dev/zero`
(CVE-2025-55199). Later versions still load files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api.errors import BundleError
from api.plugins import MEBIBYTE
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.formats.budget import read_small
from controller.formats.helm.chart import name_chart

_SCHEMA_BYTES = MEBIBYTE
_SCHEMA = "values.schema.json"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DRAFTS = ("http://json-schema.org/", "https://json-schema.org/")


def refuse_foreign_references(folder: Path, chart: str) -> None:
    """Refuse a chart in a folder if a schema, including those of dependencies, refers to anything but itself.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded for a schema that is too large).
    """
    for path in sorted(folder.rglob(_SCHEMA)):
        if path.is_file():
            place = f"{name_chart(chart)}: {path.relative_to(folder)}"
            for key, target in _find_references(read_small(path, place, _SCHEMA_BYTES), place):
                problem = f"{key} refers to {quote(target)}, outside the schema; copy its target into the schema"
                raise BundleError(Reason.INVALID_BUNDLE, f"{place}: {problem}")


def _find_references(text: bytes, place: str) -> list[tuple[str, str]]:
    """Return the references that lead outside a schema; both values of a duplicate key count."""
    found: list[tuple[str, str]] = []
    try:
        json.loads(text.decode("utf-8-sig", "replace"), object_pairs_hook=lambda pairs: found.extend(_foreign(pairs)))
    except (ValueError, RecursionError):
        raise BundleError(Reason.INVALID_BUNDLE, f"{place}: not JSON; correct or remove it") from None
    return found


def _foreign(pairs: list[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    for key, value in pairs:
        if not isinstance(value, str):
            continue
        if (key in _REFERENCES and not value.startswith("#")) or (key == "$schema" and not value.startswith(_DRAFTS)):
            yield key, value
