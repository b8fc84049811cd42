"""A plain port of the rules of kstatus (sigs.k8s.io/cli-utils/pkg/kstatus/status): what Flux says about an object.

It is what our own rules are compared with, so it repeats kstatus' order, leniency and omissions; messages are left out.
Like kstatus it raises on a status that it cannot read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

CURRENT, IN_PROGRESS, FAILED, TERMINATING = "Current", "InProgress", "Failed", "Terminating"

SCHEDULE_WINDOW = timedelta(seconds=15)
NO_DEADLINE = 2**31 - 1

Manifest = dict[str, Any]
Result = tuple[str, str]
"""Status and reason; the reason is empty where the object is Current."""


def compute(manifest: Manifest, now: datetime | None = None) -> Result:
    """Return the status of an object, and kstatus' reason for it."""
    generic = _generic(manifest)
    if generic:
        return generic
    group, _, _ = manifest["apiVersion"].rpartition("/")
    rule = _RULES.get(f"{group}/{manifest['kind']}".removeprefix("/"))
    if rule:
        return rule(manifest)
    if manifest["kind"] == "Pod" and not group:
        return _pod(manifest, now or datetime.now(UTC))
    return _ready(manifest) or (CURRENT, "")


def _generic(manifest: Manifest) -> Result | None:
    if manifest.get("metadata", {}).get("deletionTimestamp"):
        return TERMINATING, ""
    generation, observed = _get(manifest, "metadata.generation"), _get(manifest, "status.observedGeneration")
    if generation is not None and observed is not None and generation != observed:
        return IN_PROGRESS, "LatestGenerationNotObserved"
    for condition in _conditions(manifest):
        if condition["type"] == "Reconciling" and condition["status"] == "True":
            return IN_PROGRESS, condition.get("reason", "")
        if condition["type"] == "Stalled" and condition["status"] == "True":
            return FAILED, condition.get("reason", "")
    return None


def _ready(manifest: Manifest) -> Result | None:
    for condition in _conditions(manifest):
        if condition["type"] == "Ready":
            return (CURRENT, "") if condition["status"] == "True" else (IN_PROGRESS, condition.get("reason", ""))
    return None


def _deployment(manifest: Manifest) -> Result:
    progressing = _number(manifest, "spec.progressDeadlineSeconds", NO_DEADLINE) == NO_DEADLINE
    available = False
    for condition in _conditions(manifest):
        if condition["type"] == "Progressing":
            if condition.get("reason") == "ProgressDeadlineExceeded":
                return FAILED, "ProgressDeadlineExceeded"
            progressing |= condition["status"] == "True" and condition.get("reason") == "NewReplicaSetAvailable"
        if condition["type"] == "Available":
            available |= condition["status"] == "True"
    wanted, replicas = _number(manifest, "spec.replicas", 1), _number(manifest, "status.replicas")
    updated, ready = _number(manifest, "status.updatedReplicas"), _number(manifest, "status.readyReplicas")
    return _first(
        (wanted > replicas, "LessReplicas"),
        (wanted > updated, "LessUpdated"),
        (replicas > wanted, "ExtraPods"),
        (updated > _number(manifest, "status.availableReplicas"), "LessAvailable"),
        (wanted > ready, "LessReady"),
        (not progressing, "ReplicaSetNotAvailable"),
        (not available, "DeploymentNotAvailable"),
    )


def _stateful_set(manifest: Manifest) -> Result:
    if _get(manifest, "spec.updateStrategy.type") == "OnDelete":
        return CURRENT, ""
    wanted, replicas = _number(manifest, "spec.replicas", 1), _number(manifest, "status.replicas")
    gap = _first(
        (wanted > replicas, "LessReplicas"),
        (wanted > _number(manifest, "status.readyReplicas"), "LessReady"),
        (replicas > wanted, "ExtraPods"),
    )
    if gap[0] != CURRENT:
        return gap
    partition = _number(manifest, "spec.updateStrategy.rollingUpdate.partition", -1)
    if partition != -1:
        return _first((_number(manifest, "status.updatedReplicas") < wanted - partition, "PartitionRollout"))
    revisions = _get(manifest, "status.currentRevision") or "", _get(manifest, "status.updateRevision") or ""
    return _first(
        (wanted > _number(manifest, "status.currentReplicas"), "LessCurrent"),
        (revisions[0] != revisions[1], "RevisionMismatch"),
    )


def _daemon_set(manifest: Manifest) -> Result:
    desired = _number(manifest, "status.desiredNumberScheduled", -1)
    return _first(
        (_get(manifest, "metadata.generation") is None, "NoGeneration"),
        (_get(manifest, "status.observedGeneration") is None, "NoObservedGeneration"),
        (desired == -1, "NoDesiredNumber"),
        (desired > _number(manifest, "status.currentNumberScheduled"), "LessCurrent"),
        (desired > _number(manifest, "status.updatedNumberScheduled"), "LessUpdated"),
        (desired > _number(manifest, "status.numberAvailable"), "LessAvailable"),
        (desired > _number(manifest, "status.numberReady"), "LessReady"),
    )


