"""By which keys a strategic merge patch merges lists, as the OpenAPI document of an API server says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rukpak.controller.processors.strategic import Field

_KINDS = "x-kubernetes-group-version-kind"
_STRATEGY, _KEY = "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"
_RETAIN_KEYS = "retainKeys"  # only for those who create patches


def table_of(document: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the table for an OpenAPI document: the kinds, and `type,strategy,key` of every field that matters.

    Args:
        document: of `/openapi/v2`.
        version: of the API server.
    """
    definitions: Mapping[str, Any] = document["definitions"]
    fields = {name: _fields_of(definition) for name, definition in definitions.items()}
    matters = {name for name, found in fields.items() if any(field.strategy for field in found.values())}
    while True:
        more = {name for name, found in fields.items() if any(each.type_name in matters for each in found.values())}
        if more <= matters:
            break
        matters |= more
    return {
        "kubernetesVersion": version,
        "kinds": {kind: _short(name) for name in sorted(matters) for kind in _kinds_of(definitions[name])},
        "types": {_short(name): _write_fields(fields[name], matters) for name in sorted(matters)},
    }


def _fields_of(definition: Mapping[str, Any]) -> dict[str, Field]:
    return {name: _field_of(schema) for name, schema in definition.get("properties", {}).items()}


def _field_of(schema: Mapping[str, Any]) -> Field:
    reference = schema.get("$ref") or schema.get("items", {}).get("$ref", "")
    strategies = [each for each in schema.get(_STRATEGY, "").split(",") if each != _RETAIN_KEYS]
    return Field(type_name=reference.rpartition("/")[2], strategy="".join(strategies), key=schema.get(_KEY, ""))


def _write_fields(fields: Mapping[str, Field], matters: set[str]) -> dict[str, str]:
    kept = {name: field for name, field in sorted(fields.items()) if field.strategy or field.type_name in matters}
    return {
        name: f"{_short(field.type_name) if field.type_name in matters else ''},{field.strategy},{field.key}"
        for name, field in kept.items()
    }


def _short(name: str) -> str:
    return name.removeprefix("io.k8s.").removeprefix("api.")


def _kinds_of(definition: Mapping[str, Any]) -> list[str]:
    kinds = definition.get(_KINDS, [])
    if len(kinds) != 1 or kinds[0]["kind"].endswith("List"):  # options and events of watches have those of all groups
        return []
    return ["/".join(filter(None, (kinds[0]["group"], kinds[0]["version"], kinds[0]["kind"])))]
