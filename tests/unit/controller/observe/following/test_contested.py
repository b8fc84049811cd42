from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.observe.following import (
    MOST,
    Contested,
    ObjectFollower,
    ObjectReference,
    Topic,
    _Followed,
    follow_contested,
)
from rukpak.controller.observe.records import Record
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


@pytest.fixture
def woken() -> list[str]:
    """The names that were notified."""
    return []


@pytest.fixture
def followed(woken: list[str], running: list[str]) -> _Followed:
    """One object that is followed, without a thread."""
    follower = ObjectFollower(FakeCluster().client, {Topic.CONTESTED: woken.append})
    follower.follow("foo", Topic.CONTESTED, {ObjectReference("shop", "a", resource=CONFIG_MAPS): THEIRS})
    (found,) = follower._followed["foo"].values()
    return found


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_ends_the_wait_for_an_object(case: Case, followed: _Followed, woken: list[str]) -> None:
    followed.compare(THEIRS, case.now)
    assert bool(woken) is case.woken


def test_an_object_that_was_judged_again_is_compared_with_that(followed: _Followed, woken: list[str]) -> None:
    followed.expect(replace(THEIRS, marks=""))
    followed.compare(THEIRS, replace(THEIRS, marks=""))
    assert not woken


def list_objects(followed: _Followed, objects: dict[tuple[str, str], Record], version: str) -> None:
    """Let the watch have listed these objects."""
    assert followed.reflector
    followed.reflector.cache.begin_listing()
    followed.reflector._replace(objects, version)


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
def test_what_changed_while_a_pass_was_judging_is_not_missed(case: Late, followed: _Followed, woken: list[str]) -> None:
    list_objects(followed, {("shop", "a"): AT_5}, "5")
    woken.clear()
    followed.expect(case.judged)
    assert bool(woken) is case.woken


def test_what_went_while_a_pass_was_judging_is_not_missed(followed: _Followed, woken: list[str]) -> None:
    list_objects(followed, {}, "9")
    woken.clear()
    followed.expect(AT_5)
    assert woken


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is watched, without a thread."""
    selectors: list[str] = []

    def start(reflector: Any) -> None:
        selectors.append(reflector._objects.field_selector)

    def stop(reflector: Any) -> None:
        selectors.remove(reflector._objects.field_selector)

    monkeypatch.setattr("rukpak.controller.kube.watch.Reflector.start", start)
    monkeypatch.setattr("rukpak.controller.kube.watch.Reflector.stop", stop)
    return selectors


def contested(name: str, *, judged: bool = True) -> Contested:
    key = KEY._replace(name=name)
    return Contested(kind=KIND, key=key, record=replace(THEIRS, key=key) if judged else None)


class Follower:
    """A follower of what is contested."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.follower = ObjectFollower(self.cluster.client, {Topic.CONTESTED: lambda _: None})

    def follow(self, *found: Contested) -> None:
        follow_contested(self.follower, self.cluster.discovery, "foo", found)


def test_exactly_what_is_contested_is_watched(running: list[str]) -> None:
    follower = Follower()
    follower.follow(contested("a"), contested("b"))
    assert running == ["metadata.name=a", "metadata.name=b"]
    follower.follow(contested("b", judged=False), contested("c", judged=False))
    assert running == ["metadata.name=b"]
    follower.follow(*(contested(str(number)) for number in range(MOST + 3)))
    assert len(running) == MOST
    follower.follow()
    assert running == []


def test_a_kind_that_cannot_be_looked_up_ends_no_watch_and_leaves_none_behind(
    running: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower()
    follower.follow(contested("a"))
    with monkeypatch.context() as patched:
        patched.setattr(follower.cluster, "resource", unanswered)
        with pytest.raises(ApiError):
            follower.follow(contested("b"))
    assert running == ["metadata.name=a"]
    follower.follow()
    assert running == []


def unanswered(_kind: GroupVersionKind) -> Resource | None:
    raise ApiError(0, "Unreachable", "the API server did not answer")
