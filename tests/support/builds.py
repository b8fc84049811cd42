"""Small specs, pins and requests for tests of building revisions. A test states only what matters to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from api.v1alpha2.types import SourcePin, Spec
from controller.build.request import Request, spec_digest
from tests.support.deployments import DIGEST, REF, deployment

NOW = datetime(2026, 1, 1, tzinfo=UTC)
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
        resolved_at=NOW,
    )


def request(source_spec: Spec, digest: str = DIGEST, **changes: Any) -> Request:
    """Return a request for a spec whose sources are pinned."""
    pins = tuple(pin(source_spec, index, digest) for index in range(len(source_spec.sources)))
    made = Request(name="shop", spec=source_spec, pins=pins, install_namespace="shop", requested_at="")
    return replace(made, **changes)
