"""Rolling back an upgrade that has failed: when, to which revision, and until when. Pure.

A rollback is a decision about which revision is wanted, and nothing else: that revision is applied, repaired and pruned
for as any other one. Not here: how the wanted revision is found (revisions/finder.py), and its hooks
(reconcile/hooks.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.status import CONDITION_MESSAGE_LENGTH, HistoryEntry
from api.v1alpha2.types import BundleDeployment, Rollback, SourcePin, Spec, Status
from controller.content.digests import digest_of_json
from controller.content.limits import visible
from controller.status.failure import find_failure, seconds_to_deadline
from controller.status.report import Report


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
        message=visible(" ".join(failure.message.split()))[:CONDITION_MESSAGE_LENGTH],
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
    return max(seconds_to_deadline(entry, deployment.spec.progress_deadline_seconds, now), 0.0)


def digest_of_pins(pins: Iterable[SourcePin]) -> str:
    """Return the digest of what sources were resolved to."""
    return digest_of_json([[pin.destination, pin.spec_digest, pin.digest] for pin in pins])


def _find_failed(deployment: BundleDeployment, report: Report, now: datetime) -> tuple[str, BundleError] | None:
    """Return the digest of an upgrade that has failed, and why."""
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
    """Return the entry of an upgrade whose outcome is not known yet; None if there is none."""
    if report.held or not _may_roll_back(deployment.spec, deployment.status):
        return None
    entry = next(iter(deployment.status.history), None)
    is_wanted = entry is not None and report.wanted == report.revision == entry.revision
    return entry if is_wanted and entry and entry.outcome in (None, "Failed") else None


def _may_roll_back(spec: Spec, status: Status) -> bool:
    is_asked = spec.on_failure.action == "RollBack" and not spec.paused and not spec.pinned_revision
    return is_asked and bool(status.installed_revision)
