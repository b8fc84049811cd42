"""The status made from the report of a pass: its conditions, and what it records, counts and shows. Pure.

Conditions are set here and nowhere else. A message is equal for an equal failure, so that an unchanged failure writes
status once. Times appear only in lastTransitionTime, which changes only with the status of its condition.

Not here: the history (history.py), Events (notes.py), and writing (writer.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import DECISIONS, OF_ACCOUNT, UNPACKED_REASONS, ConditionType, Reason, Retry
from rukpak.api.v1alpha2.status import (
    CONDITION_MESSAGE_LENGTH,
    DISPLAY_LENGTH,
    FAILING_ITEMS,
    LEFT_ITEMS,
    NAME_LENGTH,
    NOT_READY_ITEMS,
    NOT_READY_LENGTH,
    REASON_LENGTH,
    STARTED_ITEMS,
    STRAY_ITEMS,
    WARNING_ITEMS,
    WARNING_LENGTH,
    Condition,
    ConditionStatus,
    Display,
    NotReady,
    ObjectCounts,
    Pending,
    Pinned,
    Rollback,
    Stray,
    Wave,
)
from rukpak.api.v1alpha2.types import BundleDeployment, SourcePin, Spec, Status
from rukpak.controller.apply.crd_upgrade import is_about_upgrade
from rukpak.controller.apply.leftovers import describe_left
from rukpak.controller.apply.order import describe_awaited
from rukpak.controller.apply.ownership import Disposal, RemovalCause, dispose
from rukpak.controller.content.digests import digest_of_json
from rukpak.controller.content.limits import SHOWN, quote, shorten, visible
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import read_kinds
from rukpak.controller.observe.health.verdict import Health
from rukpak.controller.status.history import record, rollback_after
from rukpak.controller.status.report import (
    FAILED,
    Deletion,
    Report,
    describe_pins,
    list_drifted,
    list_some,
    short,
    what_strays_are,
)
from rukpak.controller.telemetry import InternalError

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
    last = deployment.status.conditions
    if isinstance(result, Deletion):
        reason, message = _progress_of_deletion(result)
        kept = _conditions(deployment, [_finding(each) for each in last if each.type in _KEPT_IN_DELETION], now)
    else:
        reason, message = result.reason, result.message
        kept = tuple(each for each in last if each.type not in _OF_PROGRESS)
    unready = [
        Finding(ConditionType.READY, "False", reason, message),
        Finding(ConditionType.RECONCILING, "True", reason, message),
    ]
    conditions = (*kept, *_conditions(deployment, unready, now))
    changes = {"observed_generation": deployment.metadata.generation, "conditions": conditions}
    return deployment.status.model_copy(update=changes)


def _after_report(deployment: BundleDeployment, report: Report, now: datetime) -> Status:
    changed = {
        "sources": report.sources,
        "last_handled_reconcile_at": report.handled_reconcile_at,
        "managed_state": report.managed_state,
        "managed_kinds": report.managed_kinds,
        "skipped_kinds": report.skipped_kinds,
        "started_jobs": report.started_jobs and report.started_jobs[:STARTED_ITEMS],
        "failing_groups": report.failing_groups and report.failing_groups[:FAILING_ITEMS],
        "leftovers": report.leftovers and report.leftovers[:LEFT_ITEMS],
        "strays": None if report.strays is None else _list_strays(report.strays),
    }
    status = deployment.status.model_copy(update={name: value for name, value in changed.items() if value is not None})
    wanted = report.wanted or status.revision
    is_installed = report.applied and report.revision and report.wanted in ("", report.revision)
    installed = report.revision if is_installed else status.installed_revision
    installed_sources = report.pins if is_installed and report.pins else status.installed_sources
    health = report.progress.shown if report.progress else None
    counts = _counts(report, health) if health else status.objects
    counts = counts.model_copy(
        update={"strays": status.objects.strays if report.strays is None else len(report.strays)}
    )
    after = status.model_copy(
        update={
            "observed_generation": deployment.metadata.generation,
            "install_namespace": report.install_namespace or status.install_namespace,
            "installed_sources": installed_sources,
            "conditions": _conditions(deployment, _findings(deployment, report), now),
            "revision": wanted,
            "installed_revision": installed,
            "pending": _pending(report, status),
            "pinned": pinned_after(deployment),
            "looked_up": status.looked_up if report.looked_up is None else report.looked_up,
            "wave": _wave(report, wanted, status),
            "rollback": rollback_after(deployment, report),
            "objects": counts,
            "display": _display(wanted, counts, installed_sources or _available(report, status)),
            "not_ready": _not_ready(health, status.managed_kinds) if health else status.not_ready,
            "not_ready_truncated": health.truncated if health else status.not_ready_truncated,
            "warnings": _warnings(deployment, report, status, now),
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


def _available(report: Report, status: Status) -> tuple[SourcePin, ...]:
    # A digest that the spec names is a pin, though there may be no such content.
    is_wrong = report.failure and report.failure.reason is Reason.DIGEST_MISMATCH
    return () if is_wrong else status.sources


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


def _list_strays(keys: Iterable[ObjectKey]) -> tuple[Stray, ...]:
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


def _warnings(deployment: BundleDeployment, report: Report, after: Status, now: datetime) -> tuple[str, ...]:
    before, derived = (list(_derived_warnings(status)) for status in (deployment.status, after))
    found = _lasting(deployment, report, now) if report.warnings is None else map(_shown, report.warnings)
    return tuple(dict.fromkeys([*(text for text in found if text not in before), *derived]))[:WARNING_ITEMS]


def _derived_warnings(status: Status) -> Iterator[str]:
    for group in status.failing_groups:
        yield _shown(f"API group {quote(group)}: discovery failed; repair or delete its APIService")
    yield from (_shown(describe_left(left)) for left in status.leftovers)


def _shown(text: str) -> str:
    return visible(text)[:WARNING_LENGTH]


# The most severe failure is shown: one that needs a person before one that clears automatically.
_SEVERITY = (Retry.PERMANENT, Retry.SLOW, Retry.TRANSIENT, Retry.WAIT, Retry.NONE)


_PEACE = "stop that client, or leave the field to it with spec.drift.ignore"
# The fields of the spec that lead to a revision.
_CONTENT = {"format", "sources", "config", "config_from", "processors"}


_KEPT_IN_DELETION = (ConditionType.UNPACKED, ConditionType.INSTALLED, ConditionType.HEALTHY)
"""Conditions that keep their last state during a deletion."""
_OF_PROGRESS = (ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED)
"""Conditions that a pass which a bug ended replaces; all others keep their last state."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One condition before it is compared with the previous one."""

    type: ConditionType
    status: ConditionStatus
    reason: Reason
    message: str = ""


