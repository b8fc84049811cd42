from __future__ import annotations

import threading

import pytest

from rukpak.api import names
from rukpak.controller.kube.resources import GroupVersionKind
from tests.support.fake_api import Fault
from tests.support.watching import (
    CONFIG_MAP,
    DEPLOYMENTS,
    KEY,
    MAPS,
    OTHERS,
    WEBS,
    WIDGET,
    WIDGETS,
    WORKLOAD,
    World,
    define,
)


def test_a_kind_whose_list_is_under_way_is_named_and_told_when_it_is_known(world: World) -> None:
    world.api.frozen.set()
    assert world.watches.objects.require("shop", [CONFIG_MAP]) == ["ConfigMap"]
    assert world.watches.objects.require("other", [CONFIG_MAP]) == ["ConfigMap"]
    world.api.frozen.clear()
    world.hear("objects shop")
    assert world.watches.objects.require("shop", [CONFIG_MAP]) == []


def test_a_kind_is_watched_once_for_all(world: World) -> None:
    for name in ("a", "b"):
        world.know(CONFIG_MAP, name=name)
    assert world.api.lists(MAPS) == 1


def test_a_kind_that_is_not_served_has_no_objects_and_holds_nothing_up(world: World) -> None:
    world.start()
    gadget = GroupVersionKind("example.org", "v1", "Gadget")
    assert world.watches.objects.require("shop", [gadget]) == []
    assert world.watches.served.is_namespaced(gadget) is None
    assert world.watches.served.is_namespaced(CONFIG_MAP) is True


def test_a_kind_that_may_not_be_listed_holds_nothing_up(world: World) -> None:
    world.api.watch_faults = [Fault(403)] * 100
    world.wait(lambda: not world.watches.objects.require("shop", [CONFIG_MAP]), "it is not waited for")


def test_a_kind_that_is_served_at_another_version_is_watched_there(world: World) -> None:
    world.managed()
    world.know(GroupVersionKind("", "v2", "ConfigMap"))
    assert set(world.watches.objects.of("shop")) == {KEY}


def test_a_kind_that_is_no_longer_required_is_not_watched_or_kept(world: World) -> None:
    world.managed()
    for name in ("shop", "bar"):
        world.know(CONFIG_MAP, name=name)
    world.watches.objects.forget("bar")
    assert world.watches.objects.of("shop")
    world.watches.objects.require_only("shop", [WORKLOAD])
    assert world.watches.objects.of("shop") == {}
    world.watches.objects.require("shop", [CONFIG_MAP])
    world.wait(lambda: world.api.lists(MAPS) == 2, "it is listed again")


def test_the_objects_of_a_kind_that_cannot_be_listed_are_unknown(world: World) -> None:
    world.start()
    world.api.watch_faults = [Fault(500)] * 1000
    world.watches.objects.require("shop", [CONFIG_MAP])
    world.wait(lambda: not world.watches.objects.require("shop", [CONFIG_MAP]), "nothing waits for it")
    assert world.watches.objects.find_unknown("shop", [CONFIG_MAP]) == ["v1/ConfigMap"]
    world.api.watch_faults = []
    world.wait(lambda: not world.watches.objects.find_unknown("shop", [CONFIG_MAP]), "it is listed")


@pytest.mark.parametrize("status", [403, 404])
def test_what_may_not_be_listed_is_not_waited_for(world: World, status: int) -> None:
    world.start()
    world.api.watch_faults = [Fault(status)] * 1000
    world.watches.objects.require("shop", [CONFIG_MAP])
    world.wait(lambda: not world.watches.objects.require("shop", [CONFIG_MAP]), "nothing waits for it")
    assert world.watches.objects.find_unknown("shop", [CONFIG_MAP]) == []


def test_a_kind_that_discovery_lags_behind_is_looked_up_again_where_it_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()
    world.cluster.served.remove(WIDGET)
    world.watches.objects.require("shop", [WIDGET.gvk])
    monkeypatch.setattr(world.cluster, "refresh", lambda: world.cluster.served.append(WIDGET))
    world.api.frozen.set()
    assert world.watches.objects.find_unknown("shop", [WIDGET.gvk]) == [str(WIDGET.gvk)]
    world.api.frozen.clear()
    world.wait(lambda: not world.watches.objects.find_unknown("shop", [WIDGET.gvk]), "it is listed")


def watched(world: World) -> set[str]:
    return {reflector.path for reflector in world.watches.objects.reflectors()}


def test_a_kind_is_watched_until_the_last_that_requires_it_changes(world: World) -> None:
    for name in ("shop", "other"):
        world.know(CONFIG_MAP, name=name)
    world.watches.objects.require("other", [WORKLOAD])
    assert watched(world) == {MAPS, WEBS}
    world.watches.objects.require_only("shop", [WORKLOAD])
    assert watched(world) == {MAPS, WEBS}
    world.watches.objects.require_only("other", [WORKLOAD])
    assert watched(world) == {WEBS}
    for name in ("shop", "other"):
        world.watches.objects.forget(name)
    assert watched(world) == set()


