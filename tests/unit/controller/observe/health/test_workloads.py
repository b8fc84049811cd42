from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import pytest

from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import Context, State
from tests.unit.controller.observe.health.objects import (
    ROLLED_OUT,
    Manifest,
    conditions,
    daemon_set,
    deployment,
    manifest,
    stateful_set,
)

HEALTHY, PROGRESSING = State.HEALTHY, State.PROGRESSING
QUOTA = "exceeded quota: q, requested: pods=1, used: pods=1,cpu=3, limited: pods=1"
SCALED = {"observedGeneration": 1} | dict.fromkeys(
    ("replicas", "fullyLabeledReplicas", "availableReplicas", "readyReplicas"), 1
)


def replica_set(kind: str = "apps/v1 ReplicaSet", **status: object) -> Manifest:
    """One pod is wanted, since spec.replicas is missing."""
    return manifest(kind, spec={}, status={**SCALED, **status}, generation=1)


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    given: Manifest
    expect: State
    reason: str
    message: str


# fmt: off
CASES = [
    Case(name="a Deployment says how many replicas are there", given=deployment(*ROLLED_OUT, counts=(1, 1, 1, 1)),
         expect=PROGRESSING, reason="LessReplicas", message="Replicas: 1/3"),
    Case(name="a Deployment says how many are updated", given=deployment(*ROLLED_OUT, counts=(3, 1, 3, 3)),
         expect=PROGRESSING, reason="LessUpdated", message="Updated: 1/3"),
    Case(name="a Deployment says how many pods must terminate", given=deployment(*ROLLED_OUT, counts=(5, 3, 3, 3)),
         expect=PROGRESSING, reason="ExtraPods", message="Pending termination: 2"),
    Case(name="a Deployment says how many are available", given=deployment(*ROLLED_OUT, counts=(3, 3, 3, 1)),
         expect=PROGRESSING, reason="LessAvailable", message="Available: 1/3"),
    Case(name="a Deployment says how many are ready", given=deployment(*ROLLED_OUT, counts=(3, 3, 2, 3)),
         expect=PROGRESSING, reason="LessReady", message="Ready: 2/3"),
    Case(name="a Deployment that is rolling out is not rolled out",
         given=deployment("Progressing=True/ReplicaSetUpdated", "Available=True"), expect=PROGRESSING,
         reason="ReplicaSetNotAvailable", message="the new ReplicaSet is not available yet"),
    Case(name="a Deployment whose pods died later is not available",
         given=deployment(ROLLED_OUT[0], "Available=False/MinimumReplicasUnavailable"), expect=PROGRESSING,
         reason="DeploymentNotAvailable", message="condition Available is not True"),
    Case(name="a quota is named without what is in use",
         given=deployment(f'ReplicaFailure=True/FailedCreate/pods "web-x" is forbidden: {QUOTA}', counts=(1, 1, 1, 1)),
         expect=PROGRESSING, reason="FailedCreate",
         message="pods is forbidden: exceeded quota: q, requested: pods=1, limited: pods=1"),
    Case(name="a pod that the server finds invalid is not named",
         given=deployment('ReplicaFailure=True/FailedCreate/Pod "web-x" is invalid: spec', counts=(1, 1, 1, 1)),
         expect=PROGRESSING, reason="FailedCreate", message="Pod is invalid: spec"),
    Case(name="an old refusal does not count when all pods are there",
         given=deployment(*ROLLED_OUT, "ReplicaFailure=True/FailedCreate"), expect=HEALTHY, reason="Healthy",
         message=""),
    Case(name="a StatefulSet that is blocked shows only too few replicas",
         given=stateful_set(replicas=0, readyReplicas=0, updatedReplicas=0), expect=PROGRESSING, reason="LessReplicas",
         message="Replicas: 0/3"),
    Case(name="a StatefulSet that shrinks has pods too many", given=stateful_set(replicas=4), expect=PROGRESSING,
         reason="ExtraPods", message="Pending termination: 1"),
    Case(name="a StatefulSet is available only after minReadySeconds",
         given=stateful_set(spec={"minReadySeconds": 30}, availableReplicas=2), expect=PROGRESSING,
         reason="LessAvailable", message="Available: 2/3"),
    Case(name="a StatefulSet without observedGeneration was not seen", given=stateful_set(observedGeneration=None),
         expect=PROGRESSING, reason="NoObservedGeneration", message="its controller has not observed it yet"),
    Case(name="a StatefulSet without partition has two revisions while it updates",
         given=stateful_set(partition=None, updateRevision="web-2"), expect=PROGRESSING, reason="RevisionMismatch",
         message="not all pods are at the new revision yet"),
    Case(name="a StatefulSet with partition may have two revisions",
         given=stateful_set(partition=0, updateRevision="web-2"), expect=HEALTHY, reason="Healthy", message=""),
    Case(name="a StatefulSet of OnDelete need not be updated",
         given=stateful_set(spec={"updateStrategy": {"type": "OnDelete"}}, updatedReplicas=0), expect=HEALTHY,
         reason="OnDelete", message="pods are updated when they are deleted"),
    Case(name="a DaemonSet counts nodes", given=daemon_set(currentNumberScheduled=1), expect=PROGRESSING,
         reason="LessCurrent", message="Scheduled: 1/3"),
    Case(name="a DaemonSet must be updated", given=daemon_set(updatedNumberScheduled=2), expect=PROGRESSING,
         reason="LessUpdated", message="Updated: 2/3"),
    Case(name="a DaemonSet of OnDelete need not be updated",
         given=daemon_set(strategy="OnDelete", updatedNumberScheduled=2), expect=HEALTHY, reason="Healthy", message=""),
    Case(name="a DaemonSet of OnDelete must be available", given=daemon_set(strategy="OnDelete", numberAvailable=2),
         expect=PROGRESSING, reason="LessAvailable", message="Available: 2/3"),
    Case(name="a DaemonSet must be ready", given=daemon_set(numberReady=2), expect=PROGRESSING, reason="LessReady",
         message="Ready: 2/3"),
    Case(name="a ReplicaSet wants one pod by default", given=replica_set(), expect=HEALTHY, reason="Healthy",
         message=""),
    Case(name="a ReplicaSet must be available", given=replica_set(availableReplicas=0), expect=PROGRESSING,
         reason="LessAvailable", message="Available: 0/1"),
    Case(name="a ReplicaSet must not have pods too many", given=replica_set(replicas=2), expect=PROGRESSING,
         reason="ExtraPods", message="Pending termination: 1"),
    Case(name="a ReplicationController is judged like a ReplicaSet",
         given=replica_set("v1 ReplicationController", readyReplicas=0), expect=PROGRESSING, reason="LessReady",
         message="Ready: 0/1"),
    Case(name="a ReplicationController says why pods are refused",
         given=replica_set("v1 ReplicationController",
         conditions=conditions('ReplicaFailure=True/FailedCreate/pods "a" is forbidden')), expect=PROGRESSING,
         reason="FailedCreate", message="pods is forbidden"),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_said_of_a_workload(case: Case) -> None:
    verdict = assess(case.given, Context())

    assert (verdict.state, verdict.reason, verdict.message) == (case.expect, case.reason, case.message)


def test_a_paused_deployment_has_no_deadline() -> None:
    verdict = assess(deployment("Available=False", spec={"paused": True}), Context())

    assert not verdict.deadline