def _progress_of_deletion(deletion: Deletion) -> tuple[Reason, str]:
    if deletion.error:
        return deletion.error.reason, deletion.error.message
    if deletion.handing_over:
        return Reason.DELETING, deletion.handing_over
    awaited = f"waiting for {list_some(deletion.awaited)}"
    if deletion.blocked and deletion.awaited:
        return Reason.DELETION_BLOCKED, f"{awaited}; resolve what holds them to continue"
    left = "1 object" if deletion.remaining == 1 else f"{deletion.remaining} objects"
    return Reason.DELETING, f"{left} left to delete{f'; {awaited}' if deletion.awaited else ''}"


def skipped_kinds(deployment: BundleDeployment, report: Report) -> tuple[str, ...]:
    """Return the kinds whose optional objects are skipped, according to this pass or else to status."""
    return deployment.status.skipped_kinds if report.skipped_kinds is None else report.skipped_kinds


def _findings(deployment: BundleDeployment, report: Report) -> list[Finding]:
    unpacked, installed, healthy = _unpacked(report), _installed(deployment, report), _healthy(deployment, report)
    hindrance = next((f for f in (unpacked, installed, healthy) if f.status != "True"), None)
    if hindrance and hindrance.reason is Reason.WAITING_FOR_WAVE and healthy.reason in FAILED:
        hindrance = healthy  # once an object that a wave waits for has failed, a person must act
    # A failed poll does not make what is installed unready: its pins are still in use (rule 1).
    is_ready = installed.status == healthy.status == "True"
    findings = [unpacked, installed, healthy, _ready(deployment, None if is_ready else hindrance, report)]
    findings += _work(deployment, hindrance, report)
    if rollback := rollback_after(deployment, report):
        findings.append(Finding(ConditionType.ROLLED_BACK, "True", Reason(rollback.reason), _rolled_back(rollback)))
    if pinned := deployment.spec.pinned_revision:
        until = f"until the rollback is undone: {_undo(deployment)}"
        message = f"revision {short(pinned)} is applied, whatever the sources lead to, {until}"
        findings.append(Finding(ConditionType.PINNED, "True", Reason.PINNED, message))
    if deployment.spec.paused:
        message = f"no object is changed until spec.paused is false{_handed_over(report)}"
        findings.append(Finding(ConditionType.PAUSED, "True", Reason.PAUSED, message))
    return findings + _drifted(deployment, report)


