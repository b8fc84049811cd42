"""Which revision is wanted when a user pins one, or an upgrade has failed: everything else is as for any revision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.controller.kube.errors import ApiError
from tests.support.fake_cluster import Json
from tests.support.reconciling import PATH, World

A, B, OLD = (f"/api/v1/namespaces/shop/configmaps/{name}" for name in ("a", "b", "old"))
WEB = "/apis/apps/v1/namespaces/shop/deployments/web"
READY = {"Unpacked": "True Unpacked", "Installed": "True Installed", "Healthy": "True Healthy", "Ready": "True Ready"}
PINNED = {**READY, "Pinned": "True Pinned"}
FAILS = {
    "observedGeneration": 1,
    "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}],
}
ROLL_BACK = {"onFailure": {"action": "RollBack"}}


def config_map(name: str, value: str = "1") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}


def workload() -> Json:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}}


def hook(*events: str, name: str = "migrate", kind: str = "Job") -> Json:
    version = "batch/v1" if kind == "Job" else "v1"
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}}
    return {"manifest": manifest, "events": list(events), "weight": 0, "deletePolicies": ["before-hook-creation"]}


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster with an installed bundle, and others that may follow it."""
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    marks = [
        hook("pre-rollback", name="before", kind="ConfigMap"),
        hook("post-rollback", name="after", kind="ConfigMap"),
    ]
    made.shelf.put("v1", config_map("a"), config_map("old"), hooks=marks)
    made.shelf.put("v2", config_map("a", "2"), config_map("b"))
    made.shelf.put("v3", config_map("a", "3"))
    made.shelf.put("fails", config_map("a", "fails"), workload())
    made.shelf.put("before", config_map("a", "4"), hooks=[hook("pre-upgrade")])
    made.shelf.put("after", config_map("a", "5"), hooks=[hook("post-upgrade")])
    install(made, "v1")
    yield made
    made.applier.stop()


def install(world: World, tag: str, **spec: Any) -> str:
    """Install the content of a tag, and return its revision."""
    world.wish(tag, **spec)
    world.settle()
    return world.deployment.status.revision


def fail(world: World) -> None:
    """Let a failing upgrade begin, and its Deployment fail."""
    world.wish("fails", **ROLL_BACK)
    world.settle()
    assert world.exists(WEB)
    world.cluster.edit(WEB, status=FAILS)
    world.reconcile()


def outcomes(world: World) -> list[tuple[str, str | None]]:
    return [(each.revision, each.outcome) for each in world.deployment.status.history]


def value(world: World) -> str:
    found: str = world.cluster.objects[A]["data"]["a"]
    return found


# by hand


def test_a_pinned_revision_is_applied_without_asking_a_source(world: World) -> None:
    first = world.deployment.status.revision
    second = install(world, "v2")
    world.shelf.calls.clear()
    install(world, "gone", pinnedRevision=first)
    assert (world.conditions, value(world), world.exists(OLD), world.exists(B)) == (PINNED, "1", True, False)
    assert world.shelf.calls == []
    assert outcomes(world) == [(first, "Healthy"), (second, "RolledBack")]
    undo = f"until the rollback is undone: rukpak rollback {world.deployment.metadata.name} --undo"
    assert world.message("Ready").endswith(f"new content and config are ignored {undo}")
    assert world.message("Pinned").endswith(f"whatever the sources lead to, {undo}")
    world.reconcile()
    assert world.requests() == []


def test_without_the_pin_the_sources_count_again(world: World) -> None:
    first = world.deployment.status.revision
    second = install(world, "v2")
    install(world, "v2", pinnedRevision=first)
    assert install(world, "v2") == second
    assert world.shelf.calls.count("resolve v2") == 1
    assert (world.conditions, value(world)) == (READY, "2")
    assert outcomes(world) == [(second, "Healthy"), (first, "Healthy")]


def test_a_pinned_revision_is_repaired_and_survives_a_restart(world: World) -> None:
    first = world.deployment.status.revision
    install(world, "v2")
    install(world, "v2", pinnedRevision=first)
    world.restart()
    world.cluster.edit(A, data={"a": "edited"})
    world.settle()
    assert (world.conditions, value(world)) == (PINNED, "1")


def test_a_revision_that_is_not_kept_changes_nothing_and_names_those_that_are(world: World) -> None:
    first, second = world.deployment.status.revision, install(world, "v2")
    install(world, "v2", pinnedRevision="sha256:" + "0" * 64)
    assert world.conditions["Ready"] == "False RevisionNotKept"
    assert world.conditions["Stalled"] == "True RevisionNotKept"
    assert f"kept revisions: {second[7:19]}, {first[7:19]}; " in world.message("Ready")
    world.cluster.edit(A, data={"a": "edited"})
    world.settle()
    assert value(world) == "2"


