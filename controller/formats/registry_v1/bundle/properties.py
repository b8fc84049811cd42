"""Merges `metadata/properties.yaml` into the annotation `olm.properties`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.registry_v1.bundle import go_json

ANNOTATION = "olm.properties"


def merge_properties(annotations: Mapping[str, str], properties: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the annotations of a CSV with properties, `{type, value}` each, appended to those it has.

    Raises: BundleError (InvalidBundle) if the annotation is invalid, which matters only if there are properties.
    """
    if not properties:
        return dict(annotations)
    merged = [*_read_annotation(annotations.get(ANNOTATION, "")), *(_write(item) for item in properties)]
    return {**annotations, ANNOTATION: f"[{','.join(merged)}]"}


def _read_annotation(text: str) -> list[str]:
    if not text:
        return []
    try:
        return [_join(*_type_and_value(item)) for item in go_json.split_list(text)]
    except (ValueError, RecursionError) as error:
        raise BundleError(
            Reason.INVALID_BUNDLE,
            f'metadata.annotations["{ANNOTATION}"]: must be a JSON array of {{"type", "value"}}; correct it in the CSV',
        ) from error


def _type_and_value(item: Mapping[str, str]) -> tuple[str, str]:
    members = {key.casefold(): value for key, value in item.items()}  # encoding/json ignores case
    type_ = json.loads(members.get("type", "null")) or ""
    if type_.__class__ is not str:
        raise ValueError(type_)
    return type_, members.get("value", "null")


def _join(type_: str, value: str) -> str:
    return f'{{"type":{go_json.write(type_)},"value":{value}}}'


def _write(item: Mapping[str, Any]) -> str:
    return _join(item["type"], go_json.write(item.get("value"), sort_keys=True))
