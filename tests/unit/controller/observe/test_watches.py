from __future__ import annotations

import pytest

from rukpak.controller.kube.cache import make_trace
from rukpak.controller.kube.watch import ListWatch, Reflector
from tests.support.fake_api import Fault
from tests.support.watching import CONFIG_MAP, MAPS, SERVICES, WEBS, WIDGET, WIDGETS, WORKLOAD, World, define


def test_a_definition_that_comes_makes_its_kind_known(world: World) -> None:
    world.start()
    world.api.watch_faults = [Fault(404)] * 2
    world.watches.objects.require("shop", [WIDGET.gvk])
    world.wait(lambda: not world.api.watch_faults, "it is not served")
    world.managed(path=WIDGETS)
    define(world)
    heard = world.hear("cluster")
    assert "INVALIDATE" in world.cluster.requests
    world.wait(lambda: world.watches.objects.of("shop"), f"its objects are known; heard {heard}")


def test_who_has_objects_of_a_kind_is_told_when_its_definition_comes_later_than_they(world: World) -> None:
    world.cluster.served.remove(WIDGET)
    world.start()
    world.managed(path=WIDGETS)
    world.know(CONFIG_MAP, name="other")
    assert world.watches.objects.require("shop", [WIDGET.gvk]) == []
    assert (world.watches.objects.has_unwatched("shop"), world.watches.objects.has_unwatched("other")) == (True, False)
    define(world)
    heard = world.hear("cluster")
    assert [text for text in heard if text.startswith("objects")] == ["objects shop"]
    world.watches.objects.require("shop", [WIDGET.gvk])
    world.wait(lambda: world.watches.objects.of("shop"), "its objects are known")
    assert not world.watches.objects.has_unwatched("shop")


def test_who_has_objects_of_an_aggregated_kind_is_told_when_its_service_changes(world: World) -> None:
    world.cluster.served.remove(WIDGET)
    world.start()
    world.know(CONFIG_MAP, name="other")
    world.watches.objects.require("shop", [WIDGET.gvk])
    world.api.put(SERVICES, "v1.other.com")
    assert "objects shop" not in world.hear("cluster")
    world.api.put(SERVICES, "v1.example.com")
    assert [text for text in world.hear("cluster") if text.startswith("objects")] == ["objects shop"]


def test_only_kinds_whose_health_needs_it_are_watched_in_full(world: World) -> None:
    world.start()
    world.know(CONFIG_MAP, WORKLOAD)
    asked = {received.path: " ".join(received.header("Accept")) for received in world.api.received}
    assert ["PartialObjectMetadata" in asked[path] for path in (MAPS, WEBS)] == [True, False]


def test_a_namespace_ends_waits_and_has_nothing_to_do_with_discovery(world: World) -> None:
    world.start()
    world.api.put("/api/v1/namespaces", "shop")
    world.hear("cluster")
    assert not world.cluster.requests


def test_a_namespace_is_lacking_only_once_all_are_known(world: World) -> None:
    world.api.put("/api/v1/namespaces", "shop")
    assert not world.watches.lacks_namespace("gone")
    world.start()
    world.wait(lambda: world.watches.lacks_namespace("gone"), "all are known")
    assert not world.watches.lacks_namespace("shop")


STORE = "/api/v1/namespaces/rukpak-system/secrets"


def test_a_watch_that_is_included_is_started_checked_and_listed_again_with_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.api.objects[STORE] = {}
    included = Reflector(ListWatch(world.api.client(), STORE, metadata=True), project=make_trace)
    world.watches.include(included)
    world.start()
    world.wait(lambda: included.synced and STORE not in " ".join(world.watches.unsynced()), "it is listed")
    lists = world.api.lists(STORE)
    world.watches.refresh()
    world.wait(lambda: world.api.lists(STORE) > lists and included.synced, "it is listed again")
    assert world.watches.stuck() == []
    monkeypatch.setattr(Reflector, "stuck", property(lambda found: found is included))
    assert world.watches.stuck() == [STORE]