def _unpacked(report: Report) -> Finding:
    if failure := report.failure:
        # Without its account no Secret of a source can be read.
        lacks_account = failure.reason in OF_ACCOUNT and not report.wanted
        # A plug-in of any type may fail with this reason.
        is_source = failure.reason is Reason.PLUGIN_FAILED and failure.place.startswith("spec.sources")
        if failure.reason in (*UNPACKED_REASONS, Reason.INTERNAL_ERROR) or lacks_account or is_source:
            return Finding(ConditionType.UNPACKED, "False", failure.reason, failure.message)
    if report.fetching and not report.is_renewed:
        return Finding(ConditionType.UNPACKED, "False", Reason.FETCHING, report.fetching)
    if failure := report.unkept or report.poll_failure:
        return Finding(ConditionType.UNPACKED, "False", failure.reason, failure.message)
    message = "the content of every source is available or no longer needed"
    return Finding(ConditionType.UNPACKED, "True", Reason.UNPACKED, message)


def _installed(deployment: BundleDeployment, report: Report) -> Finding:  # noqa: PLR0911 - one row of the table each
    def _no(reason: Reason, message: str) -> Finding:
        before = "" if reason is Reason.ROLLED_BACK else _before(deployment)  # its message names both revisions
        return Finding(ConditionType.INSTALLED, "False", reason, f"{before}{message}")

    if report.failure:
        return _no(report.failure.reason, f"{_in_full(deployment, report)}{report.failure.message}")
    if report.fetching and not report.is_renewed:
        return _no(Reason.FETCHING, report.fetching)
    if report.unknown:
        return _no(Reason.APPLYING, f"waiting for the first list of {list_some(report.unknown)}")
    if error := _worst(outcome.error for outcome in report.outcomes):
        return _no(error.reason, f"{_in_part(deployment, report)}{error.message}{_awaited(error, report)}")
    if instead := _kept_instead(deployment, report):
        return _no(instead.reason, instead.message)
    if report.applied or (deployment.spec.paused and report.wanted == deployment.status.installed_revision):
        message = f"revision {short(report.wanted)} is applied"
        if skipped := skipped_kinds(deployment, report):
            message += f"; skipped optional objects of kinds that the cluster does not serve: {list_some(skipped)}"
        message += _retained(deployment, report) + _handed_over(report)
        return Finding(ConditionType.INSTALLED, "True", Reason.INSTALLED, message)
    if deployment.spec.paused:
        return _no(
            Reason.PAUSED_WITH_CHANGES, f"revision {short(report.wanted)} will be applied when spec.paused is false"
        )
    return _no(Reason.APPLYING, f"applying revision {short(report.wanted)}")


def _kept_instead(deployment: BundleDeployment, report: Report) -> BundleError | None:
    if report.held:
        return report.held.error
    rollback = rollback_after(deployment, report)
    if rollback and report.wanted == rollback.to_revision:
        return BundleError(Reason.ROLLED_BACK, _rolled_back(rollback))
    if report.applied and is_changed_since_pin(deployment):
        problem = "what to install was changed in the spec after this was set, and is not applied"
        remedy = f"apply the change ({_undo(deployment)}), or revert it"
        return BundleError(Reason.PINNED_WITH_CHANGES, f"spec.pinnedRevision: {problem}; {remedy}")
    return None


def _undo(deployment: BundleDeployment) -> str:
    return f"rukpak rollback {deployment.metadata.name} --undo"


def pinned_after(deployment: BundleDeployment) -> Pinned | None:
    """Return which revision is pinned, and what the spec said when a pass first saw that."""
    revision, known = deployment.spec.pinned_revision, deployment.status.pinned
    if known and known.revision == revision:
        return known
    return Pinned(revision=revision, content=_digest_of_content(deployment.spec)) if revision else None


