"""Removes nulls from objects, unless a CRD of the same bundle allows them.

The API server records a null as an owned leaf, rejects it in a custom field that is not nullable, and starts a new
generation at every apply if it is in the key of a list item. Nulls that are list items are kept: removing one would
move the others. In data of ConfigMaps and Secrets, null means the empty string (`corrections.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from controller.formats.objects import Object, crd_specs
from controller.untrusted import mapping

Schema: TypeAlias = Mapping[str, Any]
"""`openAPIV3Schema` of a CRD version, or a part of it; unchecked."""

NO_SCHEMA: Schema = {}
_FREE_FORM: Schema = {"nullable": True, "x-kubernetes-preserve-unknown-fields": True}


def schemas_of_crds(objects: Sequence[Object]) -> dict[tuple[str, str, str], Schema]:
    """Return the schemas that the CRDs among objects declare, by group, version and kind."""
    result: dict[tuple[str, str, str], Schema] = {}
    for spec in crd_specs(objects):
        kind = str(mapping(spec, "names").get("kind"))
        versions = spec.get("versions")
        for version in map(mapping, versions if isinstance(versions, list) else ()):
            schema = mapping(version, "schema", "openAPIV3Schema")
            result[str(spec.get("group")), str(version.get("name")), kind] = schema
    return result


def without_nulls(item: Mapping[str, Any], schema: Schema = NO_SCHEMA) -> dict[str, Any]:
    """Return a mapping without the nulls that its schema does not allow.

    A schema allows null if it is `nullable`, and in undeclared fields below `x-kubernetes-preserve-unknown-fields`:
    in the values of a chart, for example, null removes a default.
    """
    if not schema:
        return {key: _without_any(value) for key, value in item.items() if value is not None}
    result: dict[str, Any] = {}
    for key, value in item.items():
        rule = _schema_of_property(schema, key)
        if value is not None:
            result[key] = _without(value, rule)
        elif rule.get("nullable") is True:
            result[key] = None
    return result


def _without_any(value: Any) -> Any:
    kind = value.__class__  # this runs for every value of most objects
    if kind is dict:
        return {key: _without_any(item) for key, item in value.items() if item is not None}
    if kind is list:
        return [_without_any(item) for item in value]
    return value


def _without(value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        return without_nulls(value, schema)
    if isinstance(value, list):
        rule = _schema_of_items(schema)
        return [_without(item, rule) for item in value]
    return value


def _schema_of_property(schema: Schema, key: str) -> Schema:
    declared = mapping(schema, "properties").get(key, schema.get("additionalProperties"))
    if isinstance(declared, dict):
        return declared
    return _FREE_FORM if schema.get("x-kubernetes-preserve-unknown-fields") is True else NO_SCHEMA


def _schema_of_items(schema: Schema) -> Schema:
    items = schema.get("items")
    if isinstance(items, dict):
        return items
    return _FREE_FORM if schema.get("x-kubernetes-preserve-unknown-fields") is True else NO_SCHEMA
