"""A revision whose dependencies are not ready: what is written meanwhile, and what ends the wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.kube.client import ApiError
from rukpak.controller.kube.resources import DEPLOYMENTS
from rukpak.controller.observe.following import Topic
from rukpak.controller.observe.health import expressions
from rukpak.controller.revisions import references
from tests.support.deployments import manifest
from tests.support.fake_cluster import Json
from tests.support.reconciling import NAME, PATH, START, World

A, B, OLD = (f"/api/v1/namespaces/shop/configmaps/{name}" for name in ("a", "b", "old"))
READY = {"Unpacked": "True Unpacked", "Installed": "True Installed", "Healthy": "True Healthy", "Ready": "True Ready"}
WAITS = {
    "Unpacked": "True Unpacked",
    "Installed": "False DependencyNotReady",
    "Healthy": "Unknown NotInstalled",
    "Ready": "False DependencyNotReady",
    "Reconciling": "True DependencyNotReady",
}
CYCLIC = {
    **READY, "Installed": "False DependencyCycle", "Ready": "False DependencyCycle", "Stalled": "True DependencyCycle"
}  # fmt: skip
ON_DATABASE: list[Json] = [{"name": "database"}]


def config_map(name: str, value: str = "1") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.shelf.put("v1", config_map("a"), config_map("old"))
    made.shelf.put("v2", config_map("a", "2"), config_map("b"))
    made.shelf.put("v3", config_map("a", "3"))
    yield made
    made.applier.stop()


def put_database(world: World, status: str = "True", reason: str = "Ready", *depends_on: str) -> None:
    condition = {"type": "Ready", "status": status, "reason": reason, "message": "", "observedGeneration": 1}
    conditions = [{**condition, "lastTransitionTime": START.isoformat()}]
    spec = {"dependsOn": [{"name": each} for each in depends_on]}
    found = manifest("database", spec=spec, status={"observedGeneration": 1, "conditions": conditions})
    world.cluster.put(found)


def install(world: World, tag: str = "v1", **spec: Any) -> None:
    put_database(world)
    world.wish(tag, dependsOn=ON_DATABASE, **spec)
    world.settle()
    assert world.conditions == READY


def stored(world: World) -> int:
    return len(list(world.revision_store.digests(NAME)))


def value_of_a(world: World) -> str:
    found: str = world.cluster.objects[A]["data"]["a"]
    return found


def test_nothing_is_applied_before_a_dependency_exists(world: World) -> None:
    world.wish("v1", dependsOn=ON_DATABASE)
    world.settle()

    assert world.conditions == WAITS
    assert world.message("Ready") == (
        'spec.dependsOn: waiting for "database" (does not exist); continues when all of them are ready'
    )
    assert not world.exists(A)
    assert stored(world) == 1
    assert world.deployment.status.sources


def test_it_is_applied_when_the_dependency_is_ready(world: World) -> None:
    put_database(world, "False", "Progressing")
    world.wish("v1", dependsOn=ON_DATABASE)
    world.settle()
    assert '"database" (Progressing)' in world.message("Ready")
    assert not world.exists(A)

    put_database(world)
    calls = list(world.shelf.calls)
    world.settle()
    assert world.conditions == READY
    assert world.exists(A, OLD)
    assert world.shelf.calls == calls  # it was rendered while it waited


def test_a_restart_applies_nothing_and_renders_nothing(world: World) -> None:
    world.wish("v1", dependsOn=ON_DATABASE)
    world.settle()
    calls = list(world.shelf.calls)

    world.restart()
    world.settle()
    assert world.conditions == WAITS
    assert not world.exists(A)
    assert world.shelf.calls == calls


def test_another_revision_that_never_was_applied_is_not_applied_while_the_next_one_fails(world: World) -> None:
    world.wish("v1", dependsOn=ON_DATABASE)
    world.settle()
    world.wish("missing", dependsOn=ON_DATABASE)
    world.settle()
    assert world.conditions["Installed"] == "False NotFound"
    assert not world.exists(A)

    world.wish("v3", dependsOn=ON_DATABASE)
    world.settle()
    assert not world.exists(A)
    assert stored(world) == 1  # what waited before is not needed any more


def test_an_upgrade_waits_while_what_is_installed_is_repaired(world: World) -> None:
    install(world)
    put_database(world, "False", "Failed")
    world.wish("v2", dependsOn=ON_DATABASE)
    world.settle()

    assert world.conditions == {**WAITS, "Healthy": "True Healthy"}
    assert "is installed; spec.dependsOn: waiting" in world.message("Installed")
    world.cluster.edit(A, data={"a": "edited"})
    world.settle()
    assert value_of_a(world) == "1"
    assert not world.exists(B)
    assert stored(world) == 2

    world.restart()
    world.settle()
    assert value_of_a(world) == "1"

    put_database(world)
    world.settle()
    assert world.conditions == READY
    assert value_of_a(world) == "2"
    assert world.exists(B)
    assert not world.exists(OLD)


def test_what_is_installed_stays_ready_when_a_dependency_is_not(world: World) -> None:
    install(world)
    put_database(world, "False", "Failed")
    world.cluster.taken()
    world.reconcile()
    assert world.cluster.taken() == []
    assert world.conditions == READY


def test_without_the_dependency_it_is_applied(world: World) -> None:
    world.wish("v1", dependsOn=ON_DATABASE)
    world.settle()
    world.wish("v1")
    world.settle()
    assert world.conditions == READY
    assert world.exists(A)


def test_a_revision_that_waits_while_paused_waits_afterwards(world: World) -> None:
    world.wish("v1", dependsOn=ON_DATABASE, paused=True)
    world.settle()
    assert world.conditions["Installed"] == "False PausedWithChanges"
    world.wish("v1", dependsOn=ON_DATABASE)
    world.settle()
    assert world.conditions == WAITS
    assert not world.exists(A)


def test_it_waits_for_approval_first(world: World) -> None:
    world.wish("v1", dependsOn=ON_DATABASE, approval="Manual")
    world.settle()
    assert world.conditions["Installed"] == "False AwaitingApproval"
    assert world.deployment.status.pending
    approved = world.deployment.status.pending.revision

    world.wish("v1", dependsOn=ON_DATABASE, approval="Manual", approvedRevision=approved)
    world.settle()
    assert world.conditions == WAITS
    assert not world.exists(A)

    put_database(world)
    world.settle()
    assert world.conditions == READY


def test_a_cycle_is_reported_and_ends(world: World) -> None:
    put_database(world, "False", "DependencyCycle", NAME)
    world.wish("v1", dependsOn=ON_DATABASE)
    world.settle()
    assert world.conditions["Stalled"] == "True DependencyCycle"
    assert world.message("Ready") == (
        "spec.dependsOn: shop -> database -> shop is a cycle; remove one of these dependencies"
    )
    assert not world.exists(A)

    put_database(world)
    world.settle()
    assert world.conditions == READY


def test_a_cycle_is_reported_on_what_is_installed_which_is_repaired(world: World) -> None:
    install(world)
    put_database(world, "True", "Ready", NAME)
    world.settle()
    assert world.conditions == CYCLIC

    world.cluster.edit(A, data={"a": "edited"})
    world.settle()
    assert value_of_a(world) == "1"

    put_database(world)
    world.settle()
    assert world.conditions == READY


def test_one_of_another_shard_is_waited_for_like_any_other(world: World) -> None:
    put_database(world, "False", "Progressing")
    world.cluster.patch(DEPLOYMENTS.path(name="database"), {"metadata": {"labels": {names.SHARD: "a"}}})
    world.wish("v1", dependsOn=ON_DATABASE)
    world.settle()
    assert '"database" (Progressing)' in world.message("Ready")

    put_database(world)
    world.cluster.patch(DEPLOYMENTS.path(name="database"), {"metadata": {"labels": {names.SHARD: "a"}}})
    world.settle()
    assert world.conditions == READY


def test_a_deletion_names_what_depends_on_it(world: World) -> None:
    world.wish("v1")
    world.settle()
    world.cluster.put(manifest("web", spec={"dependsOn": [{"name": NAME}]}))
    world.delete()
    for _ in range(5):
        world.reconcile()

    assert PATH not in world.cluster.objects
    assert [(note.type, note.reason) for note in world.events.notes if '"web"' in note.text] == [
        ("Warning", "StillRequired")
    ]


# other objects

CACHE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cache", "namespace": "caches"}
NOT_READY = "spec.dependsOn: waiting for Deployment caches/cache ({}); continues when all of them are ready"


def put_cache(world: World, **status: Any) -> None:
    metadata = {"name": "cache", "namespace": "caches", "generation": 1}
    spec = {"replicas": 1}
    world.cluster.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec, **status})


def status_of(ready: int) -> Json:
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready)
    conditions = [{"type": "Available", "status": "True"}]
    return {"status": {"observedGeneration": 1, "conditions": conditions, **counts}}


def wait(world: World, dependency: Json, reason: str = "DependencyNotReady", **spec: Any) -> str:
    """Have a bundle depend on an object; return the message if it waits."""
    world.wish("v1", dependsOn=[dependency], **spec)
    for _ in range(3):
        world.reconcile()
    assert not world.exists(A)
    assert world.conditions["Installed"] == f"False {reason}"
    return world.message("Ready")


def test_nothing_is_applied_before_an_object_is_there_and_healthy(world: World) -> None:
    assert wait(world, CACHE) == NOT_READY.format("does not exist")
    put_cache(world, **status_of(0))
    assert wait(world, CACHE) == NOT_READY.format("LessReplicas")
    put_cache(world, **status_of(1))
    world.settle()
    assert world.conditions == READY


def test_an_expression_says_when_an_object_is_ready(world: World) -> None:
    dependency = {**CACHE, "ready": "status.readyReplicas >= 1"}
    put_cache(world)
    expected = 'status.readyReplicas >= 1 is not known yet: there is no field "status"'
    assert wait(world, dependency) == NOT_READY.format(expected)
    put_cache(world, status={"readyReplicas": 0})
    assert wait(world, dependency) == NOT_READY.format("status.readyReplicas >= 1 is not true")
    put_cache(world, status={"readyReplicas": 1})
    world.settle()
    assert world.conditions == READY


NOT_TRUE, SKIPPED = "is not true", "is not evaluated"
SLOW = [
    ("they are cheap", 0.0, [False, False, False], [NOT_TRUE, NOT_TRUE, NOT_TRUE]),
    ("one is expensive", 0.3, [False, False, False], [NOT_TRUE, SKIPPED, SKIPPED]),
    ("two are together", 0.15, [False, False, False], [NOT_TRUE, NOT_TRUE, SKIPPED]),
    ("nothing is waited for before the last one", 0.3, [True, True, False], ["", "", NOT_TRUE]),
]


@pytest.mark.parametrize(("seconds", "answers", "told"), [each[1:] for each in SLOW], ids=[each[0] for each in SLOW])
def test_expressions_are_evaluated_for_a_limited_time_while_something_is_waited_for(
    world: World, seconds: float, answers: list[bool], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = [0.0]

    def evaluate(given: Sequence[str], _: Any) -> list[bool]:
        spent[0] += seconds
        return [answers[int(given[0][-1])]]

    put_cache(world)
    monkeypatch.setattr(world.watches.evaluator, "evaluate", evaluate)
    monkeypatch.setattr(references, "time", SimpleNamespace(monotonic=lambda: spent[0]))
    world.wish("v1", dependsOn=[{**CACHE, "ready": f"status.n == {index}"} for index in range(len(answers))])
    waiting = world.services.find_waiting(world.deployment, lambda *_: None)
    assert waiting == [
        f"Deployment caches/cache (status.n == {index} {text})" for index, text in enumerate(told) if text
    ]


def test_neither_are_those_of_health_checks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "SECONDS", 0.0)
    put_cache(world)
    checks = [{"group": "apps", "kind": "Deployment", "expressions": {"current": "true"}}]
    world.wish("v1", dependsOn=[{**CACHE, "ready": "false"}, CACHE], healthChecks=checks)
    waiting = world.services.find_waiting(world.deployment, lambda *_: None)
    assert waiting == ["Deployment caches/cache (false is not true)", "Deployment caches/cache (NotEvaluated)"]


def test_a_wrong_expression_is_told_with_its_place(world: World) -> None:
    message = wait(world, {**CACHE, "ready": "status.a ="}, "InvalidConfig")
    assert message.startswith("spec.dependsOn[0].ready: line 1, column 10: ")


def test_the_health_checks_of_the_spec_judge_it(world: World) -> None:
    put_cache(world, **status_of(0))
    checks = [{"group": "apps", "kind": "Deployment", "name": "cache", "always": "Healthy"}]
    world.wish("v1", dependsOn=[CACHE], healthChecks=checks)
    world.settle()
    assert world.conditions == READY


def test_what_is_being_deleted_is_not_ready(world: World) -> None:
    metadata = {"name": "cache", "namespace": "caches", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    world.cluster.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})
    assert wait(world, {**CACHE, "ready": "true"}) == NOT_READY.format("is being deleted")


def test_a_kind_that_the_cluster_does_not_serve_is_told_and_waited_for(world: World) -> None:
    message = wait(world, {**CACHE, "apiVersion": "example.com/v1", "kind": "Cache"})
    assert "Cache cache (the cluster does not serve example.com/v1/Cache)" in message
    assert world.memory.awaits_change


def test_an_object_is_watched_by_name_while_it_is_waited_for_and_not_afterwards(world: World) -> None:
    put_cache(world, **status_of(0))
    wait(world, CACHE)
    [(watched, version)] = world.follower.seen(Topic.DEPENDENCIES).items()
    assert (watched.namespace, watched.name, watched.resource.kind) == ("caches", "cache", "Deployment")
    assert (
        version
        == world.cluster.objects["/apis/apps/v1/namespaces/caches/deployments/cache"]["metadata"]["resourceVersion"]
    )
    put_cache(world, **status_of(1))
    world.settle()
    assert world.follower.seen(Topic.DEPENDENCIES) == {}


def test_an_object_is_in_the_install_namespace_unless_another_one_is_named(world: World) -> None:
    dependency = {key: value for key, value in CACHE.items() if key != "namespace"}
    assert "Deployment shop/cache (does not exist)" in wait(world, dependency)


def test_what_the_account_may_not_read_is_told_with_the_right(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    get = world.cluster.get

    def refuse(path: str, **options: Any) -> Any:
        if path.endswith("/deployments/cache"):
            raise ApiError(403, "Forbidden", "no")
        return get(path, **options)

    put_cache(world, **status_of(1))
    monkeypatch.setattr(world.cluster, "get", refuse)
    message = wait(world, CACHE, "Forbidden")
    assert message == (
        "spec.dependsOn[0]: Deployment caches/cache cannot be read by the controller; "
        "grant get, list and watch on deployments of apps"
    )
