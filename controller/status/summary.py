"""The status made from the report of a pass: what it records, counts and shows. Pure.

Not here: conditions (conditions.py), the history (history.py), Events (notes.py), and writing (writer.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice

from rukpak.api.v1alpha2.status import (
    DISPLAY_LENGTH,
    NAME_LENGTH,
    NOT_READY_ITEMS,
    NOT_READY_LENGTH,
    REASON_LENGTH,
    STARTED_ITEMS,
    STRAY_ITEMS,
    WARNING_ITEMS,
    WARNING_LENGTH,
    Wave,
)
from rukpak.api.v1alpha2.types import (
    BundleDeployment,
    Display,
    NotReady,
    ObjectCounts,
    Pending,
    SourcePin,
    Status,
    Stray,
)
from rukpak.controller.apply.crd_upgrade import is_about_upgrade
from rukpak.controller.bugs import InternalError
from rukpak.controller.content.limits import visible
from rukpak.controller.kube.resources import read_kinds
from rukpak.controller.observe.health.verdict import Health
from rukpak.controller.observe.records import ObjectKey
from rukpak.controller.status.conditions import (
    conditions_of,
    conditions_of_bug,
    conditions_of_deletion,
    pinned_after,
    skipped_kinds,
)
from rukpak.controller.status.history import record, rollback_after
from rukpak.controller.status.report import Deletion, Report, describe_pins, short

UPGRADE_WARNING_SECONDS = 3600.0
"""How long a warning about an upgrade of a definition is shown after it: as long as its Event is kept."""


def summarize(deployment: BundleDeployment, result: Report | Deletion | InternalError, now: datetime) -> Status:
    """Return the status after a pass, or after what it has done so far.

    Args:
        deployment: with the status before.
        result: of the pass; what a deletion or a bug does not say is as it was.
        now: the time of day.
    """
    if isinstance(result, Report):
        return _after_report(deployment, result, now)
    conditions = (
        conditions_of_bug(deployment, result, now)
        if isinstance(result, InternalError)
        else conditions_of_deletion(deployment, result, now)
    )
    changes = {"observed_generation": deployment.metadata.generation, "conditions": conditions}
    return deployment.status.model_copy(update=changes)


def _after_report(deployment: BundleDeployment, report: Report, now: datetime) -> Status:
    status = deployment.status
    sources = status.sources if report.sources is None else report.sources
    handled = report.handled_reconcile_at
    wanted = report.wanted or status.revision
    is_installed = report.applied and report.revision and report.wanted in ("", report.revision)
    installed = report.revision if is_installed else status.installed_revision
    installed_sources = report.pins if is_installed and report.pins else status.installed_sources
    health = report.progress.shown if report.progress else None
    strays = status.strays if report.strays is None else _strays(report.strays)
    counts = _counts(report, health) if health else status.objects
    counts = counts.model_copy(
        update={"strays": status.objects.strays if report.strays is None else len(report.strays)}
    )
    after = status.model_copy(
        update={
            "observed_generation": deployment.metadata.generation,
            "install_namespace": report.install_namespace or status.install_namespace,
            "sources": sources,
            "installed_sources": installed_sources,
            "last_handled_reconcile_at": status.last_handled_reconcile_at if handled is None else handled,
            "conditions": conditions_of(deployment, report, now),
            "revision": wanted,
            "installed_revision": installed,
            "pending": _pending(report, status),
            "pinned": pinned_after(deployment),
            "looked_up": status.looked_up if report.looked_up is None else report.looked_up,
            "wave": _wave(report, wanted, status),
            "rollback": rollback_after(deployment, report),
            "managed_state": report.managed_state,
            "managed_kinds": report.managed_kinds,
            "skipped_kinds": skipped_kinds(deployment, report),
            "started_jobs": status.started_jobs if report.started_jobs is None else report.started_jobs[:STARTED_ITEMS],
            "objects": counts,
            "display": _display(wanted, counts, installed_sources or sources),
            "strays": strays,
            "not_ready": _not_ready(health, report.managed_kinds) if health else status.not_ready,
            "not_ready_truncated": health.truncated if health else status.not_ready_truncated,
            "warnings": _lasting(deployment, report, now) if report.warnings is None else _warnings(report.warnings),
        }
    )
    return after.model_copy(update={"history": record(deployment, report, after, now)})


def _wave(report: Report, wanted: str, status: Status) -> Wave | None:
    wave = report.wave or status.wave
    return None if report.applied or wave is None or wave.revision != wanted else wave


def _pending(report: Report, status: Status) -> Pending | None:
    if report.held is None:
        return status.pending if report.fetching else None
    return report.held.pending


def _counts(report: Report, health: Health[ObjectKey]) -> ObjectCounts:
    return ObjectCounts(
        total=health.total,
        healthy=health.healthy,
        progressing=health.progressing,
        failed=health.failed,
        drifted=len({drifted.key for drifted in (*report.drifted, *report.unrepaired_conflicts)}),
        retained=len(report.awaiting_prune),
        handed_over=len(report.handed_over),
    )


def _display(revision: str, counts: ObjectCounts, pins: Iterable[SourcePin]) -> Display:
    sources = describe_pins(pins)[:DISPLAY_LENGTH]
    return Display(revision=short(revision), objects=f"{counts.healthy}/{counts.total}", sources=sources)


def _not_ready(health: Health[ObjectKey], managed_kinds: Iterable[str]) -> tuple[NotReady, ...]:
    versions = {(kind.group, kind.kind): kind.api_version for kind in read_kinds(managed_kinds)}

    def _item(key: ObjectKey, reason: str, message: str) -> NotReady:
        return NotReady(
            api_version=versions.get((key.group, key.kind), key.group or "v1"),
            kind=key.kind,
            namespace=key.namespace,
            name=key.name[:NAME_LENGTH],  # the API server may have refused a longer one
            reason=visible(reason)[:REASON_LENGTH],
            message=visible(message)[:NOT_READY_LENGTH],
        )

    return tuple(_item(key, verdict.reason, verdict.text) for key, verdict in health.not_ready[:NOT_READY_ITEMS])


def _strays(keys: Iterable[ObjectKey]) -> tuple[Stray, ...]:
    return tuple(
        Stray(group=key.group, kind=key.kind, namespace=key.namespace, name=key.name[:NAME_LENGTH])
        for key in islice(keys, STRAY_ITEMS)
    )


def _lasting(deployment: BundleDeployment, report: Report, now: datetime) -> tuple[str, ...]:
    status = deployment.status
    entry = next(iter(status.history), None)
    is_old = entry and entry.installed_at and (now - entry.installed_at).total_seconds() >= UPGRADE_WARNING_SECONDS
    is_new = deployment.metadata.generation != status.observed_generation
    is_requested = report.handled_reconcile_at not in (None, status.last_handled_reconcile_at)
    if not (is_old or is_new or is_requested):
        return status.warnings
    return tuple(text for text in status.warnings if not is_about_upgrade(text))


def _warnings(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(visible(text)[:WARNING_LENGTH] for text in islice(texts, WARNING_ITEMS))
