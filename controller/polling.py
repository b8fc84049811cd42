"""Polling: asking again what a floating ref names, when `spec.sources[].pollInterval` says so and at no other time.

A poll never disturbs what is installed: while it goes on, and where it fails, the pins of the last good resolution stay
in use (DESIGN, rule 1). Only a new digest is written to status, so that an unchanged source costs its one conditional
request and nothing else. While paused, polling rests.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from api.errors import BundleError
from api.v1alpha2.types import BundleDeployment, Source, SourcePin
from controller.desired import Aid, Builder, Pins, Resolved, match_pins
from controller.preparations import Preparations
from controller.retries import Retries

PURPOSE = "poll"
JITTER = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """A poll that goes on."""

    generation: int
    known: Pins
    """The pins in use."""
    asked: Pins
    """The same, None where the source is asked."""


@dataclass(slots=True)
class PollMemory:
    """What is remembered of the polls of one BundleDeployment; used by one pass at a time."""

    asked: dict[str, float] = field(default_factory=dict)
    """When sources were asked last, in seconds since 1970, by `specDigest`."""
    failure: BundleError | None = None
    """Of the last poll."""
    under_way: UnderWay | None = None


class Poller:
    """Polls the sources of BundleDeployments.

    Args:
        clock: seconds since 1970: it is compared with `resolvedAt`, which survives a restart.
    """

    def __init__(
        self, builder: Builder, preparations: Preparations, retries: Retries, clock: Callable[[], float] = time.time
    ) -> None:
        self._builder, self._preparations, self._retries, self._clock = builder, preparations, retries, clock

    def poll(self, deployment: BundleDeployment, memory: PollMemory, aid: Aid) -> tuple[SourcePin, ...] | None:
        """Ask what is due, on the pool of the preparations; return all pins once one of them has another digest."""
        generation = deployment.metadata.generation
        if memory.under_way is None or memory.under_way.generation != generation:
            memory.under_way = self._due(deployment, memory)
        under_way = memory.under_way
        if under_way is None:
            return None
        aided = replace(aid, previous=under_way.known)
        resolved = self._preparations.take(
            deployment.metadata.name,
            f"poll {generation}",
            lambda cancelled: self._builder.resolve(deployment.spec, under_way.asked, cancelled, aided),
            purpose=PURPOSE,
        )
        if resolved is None:
            return None
        memory.under_way = None
        return self._take(deployment, under_way, resolved, memory)

    def _due(self, deployment: BundleDeployment, memory: PollMemory) -> UnderWay | None:
        known = match_pins(deployment.spec, deployment.status.sources)
        if self.seconds_to_next(deployment, memory) != 0 or None in known:
            return None
        pairs = zip(deployment.spec.sources, known, strict=True)
        asked = tuple(None if self._wait(deployment, source, pin, memory) == 0 else pin for source, pin in pairs)
        return UnderWay(generation=deployment.metadata.generation, known=known, asked=asked)

    def seconds_to_next(self, deployment: BundleDeployment, memory: PollMemory) -> float | None:
        """Return in how many seconds a source is due; None: an event comes first, or none is ever."""
        spec = deployment.spec
        polls = [index for index, source in enumerate(spec.sources) if source.poll_interval]
        if not polls or spec.paused or memory.under_way:
            return None
        pins = match_pins(spec, deployment.status.sources)
        waits = [self._wait(deployment, spec.sources[index], pins[index], memory) for index in polls]
        return max(min(waits), self._retries.seconds_until(deployment.metadata.name, PURPOSE))

    def _wait(self, deployment: BundleDeployment, source: Source, pin: SourcePin | None, memory: PollMemory) -> float:
        interval = source.poll_interval_seconds
        if interval is None or pin is None:
            return float("inf")
        asked = memory.asked.get(pin.spec_digest, pin.resolved_at.timestamp())
        return max(asked + interval * _spread(deployment.metadata.uid, pin.spec_digest) - self._clock(), 0.0)

    def _take(
        self, deployment: BundleDeployment, under_way: UnderWay, resolved: Resolved, memory: PollMemory
    ) -> tuple[SourcePin, ...] | None:
        name, now = deployment.metadata.name, self._clock()
        memory.failure = resolved.failure
        if resolved.failure:
            self._retries.failed(name, PURPOSE, "", resolved.failure)
        else:
            self._retries.succeeded(name, PURPOSE)
        triples = zip(under_way.known, under_way.asked, resolved.pins, strict=True)
        answered = [(old, new) for old, asked, new in triples if asked is None and old and new]
        memory.asked |= {new.spec_digest: now for _, new in answered}
        if all(old.digest == new.digest for old, new in answered):
            return None
        return tuple(pin for pin in map(_newer, under_way.known, resolved.pins) if pin)


def _newer(old: SourcePin | None, new: SourcePin | None) -> SourcePin | None:
    return new or old


def _spread(uid: str, spec_digest: str) -> float:
    """Return a factor around 1, always the same for one source, so that many do not poll at the same moment."""
    share = hashlib.sha256(f"{uid} {spec_digest}".encode()).digest()[0] / 255
    return 1 + JITTER * (2 * share - 1)
