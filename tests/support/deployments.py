"""Small BundleDeployments for tests, and what a pass makes of one: requests, pins, options, revision stores.

A test states only what matters to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.types import BundleDeployment, SourcePin, Spec
from rukpak.controller.apply.ledger import Ledger
from rukpak.controller.apply.ownership import Owner
from rukpak.controller.apply.plan import ApplyOptions
from rukpak.controller.apply.targets import Target, TargetSet
from rukpak.controller.building.request import Request, spec_digest
from rukpak.controller.kube.client import Client
from rukpak.controller.revisions.store import TENANT_BYTES, RevisionSecrets, RevisionStore

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


RESOLVED_AT = datetime(2026, 1, 1, tzinfo=UTC)
OTHER_DIGEST = "sha256:" + "b" * 64


def image(ref: str = REF, *, beside: Mapping[str, Any] | None = None, **block: Any) -> dict[str, Any]:
    """Return an image source: its block, and further fields of the source."""
    return {"kind": "image", "image": {"ref": ref, **block}, **(beside or {})}


def spec(*sources: dict[str, Any], **fields: Any) -> Spec:
    """Return a spec with these sources; default: one image."""
    return deployment(spec={"sources": list(sources) or [image()], **fields}).spec


def pin(source_spec: Spec, index: int = 0, digest: str = DIGEST) -> SourcePin:
    """Return the pin of one source of a spec."""
    source = source_spec.sources[index]
    return SourcePin(
        destination=source.target,
        kind=source.kind,
        resolved=f"x@{digest}",
        digest=digest,
        spec_digest=spec_digest(source),
        origin="v1:origin",
        resolved_at=RESOLVED_AT,
    )


def request(source_spec: Spec, digest: str = DIGEST, **changes: Any) -> Request:
    """Return a request for a spec whose sources are pinned."""
    pins = tuple(pin(source_spec, index, digest) for index in range(len(source_spec.sources)))
    made = Request(name="shop", spec=source_spec, pins=pins, install_namespace="shop", requested_at="")
    return replace(made, **changes)


OWNER = Owner("foo", "uid-foo")


def options_for(*targets: Target, **changes: Any) -> ApplyOptions:
    """Return the options for applying these targets."""
    wanted = TargetSet(
        revision="sha256:aa",
        targets=targets,
        by_key={each.key: each for each in targets},
        resources={},
        undecided=False,
    )
    fields: dict[str, Any] = {
        "owner": OWNER,
        "user": None,
        "collision_protection": "Prevent",
        "install_namespace": "shop",
        "spec_version": "1",
        "wanted": wanted,
        "installed": False,
        "ledger": Ledger(),
        "exists": lambda name, uid: (name, uid) == ("foo", "uid-foo"),
        "proceed": lambda: True,
    }
    return ApplyOptions(**{**fields, **changes})


def make_secrets(client: Client, namespace: str) -> RevisionSecrets:
    """Return a watch that is not started."""
    return RevisionSecrets(client, namespace, lambda _name: None, lambda: None)


def make_store(client: Client, namespace: str, tenant_bytes: int = TENANT_BYTES) -> RevisionStore:
    """Return a store that reads everything from the cluster."""
    return RevisionStore(client, make_secrets(client, namespace), tenant_bytes)


def retired(store: RevisionStore, name: str) -> list[str]:
    """Return the digests of the revisions that are only part of the history."""
    return [each.digest for each in store._all_of(name) if each.is_retired]