def test_who_requires_a_kind_that_is_not_watched_is_blind_while_it_does(world: World) -> None:
    world.start()
    world.cluster.served.remove(WIDGET)
    world.watches.objects.require("shop", [WIDGET.gvk])
    world.watches.objects.require("other", [CONFIG_MAP])
    assert [world.watches.objects.has_unwatched(name) for name in ("shop", "other", "none")] == [True, False, False]
    world.watches.objects.require_only("shop", [CONFIG_MAP])
    assert not world.watches.objects.has_unwatched("shop")
    world.watches.objects.require("other", [WIDGET.gvk])
    world.watches.objects.forget("other")
    assert not world.watches.objects.has_unwatched("other")


# a standby, which runs no passes


def record(world: World, *kinds: GroupVersionKind, name: str = "shop") -> None:
    """Have status name these kinds."""
    world.deployment(name, status={"managedKinds": [str(kind) for kind in kinds]})


def test_a_standby_watches_the_kinds_that_status_names_and_no_others(world: World) -> None:
    record(world, CONFIG_MAP)
    world.start()
    world.wait(lambda: watched(world) == {MAPS}, "the kinds of the first status are watched")
    record(world, CONFIG_MAP, WORKLOAD)
    world.wait(lambda: watched(world) == {MAPS, WEBS}, "those of the next are, too")
    record(world, WORKLOAD, name="other")
    record(world, CONFIG_MAP)
    record(world, CONFIG_MAP, name="other")
    world.wait(lambda: watched(world) == {MAPS}, "one that no status names is not watched")
    for name in ("shop", "other"):
        world.api.delete(DEPLOYMENTS, name)
    world.wait(lambda: not watched(world), "nothing is watched for BundleDeployments that are gone")


def test_a_standby_watches_custom_kinds_once_definitions_are_known(world: World) -> None:
    define(world)
    record(world, WIDGET.gvk)
    world.start()
    world.wait(lambda: watched(world) == {WIDGETS}, "the kind is watched")


def test_what_a_pass_has_required_is_not_dropped_because_status_lacks_it(world: World) -> None:
    record(world, CONFIG_MAP)
    world.start()
    world.watches.objects.require("shop", [WORKLOAD])
    record(world)
    record(world, CONFIG_MAP, name="last")
    world.wait(lambda: world.watches.deployments.outline("last"), "all is known")
    assert watched(world) == {MAPS, WEBS}
    world.api.delete(DEPLOYMENTS, "shop")
    world.hear("deployment shop")
    assert watched(world) == {MAPS, WEBS}
    world.watches.objects.forget("shop")
    assert watched(world) == {MAPS}


# lists that are required


def test_who_takes_over_does_not_know_the_objects_of_a_kind_whose_watch_is_cut(world: World) -> None:
    world.start()
    world.know(CONFIG_MAP)
    assert world.watches.objects.find_unknown("shop", [CONFIG_MAP]) == []
    world.api.watch_faults = [Fault(500)] * 1000
    world.watches.refresh()
    assert world.watches.objects.find_unknown("shop", [CONFIG_MAP]) == ["v1/ConfigMap"]
    world.managed()
    world.api.watch_faults = []
    world.wait(lambda: not world.watches.objects.find_unknown("shop", [CONFIG_MAP]), "it is listed")
    assert set(world.watches.objects.of("shop")) == {KEY}


def test_after_a_takeover_passes_wait_for_the_list_of_each_kind(world: World) -> None:
    world.start()
    world.know(CONFIG_MAP)
    world.api.frozen.set()
    threading.Thread(target=world.watches.refresh).start()
    world.wait(lambda: world.watches.objects.require("shop", [CONFIG_MAP]) == ["ConfigMap"], "it is listed again")
    world.api.frozen.clear()
    world.hear("objects shop")
    assert world.watches.objects.require("shop", [CONFIG_MAP]) == []


def test_a_restored_cluster_is_reported_and_all_is_listed_again(world: World) -> None:
    world.deployment()
    world.managed()
    world.start()
    world.know(CONFIG_MAP)
    world.api.restore(MAPS)
    world.api.end_watches = True
    world.hear("restored")
    world.api.end_watches = False
    lists = {path: world.api.lists(path) for path in (DEPLOYMENTS, MAPS, *OTHERS)}
    world.api.put(MAPS, "stale", about={"namespace": "shop", "labels": {names.OWNER_LABEL: "shop"}})
    world.wait(lambda: world.watches.objects.of("shop"), "an object")
    world.api.frozen.set()
    world.watches.refresh()
    assert (world.watches.deployments.synced, world.watches.objects.of("shop")) == (False, {})
    world.api.restore(MAPS)
    world.api.frozen.clear()
    world.wait(lambda: world.watches.deployments.synced and not world.watches.unsynced(), "all is known")
    assert all(world.api.lists(path) > before for path, before in lists.items())
    assert world.watches.objects.of("shop") == {}
    assert "INVALIDATE" in world.cluster.requests
