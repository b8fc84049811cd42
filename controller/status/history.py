"""The history of a BundleDeployment, and the rollback of an upgrade that has failed. Pure.

An entry of the history is made when a revision is about to be applied, and changes only with a status that is written
anyway. A rollback is a decision about which revision is wanted, and nothing else: that revision is applied, repaired
and pruned for as any other one.

Not here: where revisions are kept (revisions/store.py), how the wanted one is found (reconcile/finding.py), and the
hooks of a rollback (reconcile/hook_phases.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.status import CONDITION_MESSAGE_LENGTH, HISTORY_LENGTH, HistoryEntry, Rollback
from rukpak.api.v1alpha2.types import BundleDeployment, SourcePin, Spec, Status
from rukpak.controller.content.digests import digest_of_json
from rukpak.controller.content.limits import shorten, visible
from rukpak.controller.status.report import Report, describe_pins, find_failure, seconds_to_deadline, short


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
    return tuple(choose(stored, current, spec.kept_revisions))


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
    is_applying = bool(after.managed_kinds and not after.managed_state)
    is_applied = report.applied and report.wanted == report.revision == after.revision
    return bool(after.revision) and (is_applying or (is_applied and after.installed_revision == after.revision))


def _begin(deployment: BundleDeployment, report: Report, after: Status, now: datetime) -> tuple[HistoryEntry, ...]:
    before = deployment.status
    earlier = list(before.history or _recall(before))
    known = next((each for each in earlier if each.revision == after.revision), None)
    if earlier:
        earlier[0] = _end(earlier[0], deployment, after, is_known=known is not None)
    entry = HistoryEntry(
        revision=after.revision,
        bundle=report.bundle,
        sources=known.sources if known else describe_pins(report.pins or after.sources)[:HISTORY_LENGTH],
        started_at=now,
    )
    return (entry, *(each for each in earlier if each.revision != after.revision))


def _end(entry: HistoryEntry, deployment: BundleDeployment, after: Status, *, is_known: bool) -> HistoryEntry:
    # What it was last waiting for is the cause that somebody looks for afterwards; it was neither healthy nor failed.
    healthy = None if entry.outcome else deployment.status.condition("Healthy")
    cause = f"{healthy.reason}: {healthy.message}" if healthy and healthy.status != "True" else ""
    if is_known and deployment.spec.pinned_revision == after.revision:
        pinned = f"spec.pinnedRevision names revision {short(after.revision)}"
        return _conclude(entry, "RolledBack", entry.message or "; ".join(filter(None, (pinned, cause))))
    return entry if entry.outcome else _conclude(entry, "Superseded", cause)


def _conclude(entry: HistoryEntry, outcome: str, message: str) -> HistoryEntry:
    return entry.model_copy(update={"outcome": outcome, "message": _one_line(message, HISTORY_LENGTH)})


def _recall(status: Status) -> list[HistoryEntry]:
    if not status.installed_revision:
        return []
    healthy = status.condition("Healthy")
    is_healthy = healthy is not None and healthy.status == "True"
    return [HistoryEntry(revision=status.installed_revision, outcome="Healthy" if is_healthy else "Superseded")]


def _judge(entry: HistoryEntry, report: Report, now: datetime) -> HistoryEntry:
    """Return the entry of the desired revision with what is known about it now.

    Once it was healthy, that remains, unless its containers do not stay (`Progress.crashes`).
    """
    if report.rollback and report.rollback.from_revision == entry.revision:
        return _conclude(entry, "RolledBack", report.rollback.message)
    is_applied = report.applied and report.revision == entry.revision
    if is_applied and entry.installed_at is None:
        entry = entry.model_copy(update={"installed_at": now})
    if entry.outcome == "RolledBack" or (entry.outcome == "Healthy" and not _crashes(report)):
        return entry
    if is_applied and report.progress and report.progress.shown.status == "True":
        return _conclude(entry, "Healthy", "")
    # Nothing is done about it here, so that refused objects count at once: they may never be applied.
    failure = find_failure(report, entry, 0.0, now)
    if failure is None or entry.outcome == "Failed":
        return entry
    return _conclude(entry, "Failed", failure.message)


def _crashes(report: Report) -> bool:
    return report.progress is not None and report.progress.crashes


def _one_line(message: str, most: int) -> str:
    return shorten(visible(" ".join(message.split())), most)


def find_rollback(deployment: BundleDeployment, pins: Iterable[SourcePin]) -> Rollback | None:
    """Return the rollback that status records, if it still counts.

    Args:
        deployment: with the status that records it.
        pins: of the sources now.
    """
    recorded, history = deployment.status.rollback, deployment.status.history
    if recorded is None or deployment.spec.paused or deployment.spec.pinned_revision:
        return None
    is_same = (recorded.generation, recorded.pins) == (deployment.metadata.generation, digest_of_pins(pins))
    return recorded if is_same and any(each.revision == recorded.to_revision for each in history) else None


def rollback_after(deployment: BundleDeployment, report: Report) -> Rollback | None:
    """Return the rollback that counts after a pass."""
    pins = deployment.status.sources if report.sources is None else report.sources
    return report.rollback or find_rollback(deployment, pins)


def begin_rollback(deployment: BundleDeployment, report: Report, now: datetime) -> Rollback | None:
    """Return the rollback of an upgrade that has failed in a pass; None if it has not, or is not to be rolled back."""
    failed = _find_failed(deployment, report, now)
    if failed is None or rollback_after(deployment, report):
        return None
    digest, failure = failed
    target = find_target(deployment.status.history, digest)
    if target is None:
        return None
    return Rollback(
        from_revision=digest,
        to_revision=target,
        reason=failure.reason.value,
        message=_one_line(failure.message, CONDITION_MESSAGE_LENGTH),
        generation=deployment.metadata.generation,
        pins=digest_of_pins(deployment.status.sources if report.sources is None else report.sources),
    )


def find_target(history: Iterable[HistoryEntry], failed: str) -> str | None:
    """Return the last revision that was healthy; None if there is none since the last rollback.

    Args:
        history: newest first.
        failed: digest of the revision that has failed.
    """
    for each in history:
        if each.revision != failed and each.outcome in ("Healthy", "RolledBack"):
            return each.revision if each.outcome == "Healthy" else None
    return None


def seconds_to_rollback(deployment: BundleDeployment, report: Report, now: datetime) -> float | None:
    """Return the seconds until a pass may begin a rollback without an event; None if nothing is to be rolled back."""
    if report.rollback:
        return 0.0
    entry = None if report.failure or report.fetching else _find_upgrade(deployment, report)
    is_refused = any(outcome.error and outcome.error.reason.retry.stalls for outcome in report.outcomes)
    if entry is None or not is_refused or find_target(deployment.status.history, entry.revision) is None:
        return None
    # Not positive if the deadline has expired during the pass: the next one begins the rollback.
    return max(seconds_to_deadline(report, entry, deployment.spec.progress_deadline_seconds, now), 0.0)


def digest_of_pins(pins: Iterable[SourcePin]) -> str:
    """Return the digest of what sources were resolved to."""
    return digest_of_json([[pin.destination, pin.spec_digest, pin.digest] for pin in pins])


def _find_failed(deployment: BundleDeployment, report: Report, now: datetime) -> tuple[str, BundleError] | None:
    failure = report.failure
    is_before = failure is not None and failure.reason is Reason.HOOK_FAILED and report.wanted != report.revision
    if failure and is_before and report.wanted and _may_roll_back(deployment.spec, deployment.status):
        return report.wanted, failure
    entry = _find_upgrade(deployment, report)
    if entry is None:
        return None
    failure = find_failure(report, entry, deployment.spec.progress_deadline_seconds, now)
    return (entry.revision, failure) if failure else None


def _find_upgrade(deployment: BundleDeployment, report: Report) -> HistoryEntry | None:
    if report.held or not _may_roll_back(deployment.spec, deployment.status):
        return None
    entry = next(iter(deployment.status.history), None)
    if entry is None or not report.wanted == report.revision == entry.revision:
        return None
    return entry if _crashes(report) or entry.outcome in (None, "Failed") else None


def _may_roll_back(spec: Spec, status: Status) -> bool:
    is_asked = spec.on_failure.action == "RollBack" and not spec.paused and not spec.pinned_revision
    return is_asked and bool(status.installed_revision)
