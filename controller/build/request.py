"""The inputs of a revision, and the digests and keys that identify them: equal inputs are rendered once. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from api.plugins import Capabilities
from api.v1alpha2.types import Drift, SourcePin, Spec
from controller.build.confidential import Confidential
from controller.build.origins import content_key, origin_of, resolution_of, store_key
from controller.build.pins import record_pins
from controller.build.plugins import source_of
from controller.build.revision import Terms
from controller.content.digests import digest_of_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The inputs of a revision."""

    name: str
    spec: Spec
    pins: tuple[SourcePin, ...]
    install_namespace: str
    """The one in use; '' if the format is to suggest one."""
    requested_at: str
    """Value of the annotation `reconcile-requested-at`."""
    confidential: Confidential | None = None
    """Given if values of Secrets are in the config of the spec."""


def inputs_digest(request: Request) -> str:
    """Return the digest of everything a rendering depends on except the capabilities (rule 9)."""
    return digest_of_json(
        {
            **_inputs(request),
            "installNamespace": request.spec.install_namespace or "",
            "requestedAt": request.requested_at,
        }
    )


def terms_of(request: Request, install_namespace: str, rendered_from: str) -> Terms:
    """Return the terms of a revision by the current spec (rule 2); `rendered_from` is a `rendering_digest`."""
    terms = Terms(
        inputs=inputs_digest(request),
        rendered_from=rendered_from,
        install_namespace=install_namespace,
        pins=record_pins(request.pins),
    )
    return renew_terms(request.spec, terms)


def renew_terms(spec: Spec, terms: Terms) -> Terms:
    """Return terms with those fields of the current spec that nothing is rendered from."""
    return replace(
        terms,
        service_account_name=spec.service_account_name,
        drift=spec.drift.model_dump(mode="json", by_alias=True) if spec.drift != Drift() else None,
        optional=tuple(kind.model_dump(mode="json", by_alias=True) for kind in spec.optional),
    )


def rendering_digest(request: Request, install_namespace: str, capabilities: Capabilities) -> str:
    """Return the digest of everything a rendering depends on; equal inputs give equal objects but for random values."""
    kinds = sorted([*kind, scope] for kind, scope in capabilities.kinds.items())
    cluster = {"version": capabilities.kubernetes_version, "kinds": kinds}
    named = {"name": request.name, "installNamespace": install_namespace}
    return digest_of_json({**_inputs(request), **named, "capabilities": cluster})


def _inputs(request: Request) -> dict[str, Any]:
    targets = [source.target for source in request.spec.sources]
    processors = [[each.kind, each.parameters_json] for each in request.spec.processors]
    return {
        **({"processors": processors} if processors else {}),
        "format": request.spec.format,
        "config": request.spec.config,
        "sources": list(zip(targets, _content_keys(request), strict=True)),
    }


def _content_keys(request: Request) -> list[str]:
    pairs = zip(request.spec.sources, request.pins, strict=True)
    return [content_key(source_of(source.kind), source, resolution_of(pin)) for source, pin in pairs]


def store_keys(request: Request) -> list[str]:
    """Return the content store key of each source, in spec order."""
    spec = request.spec
    asked = [origin_of(source_of(source.kind), source, spec.install_namespace) for source in spec.sources]
    return [
        store_key(key, origin, pin.origin or f"BundleDeployment/{request.name}", pin.auth_digest)
        for key, origin, pin in zip(_content_keys(request), asked, request.pins, strict=True)
    ]
