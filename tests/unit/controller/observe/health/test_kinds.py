"""Every other kind with a rule."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import pytest

from rukpak.api.v1alpha2.policies import HealthCheck
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.observe.health.rules import assess, matching
from rukpak.controller.observe.health.verdict import Context, State, with_deadline
from tests.unit.controller.observe.health.objects import Manifest, claim, conditioned, conditions, job, manifest

HEALTHY, PROGRESSING, FAILED = State.HEALTHY, State.PROGRESSING, State.FAILED
CRD = "apiextensions.k8s.io/v1 CustomResourceDefinition"
API_SERVICE = "apiregistration.k8s.io/v1 APIService"
HPA = "autoscaling/v2 HorizontalPodAutoscaler"
PDB = "policy/v1 PodDisruptionBudget"
GATEWAY = "gateway.networking.k8s.io/v1 Gateway"
SELECTED = {"annotations": {"volume.kubernetes.io/selected-node": "node"}}


def late(mode: str = "WaitForFirstConsumer") -> Context:
    return Context(binding_mode=lambda _name: mode)


def parent(name: str, *given: str, observed: int = 1) -> dict[str, Any]:
    found = [entry | {"observedGeneration": observed} for entry in conditions(*given)]
    return {"parentRef": {"name": name}, "conditions": found}


def route(*parents: dict[str, Any], kind: str = "HTTPRoute") -> Manifest:
    return manifest(f"gateway.networking.k8s.io/v1 {kind}", status={"parents": list(parents)}, generation=1)


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    given: Manifest
    expect: State
    reason: str
    deadline: bool = True
    context: Context = field(default_factory=Context)


ACCEPTED = ("Accepted=True/Accepted", "ResolvedRefs=True/ResolvedRefs")

# fmt: off
CASES = [
    Case(name="a Job that is complete", given=job("Complete=True"), expect=HEALTHY, reason="Healthy"),
    Case(name="a Job whose criteria are met is not complete yet", given=job("SuccessCriteriaMet=True"),
         expect=PROGRESSING, reason="JobRunning"),
    Case(name="a Job that is failing says why", given=job("FailureTarget=True/PodFailurePolicy"), expect=PROGRESSING,
         reason="PodFailurePolicy"),
    Case(name="a Job that failed and was suspended has failed",
         given=job("Failed=True/MaxFailedIndexesExceeded", spec={"suspend": True}), expect=FAILED,
         reason="MaxFailedIndexesExceeded"),
    Case(name="a Service", given=manifest("v1 Service", spec={"type": "NodePort"}), expect=HEALTHY, reason="Healthy"),
    Case(name="a Service waits for a load balancer without a deadline",
         given=manifest("v1 Service", spec={"type": "LoadBalancer"}), expect=PROGRESSING, reason="LoadBalancerPending",
         deadline=False),
    Case(name="a Service that has its load balancer",
         given=manifest("v1 Service", spec={"type": "LoadBalancer"},
         status={"loadBalancer": {"ingress": [{"hostname": "lb"}]}}), expect=HEALTHY, reason="Healthy"),
    Case(name="a claim that is bound", given=claim("Bound"), expect=HEALTHY, reason="Healthy"),
    Case(name="a claim whose class may not be read may just wait", given=claim("Pending"), expect=PROGRESSING,
         reason="StorageClassUnreadable", deadline=False),
    Case(name="a claim whose class does not exist waits for it", given=claim("Pending"), context=late(""),
         expect=PROGRESSING, reason="StorageClassNotFound"),
    Case(name="a claim whose pod has a node waits for its volume", given=claim("Pending", **SELECTED), context=late(),
         expect=PROGRESSING, reason="NotBound"),
    Case(name="a claim that names its volume waits for no pod",
         given=claim("Pending", spec={"storageClassName": "late", "volumeName": "pv"}), context=late(),
         expect=PROGRESSING, reason="NotBound"),
    Case(name="a claim that wants no class asks none", given=claim("Pending", spec={"storageClassName": ""}),
         context=late(), expect=PROGRESSING, reason="NotBound"),
    Case(name="a budget that allows no disruption does its work",
         given=conditioned(PDB, "DisruptionAllowed=False/InsufficientPods"), expect=HEALTHY, reason="Healthy"),
    Case(name="a budget that cannot be reckoned",
         given=conditioned(PDB, "DisruptionAllowed=False/SyncFailed/found no controllers"), expect=FAILED,
         reason="SyncFailed"),
    Case(name="a CRD that is established",
         given=conditioned(CRD, "Established=True/InitialNamesAccepted", "NamesAccepted=True/NoConflicts"),
         expect=HEALTHY, reason="Healthy"),
    Case(name="a CRD that is being installed",
         given=conditioned(CRD, "NamesAccepted=True/NoConflicts", "Established=False/Installing"), expect=PROGRESSING,
         reason="Installing"),
    Case(name="an APIService without a reported condition", given=manifest(API_SERVICE), expect=PROGRESSING,
         reason="NotAvailable"),
    Case(name="an APIService that answers", given=conditioned(API_SERVICE, "Available=True/Passed"), expect=HEALTHY,
         reason="Healthy"),
    Case(name="an APIService that answers wrongly",
         given=conditioned(API_SERVICE, "Available=False/FailedDiscoveryCheck/no route"), expect=PROGRESSING,
         reason="FailedDiscoveryCheck"),
    Case(name="an autoscaler that cannot read its target", given=conditioned(HPA, "AbleToScale=False/FailedGetScale"),
         expect=PROGRESSING, reason="FailedGetScale"),
    Case(name="an autoscaler at its limit",
         given=conditioned(HPA, "AbleToScale=True", "ScalingActive=True", "ScalingLimited=True/TooManyReplicas"),
         expect=HEALTHY, reason="Healthy"),
    Case(name="a Gateway that is programmed", given=conditioned(GATEWAY, "Accepted=True", "Programmed=True"),
         expect=HEALTHY, reason="Healthy"),
    Case(name="a Gateway that has no address", given=conditioned(GATEWAY, "Programmed=False/AddressNotAssigned"),
         expect=PROGRESSING, reason="AddressNotAssigned"),
    Case(name="a Gateway of no controller", given=manifest(GATEWAY), expect=PROGRESSING, reason="NotProgrammed"),
    Case(name="a route without parents", given=route(), expect=PROGRESSING, reason="NoParents"),
    Case(name="a route that was taken up", given=route(parent("a", *ACCEPTED)), expect=HEALTHY, reason="Healthy"),
    Case(name="a route that one of its parents does not accept",
         given=route(parent("a", *ACCEPTED), parent("b", "Accepted=False/NotAllowedByListeners", ACCEPTED[1])),
         expect=PROGRESSING, reason="NotAllowedByListeners"),
    Case(name="a route to a Service that does not exist",
         given=route(parent("a", ACCEPTED[0], "ResolvedRefs=False/BackendNotFound"), kind="GRPCRoute"),
         expect=PROGRESSING, reason="BackendNotFound"),
    Case(name="a route that was accepted at another generation", given=route(parent("a", *ACCEPTED, observed=2)),
         expect=PROGRESSING, reason="NotAccepted"),
    Case(name="a Namespace", given=manifest("v1 Namespace"), expect=HEALTHY, reason="Healthy"),
    Case(name="a CronJob", given=manifest("batch/v1 CronJob"), expect=HEALTHY, reason="Healthy"),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_said_of_an_object(case: Case) -> None:
    verdict = assess(case.given, case.context)

    assert (verdict.state, verdict.reason, verdict.deadline) == (case.expect, case.reason, case.deadline)


def test_a_claim_that_waits_for_its_volume_names_it_and_what_may_be_in_the_way() -> None:
    verdict = assess(claim("Pending", spec={"storageClassName": "", "volumeName": "disk"}), Context())

    assert verdict.message == 'waiting for PersistentVolume "disk"'
    assert "kubectl describe persistentvolume disk" in verdict.hint
    assert "if its claim is gone, remove its spec.claimRef" in verdict.hint


@pytest.mark.parametrize("kind", ["HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute", "UDPRoute"])
def test_every_kind_of_route_names_the_parent_that_it_waits_for(kind: str) -> None:
    given = route(parent("a", *ACCEPTED), parent("b", ACCEPTED[0]), kind=kind)

    verdict = assess(given, Context())

    assert (verdict.reason, verdict.message) == (
        "NotResolvedRefs",
        'parent "b": condition ResolvedRefs is not reported yet',
    )


def test_a_failed_job_does_not_name_its_pod() -> None:
    condition = "Container main for pod foo/web-x7k2p failed with exit code 42"
    failed = manifest(
        "batch/v1 Job",
        status={
            "conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": condition}]
        },
    )

    assert assess(failed, Context()).message == "Container main failed with exit code 42"


AUTOSCALER_MESSAGES = [
    ("got 12345m of 10.5", "got … of …"),
    (
        "invalid metrics (1 invalid out of 3), first error is: no pods.metrics.k8s.io in v2beta2.",
        "invalid metrics (… invalid out of …), first error is: no pods.metrics.k8s.io in v2beta2.",
    ),
    ("missing request for cpu in container app of Pod web-0", "missing request for cpu in container app"),
    ("", "condition ScalingActive is False"),
]


@pytest.mark.parametrize(("said", "told"), AUTOSCALER_MESSAGES, ids=[told for _, told in AUTOSCALER_MESSAGES])
def test_the_message_of_an_autoscaler_is_shown_without_measurements(said: str, told: str) -> None:
    broken = conditioned(HPA, f"ScalingActive=False/FailedGetPodsMetric/{said}")

    assert assess(broken, Context()).message == told


def test_the_class_is_asked_for_by_name_or_as_the_default_one() -> None:
    asked: list[str | None] = []
    context = Context(binding_mode=asked.append)

    for spec in ({"storageClassName": "disk"}, {}):
        assess(claim("Pending", spec=spec), context)
    assess(claim("Bound"), context)

    assert asked == ["disk", None]


METRICS = "the HPA was unable to compute the replica count: " + "unable to fetch metrics from resource metrics API " * 9
ACCEPTABLE = [
    pytest.param(manifest("v1 Service", spec={"type": "LoadBalancer"}), Context(), id="no load balancer"),
    pytest.param(
        conditioned(HPA, f"ScalingActive=False/FailedGetResourceMetric/{METRICS}"), Context(), id="no metrics"
    ),
    pytest.param(conditioned(HPA, "AbleToScale=False/FailedGetScale"), Context(), id="no scale"),
    pytest.param(manifest(GATEWAY), Context(), id="no Gateway controller"),
    pytest.param(route(), Context(), id="no Gateway"),
    pytest.param(claim("Pending"), Context(), id="StorageClasses that cannot be read"),
    pytest.param(claim("Pending"), late(""), id="no StorageClass"),
    pytest.param(manifest("example.com/v1 Cache"), Context(reports_status=True), id="a silent controller"),
]


@pytest.mark.parametrize(("given", "context"), ACCEPTABLE)
def test_what_the_cluster_may_lack_for_good_is_accepted_by_the_health_check_in_the_message(
    given: Manifest, context: Context
) -> None:
    waiting = assess(given, context)
    late = with_deadline(replace(waiting, deadline=True), since=0, now=601, deadline=600)
    for verdict in (waiting, late):
        said, _, pasted = verdict.text.rpartition("; to accept it as it is, add to spec.healthChecks: ")
        assert said
        [document] = read_documents(pasted.encode(), "checks.yaml")
        [check] = document.value
        HealthCheck.model_validate(check)
        assert matching([check], given) == (check,)
        assert assess(given, replace(context, checks=(check,))).state is HEALTHY


def test_what_is_only_on_its_way_has_no_such_hint() -> None:
    assert assess(job(), Context()).hint == ""
    assert assess(claim("Pending"), late("Immediate")).hint == ""
