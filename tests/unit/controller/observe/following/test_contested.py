from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.kube.watch import Reflector
from rukpak.controller.observe.following import MOST, Contested, ContestedWatches, ObjectFollower, _ContestedObject
from rukpak.controller.observe.records import ObjectKey, Record
from tests.support.fake_cluster import CONFIG_MAPS, FakeCluster

KIND = GroupVersionKind("", "v1", "ConfigMap")
KEY = ObjectKey("", "ConfigMap", "shop", "a")
THEIRS = Record(key=KEY, uid="1", marks='Helm release "x"')


class Case(NamedTuple):
    name: str
    now: Record | None
    woken: bool


CASES = [
    Case("it is as it was judged", THEIRS, woken=False),
    Case("what is in it has changed", replace(THEIRS, resource_version="9", generation=2), woken=False),
    Case("it is gone", None, woken=True),
    Case("it is deleted", replace(THEIRS, deleting=True), woken=True),
    Case("it is another one of that name", replace(THEIRS, uid="2"), woken=True),
    Case("it is no longer claimed", replace(THEIRS, marks=""), woken=True),
    Case("it was released for us", replace(THEIRS, released_from="foo"), woken=True),
    Case("another controller has it", replace(THEIRS, controller_uid="3"), woken=True),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_ends_the_wait_for_an_object(case: Case) -> None:
    woken: list[bool] = []
    watch = _ContestedObject(ObjectFollower(FakeCluster().client), "", CONFIG_MAPS, THEIRS, lambda: woken.append(True))
    watch._compare(THEIRS, case.now)
    assert bool(woken) is case.woken


def test_an_object_that_was_judged_again_is_compared_with_that() -> None:
    woken: list[bool] = []
    watch = _ContestedObject(ObjectFollower(FakeCluster().client), "", CONFIG_MAPS, THEIRS, lambda: woken.append(True))
    watch.expect(replace(THEIRS, marks=""))
    watch.expect(None)
    watch._compare(THEIRS, replace(THEIRS, marks=""))
    assert not woken


def list_objects(watch: _ContestedObject, objects: dict[tuple[str, str], Record], version: str) -> None:
    """Let the watch have listed these objects."""
    assert isinstance(watch.followed, Reflector)
    watch.followed._cache.begin_listing()
    watch.followed._replace(objects, version)


class Late(NamedTuple):
    name: str
    judged: Record
    woken: bool


AT_5 = replace(THEIRS, resource_version="5")
LATE = [
    Late("it is as it was judged", AT_5, woken=False),
    Late(
        "it was let go after it was judged", replace(AT_5, resource_version="4", marks='Helm release "y"'), woken=True
    ),
    Late("it is judged by more than the watch knows", replace(AT_5, resource_version="6", marks=""), woken=False),
]


@pytest.mark.parametrize("case", LATE, ids=attrgetter("name"))
def test_what_changed_while_a_pass_was_judging_is_not_missed(case: Late) -> None:
    woken: list[bool] = []
    watch = _ContestedObject(ObjectFollower(FakeCluster().client), "", CONFIG_MAPS, THEIRS, lambda: woken.append(True))
    list_objects(watch, {("shop", "a"): AT_5}, "5")
    woken.clear()
    watch.expect(case.judged)
    assert bool(woken) is case.woken


def test_what_went_while_a_pass_was_judging_is_not_missed() -> None:
    woken: list[bool] = []
    watch = _ContestedObject(ObjectFollower(FakeCluster().client), "", CONFIG_MAPS, THEIRS, lambda: woken.append(True))
    list_objects(watch, {}, "9")
    woken.clear()
    watch.expect(AT_5)
    assert woken


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is watched, without a thread."""
    selectors: list[str] = []

    def start(reflector: Any) -> None:
        selectors.append(reflector._collection.field_selector)

    def stop(reflector: Any) -> None:
        selectors.remove(reflector._collection.field_selector)

    monkeypatch.setattr("rukpak.controller.kube.watch.Reflector.start", start)
    monkeypatch.setattr("rukpak.controller.kube.watch.Reflector.stop", stop)
    return selectors


def contested(name: str, *, judged: bool = True) -> Contested:
    key = KEY._replace(name=name)
    return Contested(kind=KIND, key=key, record=replace(THEIRS, key=key) if judged else None)


def test_exactly_what_is_contested_is_watched(running: list[str]) -> None:

    cluster = FakeCluster()
    watches = ContestedWatches(ObjectFollower(cluster.client), cluster.discovery, lambda _: None)
    watches.watch("foo", [contested("a"), contested("b")])
    assert running == ["metadata.name=a", "metadata.name=b"]
    watches.watch("foo", [contested("b", judged=False), contested("c", judged=False)])
    assert running == ["metadata.name=b"]
    watches.watch("foo", [contested(str(number)) for number in range(MOST + 3)])
    assert len(running) == MOST
    watches.watch("foo", [])
    assert running == []


def test_a_kind_that_cannot_be_looked_up_ends_no_watch_and_leaves_none_behind(running: list[str]) -> None:
    cluster = FakeCluster()
    watches = ContestedWatches(ObjectFollower(cluster.client), cluster.discovery, lambda _: None)
    watches.watch("foo", [contested("a")])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster, "resource", unanswered)
        with pytest.raises(ApiError):
            watches.watch("foo", [contested("b")])
    watches.watch("foo", [])
    assert running == []


def unanswered(_kind: GroupVersionKind) -> Resource | None:
    raise ApiError(0, "Unreachable", "the API server did not answer")
