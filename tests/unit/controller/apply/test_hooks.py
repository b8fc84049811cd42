"""Which hooks are run when, in which order, and how each stands."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.apply.hooks import (
    HookEvent,
    HookState,
    HookStatus,
    assess,
    has_started,
    hooks_of,
    is_of_run,
    kinds_of,
    make_hook_body,
    make_running_record,
)
from rukpak.controller.apply.ownership import Owner
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.health.verdict import Verdict, failed, progressing

JOB, POD = ObjectKey("batch", "Job", "shop", "a"), ObjectKey("", "Pod", "shop", "a")


def hook(name: str, *events: str, weight: int = 0, kind: str = "Job") -> dict[str, Any]:
    api_version = "batch/v1" if kind == "Job" else "v1"
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}}
    policies = ["before-hook-creation"]
    return {"manifest": manifest, "events": list(events), "weight": weight, "deletePolicies": policies}


WEB = Owner("web", "uid-1")


def revision(*hooks: dict[str, Any]) -> Revision:
    return Revision(digest="sha256:1", objects=(), hooks=hooks, terms=Terms(inputs="", install_namespace="shop"))


def order(*hooks: dict[str, Any], event: HookEvent = HookEvent.PRE_INSTALL) -> str:
    return " ".join(each.key.name for each in hooks_of(revision(*hooks), event))


def test_hooks_run_by_weight_and_then_by_name() -> None:
    hooks = [hook("c", "pre-install", weight=5), hook("b", "pre-install"), hook("a", "pre-install", weight=-1)]
    assert order(*hooks, hook("aa", "pre-install")) == "a aa b c"


def test_a_hook_runs_at_its_events_only() -> None:
    hooks = [hook("a", "pre-install", "pre-upgrade"), hook("b", "post-install")]
    assert order(*hooks) == "a"
    assert order(*hooks, event=HookEvent.PRE_UPGRADE) == "a"
    assert not order(*hooks, event=HookEvent.POST_DELETE)


def test_the_kinds_of_all_hooks_are_to_be_watched() -> None:
    kinds = kinds_of(revision(hook("a", "pre-install"), hook("b", "post-delete", kind="ConfigMap")))
    assert {str(kind) for kind in kinds} == {"batch/v1/Job", "v1/ConfigMap"}


def test_a_hook_is_sent_without_owner_reference_and_says_of_which_run_it_is() -> None:
    found = hooks_of(revision(hook("a", "pre-install")), HookEvent.PRE_INSTALL)[0]
    metadata = make_hook_body(found, WEB)["metadata"]
    assert metadata["labels"] == {names.OWNER_LABEL: "web"}
    assert metadata["annotations"][names.HOOK_RUN] == "pre-install sha256:1 uid-1"
    assert not {names.OWNER_UID, "ownerReferences"} & {*metadata, *metadata["annotations"]}


def test_an_object_of_another_run_or_owner_is_not_this_run() -> None:
    found = hooks_of(revision(hook("a", "pre-install", "pre-upgrade")), HookEvent.PRE_INSTALL)[0]
    body = make_hook_body(found, WEB)
    later = hooks_of(revision(hook("a", "pre-install", "pre-upgrade")), HookEvent.PRE_UPGRADE)[0]
    assert is_of_run(body, found, WEB)
    assert not is_of_run(body, later, WEB)
    assert not is_of_run(body, found, Owner("other", WEB.uid))
    assert not is_of_run(body, found, Owner(WEB.name, "recreated"))


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    key: ObjectKey = JOB
    status: dict[str, Any] | None
    expect: HookStatus


def job(kind: str, status: str = "True", **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Suspended", "status": "False"}, {"type": kind, "status": status, **more}]}


# fmt: off
CASES = [
    Case(name="a Job without status runs", status=None, expect=HookStatus(HookState.RUNNING)),
    Case(name="a Job that is complete has succeeded", status=job("Complete"), expect=HookStatus(HookState.SUCCEEDED)),
    Case(name="a Job that is not complete runs", status=job("Complete", "False"), expect=HookStatus(HookState.RUNNING)),
    Case(name="a Job that may still run pods runs", status=job("FailureTarget"), expect=HookStatus(HookState.RUNNING)),
    Case(name="a Job that has failed says why", status=job("Failed", reason="BackoffLimitExceeded"),
         expect=HookStatus(HookState.FAILED, "BackoffLimitExceeded")),
    Case(name="a Job may fail without a word", status=job("Failed"), expect=HookStatus(HookState.FAILED, "JobFailed")),
    Case(name="a Pod without a phase runs", key=POD, status={}, expect=HookStatus(HookState.RUNNING)),
    Case(name="a running Pod runs", key=POD, status={"phase": "Running"}, expect=HookStatus(HookState.RUNNING)),
    Case(name="a Pod succeeds", key=POD, status={"phase": "Succeeded"}, expect=HookStatus(HookState.SUCCEEDED)),
    Case(name="a Pod that was evicted has failed", key=POD, status={"phase": "Failed", "reason": "Evicted"},
         expect=HookStatus(HookState.FAILED, "Evicted")),
    Case(name="everything else is done when it is there", key=ObjectKey("", "ServiceAccount", "shop", "a"), status=None,
         expect=HookStatus(HookState.SUCCEEDED)),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_how_a_hook_stands(case: Case) -> None:
    live = {"metadata": {}} if case.status is None else {"metadata": {}, "status": case.status}
    assert assess(live, case.key) == case.expect


def container(restarts: int = 0, last: str = "", **state: Any) -> dict[str, Any]:
    return {"name": "main", "restartCount": restarts, "state": state, "lastState": {last: {}} if last else {}}


def pod(phase: str = "Pending", key: str = "containerStatuses", *containers: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {}, "status": {"phase": phase, key: list(containers)}}


WAITS, INIT = {"reason": "ImagePullBackOff"}, "initContainerStatuses"
STARTED: list[tuple[str, dict[str, Any], list[dict[str, Any]], bool]] = [
    ("a Job without pods", {}, [], False),
    ("a Job whose pod was not seen", {"active": 1}, [{"metadata": {}}], False),
    ("a Job whose pod has no node", {"active": 1, "ready": 0}, [pod()], False),
    ("a Job whose image cannot be pulled", {"active": 1}, [pod("Pending", INIT, container(waiting=WAITS))], False),
    ("a Job whose init container runs", {"active": 1}, [pod("Pending", INIT, container(running={}))], True),
    ("a Job whose init container has ended", {"active": 1}, [pod("Pending", INIT, container(terminated={}))], True),
    ("a Job that crashes", {"active": 1}, [pod("Pending", INIT, container(waiting=WAITS, last="terminated"))], True),
    ("a Job that was restarted", {"active": 1}, [pod("Pending", INIT, container(1, waiting=WAITS))], True),
    ("a Job whose pod runs", {"active": 1}, [pod("Running")], True),
    ("a Job whose node is lost", {"active": 1}, [pod("Unknown")], True),
    ("a Job of which one pod runs", {"active": 2}, [pod(), pod("Running")], True),
    ("a Job whose pod is ready", {"active": 1, "ready": 1}, [pod()], True),
    ("a Job whose first pod has failed and is gone", {"failed": 1}, [pod()], True),
    ("a Job whose first pod is being deleted", {"terminating": 1}, [], True),
]


@pytest.mark.parametrize(("name", "status", "pods", "expect"), STARTED, ids=[case[0] for case in STARTED])
def test_whether_a_hook_has_started(
    name: str, status: dict[str, Any], pods: list[dict[str, Any]], expect: bool
) -> None:
    assert has_started({"metadata": {}, "status": status}, pods) is expect


RUNNING: list[tuple[str, ObjectKey, dict[str, Any], Verdict]] = [
    ("a Job", JOB, {}, progressing("JobRunning", "not finished yet")),
    ("a Job that is suspended", JOB, {"spec": {"suspend": True}}, progressing("Suspended", "spec.suspend is true")),
    ("a Pod that is ready", POD, {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
     progressing("HookRunning", "not finished yet")),
    ("a Pod that crashes", POD, pod("Running", "containerStatuses", container(waiting={"reason": "CrashLoopBackOff"})),
     progressing("CrashLoopBackOff", 'container "main"')),
    ("a Pod that cannot start", POD, pod("Pending", INIT, container(waiting={"reason": "InvalidImageName"})),
     failed("InvalidImageName", 'init container "main"')),
]  # fmt: skip


@pytest.mark.parametrize(("name", "key", "fields", "expect"), RUNNING, ids=[case[0] for case in RUNNING])
def test_a_running_hook_is_never_healthy(name: str, key: ObjectKey, fields: dict[str, Any], expect: Verdict) -> None:
    about = {"apiVersion": "batch/v1" if key == JOB else "v1", "kind": key.kind, "metadata": {"name": key.name}}
    assert make_running_record({**about, **fields, "metadata": about["metadata"]}, key).verdict == expect
