"""Passes over a BundleDeployment with optional objects: skipped while their kind is missing, applied when it comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.reconcile.reconciler import MISSED_SECONDS
from tests.support.fake_cluster import VERBS, Json
from tests.support.reconciling import NAME, World

WIDGETS = Resource("example.com", "v1", "Widget", "widgets", namespaced=True, verbs=VERBS)
KIND = "example.com/v1/Widget"
A = "/api/v1/namespaces/shop/configmaps/a"
W = "/apis/example.com/v1/namespaces/shop/widgets/w"
OPTIONAL = [{"group": "example.com", "kind": "Widget"}]
READY = {"Unpacked": "True Unpacked", "Installed": "True Installed", "Healthy": "True Healthy", "Ready": "True Ready"}


def widget(**annotations: str) -> Json:
    about: Json = {"name": "w", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": about}


def config_map() -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}}


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster that serves no Widgets."""
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.shelf.put("v1", config_map(), widget(**{names.OPTIONAL: "true"}))
    made.shelf.put("bare", config_map(), widget())
    yield made
    made.applier.stop()


def installed(world: World, tag: str = "v1", **spec: Any) -> None:
    world.wish(tag, **spec)
    world.settle()


def serve(world: World) -> None:
    world.cluster.served.append(WIDGETS)


def message(world: World) -> str:
    return next(each.message for each in world.deployment.status.conditions if each.type == "Installed")


@pytest.mark.parametrize(("tag", "spec"), [("v1", {}), ("bare", {"optional": OPTIONAL})], ids=["by mark", "by kind"])
def test_what_is_optional_and_not_served_holds_nothing_up(world: World, tag: str, spec: Json) -> None:
    installed(world, tag, **spec)
    status = world.deployment.status
    assert world.conditions == READY
    assert status.skipped_kinds == (KIND,)
    assert message(world).endswith(f"; skipped optional objects of kinds that the cluster does not serve: {KIND}")
    assert (status.objects.total, status.managed_kinds) == (1, ("v1/ConfigMap",))


def test_what_is_not_optional_does(world: World) -> None:
    installed(world, "bare")
    assert world.conditions["Installed"] == "False KindNotServed"


def test_while_it_is_skipped_nothing_is_sent_not_even_after_a_restart(world: World) -> None:
    installed(world)
    before = message(world)
    for _ in range(2):
        world.reconcile()
        assert world.requests() == []
        world.restart()
    assert message(world) == before


@pytest.mark.parametrize("restarts", [False, True], ids=["as it comes", "while nobody looked"])
def test_when_its_kind_comes_it_is_applied_from_the_stored_revision(world: World, restarts: bool) -> None:
    installed(world)
    serve(world)
    if restarts:
        world.restart()
    else:
        assert world.reconciler.memories.cluster_changed() == [NAME]
    world.settle()
    status = world.deployment.status
    assert world.exists(W)
    assert world.shelf.calls == ["resolve v1", "build v1"]
    assert (status.skipped_kinds, status.managed_kinds) == ((), (KIND, "v1/ConfigMap"))
    assert "optional" not in message(world)


@pytest.mark.parametrize("tag", ["v1", "bare"])
def test_a_kind_that_comes_in_the_midst_of_a_pass_that_misses_it_is_not_missed(
    world: World, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require = world.watches.objects.require

    def comes(name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        assert NAME not in world.reconciler.memories.cluster_changed()
        return require(name, kinds)

    world.wish(tag)
    monkeypatch.setattr(world.watches.objects, "require", comes)
    assert world.reconcile().after == MISSED_SECONDS
    monkeypatch.undo()
    serve(world)
    world.settle()
    assert world.exists(W)
    assert world.conditions == READY


@pytest.mark.parametrize("tag", ["v1", "bare"])
def test_while_discovery_may_be_behind_a_kind_that_came_it_is_looked_for_again(world: World, tag: str) -> None:
    installed(world, tag)
    world.cluster.look_again = 0.4
    assert world.reconcile().after == 0.4
    serve(world)
    world.settle()
    assert world.exists(W)
    assert world.reconcile().after != 0.4


def test_when_its_kind_goes_with_it_it_is_skipped_again(world: World) -> None:
    serve(world)
    installed(world)
    world.cluster.served.remove(WIDGETS)
    world.cluster.remove(W)
    world.settle()
    assert world.conditions == READY
    assert world.deployment.status.skipped_kinds == (KIND,)
    world.reconcile()
    assert world.requests() == []


def test_a_group_that_does_not_answer_is_not_missing(world: World) -> None:
    world.watches.objects.failing.add("Widget")
    installed(world)
    assert world.conditions["Installed"] == "False KindNotServed"


def test_another_list_of_optional_kinds_is_kept_with_the_revision_that_is_there(world: World) -> None:
    installed(world, "bare")
    world.wish("bare", optional=OPTIONAL)
    world.settle()
    assert world.conditions == READY
    assert world.shelf.calls == ["resolve bare", "build bare"]
    world.shelf.tags.clear()
    world.restart()
    world.wish("gone", optional=[])
    world.settle()
    assert world.deployment.status.skipped_kinds == (KIND,), "what is installed stays as its own terms say"


def test_while_paused_a_kind_that_comes_is_neither_applied_nor_drift(world: World) -> None:
    installed(world)
    world.wish("v1", paused=True)
    world.settle()
    serve(world)
    world.settle()
    assert not world.exists(W)
    assert "Drifted" not in world.conditions
    world.wish("v1", paused=False)
    world.settle()
    assert world.exists(W)


def test_another_revision_is_installed_while_it_is_skipped(world: World) -> None:
    world.shelf.put("v2", {**config_map(), "data": {"a": "2"}}, widget(**{names.OPTIONAL: "true"}))
    installed(world)
    world.wish("v2")
    world.settle()
    assert world.conditions == READY
    assert world.cluster.objects[A]["data"] == {"a": "2"}


def test_it_goes_with_its_bundle(world: World) -> None:
    installed(world)
    serve(world)
    world.settle()
    world.delete()
    world.settle()
    assert not world.exists(W)