CHANGES: dict[str, dict[str, Any]] = {
    "another tag": {"tag": "v3"},
    "config": {"tag": "v2", "config": {"a": 1}},
    "another format": {"tag": "v2", "format": "helm"},
    "a processor": {"tag": "v2", "processors": [{"kind": "metadata", "metadata": {"labels": {"a": "b"}}}]},
    "a ConfigMap with config": {"tag": "v2", "configFrom": [{"kind": "ConfigMap", "name": "x"}], "config": {}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_spec_that_was_changed_after_the_pin_is_not_ready(world: World, change: str) -> None:
    first = world.deployment.status.revision
    install(world, "v2")
    install(world, "v2", pinnedRevision=first)
    assert world.conditions == PINNED
    install(world, **CHANGES[change], pinnedRevision=first)
    changed = {"Installed": "False PinnedWithChanges", "Ready": "False PinnedWithChanges"}
    assert (world.conditions, value(world)) == ({**PINNED, **changed}, "1")
    assert "apply the change (rukpak rollback shop --undo), or revert it" in world.message("Ready")
    world.restart()
    world.settle()
    assert world.conditions == {**PINNED, **changed}
    install(world, "v2", pinnedRevision=first)
    assert world.conditions == PINNED


def test_what_is_said_about_a_pin_ends_with_it(world: World) -> None:
    first = world.deployment.status.revision
    install(world, "v2", pinnedRevision=first)
    install(world, "v3", pinnedRevision=first)
    install(world, "v3")
    assert (world.conditions, value(world), world.deployment.status.pinned) == (READY, "3", None)


@pytest.mark.parametrize("change", [{"paused": True}, {"prune": "Never"}, {"drift": {"mode": "Report"}}], ids=str)
def test_what_leads_to_no_revision_may_be_changed_after_the_pin(world: World, change: dict[str, Any]) -> None:
    first = world.deployment.status.revision
    install(world, "v2", pinnedRevision=first)
    install(world, "v2", pinnedRevision=first, **change)
    assert world.conditions["Ready"] == "True Ready"


def test_the_sources_of_what_is_installed_are_told_beside_those_of_the_spec(world: World) -> None:
    first = world.deployment.status.revision
    [old] = world.deployment.status.installed_sources
    install(world, "v2")
    [new] = world.deployment.status.installed_sources
    assert world.deployment.status.sources[0].digest == new.digest != old.digest
    install(world, "v2", pinnedRevision=first)
    status = world.deployment.status
    assert [pin.digest for pin in status.installed_sources] == [old.digest]
    assert [pin.digest for pin in status.sources] == [new.digest]
    assert status.display.sources == f"image:v1@{old.digest.removeprefix('sha256:')[:12]}"
    assert status.history[0].sources == status.display.sources


def test_a_pin_is_not_applied_while_paused(world: World) -> None:
    first = world.deployment.status.revision
    install(world, "v2")
    install(world, "v2", pinnedRevision=first, paused=True)
    assert (world.conditions["Installed"], value(world)) == ("False PausedWithChanges", "2")
    install(world, "v2", pinnedRevision=first)
    assert (world.conditions, value(world)) == (PINNED, "1")


def test_a_revision_that_was_approved_once_needs_no_second_approval(world: World) -> None:
    first = world.deployment.status.revision
    second = install(world, "v2", approval="Manual")
    assert (world.conditions["Ready"], second) == ("False AwaitingApproval", first)
    pending = world.deployment.status.pending
    assert pending
    install(world, "v2", approval="Manual", approvedRevision=pending.revision)
    assert value(world) == "2"
    install(world, "v2", approval="Manual", approvedRevision=pending.revision, pinnedRevision=first)
    assert (world.conditions, value(world)) == (PINNED, "1")


def test_a_revision_that_was_never_approved_cannot_be_pinned(world: World) -> None:
    install(world, "v2", approval="Manual")
    pending = world.deployment.status.pending
    assert pending
    status = world.cluster.objects[PATH]["status"]
    forged = [*status["history"], {"revision": pending.revision, "outcome": "Healthy"}]
    world.cluster.edit(PATH, status={**status, "history": forged})
    world.restart()
    install(world, "v2", approval="Manual", pinnedRevision=pending.revision)
    assert (world.conditions["Ready"], value(world)) == ("False AwaitingApproval", "1")


# automatic


def test_an_upgrade_whose_object_fails_is_rolled_back(world: World) -> None:
    first = world.deployment.status.revision
    fail(world)
    failed = world.deployment.status.revision
    assert world.conditions["RolledBack"] == "True ProgressDeadlineExceeded"
    world.settle()
    assert (value(world), world.exists(OLD), world.exists(WEB)) == ("1", True, False)
    assert world.deployment.status.installed_revision == first
    assert world.conditions == {
        "Unpacked": "True Unpacked",
        "Installed": "False RolledBack",
        "Healthy": "True Healthy",
        "Ready": "False RolledBack",
        "Stalled": "True RolledBack",
        "RolledBack": "True ProgressDeadlineExceeded",
    }
    assert f"rolled back from revision {failed[7:19]}" in world.message("RolledBack")
    assert f"to revision {first[7:19]}: Deployment shop/web" in world.message("RolledBack")
    assert outcomes(world) == [(first, "Healthy"), (failed, "RolledBack")]
    assert [each.action for each in world.events.notes if each.reason == "RolledBack"] == ["RollBack"]


def test_a_rolled_back_revision_is_not_retried_before_the_spec_changes(world: World) -> None:
    fail(world)
    world.settle()
    world.restart()
    world.cluster.edit(A, data={"a": "edited"})
    world.settle()
    assert (value(world), world.exists(WEB)) == ("1", False)
    world.reconcile()
    assert world.requests() == []
    install(world, "fails", **ROLL_BACK, progressDeadline="5m")
    assert (value(world), world.exists(WEB)) == ("fails", True)
    assert "RolledBack" not in world.conditions


def test_other_pins_are_tried(world: World) -> None:
    fail(world)
    world.settle()
    world.shelf.put("fails", config_map("a", "corrected"))
    world.ask("now")
    world.settle()
    assert (world.conditions, value(world)) == (READY, "corrected")


def test_the_same_pins_are_not(world: World) -> None:
    fail(world)
    world.settle()
    world.ask("now")
    world.settle()
    assert (world.conditions["Ready"], value(world)) == ("False RolledBack", "1")


@pytest.mark.parametrize("spec", [{}, {**ROLL_BACK, "paused": True}], ids=["Stay", "paused"])
def test_nothing_is_rolled_back_unless_asked_for_or_while_paused(world: World, spec: Any) -> None:
    install(world, "fails")
    world.wish("fails", **spec)
    world.cluster.edit(WEB, status=FAILS)
    world.settle()
    assert (value(world), world.deployment.status.rollback) == ("fails", None)


def test_a_first_installation_is_not_rolled_back(world: World) -> None:
    world.delete()
    world.settle()
    world.wish("fails", **ROLL_BACK)
    world.settle()
    world.cluster.edit(WEB, status=FAILS)
    world.settle()
    assert (world.conditions["Ready"], world.deployment.status.rollback) == ("False ProgressDeadlineExceeded", None)


def test_nothing_is_rolled_back_twice_in_a_row(world: World) -> None:
    """The revision that was healthy once is not healthy now, and so the one that follows is not rolled back either."""
    install(world, "v2")
    world.shelf.put("base", config_map("a", "base"), workload())
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    available = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
    healthy = {"observedGeneration": 1, **counts, "conditions": [available]}
    install(world, "base")
    world.cluster.edit(WEB, status=healthy)
    world.settle()
    assert world.conditions == READY
    world.shelf.put("worse", config_map("a", "worse"), {**workload(), "spec": {"replicas": 2}})
    install(world, "worse", **ROLL_BACK)
    world.cluster.edit(WEB, status=FAILS)
    world.settle()
    assert (value(world), world.conditions["RolledBack"]) == ("base", "True ProgressDeadlineExceeded")
    world.shelf.put("worst", config_map("a", "worst"), {**workload(), "spec": {"replicas": 3}})
    install(world, "worst", **ROLL_BACK)
    assert (value(world), world.deployment.status.rollback) == ("worst", None)


def test_an_upgrade_whose_hook_fails_before_it_is_given_up(world: World) -> None:
    install(world, "before", **ROLL_BACK)
    world.cluster.edit("/apis/batch/v1/namespaces/shop/jobs/migrate", status={
        "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]})  # fmt: skip
    world.settle()
    assert (world.conditions["RolledBack"], value(world)) == ("True HookFailed", "1")
    assert not world.exists("/api/v1/namespaces/shop/configmaps/before")


def test_an_upgrade_whose_hook_fails_after_it_is_rolled_back_with_hooks(world: World) -> None:
    install(world, "after", **ROLL_BACK)
    assert value(world) == "5"
    world.cluster.edit("/apis/batch/v1/namespaces/shop/jobs/migrate", status={
        "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]})  # fmt: skip
    world.settle()
    assert (world.conditions["RolledBack"], value(world)) == ("True HookFailed", "1")
    assert world.exists(*(f"/api/v1/namespaces/shop/configmaps/{name}" for name in ("before", "after")))


def test_objects_that_are_refused_for_too_long_are_rolled_back(world: World) -> None:
    refusal = ApiError(422, "Invalid", 'ConfigMap "b" is invalid: data: too bad')
    world.cluster.faults[f"TRY {B}"] = [refusal] * 9
    world.wish("v2", **ROLL_BACK, progressDeadline="10m")
    world.reconcile()
    assert (world.conditions["Ready"], value(world)) == ("False Refused", "2")
    requeue = world.reconcile()
    assert requeue.after is not None
    world.seconds += 601
    world.settle()
    assert (world.conditions["RolledBack"], value(world)) == ("True Refused", "1")
    assert world.exists(A, OLD)


def test_a_target_that_is_lost_meanwhile_leaves_the_failed_revision(world: World) -> None:
    first = world.deployment.status.revision
    fail(world)
    lost = [path for path, each in world.cluster.objects.items()
            if "/secrets/revision." in path
            and each["metadata"]["annotations"]["core.rukpak.io/revision"] == first]  # fmt: skip
    for path in lost:
        world.cluster.remove(path)
    world.restart()
    world.settle()
    assert value(world) == "fails"
    assert "RolledBack" not in world.conditions
