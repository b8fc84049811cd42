"""Which hooks are run when, in which order, and how each stands."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from api import names
from controller.apply.hooks.hook import (
    HookEvent,
    HookState,
    HookStatus,
    assess,
    hooks_of,
    is_of_run,
    kinds_of,
    make_hook_body,
)
from controller.apply.ownership import Owner
from controller.build.revision import Revision, Terms
from controller.observe.records import ObjectKey

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
