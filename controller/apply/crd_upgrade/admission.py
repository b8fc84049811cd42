"""Prune and default an object as the API server would: drop unknown fields and needless nulls, set defaults.

The source of the rules: `pruning` and `defaulting` of k8s.io/apiextensions-apiserver. Inputs are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.apply.crd_upgrade.checks import PRESERVE
from controller.apply.crd_upgrade.definition import Schema
from controller.untrusted import mapping

EMBEDDED = "x-kubernetes-embedded-resource"
TYPE_META = ("apiVersion", "kind", "metadata")


def admit(manifest: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Return a custom resource, pruned and defaulted."""
    return _admit_fields(manifest, schema, is_resource=True)


def _admit(value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        return _admit_fields(value, schema, is_resource=schema.get(EMBEDDED) is True)
    if isinstance(value, list):
        items = schema.get("items")
        return [_admit(item, items) for item in value] if isinstance(items, dict) else value
    return value


def _admit_fields(value: Mapping[str, Any], schema: Schema, *, is_resource: bool) -> dict[str, Any]:
    properties, others = mapping(schema, "properties"), schema.get("additionalProperties")
    admitted: dict[str, Any] = {}
    for name, item in value.items():
        if is_resource and name in TYPE_META:
            admitted[name] = item
        elif name in properties:
            if item is not None or _keeps_null(properties[name]):
                admitted[name] = _admit(item, mapping(properties[name]))
        elif isinstance(others, dict):
            if item is not None or _keeps_null(others):
                admitted[name] = _admit(item, others)
        elif others is True or schema.get(PRESERVE):
            admitted[name] = item
    for name, property_ in properties.items():
        below = mapping(property_)
        if below.get("default") is not None and name not in admitted:
            admitted[name] = _admit(below["default"], below)
    return admitted


def _keeps_null(schema: Any) -> bool:
    """Whether null is a value: otherwise it is dropped, and a default takes its place."""
    return mapping(schema).get("nullable") is True