def is_changed_since_pin(deployment: BundleDeployment) -> bool:
    """Whether the spec leads to something else than when its revision was pinned, so that it is not what runs."""
    pinned = pinned_after(deployment)
    return pinned is not None and pinned.content != _digest_of_content(deployment.spec)


def _digest_of_content(spec: Spec) -> str:
    return digest_of_json(spec.model_dump(mode="json", by_alias=True, include=_CONTENT))


def _rolled_back(rollback: Rollback) -> str:
    before, after = short(rollback.from_revision), short(rollback.to_revision)
    end = "until the spec or the pins of the sources change"
    return f"rolled back from revision {before}, which is not retried {end}, to revision {after}: {rollback.message}"


def _before(deployment: BundleDeployment) -> str:
    installed = deployment.status.installed_revision
    return f"revision {short(installed)} is installed; " if installed else ""


def _in_part(deployment: BundleDeployment, report: Report) -> str:
    if deployment.status.installed_revision in ("", report.wanted) or not report.wanted:
        return ""
    return f"revision {short(report.wanted)} is only partly applied: "


def _in_full(deployment: BundleDeployment, report: Report) -> str:
    # A hook after it has failed, for instance.
    is_begun = report.wanted == report.revision != deployment.status.installed_revision != ""
    if not is_begun or not report.outcomes or any(outcome.error for outcome in report.outcomes):
        return ""
    return f"all objects of revision {short(report.wanted)} are applied: "


def _awaited(error: BundleError, report: Report) -> str:
    shown = report.progress.shown.awaited if report.progress else ""
    return f": {shown}" if shown and error.reason is Reason.WAITING_FOR_WAVE else ""


def _retained(deployment: BundleDeployment, report: Report) -> str:
    if deployment.spec.prune != "Never" or not report.awaiting_prune:
        return ""
    return f"; kept from older revisions (spec.prune is Never): {list_some(r.key for r in report.awaiting_prune)}"


def _handed_over(report: Report) -> str:
    counts = Counter(report.handed_over.values())
    told = [f"{count} to {names.KIND} {quote(taker)}" for taker, count in sorted(counts.items())]
    return f"; handed over: {', '.join(told)}" if told else ""


def _healthy(deployment: BundleDeployment, report: Report) -> Finding:
    if report.progress is not None:
        health = report.progress.shown
        return Finding(ConditionType.HEALTHY, health.status, health.reason, health.message)
    if report.is_lost:
        problem = f"revision {short(deployment.status.installed_revision)} is not stored any more"
        message = f"{problem}, and it is not known which objects it has until it can be rendered again"
        return Finding(ConditionType.HEALTHY, "Unknown", Reason.REVISION_LOST, message)
    last = deployment.status.condition(ConditionType.HEALTHY)
    if last and deployment.status.installed_revision:
        return _finding(last)
    return Finding(ConditionType.HEALTHY, "Unknown", Reason.NOT_INSTALLED, "nothing has been applied yet")


def _ready(deployment: BundleDeployment, hindrance: Finding | None, report: Report) -> Finding:
    if hindrance is None:
        message = f"revision {short(report.wanted)} is installed and healthy"
        if deployment.spec.pinned_revision:
            message += f"; new content and config are ignored until the rollback is undone: {_undo(deployment)}"
        return Finding(ConditionType.READY, "True", Reason.READY, message)
    return Finding(ConditionType.READY, "False", hindrance.reason, hindrance.message)


def _work(deployment: BundleDeployment, hindrance: Finding | None, report: Report) -> list[Finding]:
    is_current = report.applied and not (report.failure or report.fetching)
    pending = []
    if report.is_renewed:
        pending = [Finding(ConditionType.RECONCILING, "True", Reason.FETCHING, report.fetching)]
    is_left = any(removal.error for removal in report.removals)  # the finished hooks of a revision, too
    if is_current and (is_left or (report.awaiting_prune and deployment.spec.prune != "Never")):
        pending = [Finding(ConditionType.RECONCILING, "True", Reason.PRUNE_PENDING, _prune_message(report))]
    # Healthy shows what it is waiting for; and whoever has denied a revision waits for nothing.
    is_awaited = pending and hindrance and hindrance.reason is Reason.PROGRESSING
    is_decided = hindrance is not None and hindrance.reason in DECISIONS and not report.failure
    if hindrance is None or is_awaited or is_decided:
        return pending
    stalls = hindrance.reason.retry.stalls or hindrance.reason in FAILED
    kind = ConditionType.STALLED if stalls else ConditionType.RECONCILING
    return [Finding(kind, "True", hindrance.reason, hindrance.message), *(pending if stalls else [])]


