"""When hooks are run, what waits for them, and what becomes of them: with all real parts over a cluster in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.controller.kube.errors import ApiError
from rukpak.controller.observe.following import Topic
from tests.support.reconciling import PATH, World

JOBS = "/apis/batch/v1/namespaces/shop/jobs"
OBJECTS = "/api/v1/namespaces/shop/configmaps"
MIGRATE, A, B = f"{JOBS}/migrate", f"{OBJECTS}/a", f"{OBJECTS}/b"
LONG_AGO = "2020-01-01T00:00:00Z"
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}


def hook(*events: str, name: str = "migrate", kind: str = "Job", policies: str = "before-hook-creation") -> Any:
    api_version = "batch/v1" if kind == "Job" else "v1"
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}}
    return {"manifest": manifest, "events": list(events), "weight": 0, "deletePolicies": policies.split()}


def config_map(name: str) -> Any:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.applier.stop()


def install(world: World, *hooks: Any, tag: str = "v1", name: str = "a", **spec: Any) -> None:
    world.shelf.put(tag, config_map(name), hooks=hooks)
    world.wish(tag, installNamespace="shop", **spec)
    world.settle()


def finish(world: World, path: str = MIGRATE, status: Any = COMPLETE) -> None:
    world.cluster.patch(path, {"status": status})
    world.settle()


def revisions(world: World) -> list[str]:
    return [path for path in world.cluster.objects if "/secrets/revision." in path]


def installed(world: World) -> str:
    return world.conditions["Installed"]


# around installing


def test_a_first_install_waits_for_its_hook(world: World) -> None:
    install(world, hook("pre-install"))
    assert world.exists(MIGRATE)
    assert not world.exists(A)
    assert installed(world) == "False WaitingForHook"
    finish(world)
    assert world.exists(A)
    assert world.conditions["Ready"] == "True Ready"


def test_what_comes_after_installing_holds_up_installed(world: World) -> None:
    install(world, hook("post-install"))
    assert world.exists(A, MIGRATE)
    assert installed(world) == "False WaitingForHook"
    assert not world.deployment.status.installed_revision
    finish(world)
    assert world.conditions["Ready"] == "True Ready"


def test_hooks_run_one_after_the_other(world: World) -> None:
    install(world, hook("pre-install", name="first"), hook("pre-install", name="second"))
    assert not world.exists(f"{JOBS}/second")
    finish(world, f"{JOBS}/first")
    assert world.exists(f"{JOBS}/second")


def test_a_hook_that_is_no_job_is_done_when_it_is_there(world: World) -> None:
    install(world, hook("pre-install", name="prepared", kind="ConfigMap"))
    assert world.exists(f"{OBJECTS}/prepared", A)
    assert world.conditions["Ready"] == "True Ready"


def test_the_namespace_of_the_hooks_is_made_first(world: World) -> None:
    install(world, hook("pre-install"))
    assert world.exists("/api/v1/namespaces/shop")


def test_drift_and_a_restart_run_no_hook(world: World) -> None:
    install(world, hook("pre-install", "post-install", policies="before-hook-creation hook-succeeded"))
    finish(world)
    finish(world)
    assert not world.exists(MIGRATE)
    world.cluster.edit(A, data={"a": "x"})
    world.settle()
    world.restart()
    world.settle()
    assert world.cluster.objects[A]["data"] == {"a": "1"}
    assert not world.exists(MIGRATE)


def test_paused_means_that_no_hook_is_run(world: World) -> None:
    world.shelf.put("v1", config_map("a"), hooks=[hook("pre-install")])
    world.wish("v1", installNamespace="shop", paused=True)
    for _ in range(3):
        world.reconcile()
    assert not world.exists(MIGRATE)


# failing


def test_a_failed_hook_is_told_and_nothing_is_applied(world: World) -> None:
    install(world, hook("pre-install"))
    finish(world, status=FAILED)
    assert installed(world) == "False HookFailed"
    assert "Job shop/migrate: pre-install hook failed (BackoffLimitExceeded)" in world.message("Installed")
    assert not world.exists(A)


def test_a_failed_hook_is_run_again_after_five_minutes(world: World) -> None:
    install(world, hook("pre-install"))
    finish(world, status=FAILED)
    first = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    world.seconds += 299
    world.settle()
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] == first
    world.seconds += 2
    world.settle()
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] != first
    finish(world)
    assert world.conditions["Ready"] == "True Ready"


def test_a_failed_hook_is_run_again_immediately_on_request(world: World) -> None:
    install(world, hook("pre-install"))
    finish(world, status=FAILED)
    first = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    world.ask("now")
    world.settle()
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] != first


def test_nothing_is_applied_while_the_sources_are_asked_anew(world: World) -> None:
    install(world, hook("pre-install"))
    world.background.busy = True
    world.ask("now")
    for _ in range(3):
        world.reconcile()
    assert not world.exists(A)


def test_a_failed_hook_is_owed_while_and_after_the_sources_are_asked_anew(world: World) -> None:
    install(world, hook("post-install"))
    finish(world, status=FAILED)
    world.background.busy = True
    world.ask("now")
    for _ in range(3):
        world.reconcile()
    assert not world.deployment.status.installed_revision
    world.background.busy = False
    world.settle()
    assert installed(world) == "False WaitingForHook"
    finish(world)
    assert world.conditions["Ready"] == "True Ready"


def test_what_failed_after_an_installation_is_run_by_the_revision_that_mends_it(world: World) -> None:
    install(world, hook("post-install"))
    finish(world, status=FAILED)
    world.wish("missing", installNamespace="shop")
    world.settle()
    assert installed(world) == "False NotFound"
    assert not world.deployment.status.installed_revision
    install(world, hook("post-install"), tag="v2", name="b")
    assert installed(world) == "False WaitingForHook"
    finish(world)
    assert world.conditions["Ready"] == "True Ready"
    assert not world.exists(A)


def test_what_failed_after_an_upgrade_is_owed_while_the_sources_are_asked_anew(world: World) -> None:
    install(world)
    before = world.deployment.status.installed_revision
    install(world, hook("post-upgrade"), tag="v2", name="b")
    finish(world, status=FAILED)
    world.background.busy = True
    world.ask("now")
    for _ in range(3):
        world.reconcile()
    assert world.deployment.status.installed_revision == before
    world.background.busy = False
    world.settle()
    assert installed(world) == "False WaitingForHook"
    finish(world)
    assert world.conditions["Ready"] == "True Ready"


def test_a_hook_may_be_removed_when_it_fails(world: World) -> None:
    install(world, hook("pre-install", policies="hook-failed"))
    finish(world, status=FAILED)
    assert not world.exists(MIGRATE)
    assert installed(world) == "False HookFailed"
    assert "remove hook-failed from the policy to keep the logs of its pods" in world.message("Installed")


def test_one_that_has_succeeded_goes_when_all_have(world: World) -> None:
    account = hook("pre-install", name="account", kind="ConfigMap", policies="before-hook-creation hook-succeeded")
    install(world, account, hook("pre-install"))
    assert world.exists(f"{OBJECTS}/account")
    finish(world)
    assert not world.exists(f"{OBJECTS}/account")
    assert world.exists(MIGRATE, A)


def test_what_somebody_else_has_there_is_not_touched(world: World) -> None:
    world.cluster.put({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "namespace": "shop"}})
    install(world, hook("pre-install"))
    assert installed(world) == "False Collision"
    world.cluster.remove(MIGRATE)
    world.seconds += 400
    world.settle()
    assert installed(world) == "False WaitingForHook"


def test_an_earlier_run_that_stays_is_in_the_way_until_somebody_deletes_it(world: World) -> None:
    migration = hook("pre-install", "pre-upgrade", policies="hook-succeeded")
    install(world, migration)
    finish(world, status=FAILED)
    uid = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    install(world, migration, tag="v2", name="b")
    assert installed(world) == "False Collision"
    assert world.message("Installed").endswith(
        "still exists; delete it, or add before-hook-creation to its hook-delete-policy"
    )
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] == uid
    world.cluster.remove(MIGRATE)
    world.seconds += 400
    world.settle()
    assert installed(world) == "False WaitingForHook"


def test_a_kind_that_is_not_served_is_told(world: World) -> None:
    manifest = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}}
    install(world, {**hook("pre-install"), "manifest": manifest})
    assert installed(world) == "False KindNotServed"


# hooks that take too long


def age(world: World, path: str = MIGRATE) -> None:
    """Let a hook have begun long ago."""
    entries = world.cluster.objects[path]["metadata"]["managedFields"]
    world.cluster.patch(path, {"metadata": {"managedFields": [{**each, "time": LONG_AGO} for each in entries]}})


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("event", ["pre-install", "post-install", "pre-upgrade", "post-upgrade"])
def test_a_hook_that_is_late_has_failed_and_counts_if_it_succeeds(event: str, restarts: bool, world: World) -> None:
    if "upgrade" in event:
        install(world)
    install(world, hook(event), tag="v2", name="b", progressDeadline="2m")
    assert world.reconcile().after == pytest.approx(120, abs=20)
    uid = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    age(world)
    if restarts:
        world.restart()
    world.settle()
    assert installed(world) == "False HookFailed"
    assert "hook failed (ProgressDeadlineExceeded: JobRunning: not finished yet)" in world.message("Installed")
    assert world.conditions["Stalled"] == "True HookFailed"

    world.seconds += 400
    world.ask("again")
    world.settle()
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] == uid

    finish(world)
    assert world.conditions["Ready"] == "True Ready"


def test_a_late_hook_that_fails_after_all_is_run_again_like_any(world: World) -> None:
    install(world, hook("pre-install"))
    age(world)
    world.settle()
    uid = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    finish(world, status=FAILED)
    assert "failed (BackoffLimitExceeded); check the logs of its pods" in world.message("Installed")
    world.seconds += 400
    world.settle()
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] != uid
    assert installed(world) == "False WaitingForHook"


def test_a_late_hook_that_is_deleted_is_run_again(world: World) -> None:
    install(world, hook("pre-install"))
    age(world)
    world.settle()
    world.cluster.remove(MIGRATE)
    world.settle()
    assert installed(world) == "False WaitingForHook"


@pytest.mark.parametrize("event", ["pre-upgrade", "post-upgrade"])
def test_an_upgrade_whose_hook_is_late_is_rolled_back(event: str, world: World) -> None:
    install(world)
    install(world, hook(event), tag="v2", name="b", onFailure={"action": "RollBack"})
    age(world)
    world.settle()
    assert world.conditions["RolledBack"] == "True HookFailed"
    assert "ProgressDeadlineExceeded" in world.message("RolledBack")
    assert world.exists(A)
    assert world.cluster.objects[MIGRATE]


def test_a_teardown_whose_hook_is_late_says_how_to_go_without_it(world: World) -> None:
    install(world, hook("pre-delete"))
    world.delete()
    world.settle()
    age(world)
    world.settle()
    assert world.conditions["Ready"] == "False HookFailed"
    assert "to delete without hooks and keep all objects" in world.message("Ready")
    finish(world)
    assert world.watches.deployments.find("shop") is None


# the deletion of hooks that are done


BROKEN = ApiError(500, "InternalError", "odd")
SUCCEEDED, ON_FAILURE = "hook-succeeded", "hook-failed"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("event", "prune"),
    [
        ("pre-install", "AfterHealthy"),
        ("post-install", "AfterHealthy"),
        ("pre-upgrade", "AfterHealthy"),
        ("post-upgrade", "AfterHealthy"),
        ("post-upgrade", "AfterApply"),
        ("pre-install", "Never"),
    ],
)
def test_a_finished_hook_that_cannot_be_deleted_is_deleted_later(
    event: str, prune: str, restarts: bool, world: World
) -> None:
    if "upgrade" in event:
        install(world)
    install(world, hook(event, policies=SUCCEEDED), tag="v2", name="b", prune=prune)
    world.cluster.faults[f"DELETE {MIGRATE}"] = [BROKEN] * 3
    finish(world)
    assert world.exists(MIGRATE, B)
    assert world.conditions["Ready"] == "True Ready"
    assert world.conditions["Reconciling"] == "True PrunePending"
    assert "Job shop/migrate: the API server answered 500" in world.message("Reconciling")
    if restarts:
        world.restart()
    for _ in range(4):
        world.seconds += world.reconcile().after or 0
    world.settle()
    assert not world.exists(MIGRATE)
    assert "Reconciling" not in world.conditions
    world.restart()
    world.settle()
    assert world.reconcile().after is None  # nothing is left to do


def test_a_failed_hook_that_cannot_be_deleted_is_deleted_once_another_revision_is_installed(world: World) -> None:
    install(world)
    install(world, hook("pre-upgrade", policies=ON_FAILURE), tag="v2", name="b")
    world.cluster.faults[f"DELETE {MIGRATE}"] = [BROKEN]
    finish(world, status=FAILED)
    assert world.exists(MIGRATE)
    world.restart()
    install(world, tag="v3", name="c")
    assert not world.exists(MIGRATE)
    assert world.conditions["Ready"] == "True Ready"


def test_a_finished_hook_of_an_upgrade_that_is_given_up_is_deleted_later(world: World) -> None:
    install(world)
    install(world, hook("pre-upgrade", policies=SUCCEEDED), hook("post-upgrade", name="after"), tag="v2", name="b")
    world.cluster.faults[f"DELETE {MIGRATE}"] = [BROKEN]
    finish(world)
    assert world.exists(MIGRATE)
    world.restart()
    world.wish("v1", installNamespace="shop")
    world.settle()
    assert not world.exists(MIGRATE)
    assert world.exists(f"{JOBS}/after")


def test_the_account_of_a_hook_that_is_under_way_is_not_deleted(world: World) -> None:
    install(world)
    account = hook("pre-upgrade", name="account", kind="ConfigMap", policies=SUCCEEDED)
    install(world, account, hook("pre-upgrade", policies=SUCCEEDED), tag="v2", name="b")
    world.wish("v1", installNamespace="shop")
    world.settle()
    assert world.exists(f"{OBJECTS}/account", MIGRATE)
    world.wish("v2", installNamespace="shop")
    world.settle()
    world.restart()
    finish(world)
    assert not world.exists(MIGRATE)
    assert not world.exists(f"{OBJECTS}/account")


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("event", ["pre-install", "post-install", "pre-delete", "post-delete"])
def test_a_deletion_waits_for_the_hooks_that_could_not_be_deleted(event: str, restarts: bool, world: World) -> None:
    install(world, hook(event, policies=SUCCEEDED))
    world.cluster.faults[f"DELETE {MIGRATE}"] = [BROKEN] * 4
    if "install" in event:
        finish(world)
    world.delete()
    world.settle()
    if "delete" in event:
        finish(world)
    assert world.exists(MIGRATE)
    assert not world.exists(A)
    assert world.conditions["Ready"] == "False APIUnavailable"
    assert "Job shop/migrate: the API server answered 500" in world.message("Ready")
    if restarts:
        world.restart()
    for _ in range(5):
        world.seconds += world.reconcile().after or 0
    assert not world.exists(MIGRATE)
    assert world.watches.deployments.find("shop") is None


def test_objects_that_stay_do_not_wait_for_hooks_that_cannot_be_deleted(world: World) -> None:
    install(world, hook("post-install", policies=SUCCEEDED), deletionPolicy="Orphan")
    world.cluster.faults[f"DELETE {MIGRATE}"] = [BROKEN] * 9
    finish(world)
    world.delete()
    world.settle()
    assert world.watches.deployments.find("shop") is None


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_is_left_of_the_hooks_of_another_revision_is_told(is_deleted: bool, world: World) -> None:
    install(world)
    install(world, hook("pre-upgrade"), tag="v2", name="b")
    if is_deleted:
        world.delete()
        world.settle()
    else:
        install(world, tag="v3", name="c")
    assert world.exists(MIGRATE)
    [note] = [each for each in world.events.notes if each.reason == "HookLeft"]
    assert note.text.startswith("Job shop/migrate: hook that nothing waits for any more, which has not ended")


# the hook of another revision


@pytest.mark.parametrize("policies", ["before-hook-creation", "hook-succeeded", "hook-failed"])
def test_another_revision_replaces_a_hook_that_was_not_started(policies: str, world: World) -> None:
    install(world)
    install(world, hook("pre-upgrade", policies=policies), tag="v2", name="b")
    uid = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    install(world, hook("pre-upgrade", policies=policies), tag="v3", name="c")
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] != uid
    finish(world)
    assert world.conditions["Ready"] == "True Ready"


@pytest.mark.parametrize("ends", ["it succeeds", "it fails", "it is late"])
def test_another_revision_waits_for_a_hook_that_has_started(ends: str, world: World) -> None:
    install(world)
    install(world, hook("pre-upgrade"), tag="v2", name="b")
    uid = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    world.cluster.patch(MIGRATE, {"status": {"ready": 1}})
    install(world, hook("pre-upgrade"), tag="v3", name="c")
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] == uid
    assert "waiting for the one of another revision, which has started, to end" in world.message("Installed")
    if ends == "it is late":
        age(world)
        world.settle()
    else:
        finish(world, status=COMPLETE if ends == "it succeeds" else FAILED)
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] != uid
    assert world.message("Installed").endswith("is still running")


# upgrades


def test_while_an_upgrade_waits_for_its_hook_what_is_installed_is_repaired(world: World) -> None:
    install(world)
    install(world, hook("pre-upgrade"), tag="v2", name="b")
    assert installed(world) == "False WaitingForHook"
    assert "is installed; Job shop/migrate: pre-upgrade hook is still running" in world.message("Installed")
    world.cluster.edit(A, data={"a": "x"})
    world.settle()
    assert world.cluster.objects[A]["data"] == {"a": "1"}
    assert not world.exists(B)
    finish(world)
    assert world.exists(B)
    assert not world.exists(A)
    assert world.conditions["Ready"] == "True Ready"


def test_a_restart_while_an_upgrade_waits_forgets_nothing(world: World) -> None:
    install(world)
    install(world, hook("pre-upgrade"), tag="v2", name="b")
    uid = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    built = len(world.shelf.calls)
    world.restart()
    world.settle()
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] == uid
    finish(world)
    assert world.exists(B)
    assert len(world.shelf.calls) == built


def test_an_upgrade_that_is_given_up_while_it_waits_leaves_no_revision(world: World) -> None:
    install(world)
    (kept,) = revisions(world)
    install(world, hook("pre-upgrade"), tag="v2", name="b")
    assert len(revisions(world)) == 2
    world.wish("v1", installNamespace="shop")
    world.settle()
    assert world.conditions["Ready"] == "True Ready"
    assert revisions(world) == [kept]


def test_another_revision_runs_the_hook_again(world: World) -> None:
    migration = hook("pre-install", "pre-upgrade")
    install(world, migration)
    finish(world)
    uid = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    install(world, migration, tag="v2", name="b")
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] != uid
    assert installed(world) == "False WaitingForHook"


def test_an_upgrade_that_was_paused_before_it_began_runs_its_hook_when_resumed(world: World) -> None:
    install(world)
    install(world, hook("pre-upgrade"), tag="v2", name="b", paused=True)
    assert not world.exists(MIGRATE)
    world.wish("v2", installNamespace="shop")
    world.settle()
    assert world.exists(MIGRATE)
    assert not world.exists(B)


def test_the_hook_of_one_revision_may_be_an_object_of_the_next(world: World) -> None:
    install(world, hook("pre-install", name="b", kind="ConfigMap"))
    install(world, tag="v2", name="b")
    assert world.conditions["Ready"] == "True Ready"


# teardown


def test_a_teardown_begins_when_its_hook_has_finished(world: World) -> None:
    install(world, hook("pre-delete"))
    world.delete()
    world.settle()
    assert world.exists(MIGRATE, A)
    assert world.conditions["Ready"] == "False WaitingForHook"
    world.cluster.patch(MIGRATE, {"status": COMPLETE})
    world.settle()
    assert not world.exists(A)
    assert world.watches.deployments.find("shop") is None


def test_a_teardown_whose_hook_fails_says_how_to_go_without_it(world: World) -> None:
    install(world, hook("pre-delete"))
    world.delete()
    world.settle()
    finish(world, status=FAILED)
    assert world.exists(A)
    assert world.conditions["Ready"] == "False HookFailed"
    assert world.message("Ready").endswith(
        "to delete without hooks and keep all objects, set spec.deletionPolicy to Orphan"
    )


@pytest.mark.parametrize(("error", "seconds"), [(503, 1), (422, 300)], ids=["automatically", "by a person"])
def test_a_hook_of_the_teardown_is_tried_again_when_what_hinders_it_may_have_ended(
    world: World, error: int, seconds: float
) -> None:
    install(world, hook("pre-delete"))
    world.delete()
    world.cluster.faults[f"APPLY {MIGRATE}"] = [ApiError(error, "Odd", "no")]
    assert world.reconcile().after == seconds
    world.seconds += seconds
    world.reconcile()
    assert world.exists(MIGRATE)


def test_a_hook_after_the_teardown_is_waited_for(world: World) -> None:
    install(world, hook("post-delete"))
    world.delete()
    world.settle()
    assert not world.exists(A)
    assert world.watches.deployments.find("shop")
    world.cluster.patch(MIGRATE, {"status": COMPLETE})
    world.settle()
    assert world.watches.deployments.find("shop") is None


def test_objects_that_stay_run_no_hook_of_the_teardown(world: World) -> None:
    install(world, hook("pre-delete"), deletionPolicy="Orphan")
    world.delete()
    world.settle()
    assert not world.exists(MIGRATE)
    assert world.exists(A)


def test_who_is_deleted_and_deployed_again_runs_its_hooks_again(world: World) -> None:
    install(world, hook("pre-install"))
    finish(world)
    uid = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    world.delete()
    world.settle()
    assert world.exists(MIGRATE)
    world.wish("v1", installNamespace="shop")
    world.cluster.patch(PATH, {"metadata": {"uid": "recreated"}})
    world.settle()
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] != uid
    assert installed(world) == "False WaitingForHook"


# what is in the way


OF_SOMEBODY: Any = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "namespace": "shop"}}


def free(world: World) -> None:
    """Remove what is in the way of the hook, as its owner does; the watch of it reports that."""
    assert world.follower.names(Topic.CONTESTED) == ["migrate"]
    world.cluster.remove(MIGRATE)
    world.reconciler.memories.objects_changed("shop")
    world.settle()


def test_a_hook_before_an_installation_runs_as_soon_as_its_name_is_free(world: World) -> None:
    world.cluster.put(OF_SOMEBODY)
    install(world, hook("pre-install"))
    assert installed(world) == "False Collision"
    free(world)
    assert installed(world) == "False WaitingForHook"
    assert world.follower.names(Topic.CONTESTED) == []


def test_a_hook_after_an_installation_runs_as_soon_as_its_name_is_free(world: World) -> None:
    world.cluster.put(OF_SOMEBODY)
    install(world, hook("post-install"))
    assert installed(world) == "False Collision"
    free(world)
    assert installed(world) == "False WaitingForHook"


def test_a_hook_before_an_upgrade_runs_as_soon_as_an_earlier_run_is_deleted(world: World) -> None:
    migration = hook("pre-install", "pre-upgrade", policies="hook-succeeded")
    install(world, migration)
    finish(world, status=FAILED)
    install(world, migration, tag="v2", name="b")
    assert installed(world) == "False Collision"
    free(world)
    assert installed(world) == "False WaitingForHook"


def test_what_an_upgrade_waits_for_is_not_watched_once_the_upgrade_is_given_up(world: World) -> None:
    install(world)
    world.cluster.put(OF_SOMEBODY)
    install(world, hook("pre-upgrade"), tag="v2", name="b")
    assert installed(world) == "False Collision"
    world.wish("v1", installNamespace="shop")
    world.settle()
    assert world.conditions["Ready"] == "True Ready"
    assert world.follower.names(Topic.CONTESTED) == []


@pytest.mark.parametrize("event", ["pre-delete", "post-delete"])
def test_a_hook_of_the_teardown_runs_as_soon_as_its_name_is_free(event: str, world: World) -> None:
    install(world, hook(event))
    world.cluster.put(OF_SOMEBODY)
    world.delete()
    world.settle()
    assert world.conditions["Ready"] == "False Collision"
    free(world)
    finish(world)
    assert world.watches.deployments.find("shop") is None
    assert world.follower.names(Topic.CONTESTED) == []


def test_a_hook_runs_as_soon_as_what_it_replaces_is_gone(world: World) -> None:
    world.cluster.put({**OF_SOMEBODY, "metadata": {**OF_SOMEBODY["metadata"], "finalizers": ["example.com/held"]}})
    world.shelf.put("v1", config_map("a"), hooks=[hook("pre-install")])
    world.wish("v1", installNamespace="shop", collisionProtection="None")
    for _ in range(3):
        world.reconcile()
    assert installed(world) == "False WaitingForHook"
    assert "waiting for the object of an earlier run to be deleted" in world.message("Installed")
    free(world)
    assert "is still running" in world.message("Installed")


# what is under way when users change their minds


def test_a_hook_under_way_when_the_upgrade_is_given_up_is_left_alone_and_not_awaited(world: World) -> None:
    install(world)
    install(world, hook("pre-upgrade"), tag="v2", name="b")
    uid = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    world.wish("v1", installNamespace="shop")
    world.settle()
    assert world.conditions["Ready"] == "True Ready"
    finish(world)
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] == uid
    assert world.conditions["Ready"] == "True Ready"
    assert not world.exists(B)


def test_a_hook_under_way_when_the_upgrade_is_wanted_again_is_awaited_and_not_repeated(world: World) -> None:
    install(world)
    install(world, hook("pre-upgrade"), tag="v2", name="b")
    uid = world.cluster.objects[MIGRATE]["metadata"]["uid"]
    for tag in ("v1", "v2"):
        world.wish(tag, installNamespace="shop")
        world.settle()
    assert world.cluster.objects[MIGRATE]["metadata"]["uid"] == uid
    assert installed(world) == "False WaitingForHook"
    finish(world)
    assert world.exists(B)


@pytest.mark.parametrize("event", ["pre-install", "post-install"])
def test_a_hook_under_way_when_the_bundle_is_deleted_is_left_alone_and_not_awaited(event: str, world: World) -> None:
    install(world, hook(event))
    world.delete()
    world.settle()
    assert world.watches.deployments.find("shop") is None
    assert world.exists(MIGRATE)
    assert not world.exists(A)