def _replica_set(manifest: Manifest) -> Result:
    wanted, replicas = _number(manifest, "spec.replicas", 1), _number(manifest, "status.replicas")
    return _first(
        (_condition(manifest, "ReplicaFailure", "True") is not None, "ReplicaFailure"),
        (wanted > _number(manifest, "status.fullyLabeledReplicas"), "LessLabelled"),
        (wanted > _number(manifest, "status.availableReplicas"), "LessAvailable"),
        (wanted > _number(manifest, "status.readyReplicas"), "LessReady"),
        (replicas > wanted, "ExtraPods"),
    )


def _pod(manifest: Manifest, now: datetime) -> Result:
    phase = _get(manifest, "status.phase")
    if phase in ("Succeeded", "Failed"):
        return CURRENT, ""
    if phase == "Running":
        return _running_pod(manifest)
    if phase == "Pending":
        return _pending_pod(manifest, now)
    if phase:
        raise ValueError(f"unknown phase {phase}")
    return IN_PROGRESS, "PodNotObserved"


def _running_pod(manifest: Manifest) -> Result:
    if _condition(manifest, "Ready", "True"):
        return CURRENT, ""
    statuses = _get(manifest, "status.containerStatuses") or []
    if any(_get(status, "state.waiting.reason") == "CrashLoopBackOff" for status in statuses):
        return FAILED, "ContainerCrashLooping"
    return IN_PROGRESS, "PodRunningNotReady"


def _pending_pod(manifest: Manifest, now: datetime) -> Result:
    unscheduled = _condition(manifest, "PodScheduled", "False")
    if unscheduled is None or unscheduled.get("reason") != "Unschedulable":
        return IN_PROGRESS, "PodPending"
    since = datetime.fromisoformat(unscheduled.get("lastTransitionTime", "1970-01-01T00:00:00Z"))
    return (IN_PROGRESS, "PodNotScheduled") if now - SCHEDULE_WINDOW < since else (FAILED, "PodUnschedulable")


def _job(manifest: Manifest) -> Result:
    for condition in _conditions(manifest):
        if condition["type"] == "Complete" and condition["status"] == "True":
            return CURRENT, ""
        if condition["type"] == "Failed" and condition["status"] == "True":
            return FAILED, "JobFailed"
    return _first((not _get(manifest, "status.startTime"), "JobNotStarted"))


def _service(manifest: Manifest) -> Result:
    balanced = _get(manifest, "spec.type") == "LoadBalancer"
    return _first((balanced and not _get(manifest, "spec.clusterIP"), "NoIPAssigned"))


def _claim(manifest: Manifest) -> Result:
    return _first((_get(manifest, "status.phase") != "Bound", "NotBound"))


def _definition(manifest: Manifest) -> Result:
    for condition in _conditions(manifest):
        status, reason = condition["status"], condition.get("reason", "")
        if condition["type"] == "NamesAccepted" and status == "False":
            return FAILED, reason
        if condition["type"] == "Established" and status == "False" and reason != "Installing":
            return FAILED, reason
        if condition["type"] == "Established" and status == "True":
            return CURRENT, ""
    return IN_PROGRESS, "Installing"


def _always_current(_manifest: Manifest) -> Result:
    return CURRENT, ""


_RULES: dict[str, Callable[[Manifest], Result]] = {
    "Service": _service,
    "Secret": _always_current,
    "ConfigMap": _always_current,
    "PersistentVolumeClaim": _claim,
    "apps/StatefulSet": _stateful_set,
    "apps/DaemonSet": _daemon_set,
    "apps/Deployment": _deployment,
    "apps/ReplicaSet": _replica_set,
    "policy/PodDisruptionBudget": _always_current,
    "batch/CronJob": _always_current,
    "batch/Job": _job,
    "apiextensions.k8s.io/CustomResourceDefinition": _definition,
}


def _first(*gaps: tuple[bool, str]) -> Result:
    return next(((IN_PROGRESS, reason) for is_so, reason in gaps if is_so), (CURRENT, ""))


def _conditions(manifest: Manifest) -> list[dict[str, str]]:
    conditions = _get(manifest, "status.conditions") or []
    if not isinstance(conditions, list):
        raise TypeError("status.conditions is not a list")
    return conditions


def _condition(manifest: Manifest, condition_type: str, status: str) -> dict[str, str] | None:
    wanted = condition_type, status
    return next((found for found in _conditions(manifest) if (found["type"], found["status"]) == wanted), None)


def _number(manifest: Manifest, path: str, default: int = 0) -> int:
    found = _get(manifest, path)
    return found if isinstance(found, int) else default


def _get(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
