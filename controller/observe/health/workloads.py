"""Deployment, StatefulSet, DaemonSet, ReplicaSet and ReplicationController (README.md).

Why pods do not come is not seen here; explain.py finds out.
"""

from __future__ import annotations

import re

from controller.observe.health.subject import Condition, Subject, integer, text
from controller.observe.health.verdict import HEALTHY, Verdict, failed, healthy, progressing, reason_or

# A Deployment with this deadline has none, and never gets the condition Progressing.
_NO_DEADLINE = 2**31 - 1

# `pods "web-9z8y7" is forbidden: …` names a pod that never existed, another one at each attempt.
_REFUSED = re.compile(r'\b(\w+) "[^"]*" is (forbidden|invalid)')
# What a quota has in use changes with every pod of the namespace.
_QUOTA_USED = re.compile(r", used: .*?(?=, limited: |$)")

_NOT_OBSERVED = progressing("NoObservedGeneration", "its controller has not seen it yet")


def deployment(subject: Subject) -> Verdict:
    """Judge a Deployment."""
    if subject.observed_generation is None:
        return _NOT_OBSERVED
    if subject.spec("paused") is True:
        return _paused_deployment(subject)
    rollout = subject.conditions.get("Progressing")
    if rollout and rollout.reason == "ProgressDeadlineExceeded":
        # The condition's message names a ReplicaSet by its hash.
        return failed("ProgressDeadlineExceeded", "the rollout made no progress for spec.progressDeadlineSeconds")
    gap = _deployment_gap(subject)
    if gap:
        return _creation_failure(subject) or gap
    return _deployment_availability(subject, rollout)


def stateful_set(subject: Subject) -> Verdict:
    """Judge a StatefulSet. It has no conditions: one whose pods are refused shows only too few replicas."""
    if subject.observed_generation is None:
        return _NOT_OBSERVED
    gap = _stateful_set_gap(subject)
    if gap:
        return gap
    if subject.spec("updateStrategy", "type") == "OnDelete":
        return healthy("OnDelete", "pods are updated when somebody deletes them")
    return _stateful_set_rollout(subject)


def daemon_set(subject: Subject) -> Verdict:
    """Judge a DaemonSet. Where no node matches, it is healthy."""
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


def _paused_deployment(subject: Subject) -> Verdict:
    # The controller says Progressing=Unknown/DeploymentPaused for as long as it lasts: somebody's will, no failure.
    if subject.holds("Available"):
        return healthy("Paused", "spec.paused is true")
    return progressing("DeploymentPaused", "spec.paused is true, and it is not available", deadline=False)


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
        return progressing("DeploymentNotAvailable", "the condition Available is not True")
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
    """Judge one without `rollingUpdate`; the server sets its partition by default, so that this is rare."""
    wanted, current = subject.replicas, subject.count("currentReplicas")
    if wanted > current:
        return progressing("LessCurrent", f"Current: {current}/{wanted}")
    if text(subject.manifest, "status", "currentRevision") != text(subject.manifest, "status", "updateRevision"):
        return progressing("RevisionMismatch", "not every pod has the new revision yet")
    return HEALTHY


def _creation_failure(subject: Subject) -> Verdict | None:
    """Return what the server said about pods that it refused (quota, admission), if it did."""
    failure = subject.conditions.get("ReplicaFailure")
    if failure is None or not failure.holds:
        return None
    return progressing(reason_or(failure.reason, "ReplicaFailure"), _refusal(failure))


def _refusal(failure: Condition) -> str:
    return _QUOTA_USED.sub("", _REFUSED.sub(r"\1 is \2", failure.message))


def _first(*gaps: tuple[bool, str, str]) -> Verdict | None:
    """Return the first of (whether it is so, reason, message) that is so."""
    return next((progressing(reason, message) for is_so, reason, message in gaps if is_so), None)
