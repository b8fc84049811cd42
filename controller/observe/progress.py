"""The health of one BundleDeployment over time: when the deadline of each object started, and what to publish.

Driven by watch events: nothing polls or waits. This is the memory; the rules are pure, in health/.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from rukpak.api.bounds import read_time
from rukpak.api.errors import BundleError
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.explanations import (
    TROUBLED_SECONDS,
    Inquiries,
    Question,
    may_explain,
    oldest_answer,
)
from rukpak.controller.observe.health.explain import explained
from rukpak.controller.observe.health.rules import ALWAYS_HEALTHY, NOT_OBSERVED, assess_absent, refused
from rukpak.controller.observe.health.stability import OUTDATED, REPORT_SECONDS, Answer, Rollout, Stability
from rukpak.controller.observe.health.verdict import (
    HEALTHY,
    Health,
    Published,
    State,
    Verdict,
    aggregate,
    deadline_start,
    publish_after,
    terminating,
    with_deadline,
)
from rukpak.controller.observe.records import Reader, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How healthy a revision is."""

    health: Health[ObjectKey]
    shown: Health[ObjectKey]
    """What status should show: short falls, and changes of counts only, are delayed."""
    next_change: float | None
    """Seconds until this may change without an event; None for never."""
    crashes: bool = False
    """Whether containers of a rollout do not stay, so that it has failed, although it may have been healthy before."""


CLOCK_SECONDS = 60.0
"""Until a deadline that has expired only by the system time is checked again: that time may have been set."""
EAGER_SECONDS = 5.0
"""Between two requests about a rollout of which a container has ended, and may end again."""


class WantedObject(Protocol):
    """An object that a revision contains."""

    @property
    def digest(self) -> str:
        """As in its applied-digest annotation once it is applied."""


