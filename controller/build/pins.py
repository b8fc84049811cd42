"""Pins: what the sources of a spec were resolved to. A pin applies as long as what identifies the content is unchanged.

Pure. resolver.py resolves sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from api.errors import BundleError
from api.v1alpha2.types import Source, SourcePin, Spec
from controller.build.plugins import source_of
from controller.content.digests import digest_of_json

Pins = tuple[SourcePin | None, ...]
"""One for each source, in spec order; None if it is not resolved yet."""
_RECORDED = {"kind", "resolved", "digest", "spec_digest", "origin", "resolved_at"}
_RECORDED_IF_SET = ("destination", "version", "reference", "auth_digest")


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
