"""Values as Helm reads and merges them, which is also how `spec.configFrom` is read and merged. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.objects import describe_type
from controller.formats.yaml.composer import NodeBudget
from controller.formats.yaml.manifests import read_documents

VALUES = 100_000
"""Of one text, including those that aliases repeat."""


def read_values(text: bytes, place: str) -> Mapping[str, Any]:
    """Return the values in one YAML document, or none for an empty text; as in Helm, the last of equal keys wins.

    Messages start with `place`.

    Raises: BundleError (InvalidConfig).
    """
    try:
        documents = list(read_documents(text, place, strict=False, budget=NodeBudget(VALUES, "remove some")))
    except BundleError as error:
        raise BundleError(Reason.INVALID_CONFIG, error.message) from None
    if len(documents) > 1:
        problem = "contains more than one document, of which Helm reads only the first; combine them"
        raise BundleError(Reason.INVALID_CONFIG, f"{place}: {problem}")
    value = documents[0].value if documents else {}
    if not isinstance(value, dict):
        raise BundleError(Reason.INVALID_CONFIG, f"{place}: must be a mapping, not {describe_type(value)}")
    return value


def merge_values(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both values as Helm merges several values files: mappings are merged, everything else is replaced.

    A null above stays, since it removes a default of the chart.
    """
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        merged[key] = merge_values(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged
