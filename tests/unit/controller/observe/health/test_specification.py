"""controller/observe/health/README.md, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter

import pytest

from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.health.rules import assess, assess_absent
from rukpak.controller.observe.health.verdict import (
    Context,
    Published,
    State,
    Verdict,
    aggregate,
    deadline_start,
    publish_after,
    with_deadline,
)
from rukpak.controller.observe.progress import judge_object
from rukpak.controller.observe.records import Record
from tests.unit.controller.observe.health.objects import (
    ROLLED_OUT,
    Manifest,
    claim,
    conditioned,
    conditions,
    crashed,
    custom,
    daemon_set,
    deployment,
    job,
    manifest,
    pod,
    stateful_set,
    waiting,
)

CRD = "apiextensions.k8s.io/v1 CustomResourceDefinition"
HPA = "autoscaling/v2 HorizontalPodAutoscaler"
UNAVAILABLE = ("Progressing=True/NewReplicaSetAvailable", "Available=False/MinimumReplicasUnavailable")


def bound_by(mode: str) -> Context:
    return Context(binding_mode=lambda _name: mode)


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    given: Manifest
    expect: State
    reason: str = ""
    context: Context = field(default_factory=Context)


HEALTHY, PROGRESSING, FAILED = State.HEALTHY, State.PROGRESSING, State.FAILED

# fmt: off
CASES = [
    Case(name="what is being deleted is Terminating, however ready",
         given=custom("Ready=True", deletionTimestamp="2026-01-01T00:00:00Z"), expect=State.TERMINATING),
    Case(name="a status of an older generation says nothing",
         given=manifest("example.com/v1 Cache", status={"observedGeneration": 1,
         "conditions": conditions("Ready=True")}, generation=2), expect=PROGRESSING,
         reason="LatestGenerationNotObserved"),
    Case(name="Stalled counts more than Ready", given=custom("Ready=True", "Stalled=True/Broken"), expect=FAILED),
    Case(name="Reconciling counts more than Stalled, wherever it stands",
         given=custom("Stalled=True", "Reconciling=True"), expect=PROGRESSING),
    Case(name="a Ready that is for another generation is no Ready",
         given=manifest("example.com/v1 Cache", status={"conditions": [{"type": "Ready", "status": "True",
         "observedGeneration": 1}]}, generation=2), expect=PROGRESSING),
    Case(name="a Deployment that is rolled out is healthy", given=deployment(*ROLLED_OUT), expect=HEALTHY),
    Case(name="a Deployment of none is healthy without counts",
         given=manifest("apps/v1 Deployment", spec={"replicas": 0, "progressDeadlineSeconds": 600},
         status={"observedGeneration": 1, "conditions": conditions(*ROLLED_OUT)}, generation=1), expect=HEALTHY),
    Case(name="a Deployment of none without status is not",
         given=manifest("apps/v1 Deployment", spec={"replicas": 0, "progressDeadlineSeconds": 600}, generation=1),
         expect=PROGRESSING, reason="NoObservedGeneration"),
    Case(name="a Deployment with fewer available than updated is on its way",
         given=deployment(*ROLLED_OUT, counts=(3, 3, 3, 2)), expect=PROGRESSING, reason="LessAvailable"),
    Case(name="a Deployment with pods too many is on its way", given=deployment(*ROLLED_OUT, counts=(4, 3, 3, 3)),
         expect=PROGRESSING, reason="ExtraPods"),
    Case(name="a Deployment past its own deadline has failed",
         given=deployment("Progressing=False/ProgressDeadlineExceeded", "Available=False"), expect=FAILED,
         reason="ProgressDeadlineExceeded"),
    Case(name="a Deployment without deadline never gets the condition Progressing",
         given=deployment("Available=True", spec={"progressDeadlineSeconds": 2147483647}), expect=HEALTHY),
    Case(name="a paused Deployment that is available is healthy",
         given=deployment("Progressing=Unknown/DeploymentPaused", "Available=True", spec={"paused": True}),
         expect=HEALTHY, reason="Paused"),
    Case(name="a paused Deployment that is not available waits",
         given=deployment("Progressing=Unknown/DeploymentPaused", "Available=False", spec={"paused": True}),
         expect=PROGRESSING, reason="DeploymentPaused"),
    Case(name="pods that are refused give the reason",
         given=deployment('ReplicaFailure=True/FailedCreate/pods "x-9z8y7" is forbidden: no', counts=(0, 0, 0, 0)),
         expect=PROGRESSING, reason="FailedCreate"),
    Case(name="a StatefulSet that is updated down to its partition is healthy",
         given=stateful_set(partition=2, updatedReplicas=1), expect=HEALTHY),
    Case(name="a StatefulSet with pods yet to update is on its way", given=stateful_set(partition=0, updatedReplicas=1),
         expect=PROGRESSING, reason="PartitionRollout"),
    Case(name="a StatefulSet of OnDelete still must be ready",
         given=stateful_set(spec={"updateStrategy": {"type": "OnDelete"}}, readyReplicas=2), expect=PROGRESSING,
         reason="LessReady"),
    Case(name="a DaemonSet that no node matches is healthy", given=daemon_set(0), expect=HEALTHY),
    Case(name="a DaemonSet that was not observed is on its way", given=daemon_set(observedGeneration=None),
         expect=PROGRESSING),
    Case(name="an evicted Pod has failed", given=pod("Failed", reason="Evicted"), expect=FAILED, reason="Evicted"),
    Case(name="a Pod that no node can take waits for one",
         given=pod("Pending", "PodScheduled=False/Unschedulable/0 of 3 nodes"), expect=PROGRESSING,
         reason="Unschedulable"),
    Case(name="a Pod that crashes repeatedly has failed between two crashes, too",
         given=pod("Running", "Ready=False", containers=[crashed(5)]), expect=FAILED, reason="CrashLoopBackOff"),
    Case(name="a Pod whose init container crashes has failed",
         given=pod("Pending", "Ready=False", inits=[waiting("CrashLoopBackOff")]), expect=FAILED,
         reason="CrashLoopBackOff"),
    Case(name="a running Job is on its way", given=job(active=1, startTime="x"), expect=PROGRESSING),
    Case(name="a suspended Job is healthy", given=job(spec={"suspend": True}), expect=HEALTHY, reason="Suspended"),
    Case(name="a Job that is about to fail has not yet", given=job("FailureTarget=True/BackoffLimitExceeded"),
         expect=PROGRESSING),
    Case(name="a failed Job says why", given=job("FailureTarget=True/DeadlineExceeded", "Failed=True/DeadlineExceeded"),
         expect=FAILED, reason="DeadlineExceeded"),
    Case(name="a Service waits for its load balancer",
         given=manifest("v1 Service", spec={"type": "LoadBalancer"}, status={"loadBalancer": {}}), expect=PROGRESSING,
         reason="LoadBalancerPending"),
    Case(name="a claim that waits for a pod is healthy", given=claim("Pending"),
         context=bound_by("WaitForFirstConsumer"), expect=HEALTHY),
    Case(name="a claim that waits for a volume is not", given=claim("Pending"), context=bound_by("Immediate"),
         expect=PROGRESSING),
    Case(name="a claim that lost its volume has failed", given=claim("Lost"), expect=FAILED),
    Case(name="a CRD whose caBundle is not injected yet is on its way",
         given=conditioned(CRD, "NamesAccepted=True/NoConflicts", "Established=False/InvalidCABundle"),
         expect=PROGRESSING, reason="InvalidCABundle"),
    Case(name="a CRD whose names are taken has failed",
         given=conditioned(CRD, "NamesAccepted=False/ShortNamesConflict", "Established=False/NotAccepted"),
         expect=FAILED, reason="ShortNamesConflict"),
    Case(name="a CRD that is new has no conditions", given=manifest(CRD, status={"conditions": None}),
         expect=PROGRESSING),
    Case(name="an autoscaler without its metric is not healthy, whatever stands first",
         given=conditioned(HPA, "AbleToScale=True/ReadyForNewScale", "ScalingActive=False/FailedGetResourceMetric"),
         expect=PROGRESSING, reason="FailedGetResourceMetric"),
    Case(name="an autoscaler whose target is at 0 is healthy",
         given=conditioned(HPA, "AbleToScale=True/SucceededGetScale", "ScalingActive=False/ScalingDisabled"),
         expect=HEALTHY),
    Case(name="a custom resource that says nothing, though its schema has conditions, is doubted",
         given=manifest("example.com/v1 Cache", generation=1), context=Context(reports_status=True), expect=PROGRESSING,
         reason="StatusNotReported"),
    Case(name="a custom resource that says nothing, and cannot, is healthy",
         given=manifest("example.com/v1 Cache", generation=1), context=Context(reports_status=False), expect=HEALTHY),
    Case(name="always: Healthy stands before the generation",
         given=manifest("example.com/v1 Cache", status={"observedGeneration": -1}, generation=2),
         context=Context(checks=({"group": "example.com", "kind": "Cache", "always": "Healthy"},)), expect=HEALTHY),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_an_object_says_about_its_health(case: Case) -> None:
    verdict = assess(case.given, case.context)

    assert verdict.state is case.expect, verdict
    assert not case.reason or verdict.reason == case.reason


@pytest.mark.parametrize("malformed", [None, "x", [{"status": "True"}]], ids=["null", "a string", "without a type"])
def test_conditions_that_are_none_count_as_absent(malformed: object) -> None:
    given, bare = (
        manifest("example.com/v1 Cache", status=status, generation=1) for status in ({"conditions": malformed}, {})
    )

    assert assess(given, Context(reports_status=True)) == assess(bare, Context(reports_status=True))
    assert assess(given, Context()) == assess(bare, Context())


def test_an_object_that_is_seen_as_it_was_before_our_apply_is_not_observed() -> None:
    ready = assess(custom("Ready=True"), Context())

    seen = Record(key=ObjectKey("example.com", "Cache", "foo", "x"), applied_digest="v1:sha256:old", verdict=ready)
    verdict = judge_object(seen, "v1:sha256:new")

    assert (verdict.state, verdict.reason) == (State.PROGRESSING, "NotObserved")


def test_a_refused_pod_is_not_named() -> None:
    refusal = 'ReplicaFailure=True/FailedCreate/pods "x-9z8y7" is forbidden: violates PodSecurity "restricted"'

    verdict = assess(deployment(refusal, counts=(0, 0, 0, 0)), Context())

    assert verdict.message == 'pods is forbidden: violates PodSecurity "restricted"'


def test_a_job_that_its_ttl_removed_is_finished_only_where_its_revision_is_installed() -> None:
    removed = job(spec={"ttlSecondsAfterFinished": 60})

    verdicts = [assess_absent(removed, started=started) for started in (True, False)]

    assert [(verdict.state, verdict.reason) for verdict in verdicts] == [
        (State.HEALTHY, "FinishedAndRemoved"),
        (State.MISSING, "Missing"),
    ]


def test_a_broken_api_service_fails_after_its_deadline() -> None:
    broken = assess(conditioned("apiregistration.k8s.io/v1 APIService", "Available=False/ServiceNotFound"), Context())

    verdict = with_deadline(broken, since=0, now=11 * 60, deadline=600)

    assert broken.reason == "ServiceNotFound"
    assert (verdict.state, verdict.reason) == (State.FAILED, "ProgressDeadlineExceeded")


def test_what_was_healthy_for_an_hour_is_published_after_15_seconds_and_failed_after_10_minutes() -> None:
    fell = 3600.0
    since = deadline_start(applied=0, left_healthy=fell, now=fell)
    unavailable = assess(deployment(*UNAVAILABLE), Context())
    good = aggregate([("Deployment foo/web", Verdict(State.HEALTHY, "Healthy"))])
    published = Published(health=good, revision="sha256:a", at=0.0)

    def seen_at(now: float) -> tuple[str, float | None]:
        verdict = with_deadline(unavailable, since=since, now=now, deadline=600)
        health = aggregate([("Deployment foo/web", verdict)])
        current = Published(health=health, revision="sha256:a", at=now)
        return str(health.reason), publish_after(current, published, fallen_since=fell)

    assert seen_at(fell) == ("Progressing", 15.0)
    assert seen_at(fell + 15) == ("Progressing", 0.0)
    assert seen_at(fell + 600) == ("ProgressDeadlineExceeded", 0.0)
