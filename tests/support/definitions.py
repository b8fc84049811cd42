"""Minimal CustomResourceDefinitions for tests, whose schemas are given by what is at `^.spec`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]

NAME = "greetings.example.com"
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}


def schema(spec: Mapping[str, Any] | None = None, **properties: Any) -> Manifest:
    """Return the schema of a resource: of its spec as a whole, or with these properties."""
    given = {"type": "object", "properties": properties} if spec is None else spec
    return {"type": "object", "properties": {"spec": given}}


def version(name: str = "v1", value: Mapping[str, Any] | None = None, **changes: Any) -> Manifest:
    """Return one of spec.versions."""
    listed = {"openAPIV3Schema": schema() if value is None else value}
    return {"name": name, "served": True, "storage": name == "v1", "schema": listed, **changes}


def definition(
    *versions: Manifest, name: str = NAME, annotations: Mapping[str, str] | None = None, **changes: Any
) -> Manifest:
    """Return a CustomResourceDefinition of a namespaced kind Greeting.

    Args:
        versions: by default one without properties.
        name: plural and group.
        annotations: of the object.
        changes: of its spec.
    """
    plural, _, group = name.partition(".")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, **({"annotations": dict(annotations)} if annotations else {})},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Greeting", "plural": plural, "singular": "greeting", "listKind": "GreetingList"},
            "versions": list(versions) or [version()],
            **changes,
        },
    }


def on_cluster(manifest: Manifest, *stored: str) -> Manifest:
    """Return a definition as it is on the cluster, established and with these stored versions."""
    return {**manifest, "status": {**ESTABLISHED, "storedVersions": list(stored or ["v1"])}}
