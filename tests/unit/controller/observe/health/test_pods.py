from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import pytest

from rukpak.controller.observe.health.explain import explain, explain_namespace, pods_of
from rukpak.controller.observe.health.kubelet import QUOTE_LENGTH
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import Context, State, Verdict, progressing
from tests.unit.controller.observe.health.objects import Manifest, conditioned, crashed, ended, manifest, pod, waiting

HEALTHY, PROGRESSING, FAILED = State.HEALTHY, State.PROGRESSING, State.FAILED
CREATING = {"name": "app", "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
UNSCHEDULABLE = pod("Pending", "PodScheduled=False/Unschedulable")
EVICTED = pod("Failed", reason="Evicted")
READY = pod("Running", "Ready=True")


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    given: Manifest
    expect: State
    reason: str
    message: str = ""


# fmt: off
CASES = [
    Case(name="one that is done", given=pod("Succeeded", "Ready=False/PodCompleted"), expect=HEALTHY, reason="Healthy"),
    Case(name="one that ran out of memory",
         given=pod("Failed", containers=[ended(0, "Completed", "side"), ended(137, "OOMKilled")]), expect=FAILED,
         reason="OOMKilled", message='container "app" ended with exit code 137 (OOMKilled, it has no memory limit)'),
    Case(name="one whose program failed", given=pod("Failed", containers=[ended(3)]), expect=FAILED,
         reason="ContainerFailed", message='container "app" ended with exit code 3'),
    Case(name="one whose program failed and says why", given=pod("Failed", containers=[ended(3, message="no disk\n")]),
         expect=FAILED, reason="ContainerFailed", message='container "app" ended with exit code 3: no disk'),
    Case(name="one that crashes and says why",
         given=pod("Running", "Ready=False", containers=[crashed(3, message="line one\nline two")]), expect=FAILED,
         reason="CrashLoopBackOff", message='container "app" ended with exit code 1: line one line two'),
    Case(name="one that crashed once and says why",
         given=pod("Running", "Ready=False", containers=[crashed(1, message="no disk")]), expect=PROGRESSING,
         reason="PodNotReady", message='container "app" ended with exit code 1: no disk'),
    Case(name="one whose message is the end of its log, which may have secrets",
         given={**pod("Failed", containers=[ended(3, message="password=1")]),
                "spec": {"containers": [{"name": "app", "terminationMessagePolicy": "FallbackToLogsOnError"}]}},
         expect=FAILED, reason="ContainerFailed", message='container "app" ended with exit code 3'),
    Case(name="one whose message has no end", given=pod("Failed", containers=[ended(3, message="x" * 4096)]),
         expect=FAILED, reason="ContainerFailed",
         message=f'container "app" ended with exit code 3: {"x" * (QUOTE_LENGTH - 1)}…'),
    Case(name="one that failed without a word", given=pod("Failed"), expect=FAILED, reason="PodFailed",
         message="status.phase is Failed"),
    Case(name="one that crashes", given=pod("Running", "Ready=False", containers=[waiting("CrashLoopBackOff", "app")]),
         expect=FAILED, reason="CrashLoopBackOff", message='container "app"'),
    Case(name="one whose init container crashed thrice and runs again",
         given=pod("Pending", inits=[crashed(3, name="setup")]), expect=FAILED, reason="CrashLoopBackOff",
         message='init container "setup" ended with exit code 1'),
    Case(name="one that crashed twice only", given=pod("Running", "Ready=False", containers=[crashed(2)]),
         expect=PROGRESSING, reason="PodNotReady", message='container "app" ended with exit code 1'),
    Case(name="one where another container crashed long ago, and is ready",
         given=pod("Running", "Ready=False", containers=[crashed(9, ready=True, name="old"), CREATING]),
         expect=PROGRESSING, reason="PodNotReady", message='container "app": ContainerCreating'),
    Case(name="one with a name that no image has", given=pod("Pending", containers=[waiting("InvalidImageName")]),
         expect=FAILED, reason="InvalidImageName", message='container "app"'),
    Case(name="one whose image must not be pulled", given=pod("Pending", containers=[waiting("ErrImageNeverPull")]),
         expect=FAILED, reason="ErrImageNeverPull", message='container "app"'),
    *(
        Case(
            name=f"one that waits with {reason}",
            given=pod("Pending", containers=[waiting(reason)]),
            expect=PROGRESSING,
            reason=reason,
            message='container "app"',
        )
        for reason in ("ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "RunContainerError")
    ),
    Case(name="one where waiting helps one container and not the other",
         given=pod("Pending", containers=[waiting("ImagePullBackOff", "a"), waiting("InvalidImageName", "b")]),
         expect=FAILED, reason="InvalidImageName", message='container "b"'),
    Case(name="one whose containers are being created",
         given=pod("Pending", "PodScheduled=True", containers=[CREATING]), expect=PROGRESSING, reason="PodPending",
         message="containers are not running yet"),
    Case(name="one without a status", given=pod(""), expect=PROGRESSING, reason="PodNotObserved",
         message="the pod has no status yet"),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_said_of_a_pod(case: Case) -> None:
    verdict = assess(case.given, Context())

    assert (verdict.state, verdict.reason, verdict.message) == (case.expect, case.reason, case.message)


def deleted(given: Manifest) -> Manifest:
    return given | {"metadata": {**given["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


@dataclass(frozen=True, kw_only=True)
class Explanation:
    name: str
    pods: list[Manifest]
    expect: tuple[State, str] | None


PULLING = pod("Pending", containers=[waiting("ImagePullBackOff")])
CRASHING = pod("Running", containers=[waiting("CrashLoopBackOff")])

# fmt: off
EXPLANATIONS = [
    Explanation(name="no pods explain nothing", pods=[], expect=None),
    Explanation(name="healthy pods explain nothing", pods=[READY], expect=None),
    Explanation(name="a pod that is being deleted explains nothing", pods=[deleted(CRASHING), READY], expect=None),
    Explanation(name="a pod that crashes fails the workload", pods=[READY, UNSCHEDULABLE, CRASHING, PULLING],
         expect=(FAILED, "CrashLoopBackOff")),
    Explanation(name="a container in trouble explains more than a missing node", pods=[UNSCHEDULABLE, PULLING],
         expect=(PROGRESSING, "ImagePullBackOff")),
    Explanation(name="a missing node explains more than a pod that ended", pods=[EVICTED, UNSCHEDULABLE],
         expect=(PROGRESSING, "Unschedulable")),
    Explanation(name="a pod that ended fails nothing, since it is replaced", pods=[EVICTED, pod("Pending")],
         expect=(PROGRESSING, "Evicted")),
    Explanation(name="a pod that is not ready explains more than one that starts",
         pods=[pod(""), pod("Pending"), pod("Running", "Ready=False")], expect=(PROGRESSING, "PodNotReady")),
]
# fmt: on


def of_template(given: Manifest, template: str, created: str) -> Manifest:
    about = {"labels": {"pod-template-hash": template}, "creationTimestamp": f"2026-01-01T00:00:{created}Z"}
    return given | {"metadata": {**given["metadata"], **about}}


EXPLANATIONS += [
    Explanation(
        name="a pod of a Deployment's older template explains nothing: it is being replaced",
        pods=[of_template(CRASHING, "old", "01"), of_template(PULLING, "new", "02")],
        expect=(PROGRESSING, "ImagePullBackOff"),
    ),
    Explanation(
        name="a pod of its newest template does, however old",
        pods=[of_template(CRASHING, "new", "01"), of_template(PULLING, "new", "02")],
        expect=(FAILED, "CrashLoopBackOff"),
    ),
]


@pytest.mark.parametrize("case", EXPLANATIONS, ids=attrgetter("name"))
def test_the_worst_pod_explains_its_workload(case: Explanation) -> None:
    verdict = explain(case.pods)

    assert (verdict and (verdict.state, verdict.reason)) == case.expect
    assert explain(case.pods[::-1]) == verdict


def test_a_namespace_explains_why_it_stays() -> None:
    remaining = "NamespaceContentRemaining=True/SomeResourcesRemain/remaining: pods. has 3 resource instances"
    finalizers = (
        "NamespaceFinalizersRemaining=True/SomeFinalizersRemain/remaining: example.com/x in 2 resource instances"
    )

    verdict = explain_namespace(conditioned("v1 Namespace", remaining, finalizers))

    assert verdict is not None
    assert (verdict.state, verdict.reason) == (State.TERMINATING, "NamespaceFinalizersRemaining")
    assert verdict.message == "remaining: example.com/x"


def test_what_a_namespace_has_done_does_not_explain() -> None:
    done = conditioned("v1 Namespace", "NamespaceContentRemaining=False/ContentRemoved/All content removed")

    assert explain_namespace(done) is None


TOO_FEW = progressing("LessAvailable")


@dataclass(frozen=True, kw_only=True)
class Selected:
    name: str
    workload: Manifest
    expect: str
    verdict: Verdict = TOO_FEW


def of_kind(kind: str, selector: object) -> Manifest:
    return manifest(kind, spec={"selector": selector})


EXPRESSIONS = [
    {"key": "tier", "operator": "In", "values": ["a", "b"]},
    {"key": "zone", "operator": "NotIn", "values": ["c"]},
    {"key": "app", "operator": "Exists"},
    {"key": "old", "operator": "DoesNotExist"},
]
BY_LABEL = {"matchLabels": {"app": "web", "tier": "front"}}

# fmt: off
SELECTORS = [
    Selected(name="a Deployment's by labels", workload=of_kind("apps/v1 Deployment", BY_LABEL),
         expect="app=web,tier=front"),
    Selected(name="a Job's by expressions", workload=of_kind("batch/v1 Job", {"matchExpressions": EXPRESSIONS}),
         expect="tier in (a,b),zone notin (c),app,!old"),
    Selected(name="a ReplicationController's by plain labels",
         workload=of_kind("v1 ReplicationController", {"app": "web"}), expect="app=web"),
    Selected(name="a Service's are not its own", workload=of_kind("v1 Service", {"app": "web"}), expect=""),
    Selected(name="a healthy workload's show whether that holds", workload=of_kind("apps/v1 Deployment", BY_LABEL),
         verdict=Verdict(HEALTHY, "Healthy"), expect="app=web,tier=front"),
    Selected(name="a Job that is done needs none", workload=of_kind("batch/v1 Job", BY_LABEL),
         verdict=Verdict(HEALTHY, "Healthy"), expect=""),
    Selected(name="one without deadline waits for a user", workload=of_kind("apps/v1 Deployment", BY_LABEL),
         verdict=progressing("DeploymentPaused", deadline=False), expect=""),
    Selected(name="one whose pods were refused has none that could explain it",
         workload=of_kind("apps/v1 Deployment", BY_LABEL), verdict=progressing("FailedCreate"), expect=""),
    Selected(name="one that selects nothing is not asked about everything",
         workload=of_kind("apps/v1 Deployment", None), expect=""),
]
# fmt: on


@pytest.mark.parametrize("case", SELECTORS, ids=attrgetter("name"))
def test_which_pods_may_explain_a_workload(case: Selected) -> None:
    assert pods_of(case.workload, case.verdict) == case.expect
