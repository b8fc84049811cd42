"""The install namespace that a CSV suggests: its name, labels and annotations."""

from __future__ import annotations

import json
from collections.abc import Mapping

from api import names
from controller.formats.registry_v1.bundle.typed import Reader, WrongTypeError, kubernetes_types

_NAME = "operatorframework.io/suggested-namespace"
_TEMPLATE = "operatorframework.io/suggested-namespace-template"
_MOST_CHARACTERS = 1 << 20  # an API server allows a quarter of it for all annotations of an object
_FIELDS = ("labels", "annotations")


def suggest_name(package: str, annotations: Mapping[str, str]) -> str:
    """Return the namespace that a CSV suggests, by default one named after the package."""
    return annotations.get(_NAME) or f"{package}-system"


def read_template(annotations: Mapping[str, str]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return labels and annotations of the Namespace in a CSV's annotation, and a warning if it cannot be read."""
    text = annotations.get(_TEMPLATE)
    if not text:
        return {}, []
    try:
        template = json.loads(text[:_MOST_CHARACTERS])
        metadata = Reader(kubernetes_types()).read(template.get("metadata"), "ObjectMeta")
    except (ValueError, AttributeError, RecursionError, WrongTypeError):
        return {}, [f'metadata.annotations["{_TEMPLATE}"]: ignored because it is not a Namespace in JSON']
    kept = {field: _drop_ours(metadata.get(field, {})) for field in _FIELDS}
    return {field: marks for field, marks in kept.items() if marks}, []


def _drop_ours(marks: Mapping[str, str]) -> dict[str, str]:
    """Remove keys that are reserved for the controller."""
    return {key: value for key, value in marks.items() if not key.startswith(f"{names.GROUP}/")}
