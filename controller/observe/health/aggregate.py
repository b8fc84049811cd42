"""The condition Healthy of a BundleDeployment, from the verdicts on its objects: deadlines, counts, when to publish.

Pure: times are seconds on one clock. Callers leave out objects that wait to be pruned.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from api.v1alpha2.conditions import Reason
from api.v1alpha2.status import NOT_READY_ITEMS, ConditionStatus
from controller.observe.health.verdict import State, Verdict, failed

FALL_SECONDS = 15.0
"""Delay before a change from Healthy to Progressing is published, so that scaling and pod restarts do not flap it."""
COUNTS_SECONDS = 5.0
"""Minimum interval between updates that change only the counts."""

Id = TypeVar("Id", bound=Hashable)

_STATUS: Mapping[Reason, ConditionStatus] = {Reason.HEALTHY: "True", Reason.NOT_INSTALLED: "Unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Generic[Id]):
    """The health of all objects of one revision."""

    status: ConditionStatus
    reason: Reason
    message: str
    total: int
    healthy: int
    progressing: int
    """Terminating and Missing objects included."""
    failed: int
    not_ready: tuple[tuple[Id, Verdict], ...]
    """Worst first, at most `NOT_READY_ITEMS`."""
    truncated: bool
    """Whether `not_ready` omits some."""
    settled: bool
    """Whether pruning may proceed: each object is healthy, or waits for something that no deadline covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(Generic[Id]):
    """The health that status currently shows."""

    health: Health[Id]
    revision: str
    at: float
    """When it was written."""


def deadline_start(*, applied: float, left_healthy: float | None, now: float) -> float:
    """Return when the deadline of an object starts.

    Args:
        applied: `time` of our managedFields entry, which survives restarts.
        left_healthy: when this process saw the object leave Healthy; None if it did not.
        now: upper bound of the result, since the clock of the API server may be ahead of ours.
    """
    return min(now, applied if left_healthy is None else max(applied, left_healthy))


def with_deadline(verdict: Verdict, *, since: float, now: float, deadline: float) -> Verdict:
    """Return the verdict, or Failed if it has been Progressing or Missing for `deadline` seconds since `since`."""
    waits = verdict.state in (State.PROGRESSING, State.MISSING) and verdict.deadline
    if not waits or now - since < deadline:
        return verdict
    message = _joined(verdict.reason, verdict.message)
    return failed(str(Reason.PROGRESS_DEADLINE_EXCEEDED), message, hint=verdict.hint)


def aggregate(verdicts: Iterable[tuple[Id, Verdict]], *, applied: bool, others: int = 0) -> Health[Id]:
    """Return the health of a revision.

    Args:
        verdicts: one for each object, deadlines applied; `str()` of an id is `Deployment foo/web`.
        applied: whether anything has been applied.
        others: how many more objects there are, all of them healthy.
    """
    pairs = list(verdicts)
    total = len(pairs) + others
    not_ready = sorted((pair for pair in pairs if pair[1].state is not State.HEALTHY), key=_severity)
    failures = [verdict for _, verdict in not_ready if verdict.state is State.FAILED]
    reason = _reason(not_ready, failures) if applied else Reason.NOT_INSTALLED
    return Health(
        status=_STATUS.get(reason, "False"),
        reason=reason,
        message=_message(not_ready) if applied else "nothing has been applied yet",
        total=total,
        healthy=total - len(not_ready),
        progressing=len(not_ready) - len(failures),
        failed=len(failures),
        not_ready=tuple(not_ready[:NOT_READY_ITEMS]),
        truncated=len(not_ready) > NOT_READY_ITEMS,
        settled=applied and not any(verdict.deadline for _, verdict in not_ready),
    )


def publish_after(
    health: Health[Id],
    published: Published[Id] | None,
    *,
    revision: str,
    fallen_since: float | None,
    now: float,
    lasts: bool = False,
) -> float | None:
    """Return in how many seconds to write a health to status: 0 for immediately, None for not at all.

    Args:
        health: the current health.
        published: what status shows; None if nothing yet.
        revision: the wanted revision.
        fallen_since: when it left Healthy; None if it never was Healthy.
        now: the current time.
        lasts: whether it is known that the fall will not be over soon.
    """
    if published is None or published.revision != revision:
        return 0.0
    if health == published.health:
        return None
    if _falls(published.health, health) and not lasts:
        return max(0.0, (now if fallen_since is None else fallen_since) + FALL_SECONDS - now)
    if health.reason is not published.health.reason:
        return 0.0
    return max(0.0, published.at + COUNTS_SECONDS - now)


def _falls(before: Health[Id], after: Health[Id]) -> bool:
    return before.reason is Reason.HEALTHY and after.reason is Reason.PROGRESSING


def _reason(not_ready: list[tuple[Id, Verdict]], failures: list[Verdict]) -> Reason:
    if not not_ready:
        return Reason.HEALTHY
    if not failures:
        return Reason.PROGRESSING
    only_late = all(_is_late(verdict) for verdict in failures)
    return Reason.PROGRESS_DEADLINE_EXCEEDED if only_late else Reason.FAILED


def _message(not_ready: list[tuple[Id, Verdict]]) -> str:
    if not not_ready:
        return "every object is healthy"
    worst, verdict = not_ready[0]
    more = f" (and {len(not_ready) - 1} more)" if len(not_ready) > 1 else ""
    return f"{worst}: {_describe(verdict)}{more}"


def _describe(verdict: Verdict) -> str:
    return _joined(verdict.reason, verdict.text)


def _joined(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason


def _severity(pair: tuple[Id, Verdict]) -> tuple[bool, bool, bool, str]:
    """Order worst first: failed before late, and what a deadline covers before what has none."""
    identity, verdict = pair
    return verdict.state is not State.FAILED, _is_late(verdict), not verdict.deadline, str(identity)


def _is_late(verdict: Verdict) -> bool:
    return verdict.reason == str(Reason.PROGRESS_DEADLINE_EXCEEDED)
