"""From what a pass found to conditions. Pure: conditions are set here and nowhere else.

A message is equal for an equal failure, so that an unchanged failure writes status once; times are in
lastTransitionTime only, and that moves only when a condition changes its status.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from api.errors import BundleError
from api.v1alpha2.conditions import UNPACKED_REASONS, ConditionType, Reason, Retry
from api.v1alpha2.status import CONDITION_MESSAGE_LENGTH, ConditionStatus
from api.v1alpha2.types import BundleDeployment, Condition
from controller.content.limits import visible
from controller.status.report import Deletion, Report
from controller.status.texts import list_some, short

# The most severe failure speaks: one that a person has to act on before one that ends by itself.
_SEVERITY = (Retry.PERMANENT, Retry.SLOW, Retry.TRANSIENT, Retry.WAIT, Retry.NONE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One condition before it is compared with the last one."""

    type: ConditionType
    status: ConditionStatus
    reason: Reason
    message: str = ""


def conditions_of(deployment: BundleDeployment, report: Report, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions after a pass."""
    return _conditions(deployment, _findings(deployment, report), now)


def conditions_of_deletion(deployment: BundleDeployment, deletion: Deletion, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions while a BundleDeployment is being deleted: those of what is installed stay as they are."""
    reason = Reason.DELETION_BLOCKED if deletion.blockers else Reason.DELETING
    left = "1 object is left" if deletion.remaining == 1 else f"{deletion.remaining} objects are left"
    message = f"waits for {deletion.blockers}" if deletion.blockers else left
    if deletion.error:
        reason, message = deletion.error.reason, deletion.error.message
    kept = [
        _finding(condition)
        for condition in deployment.status.conditions
        if condition.type in ("Unpacked", "Installed", "Healthy")
    ]
    findings = [
        *kept,
        Finding(ConditionType.READY, "False", reason, message),
        Finding(ConditionType.RECONCILING, "True", reason, message),
    ]
    return _conditions(deployment, findings, now)


def skipped_kinds(deployment: BundleDeployment, report: Report) -> tuple[str, ...]:
    """Return the kinds of the optional objects that are skipped, as this pass or else the last one found them."""
    return deployment.status.skipped_kinds if report.skipped_kinds is None else report.skipped_kinds


def _findings(deployment: BundleDeployment, report: Report) -> list[Finding]:
    unpacked, installed, healthy = _unpacked(report), _installed(deployment, report), _healthy(deployment, report)
    hindrance = next((f for f in (unpacked, installed, healthy) if f.status != "True"), None)
    # A poll that failed takes nothing away from what is installed: the pins are in use (rule 1).
    is_ready = installed.status == healthy.status == "True"
    findings = [unpacked, installed, healthy, _ready(None if is_ready else hindrance, report)]
    findings += _work(deployment, hindrance, report)
    if deployment.spec.paused:
        findings.append(
            Finding(
                ConditionType.PAUSED,
                "True",
                Reason.PAUSED,
                "nothing on the cluster is changed until spec.paused is false",
            )
        )
    findings += _drifted(deployment, report)
    return findings


def _unpacked(report: Report) -> Finding:
    if report.failure and (report.failure.reason in UNPACKED_REASONS or _is_unread(report)):
        return Finding(ConditionType.UNPACKED, "False", report.failure.reason, report.failure.message)
    if report.fetching:
        return Finding(ConditionType.UNPACKED, "False", Reason.FETCHING, report.fetching)
    if report.poll_failure:
        return Finding(ConditionType.UNPACKED, "False", report.poll_failure.reason, report.poll_failure.message)
    return Finding(
        ConditionType.UNPACKED, "True", Reason.UNPACKED, "the content of every source is at hand, or not needed"
    )


def _is_unread(report: Report) -> bool:
    """Whether the sources wait for the account that their Secrets are read as."""
    of_account = report.failure and report.failure.reason in (
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        Reason.NAMESPACE_NOT_FOUND,
        Reason.SERVICE_ACCOUNT_REPLACED,
        Reason.NAMESPACE_REPLACED,
    )
    return bool(of_account) and not report.wanted


def _installed(deployment: BundleDeployment, report: Report) -> Finding:  # noqa: PLR0911 - one row of the table each
    def no(reason: Reason, message: str) -> Finding:
        return Finding(ConditionType.INSTALLED, "False", reason, f"{_before(deployment)}{message}")

    if report.failure:
        return no(report.failure.reason, report.failure.message)
    if report.fetching:
        return no(Reason.FETCHING, report.fetching)
    if report.unknown:
        return no(Reason.APPLYING, f"waits until the objects of {list_some(report.unknown)} are known")
    if error := _worst(outcome.error for outcome in report.outcomes):
        return no(error.reason, f"{_in_part(deployment, report)}{error.message}")
    if report.applied or (deployment.spec.paused and report.wanted == deployment.status.installed_revision):
        message = f"revision {short(report.wanted)} is applied in full"
        if skipped := skipped_kinds(deployment, report):
            message += f" but for optional objects of kinds that the cluster does not serve: {list_some(skipped)}"
        message += _retained(deployment, report)
        return Finding(ConditionType.INSTALLED, "True", Reason.INSTALLED, message)
    if deployment.spec.paused:
        return no(Reason.PAUSED_WITH_CHANGES, f"revision {short(report.wanted)} waits until spec.paused is false")
    return no(Reason.APPLYING, f"revision {short(report.wanted)} is being applied")


def _before(deployment: BundleDeployment) -> str:
    """Say what is installed while something else is wanted."""
    installed = deployment.status.installed_revision
    return f"revision {short(installed)} is installed; " if installed else ""


def _in_part(deployment: BundleDeployment, report: Report) -> str:
    """Say which revision is wanted where another is installed: its objects that could be applied are its own now."""
    if deployment.status.installed_revision in ("", report.wanted) or not report.wanted:
        return ""
    return f"revision {short(report.wanted)} is wanted, and not applied in full: "


def _retained(deployment: BundleDeployment, report: Report) -> str:
    if deployment.spec.prune != "Never" or not report.awaiting_prune:
        return ""
    return f"; of older ones stays, as spec.prune: Never says: {list_some(str(r.key) for r in report.awaiting_prune)}"


def _healthy(deployment: BundleDeployment, report: Report) -> Finding:
    if report.progress is not None:
        health = report.progress.shown
        return Finding(ConditionType.HEALTHY, health.status, health.reason, health.message)
    last = deployment.status.condition(ConditionType.HEALTHY)
    if last and deployment.status.installed_revision:
        return _finding(last)
    return Finding(ConditionType.HEALTHY, "Unknown", Reason.NOT_INSTALLED, "nothing was applied yet")


def _ready(hindrance: Finding | None, report: Report) -> Finding:
    if hindrance is None:
        return Finding(
            ConditionType.READY, "True", Reason.READY, f"revision {short(report.wanted)} is installed and healthy"
        )
    return Finding(ConditionType.READY, "False", hindrance.reason, hindrance.message)


def _work(deployment: BundleDeployment, hindrance: Finding | None, report: Report) -> list[Finding]:
    """Say whether work goes on, an event is awaited, or a person has to act."""
    only_kept = deployment.spec.prune == "Never"
    is_wanted = report.applied and not (report.failure or report.fetching)
    is_pending = report.awaiting_prune and not only_kept and is_wanted
    pending = (
        [Finding(ConditionType.RECONCILING, "True", Reason.PRUNE_PENDING, _prune_message(report))] if is_pending else []
    )
    if hindrance is None or (pending and hindrance.reason is Reason.PROGRESSING):
        return pending  # Healthy says what the wait is for
    failed = (Reason.FAILED, Reason.PROGRESS_DEADLINE_EXCEEDED)
    stalls = hindrance.reason.retry.stalls or hindrance.reason in failed
    kind = ConditionType.STALLED if stalls else ConditionType.RECONCILING
    return [Finding(kind, "True", hindrance.reason, hindrance.message), *(pending if stalls else [])]


def _prune_message(report: Report) -> str:
    if error := _worst(removal.error for removal in report.removals):
        return error.message
    shown = list_some([str(record.key) for record in report.awaiting_prune])
    return f"{shown}: stays until the wanted revision is healthy; spec.prune: AfterApply ends the wait"


def _drifted(deployment: BundleDeployment, report: Report) -> list[Finding]:
    if deployment.spec.paused and report.drifted:
        message = f"{list_some(map(str, report.drifted))}: changed, and put right when spec.paused is false"
        return [Finding(ConditionType.DRIFTED, "True", Reason.PAUSED, message)]
    if report.drifted:
        message = f"{list_some(map(str, report.drifted))}: changed, and not put right, as spec.drift.mode says"
        return [Finding(ConditionType.DRIFTED, "True", Reason.REPORT_ONLY, message)]
    if report.conflicts:
        message = f"{list_some(map(str, report.conflicts))}: put right and changed again and again"
        return [Finding(ConditionType.DRIFTED, "True", Reason.DRIFT_CONFLICT, message)]
    return []


def _worst(errors: Iterable[BundleError | None]) -> BundleError | None:
    """The first of the most severe failures, saying how many more there are."""
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
        message=visible(" ".join(finding.message.split()))[:CONDITION_MESSAGE_LENGTH],
        observed_generation=generation,
        last_transition_time=now if changed or last is None else last.last_transition_time,
    )


def _finding(condition: Condition) -> Finding:
    return Finding(ConditionType(condition.type), condition.status, Reason(condition.reason), condition.message)
