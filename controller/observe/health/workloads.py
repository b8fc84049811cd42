"""Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController and Job (README.md).

Not here: why pods are missing or not ready (explain.py), and Jobs that their TTL removed (presence.py).
"""

from __future__ import annotations

import re

from controller.observe.health.subject import Condition, Subject
from controller.observe.health.verdict import HEALTHY, Verdict, failed, healthy, progressing, reason_or
from controller.untrusted import integer, text

SUSPENDED = "Suspended"

# Means no deadline: such a Deployment never gets the condition Progressing.
_NO_DEADLINE = 2**31 - 1

# `pods "web-9z8y7" is forbidden: …` names a pod that never existed, with each attempt another.
_REFUSED = re.compile(r'\b(\w+) "[^"]*" is (forbidden|invalid)')
# The usage of a quota changes with every pod of the namespace.
_QUOTA_USED = re.compile(r", used: .*?(?=, limited: |$)")

# `Container main for pod foo/job-x7k2p failed with exit code 42 …`
_GENERATED_POD = re.compile(r" for pod \S+")

_NOT_OBSERVED = progressing("NoObservedGeneration", "its controller has not observed it yet")


def deployment(subject: Subject) -> Verdict:
    """Judge a Deployment."""
    if subject.observed_generation is None:
        return _NOT_OBSERVED
    if subject.spec("paused") is True:
        return _paused_deployment(subject)
    rollout = subject.conditions.get("Progressing")
    if rollout and rollout.reason == "ProgressDeadlineExceeded":
        # The condition's message names a ReplicaSet by its hash.
        return failed("ProgressDeadlineExceeded", "the rollout made no progress within spec.progressDeadlineSeconds")
    gap = _deployment_gap(subject)
    if gap:
        return _creation_failure(subject) or gap
    return _deployment_availability(subject, rollout)


def stateful_set(subject: Subject) -> Verdict:
    """Judge a StatefulSet. It has no conditions: refused pods show only as too few replicas."""
    if subject.observed_generation is None:
        return _NOT_OBSERVED
    gap = _stateful_set_gap(subject)
    if gap:
        return gap
    if subject.spec("updateStrategy", "type") == "OnDelete":
        return healthy("OnDelete", "pods are updated when they are deleted")
    return _stateful_set_rollout(subject)


def daemon_set(subject: Subject) -> Verdict:
    """Judge a DaemonSet. It is healthy if no node matches."""
    desired = integer(subject.manifest, "status", "desiredNumberScheduled")
    if subject.generation is None or subject.observed_generation is None or desired is None:
        return _NOT_OBSERVED
    scheduled, updated = subject.count("currentNumberScheduled"), subject.count("updatedNumberScheduled")
    available, ready = subject.count("numberAvailable"), subject.count("numberReady")
    rolling = subject.spec("updateStrategy", "type") != "OnDelete"
    gap = _first(
        (desired > scheduled, "LessCurrent", f"Scheduled: {scheduled}/{desired}"),
        (rolling and desired > updated, "LessUpdated", f"Updated: {updated}/{desired}"),
        (desired > available, "LessAvailable", f"Available: {available}/{desired}"),
        (desired > ready, "LessReady", f"Ready: {ready}/{desired}"),
    )
    return gap or HEALTHY


def replica_set(subject: Subject) -> Verdict:
    """Judge a ReplicaSet or a ReplicationController."""
    wanted, replicas = subject.replicas, subject.count("replicas")
    labeled, ready = subject.count("fullyLabeledReplicas"), subject.count("readyReplicas")
    available = subject.count("availableReplicas")
    gap = _creation_failure(subject) or _first(
        (wanted > labeled, "LessLabelled", f"Labelled: {labeled}/{wanted}"),
        (wanted > available, "LessAvailable", f"Available: {available}/{wanted}"),
        (wanted > ready, "LessReady", f"Ready: {ready}/{wanted}"),
        (replicas > wanted, "ExtraPods", f"Pending termination: {replicas - wanted}"),
    )
    return gap or HEALTHY


def job(subject: Subject) -> Verdict:
    """Judge a Job: one that is running is not healthy yet, nor is SuccessCriteriaMet completion."""
    failure = subject.conditions.get("Failed")
    if failure and failure.holds:
        return failed(reason_or(failure.reason, "JobFailed"), _job_message(failure))
    if subject.holds("Complete"):
        return HEALTHY
    if subject.spec("suspend") is True:
        return healthy(SUSPENDED, "spec.suspend is true")
    failing = subject.conditions.get("FailureTarget")
    if failing and failing.holds:
        return progressing(reason_or(failing.reason, "FailureTarget"), _job_message(failing))
    return progressing("JobRunning", "not finished yet")


