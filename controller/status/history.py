"""The history of a BundleDeployment: which revisions were applied, and what became of them. Pure.

An entry is made when a revision is about to be applied, and changes only with a status that is written anyway. Not
here: where the revisions are kept (revisions/storage/store.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from api.v1alpha2.status import HISTORY_LENGTH, HistoryEntry
from api.v1alpha2.types import BundleDeployment, Status
from controller.content.limits import visible
from controller.status.failure import find_failure
from controller.status.report import Report
from controller.status.texts import describe_pins, short


def record(deployment: BundleDeployment, report: Report, after: Status, now: datetime) -> tuple[HistoryEntry, ...]:
    """Return the history after a pass.

    Args:
        deployment: with the status before.
        report: of the pass.
        after: the status after it, but for the history.
        now: the time of day.
    """
    entries, spec = deployment.status.history, deployment.spec
    is_current = bool(entries) and entries[0].revision == after.revision
    is_retried = is_current and entries[0].outcome == "RolledBack" and after.rollback is None
    if _is_begun(after, report) and (is_retried or not is_current):
        entries, is_current = _begin(deployment, report, after, now), True
    if is_current:
        entries = (_judge(entries[0], report, now), *entries[1:])
    current = (after.revision, after.installed_revision)
    stored = [each for each in entries if each.revision in current or each.revision not in report.lost]
    return tuple(choose(stored, current, spec.revision_history_limit))


def choose(entries: Iterable[HistoryEntry], current: Collection[str], limit: int) -> list[HistoryEntry]:
    """Return the entries that are kept: the newest, and one that was healthy as long as any older one is kept.

    Args:
        entries: newest first.
        current: the installed and the desired revision, which do not count.
        limit: `spec.revisionHistoryLimit`.
    """
    found = list(entries)
    others = [each for each in found if each.revision not in current]
    kept = others[:limit]
    healthy = next((each for each in others if each.outcome == "Healthy"), None)
    if kept and healthy and healthy not in kept:
        kept[-1] = healthy
    return [each for each in found if each.revision in current or each in kept]


def _is_begun(after: Status, report: Report) -> bool:
    """Whether the desired revision is, or was just, applied at least in part."""
    is_applying = bool(after.managed_kinds and not after.managed_state)
    is_applied = report.applied and report.wanted == report.revision == after.revision
    return bool(after.revision) and (is_applying or (is_applied and after.installed_revision == after.revision))


def _begin(deployment: BundleDeployment, report: Report, after: Status, now: datetime) -> tuple[HistoryEntry, ...]:
    """Return the history with an entry for the desired revision first; an older one of the same revision is dropped."""
    before = deployment.status
    earlier = list(before.history or _recall(before))
    known = next((each for each in earlier if each.revision == after.revision), None)
    if earlier:
        earlier[0] = _end(earlier[0], deployment, after, is_known=known is not None)
    entry = HistoryEntry(
        revision=after.revision,
        sources=known.sources if known else describe_pins(report.pins or after.sources)[:HISTORY_LENGTH],
        started_at=now,
    )
    return (entry, *(each for each in earlier if each.revision != after.revision))


def _end(entry: HistoryEntry, deployment: BundleDeployment, after: Status, *, is_known: bool) -> HistoryEntry:
    """Return the entry of a revision that is replaced by the desired one."""
    if is_known and deployment.spec.pinned_revision == after.revision:
        message = f"spec.pinnedRevision names revision {short(after.revision)}"
        return entry.model_copy(update={"outcome": "RolledBack", "message": entry.message or message})
    return entry if entry.outcome else entry.model_copy(update={"outcome": "Superseded"})


def _recall(status: Status) -> list[HistoryEntry]:
    """Return the entry of a revision that was installed before there was a history."""
    if not status.installed_revision:
        return []
    healthy = status.condition("Healthy")
    is_healthy = healthy is not None and healthy.status == "True"
    return [HistoryEntry(revision=status.installed_revision, outcome="Healthy" if is_healthy else "Superseded")]


def _judge(entry: HistoryEntry, report: Report, now: datetime) -> HistoryEntry:
    """Return the entry of the desired revision with what is known about it now. Once it was healthy, that remains."""
    if report.rollback and report.rollback.from_revision == entry.revision:
        return entry.model_copy(update={"outcome": "RolledBack", "message": shorten(report.rollback.message)})
    is_applied = report.applied and report.revision == entry.revision
    if is_applied and entry.installed_at is None:
        entry = entry.model_copy(update={"installed_at": now})
    if entry.outcome in ("Healthy", "RolledBack"):
        return entry
    if is_applied and report.progress and report.progress.shown.status == "True":
        return entry.model_copy(update={"outcome": "Healthy", "message": ""})
    # Nothing is done about it here, so that refused objects count at once: they may never be applied.
    failure = find_failure(report, entry, 0.0, now)
    if failure is None or entry.outcome == "Failed":
        return entry
    return entry.model_copy(update={"outcome": "Failed", "message": shorten(failure.message)})


def shorten(message: str) -> str:
    """Return a message as the history keeps it."""
    return visible(" ".join(message.split()))[:HISTORY_LENGTH]
