"""When a revision has failed for good, so that waiting does not help. Pure.

Not here: what is done about it (rollback.py).
"""

from __future__ import annotations

from datetime import datetime

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.status import HistoryEntry
from controller.status.report import Report

_UNHEALTHY = (Reason.FAILED, Reason.PROGRESS_DEADLINE_EXCEEDED)


def find_failure(report: Report, entry: HistoryEntry, deadline: float, now: datetime) -> BundleError | None:
    """Return why a revision that is being applied, or was applied last, has failed; None if it has not.

    A hook or an object that has failed counts immediately, an object that was refused after the deadline.

    Args:
        report: of a pass.
        entry: of the revision.
        deadline: `spec.progressDeadline` in seconds.
        now: the time of day.
    """
    if report.failure and report.failure.reason is Reason.HOOK_FAILED and report.revision == entry.revision:
        return report.failure
    if report.fetching or report.failure or report.revision != entry.revision:
        return None
    refusals = [outcome.error for outcome in report.outcomes if outcome.error and outcome.error.reason.retry.stalls]
    if refusals and seconds_to_deadline(entry, deadline, now) <= 0:
        return refusals[0]
    health = report.progress.shown if report.progress else None
    # Objects that were refused are among those that count as failed.
    if health and health.reason in _UNHEALTHY and health.failed > len(refusals):
        return BundleError(health.reason, health.message)
    return None


def seconds_to_deadline(entry: HistoryEntry, deadline: float, now: datetime) -> float:
    """Return the seconds until objects of a revision that are refused count as failed; not positive if they do."""
    return deadline - (now - entry.started_at).total_seconds() if entry.started_at else 0.0
