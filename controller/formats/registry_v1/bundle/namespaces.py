"""The install namespace, as far as a CSV has a say: its name, and its labels and annotations where it is created."""

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
    """Return the namespace that a CSV suggests, else one named after the package."""
    return annotations.get(_NAME) or f"{package}-system"


def read_template(annotations: Mapping[str, str]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the labels and annotations of the Namespace that a CSV has as JSON, and a warning if it cannot be read."""
    text = annotations.get(_TEMPLATE)
    if not text:
        return {}, []
    try:
        template = json.loads(text[:_MOST_CHARACTERS])
        metadata = Reader(kubernetes_types()).read(template.get("metadata"), "ObjectMeta")
    except (ValueError, AttributeError, RecursionError, WrongTypeError):
        return {}, [f'metadata.annotations["{_TEMPLATE}"]: no Namespace in JSON, left out']
    kept = {field: _drop_ours(metadata.get(field, {})) for field in _FIELDS}
    return {field: marks for field, marks in kept.items() if marks}, []


def _drop_ours(marks: Mapping[str, str]) -> dict[str, str]:
    """Leave out what only the controller may say of an object."""
    return {key: value for key, value in marks.items() if not key.startswith(f"{names.GROUP}/")}
