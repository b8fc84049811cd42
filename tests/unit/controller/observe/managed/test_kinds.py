from __future__ import annotations

import pytest

from controller.kube.resources import GroupVersionKind
from tests.support.fake_api import Fault
from tests.support.watching import CONFIG_MAP, KEY, MAPS, WIDGET, WORKLOAD, World


def test_a_kind_whose_list_is_under_way_is_named_and_told_when_it_is_known(world: World) -> None:
    world.api.frozen.set()
    assert world.watches.require("shop", [CONFIG_MAP]) == ["ConfigMap"]
    assert world.watches.require("other", [CONFIG_MAP]) == ["ConfigMap"]
    world.api.frozen.clear()
    world.hear("objects shop")
    assert world.watches.require("shop", [CONFIG_MAP]) == []


def test_a_kind_is_watched_once_for_all(world: World) -> None:
    for name in ("a", "b"):
        world.know(CONFIG_MAP, name=name)
    assert world.api.lists(MAPS) == 1


def test_a_kind_that_is_not_served_has_no_objects_and_holds_nothing_up(world: World) -> None:
    world.start()
    gadget = GroupVersionKind("example.org", "v1", "Gadget")
    assert world.watches.require("shop", [gadget]) == []
    assert world.watches.is_namespaced(gadget) is None
    assert world.watches.is_namespaced(CONFIG_MAP) is True


def test_a_kind_that_may_not_be_listed_holds_nothing_up(world: World) -> None:
    world.api.watch_faults = [Fault(403)] * 100
    world.wait(lambda: not world.watches.require("shop", [CONFIG_MAP]), "it is not waited for")


def test_a_kind_that_is_served_at_another_version_is_watched_there(world: World) -> None:
    world.managed()
    world.know(GroupVersionKind("", "v2", "ConfigMap"))
    assert set(world.watches.managed("shop")) == {KEY}


def test_a_kind_that_is_no_longer_required_is_not_watched_or_kept(world: World) -> None:
    world.managed()
    for name in ("shop", "bar"):
        world.know(CONFIG_MAP, name=name)
    world.watches.forget("bar")
    assert world.watches.managed("shop")
    world.watches.require_only("shop", [WORKLOAD])
    assert world.watches.managed("shop") == {}
    world.watches.require("shop", [CONFIG_MAP])
    world.wait(lambda: world.api.lists(MAPS) == 2, "it is listed again")


def test_the_objects_of_a_kind_that_cannot_be_listed_are_unknown(world: World) -> None:
    world.start()
    world.api.watch_faults = [Fault(500)] * 1000
    world.watches.require("shop", [CONFIG_MAP])
    world.wait(lambda: not world.watches.require("shop", [CONFIG_MAP]), "nothing waits for it")
    assert world.watches.find_unknown("shop", [CONFIG_MAP]) == ["v1/ConfigMap"]
    world.api.watch_faults = []
    world.wait(lambda: not world.watches.find_unknown("shop", [CONFIG_MAP]), "it is listed")


@pytest.mark.parametrize("status", [403, 404])
def test_what_may_not_be_listed_is_not_waited_for(world: World, status: int) -> None:
    world.start()
    world.api.watch_faults = [Fault(status)] * 1000
    world.watches.require("shop", [CONFIG_MAP])
    world.wait(lambda: not world.watches.require("shop", [CONFIG_MAP]), "nothing waits for it")
    assert world.watches.find_unknown("shop", [CONFIG_MAP]) == []


def test_a_kind_that_discovery_lags_behind_is_looked_up_again_where_it_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()
    world.cluster.served.remove(WIDGET)
    world.watches.require("shop", [WIDGET.gvk])
    monkeypatch.setattr(world.cluster, "refresh", lambda: world.cluster.served.append(WIDGET))
    world.api.frozen.set()
    assert world.watches.find_unknown("shop", [WIDGET.gvk]) == [str(WIDGET.gvk)]
    world.api.frozen.clear()
    world.wait(lambda: not world.watches.find_unknown("shop", [WIDGET.gvk]), "it is listed")
