"""From the verdicts on objects to the condition Healthy of a BundleDeployment: deadlines, counts, when to publish.

Pure: every time comes in as seconds, all on one clock. Objects that await prune are no part of it: callers leave them
out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from api.v1alpha2.conditions import Reason
from api.v1alpha2.status import NOT_READY_ITEMS, ConditionStatus
from controller.observe.health.verdict import State, Verdict, failed

FALL_SECONDS = 15.0
"""How long a fall from Healthy to Progressing is kept back: scaling and restarts of pods would flap it."""
COUNTS_SECONDS = 5.0
"""How often counts alone are published at most."""

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
    """Of these some are Terminating or Missing."""
    failed: int
    not_ready: tuple[tuple[Id, Verdict], ...]
    """The worst first, at most `NOT_READY_ITEMS`."""
    truncated: bool
    """Whether there are more of them."""
    settled: bool
    """Whether prune may go on: each object is healthy, or waits for what no deadline covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(Generic[Id]):
    """What status says already."""

    health: Health[Id]
    revision: str
    at: float
    """When it was written."""


def deadline_start(*, applied: float, left_healthy: float | None, now: float) -> float:
    """Return when the deadline of an object began.

    Args:
        applied: `time` of our managedFields entry: it survives restarts.
        left_healthy: when this process saw the object leave Healthy, None if it did not.
        now: the time. A later start counts as now, since the API server's clock is another one.
    """
    return min(now, applied if left_healthy is None else max(applied, left_healthy))


def with_deadline(verdict: Verdict, *, since: float, now: float, deadline: float) -> Verdict:
    """Return the verdict, or Failed where it has been Progressing or Missing since `since` for `deadline` seconds."""
    waits = verdict.state in (State.PROGRESSING, State.MISSING) and verdict.deadline
    if not waits or now - since < deadline:
        return verdict
    return failed(str(Reason.PROGRESS_DEADLINE_EXCEEDED), _account(verdict))


def aggregate(verdicts: Iterable[tuple[Id, Verdict]], *, applied: bool) -> Health[Id]:
    """Return the health of a revision.

    Args:
        verdicts: on each of its objects, deadlines reckoned in; ids read as `Deployment foo/web`.
        applied: whether anything was applied at all; before, nothing is known.
    """
    pairs = list(verdicts)
    not_ready = sorted((pair for pair in pairs if pair[1].state is not State.HEALTHY), key=_severity)
    failures = [verdict for _, verdict in not_ready if verdict.state is State.FAILED]
    reason = _reason(not_ready, failures) if applied else Reason.NOT_INSTALLED
    return Health(
        status=_STATUS.get(reason, "False"),
        reason=reason,
        message=_message(not_ready) if applied else "nothing was applied yet",
        total=len(pairs),
        healthy=len(pairs) - len(not_ready),
        progressing=len(not_ready) - len(failures),
        failed=len(failures),
        not_ready=tuple(not_ready[:NOT_READY_ITEMS]),
        truncated=len(not_ready) > NOT_READY_ITEMS,
        settled=applied and not any(verdict.deadline for _, verdict in not_ready),
    )


def publish_after(
    health: Health[Id], published: Published[Id] | None, *, revision: str, fallen_since: float | None, now: float
) -> float | None:
    """Return in how many seconds to write a health to status: 0 is at once, None is not at all.

    Args:
        health: as it is.
        published: what status says; None: nothing yet.
        revision: the wanted one.
        fallen_since: when it was seen not to be Healthy any more, None where it has not been Healthy.
        now: the time.
    """
    if published is None or published.revision != revision:
        return 0.0
    if health == published.health:
        return None
    if _falls(published.health, health):
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
    return f"{worst}: {_account(verdict)}{more}"


def _account(verdict: Verdict) -> str:
    return f"{verdict.reason}: {verdict.message}" if verdict.message else verdict.reason


def _severity(pair: tuple[Id, Verdict]) -> tuple[bool, bool, bool, str]:
    """Order the worst first: what failed before what is late, what a deadline covers before what just waits."""
    identity, verdict = pair
    return verdict.state is not State.FAILED, _is_late(verdict), not verdict.deadline, str(identity)


def _is_late(verdict: Verdict) -> bool:
    return verdict.reason == str(Reason.PROGRESS_DEADLINE_EXCEEDED)
