"""Revisions without objects: installed if there is nothing to lose, with all real parts over a cluster in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.reconciling import World

A = "/api/v1/namespaces/shop/configmaps/a"
MIGRATE = "/apis/batch/v1/namespaces/shop/jobs/migrate"
READY = {"Unpacked": "True Unpacked", "Installed": "True Installed", "Healthy": "True Healthy", "Ready": "True Ready"}
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "shop"},
    "data": {"a": "1"},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
REFUSAL = (
    "spec: the content renders no objects, but the installed revision has some, which would be deleted; correct the"
    " content or spec.config, or delete the BundleDeployment"
)


def hook(*events: str) -> Any:
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "namespace": "shop"}}
    return {"manifest": manifest, "events": list(events), "weight": 0, "deletePolicies": ["before-hook-creation"]}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.shelf.put("nothing")
    made.shelf.put("hooks", hooks=[hook("pre-install", "pre-upgrade")])
    made.shelf.put("definitions", NAMESPACE, hooks=[hook("pre-install")])
    made.shelf.put("objects", CONFIG_MAP)
    made.shelf.put("more", {**CONFIG_MAP, "data": {"a": "2"}})
    yield made
    made.applier.stop()


def wish(world: World, tag: str, **spec: Any) -> None:
    world.wish(tag, installNamespace="shop", **spec)
    world.settle()


def succeed(world: World) -> None:
    world.cluster.patch(MIGRATE, {"status": {"conditions": [{"type": "Complete", "status": "True"}]}})
    world.settle()


@pytest.mark.parametrize("packs", [False, True], ids=["made here", "made by a child process"])
def test_nothing_is_installed(world: World, packs: bool) -> None:
    world.shelf.packs = packs
    wish(world, "nothing")
    assert world.conditions == READY
    assert world.deployment.status.objects.total == 0


@pytest.mark.parametrize("tag", ["hooks", "definitions"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "with a restart"])
def test_hooks_run_even_if_nothing_waits_for_them(world: World, tag: str, restarts: bool) -> None:
    wish(world, tag)
    assert world.conditions["Installed"] == "False WaitingForHook"
    if restarts:
        world.restart()
    succeed(world)
    assert world.conditions == READY


@pytest.mark.parametrize("tag", ["nothing", "hooks"])
def test_once_installed_it_costs_no_request_even_after_a_restart(world: World, tag: str) -> None:
    wish(world, tag)
    if tag == "hooks":
        succeed(world)
    world.reconcile()
    assert world.requests() == []
    world.restart()
    world.reconcile()
    assert world.requests() == []


@pytest.mark.parametrize("packs", [False, True], ids=["made here", "made by a child process"])
@pytest.mark.parametrize("tag", ["nothing", "hooks"])
def test_an_upgrade_to_no_objects_is_refused_and_what_is_installed_is_repaired(
    world: World, tag: str, packs: bool
) -> None:
    world.shelf.packs = packs
    wish(world, "objects")
    wish(world, tag)
    assert world.conditions["Installed"] == "False NoContent"
    assert world.message("Installed").endswith(REFUSAL)
    assert not world.exists(MIGRATE)

    world.cluster.remove(A)
    world.settle()
    assert world.exists(A)


def test_what_is_only_partly_installed_is_not_pruned_by_nothing(world: World) -> None:
    world.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    world.cluster.put({**CONFIG_MAP, "metadata": {"name": "b", "namespace": "shop"}})
    world.shelf.put("partly", CONFIG_MAP, {**CONFIG_MAP, "metadata": {"name": "b", "namespace": "shop"}})
    wish(world, "partly")
    assert world.conditions["Installed"] == "False Collision"
    wish(world, "nothing")
    assert world.conditions["Installed"] == "False NoContent"
    assert world.exists(A)


def test_no_objects_are_upgraded_to_some_and_to_none(world: World) -> None:
    wish(world, "nothing")
    wish(world, "hooks")
    succeed(world)
    assert world.conditions == READY
    wish(world, "objects")
    assert world.exists(A)
    assert world.conditions == READY


def test_no_objects_can_be_deleted(world: World) -> None:
    wish(world, "nothing")
    world.delete()
    for _ in range(3):
        world.reconcile()
    assert not [path for path in world.cluster.objects if "/secrets/revision." in path or "bundledeployments" in path]