def _job_message(condition: Condition) -> str:
    return _GENERATED_POD.sub("", condition.message)


def _paused_deployment(subject: Subject) -> Verdict:
    # Its controller reports Progressing=Unknown/DeploymentPaused meanwhile: a user wants it so, it is no failure.
    if subject.holds("Available"):
        return healthy("Paused", "spec.paused is true")
    return progressing("DeploymentPaused", "spec.paused is true and the Deployment is not available", deadline=False)


def _deployment_gap(subject: Subject) -> Verdict | None:
    wanted, replicas = subject.replicas, subject.count("replicas")
    updated, ready = subject.count("updatedReplicas"), subject.count("readyReplicas")
    available = subject.count("availableReplicas")
    return _first(
        (wanted > replicas, "LessReplicas", f"Replicas: {replicas}/{wanted}"),
        (wanted > updated, "LessUpdated", f"Updated: {updated}/{wanted}"),
        (replicas > wanted, "ExtraPods", f"Pending termination: {replicas - wanted}"),
        (updated > available, "LessAvailable", f"Available: {available}/{updated}"),
        (wanted > ready, "LessReady", f"Ready: {ready}/{wanted}"),
    )


def _deployment_availability(subject: Subject, rollout: Condition | None) -> Verdict:
    if _has_deadline(subject) and not (rollout and rollout.holds and rollout.reason == "NewReplicaSetAvailable"):
        return progressing("ReplicaSetNotAvailable", "the new ReplicaSet is not available yet")
    if not subject.holds("Available"):
        return progressing("DeploymentNotAvailable", "condition Available is not True")
    return HEALTHY


def _has_deadline(subject: Subject) -> bool:
    return integer(subject.manifest, "spec", "progressDeadlineSeconds") not in (None, _NO_DEADLINE)


def _stateful_set_gap(subject: Subject) -> Verdict | None:
    wanted, replicas = subject.replicas, subject.count("replicas")
    ready, available = subject.count("readyReplicas"), subject.count("availableReplicas")
    waits = bool(integer(subject.manifest, "spec", "minReadySeconds"))
    return _first(
        (wanted > replicas, "LessReplicas", f"Replicas: {replicas}/{wanted}"),
        (wanted > ready, "LessReady", f"Ready: {ready}/{wanted}"),
        (replicas > wanted, "ExtraPods", f"Pending termination: {replicas - wanted}"),
        (waits and wanted > available, "LessAvailable", f"Available: {available}/{wanted}"),
    )


def _stateful_set_rollout(subject: Subject) -> Verdict:
    if subject.spec("updateStrategy", "rollingUpdate") is None:
        return _stateful_set_revision(subject)
    partition = integer(subject.manifest, "spec", "updateStrategy", "rollingUpdate", "partition") or 0
    updated, wanted = subject.count("updatedReplicas"), subject.replicas - partition
    return progressing("PartitionRollout", f"Updated: {updated}/{wanted}") if updated < wanted else HEALTHY


def _stateful_set_revision(subject: Subject) -> Verdict:
    """Judge a StatefulSet without `rollingUpdate`; rare, since the API server sets its partition by default."""
    wanted, current = subject.replicas, subject.count("currentReplicas")
    if wanted > current:
        return progressing("LessCurrent", f"Current: {current}/{wanted}")
    if text(subject.manifest, "status", "currentRevision") != text(subject.manifest, "status", "updateRevision"):
        return progressing("RevisionMismatch", "not all pods are at the new revision yet")
    return HEALTHY


def _creation_failure(subject: Subject) -> Verdict | None:
    """Return why the API server refused pods (quota, admission), if it did."""
    failure = subject.conditions.get("ReplicaFailure")
    if failure is None or not failure.holds:
        return None
    return progressing(reason_or(failure.reason, "ReplicaFailure"), _refusal(failure))


def _refusal(failure: Condition) -> str:
    return _QUOTA_USED.sub("", _REFUSED.sub(r"\1 is \2", failure.message))


def _first(*gaps: tuple[bool, str, str]) -> Verdict | None:
    """Return the first of (whether it applies, reason, message) that applies."""
    return next((progressing(reason, message) for applies, reason, message in gaps if applies), None)
