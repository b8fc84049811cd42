"""Pins: what the sources of a spec were resolved to, and where that came from. Pure.

A pin applies as long as what identifies the content is unchanged. It records its origin, which is part of the key in
the content store: a digest alone must not give access to stored content, since any server may claim to have any digest.

The origin is the server and repository, how they were trusted, and which Secret is named. If the spec has changed since
(another Secret, another authority), the key contains both origins, and the content is fetched again. A pin without an
origin, from an older release, shares content with no other BundleDeployment. Content of a plug-in that reports no
origin is shared among equal parameters only.

The name of a Secret does not tell what it contains: its namespace may have been deleted, and created again for another
tenant. So a pin also records the UIDs and versions of the Secrets that the source was asked with, and the key contains
them, too. Only who has the same Secrets gets what was fetched with them, even if a server checks them for some of its
content only. They are not read again for content that is stored (rule 1).

Not here: how sources are resolved (fetching.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from api.errors import BundleError
from api.plugins import Resolution
from api.plugins import Source as Plugin
from api.v1alpha2.types import Source, SourcePin, Spec
from controller.build.plugins import source_of
from controller.content.digests import digest_of_json

Pins = tuple[SourcePin | None, ...]
"""One for each source, in spec order; None if it is not resolved yet."""
_RECORDED = {"kind", "resolved", "digest", "spec_digest", "origin", "resolved_at"}
_RECORDED_IF_SET = ("destination", "version", "reference", "auth_digest")


def origin_of(plugin: Plugin, source: Source, install_namespace: str | None) -> str:
    """Return the digest of the server that is asked for a source's content, and of how it is trusted.

    Args:
        plugin: of the source's kind; one from another package may lack the method `origin`.
        source: from a spec that was checked.
        install_namespace: default namespace of Secrets.
    """
    parameters = source.parameters_json
    ask = getattr(plugin, "origin", None)
    secret = source.secret
    return "v1:" + digest_of_json(
        {
            "kind": source.kind,
            "origin": (ask(parameters) if ask else "") or parameters,
            # A server that only one BundleDeployment trusts must not provide content for another; a Secret may contain
            # an authority, too.
            "certificateData": parameters.get("certificateData") or "",
            "insecureSkipTLSVerify": bool(parameters.get("insecureSkipTLSVerify")),
            "secret": [secret.namespace or install_namespace or "", secret.name] if secret else None,
        }
    )


def content_key(plugin: Plugin, source: Source, resolution: Resolution) -> str:
    """Return what identifies content within its origin; the rendered objects depend on nothing else of a source."""
    return f"{source.kind}|{plugin.content_key(source.parameters_json, resolution)}"


def store_key(key: str, asked: str, answered: str, auth_digest: str = "") -> str:
    """Return the content store key of a content key.

    Args:
        key: a content key.
        asked: the origin by the spec.
        answered: the origin of the pin.
        auth_digest: of the pin; '' for none.
    """
    parts = (asked, answered if answered != asked else "", auth_digest, key)
    return "|".join(filter(None, parts))


def resolution_of(pin: SourcePin) -> Resolution:
    """Return the resolution that a pin records."""
    return Resolution(pinned=pin.resolved, digest=pin.digest, validator=pin.validator, version=pin.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The pins of a spec, and the failure of the sources that have none."""

    pins: Pins
    failure: BundleError | None = None

    @property
    def found(self) -> tuple[SourcePin, ...]:
        """The pins that exist."""
        return tuple(pin for pin in self.pins if pin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a spec, all resolved."""

    pins: tuple[SourcePin, ...]
    requested_at: str
    """Value of the annotation `reconcile-requested-at` when they were resolved."""


def spec_digest(source: Source) -> str:
    """Return the digest of what identifies a source's content: the source is re-resolved only when it changes."""
    return "v1:" + digest_of_json(
        {"kind": source.kind, "identity": source_of(source.kind).identity(source.parameters_json)}
    )


def match_pins(spec: Spec, recorded: Sequence[SourcePin]) -> Pins:
    """Return the recorded pin of each source, matched by what identifies the content and not by position."""
    by_digest = {pin.spec_digest: pin for pin in recorded}
    found = [(source, by_digest.get(spec_digest(source))) for source in spec.sources]
    return tuple(pin and pin.model_copy(update={"destination": source.target}) for source, pin in found)


def record_pins(pins: Iterable[SourcePin]) -> tuple[dict[str, str], ...]:
    """Return pins as the terms of a revision record them: without what polls change."""
    return tuple(
        pin.model_dump(
            mode="json", by_alias=True, include=_RECORDED | {name for name in _RECORDED_IF_SET if getattr(pin, name)}
        )
        for pin in pins
    )


def recall_pins(recorded: Iterable[Mapping[str, Any]]) -> tuple[SourcePin, ...]:
    """Return recorded pins; none if an older release recorded them, without the source that they belong to."""
    try:
        return tuple(map(SourcePin.model_validate, recorded))
    except ValidationError:
        return ()
