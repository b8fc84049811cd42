"""The health of one BundleDeployment over time: since when each object is what it is, and what of that to publish.

Fed by watch events; nothing is polled, and nothing waits. The rules are health/'s, which are pure; here is the memory.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controller.observe.health import (
    HEALTHY,
    Health,
    Published,
    State,
    Verdict,
    aggregate,
    as_observed,
    assess_absent,
    deadline_start,
    publish_after,
    with_deadline,
)
from controller.observe.records import ObjectKey, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How healthy a revision is."""

    health: Health[ObjectKey]
    shown: Health[ObjectKey]
    """What status is to say: a fall that may be over soon, and counts alone, are kept back for a while."""
    next_change: float | None
    """Seconds until this may change without an event; None: never."""


@dataclass(slots=True)
class HealthTracker:
    """The memory of one BundleDeployment; used by one pass at a time. Times are seconds since 1970."""

    clock: Callable[[], float] = time.time
    _left_healthy: dict[ObjectKey, float] = field(default_factory=dict)
    _healthy: set[ObjectKey] = field(default_factory=set)
    _fallen_since: float | None = None
    _published: Published[ObjectKey] | None = None

    def summarize(
        self, digests: Mapping[ObjectKey, str], observed: Mapping[ObjectKey, Record], revision: str, deadline: float
    ) -> Progress:
        """Judge all objects of a revision.

        Args:
            digests: of the wanted objects, as their applied-digest annotation says when they are applied.
            observed: what carries our label.
            revision: which revision that is.
            deadline: `spec.progressDeadline` in seconds.
        """
        now = self.clock()
        soonest: list[float] = []
        verdicts = []
        for key, digest in digests.items():
            record = observed.get(key)
            verdict = _judge(record, digest)
            since = self._since(key, verdict, record, now)
            if verdict.state in (State.PROGRESSING, State.MISSING) and verdict.deadline and since + deadline > now:
                soonest.append(since + deadline - now)
            verdicts.append((key, with_deadline(verdict, since=since, now=now, deadline=deadline)))
        health = aggregate(verdicts, applied=True)
        shown, wait = self._publish(health, revision, now)
        if wait is not None:
            soonest.append(wait)
        return Progress(health=health, shown=shown, next_change=min(soonest, default=None))

    def _since(self, key: ObjectKey, verdict: Verdict, record: Record | None, now: float) -> float:
        """Return since when the deadline of an object runs."""
        if verdict.state is State.HEALTHY:
            self._healthy.add(key)
            self._left_healthy.pop(key, None)
            return now
        # Without the time of an apply only what was seen counts, or else it would be always now.
        applied = _parse_time(record.applied_at) if record and record.applied_at else -math.inf
        if key in self._healthy or applied == -math.inf:
            self._healthy.discard(key)
            self._left_healthy.setdefault(key, now)
        return deadline_start(applied=applied, left_healthy=self._left_healthy.get(key), now=now)

    def _publish(self, health: Health[ObjectKey], revision: str, now: float) -> tuple[Health[ObjectKey], float | None]:
        """Return what to show, and in how many seconds something else may have to be shown."""
        self._fallen_since = None if health.status == "True" else self._fallen_since or now
        wait = publish_after(health, self._published, revision=revision, fallen_since=self._fallen_since, now=now)
        if wait and self._published:
            return self._published.health, wait
        if wait is not None:
            self._published = Published(health=health, revision=revision, at=now)
        return health, None


def _judge(record: Record | None, digest: str) -> Verdict:
    if record is None:
        return assess_absent({}, installed=False)
    if record.deleting:
        return Verdict(State.TERMINATING, "Terminating", ", ".join(record.finalizers))
    return as_observed(record.verdict or HEALTHY, seen_digest=record.applied_digest, applied_digest=digest)


def _parse_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
