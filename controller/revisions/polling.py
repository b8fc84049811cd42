"""Polling: asking again what a floating ref names, when `spec.sources[].pollInterval` says so and at no other time.

A poll never disturbs what is installed: while it goes on, and where it fails, the pins of the last good resolution stay
in use (rule 1). Only a new digest is written to status, so that an unchanged source costs its one conditional
request and nothing else. While paused, polling rests.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from api.errors import BundleError
from api.v1alpha2.types import BundleDeployment, Source, SourcePin
from controller.build.builder import Builder
from controller.build.pins import Pins, Resolved, match_pins
from controller.retries import Retries
from controller.revisions.background import BackgroundWork, Place
from controller.revisions.source_access import SourceAccess, SourceProgress
from controller.sharing.shares import share_of

PURPOSE = "poll"
JITTER = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivePoll:
    """A poll that goes on."""

    ticket: str
    known: Pins
    """The pins in use."""
    asked: Pins
    """The same, None where the source is asked."""


@dataclass(slots=True)
class PollState:
    """What is remembered of the polls of one BundleDeployment; used by one pass at a time."""

    asked: dict[str, float] = field(default_factory=dict)
    """When sources were asked last, in monotonic seconds, by `specDigest`."""
    validators: dict[str, str] = field(default_factory=dict)
    """What makes asking cheap, by `specDigest`, where that has changed and the content has not."""
    resolved: dict[str, tuple[datetime, float]] = field(default_factory=dict)
    """`resolvedAt` of sources, and when that was in monotonic seconds: a clock that is set meanwhile moves no poll."""
    failure: BundleError | None = None
    """Of the last poll."""
    failed_with: str = ""
    """The ticket of that poll: another spec, or a new resolution, ends the failure."""
    failed_at: float = 0.0
    """When, in monotonic seconds."""
    active: ActivePoll | None = None
    progress: SourceProgress = field(default_factory=SourceProgress)
    """What the last poll has learned."""


class Poller:
    """Polls the sources of BundleDeployments.

    Args:
        clock: seconds since 1970: it is compared with `resolvedAt`, which survives a restart, once.
        now: monotonic seconds.
    """

    def __init__(
        self,
        builder: Builder,
        background: BackgroundWork,
        retries: Retries,
        access: SourceAccess,
        *,
        clock: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._builder, self._background, self._retries = builder, background, retries
        self._access, self._clock, self._now = access, clock, now

    def poll(self, deployment: BundleDeployment, state: PollState) -> tuple[SourcePin, ...] | None:
        """Ask what is due, on the pool of the background; return all pins once one of them has another digest."""
        ticket = _ticket(deployment)
        self._drop_what_is_over(deployment, state, ticket)
        if state.active is None:
            state.active = self._due(deployment, state, ticket)
        active = state.active
        if active is None:
            return None
        resolved = self._ask(deployment, active, state)
        if resolved is None:
            return None
        state.active = None
        return self._take(deployment, active, resolved, state)

    def rest(self, deployment: BundleDeployment, state: PollState) -> None:
        """Ask nothing, and forget what was asked: somebody resolves anew, or the spec cannot be served."""
        self._drop_what_is_over(deployment, state, "")

    def retry(self, name: str) -> None:
        """Let a poll that failed be tried at once."""
        self._retries.succeeded(name, PURPOSE)

    def seconds_to_next(self, deployment: BundleDeployment, state: PollState) -> float | None:
        """Return in how many seconds a source is due; None: an event comes first, or none is ever."""
        spec = deployment.spec
        polls = [index for index, source in enumerate(spec.sources) if source.poll_interval]
        if not polls or spec.paused or state.active:
            return None
        pins = match_pins(spec, deployment.status.sources)
        soonest = min(self._wait(deployment, spec.sources[index], pins[index], state) for index in polls)
        held = self._retries.seconds_until(deployment.metadata.name, PURPOSE)
        if math.isinf(held):  # until the content changes, which a poll finds out
            shortest = min(spec.sources[index].poll_interval_seconds or 0.0 for index in polls)
            held = max(state.failed_at + shortest - self._now(), 0.0)
        seconds = max(soonest, held)
        return seconds if math.isfinite(seconds) else None

    def _drop_what_is_over(self, deployment: BundleDeployment, state: PollState, ticket: str) -> None:
        """Cancel a poll for another spec, and forget the failure of one."""
        active = state.active
        if active and (active.ticket != ticket or deployment.spec.paused):
            self._background.cancel(deployment.metadata.name, PURPOSE)
            state.active = None
        if state.failure and state.failed_with != ticket:
            self._retries.succeeded(deployment.metadata.name, PURPOSE)
            state.failure, state.progress = None, SourceProgress()

    def _due(self, deployment: BundleDeployment, state: PollState, ticket: str) -> ActivePoll | None:
        known = match_pins(deployment.spec, deployment.status.sources)
        if self.seconds_to_next(deployment, state) != 0 or None in known:
            return None
        state.progress = SourceProgress(ticket)
        pairs = zip(deployment.spec.sources, known, strict=True)
        asked = tuple(None if self._wait(deployment, source, pin, state) == 0 else pin for source, pin in pairs)
        return ActivePoll(ticket=ticket, known=known, asked=asked)

    def _ask(self, deployment: BundleDeployment, active: ActivePoll, state: PollState) -> Resolved | None:
        # How far a poll is changes nothing that is said in status, and so wakes nobody.
        build_context = replace(
            self._access.build_context(deployment, state.progress),
            previous=tuple(pin and _with_validator(pin, state) for pin in active.known),
            progress=lambda _index, _done, _total: None,
        )
        return self._background.take(
            deployment.metadata.name,
            active.ticket,
            lambda cancelled: self._builder.resolve(deployment.spec, active.asked, cancelled, build_context),
            Place(share=share_of(deployment), purpose=PURPOSE, later=True),
        )

    def _wait(self, deployment: BundleDeployment, source: Source, pin: SourcePin | None, state: PollState) -> float:
        interval = source.poll_interval_seconds
        if interval is None or pin is None:
            return math.inf
        asked = max(state.asked.get(pin.spec_digest, -math.inf), self._resolved(pin, state))
        return max(asked + interval * _spread(deployment.metadata.uid, pin.spec_digest) - self._now(), 0.0)

    def _resolved(self, pin: SourcePin, state: PollState) -> float:
        known = state.resolved.get(pin.spec_digest)
        if known is None or known[0] != pin.resolved_at:
            age = max(self._clock() - pin.resolved_at.timestamp(), 0.0)
            known = state.resolved[pin.spec_digest] = (pin.resolved_at, self._now() - age)
        return known[1]

    def _take(
        self, deployment: BundleDeployment, active: ActivePoll, resolved: Resolved, state: PollState
    ) -> tuple[SourcePin, ...] | None:
        self._remember(deployment.metadata.name, active, resolved, state)
        triples = list(zip(active.known, active.asked, resolved.pins, strict=True))
        answered = {old.spec_digest for old, asked, new in triples if asked is None and old and new}
        known = {pin.spec_digest for pin in active.known if pin}
        state.asked = {digest: when for digest, when in state.asked.items() if digest in known}
        state.asked |= dict.fromkeys(answered, self._now())
        state.resolved = {digest: when for digest, when in state.resolved.items() if digest in known}
        state.validators |= {new.spec_digest: new.validator for _, asked, new in triples if asked is None and new}
        if not any(old and new and old.digest != new.digest for old, _, new in triples):
            return None
        return tuple(pin for pin in (new or old for old, _, new in triples) if pin)

    def _remember(self, name: str, active: ActivePoll, resolved: Resolved, state: PollState) -> None:
        state.failure, state.failed_with, state.failed_at = resolved.failure, active.ticket, self._now()
        if resolved.failure:
            self._retries.failed(name, PURPOSE, active.ticket, resolved.failure)
        else:
            self._retries.succeeded(name, PURPOSE)


def _with_validator(pin: SourcePin, state: PollState) -> SourcePin:
    return pin.model_copy(update={"validator": state.validators.get(pin.spec_digest, pin.validator)})


def _ticket(deployment: BundleDeployment) -> str:
    return f"poll {deployment.metadata.generation} {deployment.status.last_handled_reconcile_at}"


def _spread(uid: str, spec_digest: str) -> float:
    """Return a factor around 1, always the same for one source, so that many do not poll at the same moment."""
    share = hashlib.sha256(f"{uid} {spec_digest}".encode()).digest()[0] / 255
    return 1 + JITTER * (2 * share - 1)
