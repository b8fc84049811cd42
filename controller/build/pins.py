"""What the sources of a spec are resolved to, and when that still holds: a pin goes with what names the content.

Pure. Not here: how a source is resolved (resolving.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from api.errors import BundleError
from api.v1alpha2.types import Source, SourcePin, Spec
from controller.build.plugins import source_of
from controller.content.digests import digest_of_json

Pins = tuple[SourcePin | None, ...]
"""One for each source, in spec order; None: not resolved yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The pins of a spec, one for each source in spec order, and the failure of those that are missing."""

    pins: Pins
    failure: BundleError | None = None

    @property
    def found(self) -> tuple[SourcePin, ...]:
        """The pins that there are."""
        return tuple(pin for pin in self.pins if pin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a spec, all resolved."""

    pins: tuple[SourcePin, ...]
    requested_at: str
    """Value of the annotation that they were resolved for."""


def spec_digest(source: Source) -> str:
    """Return the digest of what names a source's content: a new one, and only that, asks for a new resolution."""
    return "v1:" + digest_of_json(
        {"kind": source.kind, "identity": source_of(source.kind).identity(source.parameters_json)}
    )


def match_pins(spec: Spec, recorded: Sequence[SourcePin]) -> Pins:
    """Return the recorded pin of each source, matched by what names the content and not by position."""
    by_digest = {pin.spec_digest: pin for pin in recorded}
    found = [(source, by_digest.get(spec_digest(source))) for source in spec.sources]
    return tuple(pin and pin.model_copy(update={"destination": source.target}) for source, pin in found)