def _prune_message(report: Report) -> str:
    if error := _worst(removal.error for removal in report.removals):
        return error.message
    staying = [record for record in report.awaiting_prune if not record.deleting]
    released = [record for record in staying if dispose(record, RemovalCause.PRUNE) is Disposal.RELEASE]
    kept = list_some(record.key for record in staying if record not in released)
    held = list_some(describe_awaited(record) for record in report.awaiting_prune if record.deleting)
    texts = []
    if kept:
        texts = [f"{kept}: will be pruned when the new revision is healthy; set spec.prune to AfterApply to prune now"]
    if released:
        what = "stays, and will be released when the new revision is healthy; if that needs what it has, delete it"
        texts.append(f"{list_some(record.key for record in released)}: {what}")
    if held:
        texts.append(f"{held}: pruned, but still being deleted; resolve what holds it if it stays")
    return "; ".join(texts)


def _drifted(deployment: BundleDeployment, report: Report) -> list[Finding]:
    unrepaired = report.unrepaired_conflicts
    if report.drifted and deployment.spec.paused:
        reason, problem = Reason.PAUSED, "modified; will be repaired when spec.paused is false"
    elif report.drifted:
        is_report_only = deployment.spec.drift.mode == "Report"
        problem = f"modified; not repaired{' (spec.drift.mode is Report)' if is_report_only else ''}"
        reason = Reason.REPORT_ONLY
    elif unrepaired:
        reason = Reason.DRIFT_CONFLICT
        problem = f"the object is repaired repeatedly, but another client keeps changing it; {_PEACE}"
    elif report.conflicts:
        reason = Reason.DRIFT_CONFLICT
        problem = f"another client has changed the object repeatedly; it is repaired; {_PEACE}"
    else:
        return _strays(deployment, report)
    more = "; status.strays names objects that no revision contains" if report.strays else ""
    about = f": {problem}{more}"
    shown = list_drifted(report.drifted or unrepaired or report.conflicts, CONDITION_MESSAGE_LENGTH - len(about))
    return [Finding(ConditionType.DRIFTED, "True", reason, f"{shown}{about}")]


def _strays(deployment: BundleDeployment, report: Report) -> list[Finding]:
    if report.strays is None:
        last = deployment.status.condition(ConditionType.DRIFTED)
        return [_finding(last)] if last and last.reason == Reason.STRAYS else []
    if not report.strays:
        return []
    message = f"{list_some(report.strays, SHOWN)}: {what_strays_are(deployment.metadata.name)}"
    return [Finding(ConditionType.DRIFTED, "True", Reason.STRAYS, message)]


def _worst(errors: Iterable[BundleError | None]) -> BundleError | None:
    found = list({(error.reason, error.message): error for error in errors if error}.values())
    if not found:
        return None
    worst = min(found, key=lambda error: _SEVERITY.index(error.reason.retry))
    message = worst.message if len(found) == 1 else f"{worst.message} (and {len(found) - 1} more)"
    return BundleError(worst.reason, message, retry_after=worst.retry_after)


def _conditions(deployment: BundleDeployment, findings: Iterable[Finding], now: datetime) -> tuple[Condition, ...]:
    last = {condition.type: condition for condition in deployment.status.conditions}
    generation = deployment.metadata.generation
    return tuple(_condition(finding, last.get(finding.type.value), generation, now) for finding in findings)


def _condition(finding: Finding, last: Condition | None, generation: int, now: datetime) -> Condition:
    changed = last is None or last.status != finding.status
    return Condition(
        type=finding.type.value,
        status=finding.status,
        reason=finding.reason.value,
        message=shorten(visible(" ".join(finding.message.split())), CONDITION_MESSAGE_LENGTH),
        observed_generation=generation,
        last_transition_time=now if changed or last is None else last.last_transition_time,
    )


def _finding(condition: Condition) -> Finding:
    return Finding(ConditionType(condition.type), condition.status, Reason(condition.reason), condition.message)
