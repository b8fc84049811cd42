"""`values.schema.json`: what it must not refer to.

Helm before 3.18.5 fetches what a `$ref` names: addresses of the network, and files of this machine, `/dev/zero` among
them (CVE-2025-55199). Later ones still load what they are told to.
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

_SCHEMA_BYTES = MEBIBYTE
_SCHEMA = "values.schema.json"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DRAFTS = ("http://json-schema.org/", "https://json-schema.org/")


def refuse_foreign_references(folder: Path, chart: str) -> None:
    """Refuse a chart in a folder of which a schema, or that of a dependency, refers to anything but itself.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded for a schema that is too large).
    """
    for path in sorted(folder.rglob(_SCHEMA)):
        if path.is_file():
            place = f"{quote(chart)}: {path.relative_to(folder)}"
            for key, target in _find_references(read_small(path, place, _SCHEMA_BYTES), place):
                problem = f"{key} refers to {quote(target)}, outside of the schema; copy what it refers to into it"
                raise BundleError(Reason.INVALID_BUNDLE, f"{place}: {problem}")


def _find_references(text: bytes, place: str) -> list[tuple[str, str]]:
    """Return the references that lead out of a schema. Of a key that is there twice, both count."""
    found: list[tuple[str, str]] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.extend(_foreign(pairs))

    try:
        json.loads(text.decode("utf-8-sig", "replace"), object_pairs_hook=look)
    except (ValueError, RecursionError):
        raise BundleError(Reason.INVALID_BUNDLE, f"{place}: is not JSON; correct it, or leave it out") from None
    return found


def _foreign(pairs: list[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    for key, value in pairs:
        if not isinstance(value, str):
            continue
        if (key in _REFERENCES and not value.startswith("#")) or (key == "$schema" and not value.startswith(_DRAFTS)):
            yield key, value
