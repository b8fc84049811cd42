from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.health.verdict import HEALTHY
from rukpak.controller.observe.kinds import KindWatch
from rukpak.controller.observe.records import project
from tests.support.watching import CONFIG_MAP, KEY, MAPS, WORKLOAD, World, reply, workload


def test_objects_are_filed_under_the_owner_that_their_label_names(world: World) -> None:
    world.managed("shop", "a")
    world.managed("bar", "b")
    world.managed("", "nobodys")
    world.know(CONFIG_MAP)
    assert set(world.watches.objects.of("shop")) == {KEY}
    assert set(world.watches.objects.of("bar")) == {KEY._replace(name="b")}
    assert world.watches.objects.of("") == {}


def digest(value: str) -> dict[str, Any]:
    return {"annotations": {names.APPLIED_DIGEST: value}}


class Event(NamedTuple):
    name: str
    act: Callable[[World], object]
    expect: list[str]


# fmt: off
EVENTS = [
    Event("a change of what a plan depends on is urgent", lambda w: w.managed(**digest("new")), ["objects shop"]),
    Event("a change of no field of ours is not reported", lambda w: w.managed(data={"a": "1"}, **digest("old")), []),
    Event("a new object is urgent", lambda w: w.managed(name="b"), ["objects shop"]),
    Event("one that is gone is urgent, and may end the wait of another", lambda w: w.api.delete(MAPS, "a"),
         ["objects shop", "cluster"]),
    Event("one that changes hands concerns both", lambda w: w.managed("bar"),
         ["objects bar", "objects shop", "cluster"]),
    Event("one that was made again under its name concerns its owner",
         lambda w: w.api.put(MAPS, "a", uid="again", about={"namespace": "shop",
         "labels": {names.OWNER_LABEL: "shop"}}), ["objects shop"]),
]
# fmt: on


@pytest.mark.parametrize("case", EVENTS, ids=attrgetter("name"))
def test_what_an_event_tells(case: Event, world: World) -> None:
    world.managed(**digest("old"))
    world.know(CONFIG_MAP)
    case.act(world)
    world.managed("marker", "z")
    heard = [text for text in world.hear("objects marker") if text != "objects marker"]
    assert sorted(set(heard)) == sorted(case.expect)


def test_a_change_of_health_alone_is_not_urgent(world: World) -> None:
    workload(world, ready=0)
    world.know(WORKLOAD)
    workload(world, ready=1)
    assert set(world.hear("health shop")) == {"health shop"}
    (record,) = world.watches.objects.of("shop").values()
    assert record.verdict == HEALTHY


def test_what_a_reply_said_is_known_before_the_watch_says_it(world: World) -> None:
    world.know(CONFIG_MAP)
    fresh = reply("500", annotations={names.APPLIED_DIGEST: "new"})
    assert world.watches.objects.learn(fresh) is fresh
    assert world.watches.objects.of("shop") == {KEY: fresh}


def test_who_loses_an_object_by_an_apply_for_another_is_told(world: World) -> None:
    world.managed()
    world.know(CONFIG_MAP)
    world.told.taken()
    world.watches.objects.learn(reply("500", owner="other"))
    assert world.told.taken() == ["objects shop"]
    assert world.watches.objects.of("shop") == {}


def test_an_apply_of_ours_notifies_no_one(world: World) -> None:
    world.managed()
    world.know(CONFIG_MAP)
    world.told.taken()
    world.watches.objects.learn(reply("500", annotations={names.APPLIED_DIGEST: "new"}))
    assert world.told.taken() == []


def test_an_older_event_does_not_hide_what_a_reply_said(world: World) -> None:
    world.know(CONFIG_MAP)
    fresh = reply("500", annotations={names.APPLIED_DIGEST: "new"})
    world.watches.objects.learn(fresh)
    world.managed(**digest("old"))
    world.managed("marker", "z")
    world.hear("objects marker")
    assert world.watches.objects.of("shop")[KEY] is fresh


def test_what_is_not_watched_cannot_be_learnt(world: World) -> None:
    fresh = reply("500")
    assert world.watches.objects.learn(fresh) is fresh
    assert world.watches.objects.of("shop") == {}


def test_an_apply_that_changed_nothing_leaves_the_health_that_is_known(world: World) -> None:
    value = workload(world, ready=1)
    world.know(WORKLOAD)
    unseen = project(value, "apps", "Deployment")
    assert world.watches.objects.learn(unseen).verdict == HEALTHY


def watch_of(world: World, kind: GroupVersionKind) -> KindWatch:
    watch = world.watches.objects.find_watch((kind.group, kind.kind))
    assert watch is not None
    return watch


def test_what_a_watch_tells_after_its_end_is_not_kept(world: World) -> None:
    world.managed()
    world.know(CONFIG_MAP)
    ended = watch_of(world, CONFIG_MAP).reflector
    world.watches.objects.require_only("shop", [WORKLOAD])
    world.watches.objects._file(KEY, ended)
    assert world.watches.objects.of("shop") == {}


@pytest.mark.parametrize("is_hook", [True, False])
def test_of_a_hook_whatever_changes_is_told_since_it_may_have_ended(world: World, is_hook: bool) -> None:
    annotations = {names.HOOK_RUN: "pre-install sha256:a"} if is_hook else {}
    world.managed(annotations=annotations)
    world.know(CONFIG_MAP)
    world.managed(annotations=annotations, status={"phase": "Succeeded"})
    world.managed(name="b")
    assert ("health shop" in world.hear("objects shop")) is is_hook


def test_of_what_is_heeded_whatever_changes_is_told_until_it_is_not(world: World) -> None:
    world.managed()
    world.know(CONFIG_MAP)
    for keys, told in [({KEY}, True), ({KEY._replace(name="c")}, False), ({KEY}, True), (set(), False)]:
        world.watches.objects.heed("shop", frozenset(keys))
        world.managed(data={"a": str(keys)})
        world.managed("marker", "z")
        world.api.delete(MAPS, "z")
        assert ("health shop" in world.hear("cluster")) is told
