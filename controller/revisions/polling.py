"""Re-resolves floating references at the intervals of `spec.sources[].pollInterval`.

Local content is polled when it has changed, and once after a start or a change of the spec, to follow it from then on.

A poll never disturbs what is installed: while it is active and if it fails, the pins remain in use (rule 1), also if
the new digest lacks the signature that `verify` asks for. Status is written only if the digest is new, or was checked
with other keys: an unchanged source costs one conditional request. There are no polls while paused.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.types import BundleDeployment, Source, SourcePin
from rukpak.controller.building.builder import Builder
from rukpak.controller.building.request import Pins, Resolved, match_pins
from rukpak.controller.retries import Retries
from rukpak.controller.revisions.background import BackgroundWork, Place
from rukpak.controller.revisions.source_access import SourceAccess, SourceProgress
from rukpak.controller.sharing import share_of
from rukpak.controller.telemetry import keep_first

PURPOSE = "poll"
JITTER = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivePoll:
    """A poll that is active."""

    ticket: str
    known: Pins
    asked: Pins
    """The same, but None for each source that is polled."""
    local: tuple[str, int]
    """The `local_state` that it handles."""


@dataclass(slots=True)
class PollState:
    """The polls of one BundleDeployment; used by one pass at a time."""

    retries: Retries = field(default_factory=Retries)
    asked: dict[str, tuple[datetime, float]] = field(default_factory=dict)
    """By `specDigest`, the `resolvedAt` of sources, and when they were last polled or resolved, in monotonic seconds:
    no poll moves when the clock is set."""
    validators: dict[str, str] = field(default_factory=dict)
    """Validators for conditional requests that differ from those in status, by `specDigest`."""
    failure: BundleError | None = None
    failed_with: str = ""
    """The ticket of that poll: a change of the spec or a new resolution clears the failure."""
    failed_at: float = 0.0
    """When, in monotonic seconds."""
    active: ActivePoll | None = None
    local_changes: int = 0
    """How often local content may have changed; set by watches."""
    local_handled: tuple[str, int] | None = None
    """The last `local_state` for which local content was read."""
    progress: SourceProgress = field(default_factory=SourceProgress)


class Poller:
    """Polls the sources of BundleDeployments.

    Args:
        clock: seconds since 1970, to compare with `resolvedAt`, which outlives the process.
        now: monotonic seconds.
    """

    def __init__(
        self,
        builder: Builder,
        background: BackgroundWork,
        access: SourceAccess,
        *,
        clock: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._builder, self._background = builder, background
        self._access, self._clock, self._now = access, clock, now

    def poll(self, deployment: BundleDeployment, state: PollState) -> tuple[SourcePin, ...] | None:
        """Poll the sources that are due, in the background; returns all pins once a digest has changed, else None."""
        ticket = _ticket(deployment)
        self._drop_outdated(deployment, state, ticket)
        if state.active is None:
            state.active = self._due(deployment, state, ticket)
        active = state.active
        if active is None:
            return None
        try:
            resolved = self._ask(deployment, active, state)
        except BundleError as error:
            resolved = Resolved(pins=active.asked, failure=keep_first(state.failure, error))
        if resolved is None:
            return None
        state.active = None
        return self._take(active, resolved, state)

    def stop(self, deployment: BundleDeployment, state: PollState) -> None:
        """Cancel the poll and forget its failure: the spec is invalid, or all sources are being re-resolved."""
        self._drop_outdated(deployment, state, "")

    def seconds_to_next(self, deployment: BundleDeployment, state: PollState) -> float | None:
        """Return the seconds until the next poll; None without one, or while one is active."""
        spec = deployment.spec
        polls = [index for index, source in enumerate(spec.sources) if is_polled(source)]
        if not polls or spec.paused or state.active:
            return None
        pins = match_pins(spec, deployment.status.sources)
        soonest = min(self._wait(deployment, spec.sources[index], pins[index], state) for index in polls)
        held = state.retries.seconds_until(PURPOSE)
        if math.isinf(held):  # until the content changes, which only a poll detects
            shortest = min(spec.sources[index].poll_interval_seconds or math.inf for index in polls)
            held = max(state.failed_at + shortest - self._now(), 0.0)
        seconds = max(soonest, held)
        return seconds if math.isfinite(seconds) else None

    def _drop_outdated(self, deployment: BundleDeployment, state: PollState, ticket: str) -> None:
        active = state.active
        if active and (active.ticket != ticket or deployment.spec.paused):
            self._background.cancel(deployment.metadata.name, PURPOSE)
            state.active = None
        if state.failure and state.failed_with != ticket:
            state.retries.succeeded(PURPOSE)
            state.failure, state.progress = None, SourceProgress()

    def _due(self, deployment: BundleDeployment, state: PollState, ticket: str) -> ActivePoll | None:
        known = match_pins(deployment.spec, deployment.status.sources)
        if self.seconds_to_next(deployment, state) != 0 or None in known:
            return None
        state.progress = SourceProgress(ticket)
        pairs = zip(deployment.spec.sources, known, strict=True)
        asked = tuple(None if self._wait(deployment, source, pin, state) == 0 else pin for source, pin in pairs)
        return ActivePoll(ticket=ticket, known=known, asked=asked, local=_local_state(deployment, state))

    def _ask(self, deployment: BundleDeployment, active: ActivePoll, state: PollState) -> Resolved | None:
        # Status does not show the progress of a poll, so it wakes no pass.
        build_context = replace(
            self._access.build_context(deployment, state.progress),
            previous=tuple(pin and _with_validator(pin, state) for pin in active.known),
            max_ages=tuple(map(_shortest_interval, deployment.spec.sources)),
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
        if source.is_local and pin and state.local_handled != _local_state(deployment, state):
            return 0.0
        if interval is None or pin is None:
            return math.inf
        return max(
            self._asked(pin, state) + interval * _spread(deployment.metadata.uid, pin.spec_digest) - self._now(), 0.0
        )

    def _asked(self, pin: SourcePin, state: PollState) -> float:
        resolved_at, asked = state.asked.get(pin.spec_digest, (None, -math.inf))
        if resolved_at != pin.resolved_at:
            age = max(self._clock() - pin.resolved_at.timestamp(), 0.0)
            asked = max(asked, self._now() - age)
            state.asked[pin.spec_digest] = (pin.resolved_at, asked)
        return asked

    def _take(self, active: ActivePoll, resolved: Resolved, state: PollState) -> tuple[SourcePin, ...] | None:
        self._remember(active, resolved, state)
        triples = list(zip(active.known, active.asked, resolved.pins, strict=True))
        answered = [old for old, asked, new in triples if asked is None and old and new]
        known = {pin.spec_digest for pin in active.known if pin}
        state.asked = {digest: when for digest, when in state.asked.items() if digest in known}
        state.asked |= {old.spec_digest: (old.resolved_at, self._now()) for old in answered}
        state.validators |= {new.spec_digest: new.validator for _, asked, new in triples if asked is None and new}
        pairs = [(old, new) for old, _, new in triples if old and new]
        if all((old.digest, old.keys_digest) == (new.digest, new.keys_digest) for old, new in pairs):
            return None
        return tuple(pin for pin in (new or old for old, _, new in triples) if pin)

    def _remember(self, active: ActivePoll, resolved: Resolved, state: PollState) -> None:
        state.failure, state.failed_with, state.failed_at = resolved.failure, active.ticket, self._now()
        if resolved.failure:
            state.retries.failed(PURPOSE, active.ticket, resolved.failure)
        else:
            state.retries.succeeded(PURPOSE)
            state.local_handled = active.local


def is_polled(source: Source) -> bool:
    """Whether a source is resolved again without being asked to: at an interval, or when its local content changes."""
    return bool(source.poll_interval) or source.is_local


def _local_state(deployment: BundleDeployment, state: PollState) -> tuple[str, int]:
    return _ticket(deployment), state.local_changes


def _shortest_interval(source: Source) -> float:
    # Content younger than this was fetched because another BundleDeployment asked for it.
    return (source.poll_interval_seconds or 0.0) * (1 - JITTER)


def _with_validator(pin: SourcePin, state: PollState) -> SourcePin:
    return pin.model_copy(update={"validator": state.validators.get(pin.spec_digest, pin.validator)})


def _ticket(deployment: BundleDeployment) -> str:
    return f"poll {deployment.metadata.generation} {deployment.status.last_handled_reconcile_at}"


def _spread(uid: str, spec_digest: str) -> float:
    # Constant for a source, so that many sources are not polled together.
    share = hashlib.sha256(f"{uid} {spec_digest}".encode()).digest()[0] / 255
    return 1 + JITTER * (2 * share - 1)