Explain = Callable[[Inquiries, Sequence[Question]], float | None]
"""As `Explainer.explain` of one BundleDeployment."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """An object, and the start of its deadline."""

    key: ObjectKey
    record: Record | None
    verdict: Verdict
    since: float
    held: bool
    """Whether it is healthy in this instant, and only has to stay so: no deadline passes meanwhile."""


@dataclass(slots=True)
class _Applied:
    """An apply that may have preceded this process."""

    when: str
    """By the API server."""
    seen: float
    """When this process first saw the object so, in monotonic seconds."""
    at: float = -math.inf
    """When it was, in monotonic seconds: the latest that the system time has ever indicated."""


@dataclass(slots=True)
class HealthTracker:
    """The memory of one BundleDeployment; used by one pass at a time.

    The system time may be wrong, and may be set. A deadline therefore expires at the latest when this process has seen
    the object for so long, and is checked again while it has expired only by the system time.

    Args:
        now: monotonic seconds, for everything that is remembered.
        clock: seconds since 1970, to convert the times of the API server.
    """

    now: Callable[[], float] = time.monotonic
    clock: Callable[[], float] = time.time
    reader: Reader = field(default_factory=Reader)
    """For callers that know what has changed since the last call."""
    inquiries: Inquiries = field(default_factory=Inquiries)
    """What was asked about the objects; changed by the explainer only."""
    deadline: float = math.inf
    """`spec.progressDeadline` in seconds; set when a pass judges."""
    was_healthy: bool = False
    """Whether status says that all objects of the revision have become healthy; set when a pass judges."""
    confirmed: bool = False
    """Whether status says that they are healthy now, so rollouts that this process has not seen have held; set when
    a pass judges."""
    _rollouts: dict[ObjectKey, Stability] = field(default_factory=dict)
    _applied: dict[ObjectKey, _Applied] = field(default_factory=dict)
    """Of objects that are not healthy, or whose status is older than their spec."""
    _healthy_until: dict[ObjectKey, float] = field(default_factory=dict)
    """When objects were seen to leave Healthy; `inf` for those that have not."""
    _unhealthy: tuple[ObjectKey, ...] = ()
    _fallen_since: float | None = None
    _published: Published[ObjectKey] | None = None

    def summarize(
        self,
        wanted: Mapping[ObjectKey, WantedObject],
        observed: Mapping[ObjectKey, Record],
        revision: str,
        deadline: float,
        *,
        changed: Collection[ObjectKey] | None = None,
        refusals: Mapping[ObjectKey, BundleError] | None = None,
        recreates: bool = True,
        awaited: Collection[ObjectKey] = (),
        explain: Explain = lambda _inquiries, _questions: None,
    ) -> Progress:
        """Judge the objects of a revision that may have changed, and those that were not healthy.

        Args:
            wanted: all objects of the revision.
            observed: objects with our label.
            revision: identifies revision and spec; after a change everything is published immediately.
            deadline: `spec.progressDeadline` in seconds.
            changed: which objects, wanted or observed, have changed since the last call; None: any may have.
            refusals: why objects could not be applied.
            recreates: whether missing objects are created again. One that is not is reported immediately.
            awaited: objects whose wave is not over before they are healthy: all of these have a deadline.
            explain: explains objects that have been in trouble for a while, and tells whether pods have stayed.
        """
        now, refusals, self.deadline = self.now(), refusals or {}, deadline
        keys = wanted if changed is None else dict.fromkeys((*self._unhealthy, *changed, *refusals))
        for memory in (self._rollouts, self._applied, self._healthy_until):
            for key in [each for each in (memory if changed is None else keys) if each not in wanted]:
                memory.pop(key, None)
        judged = [
            self._judge(key, observed.get(key), wanted[key].digest, refusals.get(key), now)
            for key in keys
            if key in wanted
        ]
        judged = [replace(each, verdict=_due(each.verdict)) if each.key in awaited else each for each in judged]
        self._unhealthy = tuple(each.key for each in judged if each.verdict.state is not State.HEALTHY)
        soon = min(TROUBLED_SECONDS, oldest_answer(deadline))
        troubled = [each for each in judged if _may_explain(each)]
        next_request = explain(self.inquiries, [*self._questions(judged, now, soon)])
        judged = [_explain(each, self.inquiries.answer_on(each.key)) for each in judged]
        verdicts = [(each.key, _with_deadline(each, now, deadline)) for each in judged]
        health = aggregate(verdicts, others=len(wanted) - len(verdicts), awaited=awaited)
        lasts = any(each.record is None and (each.key in refusals or not recreates) for each in judged)
        rollouts = [self._rollouts[each.key] for each in judged if each.key in self._rollouts]
        lasts = lasts or any(each.has_ended for each in rollouts)
        waiting = [each for each in judged if each.verdict.state is not State.HEALTHY]
        holds = bool(waiting) and all(each.held for each in waiting)
        shown, wait = self._publish(health, revision, now, lasts=lasts, holds=holds)
        changes: list[float | None] = [each.since + soon - now for each in troubled if now - each.since < soon]
        changes += [self._seconds_to_check(each, now) for each in judged if each.verdict.is_timed and not each.held]
        changes += [self._seconds_to_hold(each, now) for each in judged]
        soonest = [seconds for seconds in (*changes, next_request, wait) if seconds and seconds > 0]
        crashes = any(each.crashes for each in rollouts)
        return Progress(health=health, shown=shown, next_change=min(soonest, default=None), crashes=crashes)

    def judge(self, key: ObjectKey, record: Record | None, digest: str, now: float | None = None) -> Verdict:
        """Return the verdict on an object of a revision, as far as it has held already.

        Args:
            key: of the object.
            record: as it was last seen; None if it was not.
            digest: as in its applied-digest annotation once it is applied.
            now: monotonic seconds; None: as they are.
        """
        now, verdict = self.now() if now is None else now, judge_object(record, digest)
        if record is None:
            self._rollouts.pop(key, None)
        if record is None or record.deleting or record.applied_digest != digest:
            return verdict
        if record.rollout:
            return self._hold(record, record.rollout, verdict, now)
        if not record.outdated or verdict.reason == ALWAYS_HEALTHY or verdict.state is State.PROGRESSING:
            return verdict
        is_over = now - self._applied_at(key, record.applied_at, now) >= REPORT_SECONDS
        return verdict if is_over else OUTDATED

    def _hold(self, record: Record, rollout: Rollout, verdict: Verdict, now: float) -> Verdict:
        known = self._rollouts.get(record.key)
        if known is None or known.template != rollout.template:
            began = self._applied_at(record.key, record.applied_at, now) if record.applied_at else now
            is_done = verdict.state is State.HEALTHY or self.was_healthy
            is_old = is_done and now - began >= self.deadline
            known = self._rollouts[record.key] = Stability(
                template=rollout.template,
                seen=now,
                began=began,
                applied_at=record.applied_at,
                steady=known is None and (self.confirmed or is_old),
                falls=record.falls,
            )
        known.note_falls(record.falls, now, self.deadline)
        return known.judge(verdict, rollout, self.inquiries.answer_on(record.key), now, self.deadline)

    def _judge(
        self, key: ObjectKey, record: Record | None, digest: str, refusal: BundleError | None, now: float
    ) -> _Judged:
        verdict = self.judge(key, record, digest, now)
        # A problem of the object itself is more useful than that it could not be compared or repaired.
        is_unhealthy = record is not None and record.applied_digest == digest and verdict.state is not State.HEALTHY
        if refusal and not is_unhealthy:
            verdict = refused(refusal, str(key))
        held = verdict.state is State.PROGRESSING and judge_object(record, digest).state is State.HEALTHY
        return _Judged(key, record, verdict, self._since(key, verdict, record, now), held and not refusal)

    def _questions(self, judged: Iterable[_Judged], now: float, soon: float) -> Iterator[Question]:
        most = oldest_answer(self.deadline)
        for each in judged:
            record, rollout = each.record, self._rollouts.get(each.key)
            if record is None or each.verdict.state is State.HEALTHY or not may_explain(record):
                continue
            since = rollout.asks_since(now, self.deadline) if rollout else None
            if rollout and since is not None:
                soonest = EAGER_SECONDS if rollout.may_end_again(now, self.deadline) else most
                yield Question(record=record, since=since, new_since=rollout.applied_at, most=soonest, urgent=True)
            elif _may_explain(each) and now - each.since >= soon:
                yield Question(record=record, new_since=rollout.applied_at if rollout else "", most=most)

    def _seconds_to_hold(self, judged: _Judged, now: float) -> float | None:
        applied = self._applied.get(judged.key)
        if applied and judged.verdict == OUTDATED:  # an object may say the same of itself
            return applied.at + REPORT_SECONDS - now
        rollout = self._rollouts.get(judged.key)
        if rollout is None or judged.record is None or judged.record.rollout is None:
            return None
        return rollout.seconds_to_change(judged.record.rollout, now)

    def _since(self, key: ObjectKey, verdict: Verdict, record: Record | None, now: float) -> float:
        if verdict.state is State.HEALTHY:
            self._healthy_until[key] = math.inf
            if not (record and record.outdated):
                self._applied.pop(key, None)
            return now
        # Without the time of an apply only observations count; otherwise the deadline would always start now.
        applied = self._applied_at(key, record.applied_at, now) if record and record.applied_at else -math.inf
        until = self._healthy_until.get(key, math.inf if applied == -math.inf else None)
        if until == math.inf:
            until = self._healthy_until[key] = now
        return deadline_start(applied=applied, left_healthy=until, now=now)

    def _applied_at(self, key: ObjectKey, when: str, now: float) -> float:
        known = self._applied.get(key)
        if known is None or known.when != when:
            known = self._applied[key] = _Applied(when, seen=now)
        applied = read_time(when)
        age = math.inf if applied is None else self.clock() - applied
        known.at = min(known.seen, max(known.at, now - age))
        return known.at

    def _seconds_to_check(self, judged: _Judged, now: float) -> float:
        known, left = self._applied.get(judged.key), judged.since + self.deadline - now
        return left if left > 0 or known is None else min(CLOCK_SECONDS, known.seen + self.deadline - now)

    def _publish(
        self, health: Health[ObjectKey], revision: str, now: float, *, lasts: bool, holds: bool
    ) -> tuple[Health[ObjectKey], float | None]:
        self._fallen_since = None if health.status == "True" else self._fallen_since or now
        shown, current = self._published, Published(health=health, revision=revision, at=now, holds=holds)
        wait = publish_after(current, shown, fallen_since=self._fallen_since, lasts=lasts)
        if wait and shown:
            return shown.health, wait
        if wait is not None:
            self._published = current
        return health, None


def judge_object(record: Record | None, digest: str) -> Verdict:
    """Return the verdict on an object of a revision, as far as the watches show it; deadlines are not known here.

    It is NotObserved while the watch is behind our last apply: until it catches up, it shows the old object with its
    old, healthy status.

    Args:
        record: as it was last seen; None if it was not.
        digest: as in its applied-digest annotation once it is applied.
    """
    if record is None:
        return assess_absent({}, started=False)
    if record.deleting:
        return terminating(record.finalizers)
    return (record.verdict or HEALTHY) if record.applied_digest == digest else NOT_OBSERVED


def _may_explain(judged: _Judged) -> bool:
    record, verdict = judged.record, judged.verdict
    if record is None or verdict.state is State.HEALTHY or not may_explain(record):
        return False
    return record.deleting or verdict == record.verdict


def _due(verdict: Verdict) -> Verdict:
    return verdict if verdict.state is State.HEALTHY else replace(verdict, deadline=True)


def _with_deadline(judged: _Judged, now: float, deadline: float) -> Verdict:
    if judged.held:
        return judged.verdict
    return with_deadline(judged.verdict, since=judged.since, now=now, deadline=deadline)


def _explain(judged: _Judged, answer: Answer | None) -> _Judged:
    if answer is None or answer.verdict is None or not _may_explain(judged):
        return judged
    return replace(judged, verdict=explained(judged.verdict, answer.verdict, kind=judged.key.kind))
