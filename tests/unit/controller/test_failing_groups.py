"""API groups that fail discovery: what is installed, upgraded and deleted meanwhile, and what status says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.controller.kube.resources import Resource
from tests.support.reconciling import NAME, World

GROUP = "down.example.com"
WARNING = f'API group "{GROUP}": discovery failed; repair or delete its APIService'
SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1.down.example.com"
API_SERVICES = Resource(
    "apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False, verbs=frozenset({"list", "delete"})
)

READY = {"Unpacked": "True Unpacked", "Installed": "True Installed", "Healthy": "True Healthy", "Ready": "True Ready"}
THINGS = Resource(GROUP, "v1", "Thing", "things", namespaced=True, verbs=frozenset({"list", "delete"}))

Json = dict[str, Any]


def config_map(name: str = "a") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}


def api_service() -> Json:
    about = {"name": f"v1.{GROUP}"}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": about, "spec": {}}


def thing() -> Json:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "t"}}


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster with a group that fails, and of which no kind was ever seen."""
    made = World()
    made.cluster.served.append(API_SERVICES)
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.cluster.failing_groups.add(GROUP)
    made.watches.objects.failing.add("Thing")
    made.shelf.put("v1", config_map())
    made.shelf.put("v2", config_map(), config_map("b"))
    made.shelf.put("brings", config_map(), api_service())
    made.shelf.put("needs", config_map(), thing())
    made.shelf.put("more", config_map(), config_map("b"), thing())
    made.shelf.put("both", config_map(), api_service(), thing())
    yield made
    made.applier.stop()


def install(world: World, tag: str) -> None:
    world.wish(tag)
    world.settle()


def test_what_does_not_need_it_is_installed_with_a_warning(world: World) -> None:
    install(world, "v1")
    assert world.conditions == READY
    assert world.deployment.status.warnings == (WARNING,)


def test_the_warning_remains_while_nothing_is_sent_and_goes_with_its_cause(world: World) -> None:
    install(world, "v1")
    world.restart()
    world.settle()
    assert list(world.deployment.status.warnings) == [WARNING]
    world.cluster.failing_groups.clear()
    assert world.reconciler.memories.cluster_changed() == [NAME]
    world.settle()
    assert list(world.deployment.status.warnings) == []
    assert world.reconciler.memories.cluster_changed() == []


def test_a_group_that_fails_later_changes_no_status(world: World) -> None:
    world.cluster.failing_groups.clear()
    install(world, "v1")
    before = world.deployment.status
    world.cluster.failing_groups.add(GROUP)
    world.restart()
    world.settle()
    assert world.deployment.status == before


def test_only_its_objects_wait_and_the_message_says_why(world: World) -> None:
    install(world, "needs")
    assert world.conditions["Installed"] == "False KindNotServed"
    assert f'discovery of API group "{GROUP}" failed; repair its APIService' in world.message("Installed")
    assert world.exists("/api/v1/namespaces/shop/configmaps/a")


@pytest.mark.parametrize("instances", [False, True], ids=["alone", "upgraded to one with an object of it"])
@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
def test_what_brings_a_group_that_was_never_served_is_deleted(world: World, *, instances: bool, restarts: bool) -> None:
    install(world, "brings")
    if instances:
        install(world, "both")
        assert f"{GROUP}/v1/Thing" in world.deployment.status.managed_kinds
    assert world.exists(SERVICE)
    if restarts:
        world.restart()
    world.delete()
    world.settle()
    assert not world.exists(SERVICE)
    assert not world.exists("/api/v1/namespaces/shop/configmaps/a")


def test_objects_of_another_group_that_cannot_be_listed_hold_up_a_deletion(world: World) -> None:
    install(world, "needs")
    world.delete()
    world.settle()
    assert world.conditions["Ready"] == "False APIUnavailable"


def test_after_a_restart_the_kinds_count_that_the_installed_revision_was_rendered_with(world: World) -> None:
    world.cluster.failing_groups.clear()
    world.cluster.served.append(THINGS)
    world.watches.objects.failing.clear()
    install(world, "needs")
    assert world.conditions == READY
    world.cluster.served.remove(THINGS)
    world.cluster.failing_groups.add(GROUP)
    world.restart()
    install(world, "more")
    revision = world.revision_store.read(NAME, world.deployment.status.revision)
    assert revision
    assert revision.terms.kinds == ((GROUP, "v1", "Thing", True),)
    assert [each["metadata"].get("namespace") for each in revision.objects if each["kind"] == "Thing"] == ["shop"]
    assert world.exists("/api/v1/namespaces/shop/configmaps/b")
