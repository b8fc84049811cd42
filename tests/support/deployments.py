"""Small BundleDeployments for tests. A test states only what matters to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api import names
from api.v1alpha2.types import BundleDeployment

DIGEST = "sha256:" + "a" * 64
NOW = "2026-01-01T00:00:00Z"
REF = f"registry.example.com/shop@{DIGEST}"


def manifest(
    name: str = "shop",
    *,
    spec: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a BundleDeployment of one image in the format `plain`, as the API server has it."""
    return {
        "apiVersion": f"{names.GROUP}/v1alpha2",
        "kind": names.KIND,
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "1", **(metadata or {})},
        "spec": {
            "format": "plain",
            "sources": [{"kind": "image", "image": {"ref": REF}}],
            "installNamespace": "shop",
            **(spec or {}),
        },
        "status": dict({"observedGeneration": -1} if status is None else status),
    }


def observed(name: str = "shop", *, status: Mapping[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    """Return the same with a status that is about its spec."""
    return manifest(name, status={"observedGeneration": 1, **(status or {})}, **parts)


def condition(kind: str, value: str, reason: str, message: str = "m", generation: int = 1) -> dict[str, Any]:
    """Return a condition as the API server has it."""
    about = {"observedGeneration": generation, "lastTransitionTime": NOW}
    return {"type": kind, "status": value, "reason": reason, "message": message, **about}


READY = condition("Ready", "True", "Ready", "revision aaa is installed and healthy")
NOT_READY = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "reason": "Progressing"}
"""An entry of status.notReady."""


def deployment(name: str = "shop", **parts: Any) -> BundleDeployment:
    """Return the same as the controller reads it; see `manifest`."""
    return BundleDeployment.model_validate(manifest(name, **parts))
