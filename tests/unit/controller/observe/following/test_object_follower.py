from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from rukpak.controller.kube.client import User
from rukpak.controller.observe.following import (
    ObjectFollower,
    ObjectReference,
    PollingPace,
    Topic,
    _Followed,
)
from rukpak.controller.playground.processes import wait_for
from tests.support.fake_api import FakeApi, Fault, Received

SECRETS = "/api/v1/namespaces/ns/secrets"
SECONDS = 60.0
FAST = PollingPace(between=0.001, again=0.02)
ANN, BEN = "account/ann", "account/ben"


class Room:
    """An API server with one namespace, and the reported changes."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.told: queue.Queue[str] = queue.Queue()
        """Names of objects that are not as they were seen."""
        self.followers: list[ObjectFollower] = []
        self.names: set[str] = set()

    def follower(self, watches: int = 0, pace: PollingPace = FAST) -> ObjectFollower:
        made = ObjectFollower(self.api.client(), {Topic.SOURCES: self.told.put}, watches=watches, pace=pace)
        self.followers.append(made)
        return made

    def follow(
        self, follower: ObjectFollower, name: str, share: str = ANN, user: str = "", version: str = ""
    ) -> _Followed:
        """Follow an object for a BundleDeployment of the same name."""
        self.names.add(name)
        follower.follow(name, Topic.SOURCES, {ObjectReference("ns", name, user): version}, share=share)
        (followed,) = follower._followed[name].values()
        return followed

    def put(self, name: str) -> str:
        return str(self.api.put(SECRETS, name, about={"namespace": "ns"})["metadata"]["resourceVersion"])

    def wait_told(self) -> str:
        return self.told.get(timeout=SECONDS)

    def asked(self, name: str) -> list[Received]:
        return [request for request in list(self.api.received) if request.path == f"{SECRETS}/{name}"]

    def has_asked(self, name: str, more_than: int) -> bool:
        return len(self.asked(name)) > more_than


@pytest.fixture
def room() -> Iterator[Room]:
    with FakeApi(SECRETS) as api:
        made = Room(api)
        yield made
        for follower in made.followers:
            for name in made.names:
                follower.forget(name)


def threads() -> int:
    return sum(thread.name.startswith(("watch ", "object follower")) for thread in threading.enumerate())


def test_a_thousand_missing_objects_cost_a_few_threads_and_each_is_found(room: Room) -> None:
    before = threads()
    follower = room.follower(watches=4)
    for number in range(1000):
        room.follow(follower, f"missing-{number}")
    assert threads() - before <= 3
    for name in ("missing-999", "missing-0"):  # one is asked for, one is watched
        room.put(name)
        wait_for(partial(room.told.queue.__contains__, name), SECONDS, name)


def test_what_is_asked_for_is_told_when_it_comes_changes_and_goes_and_not_else(room: Room) -> None:
    follower = room.follower()
    followed = room.follow(follower, "login")
    wait_for(lambda: followed.cache.complete, SECONDS, "an answer")
    assert room.told.empty()
    for _ in ("comes", "changes"):
        version = room.put("login")
        assert room.wait_told() == "login"
        room.follow(follower, "login", version=version)
        count = len(room.asked("login"))
        wait_for(partial(room.has_asked, "login", count + 3), SECONDS, "more questions")
        assert room.told.empty()
    room.api.delete(SECRETS, "login")
    assert room.wait_told() == "login"
    count = len(room.asked("login"))
    wait_for(lambda: len(room.asked("login")) > count + 3, SECONDS, "more questions")
    assert room.told.empty()


def test_exactly_what_was_named_last_is_followed_and_each_object_once(room: Room) -> None:
    follower = room.follower()
    room.names |= {"shop", "other"}

    def follow(name: str, *objects: str) -> list[str]:
        follower.follow(name, Topic.SOURCES, {ObjectReference("ns", each): "" for each in objects})
        return sorted(each.name for each in follower.followed(name, Topic.SOURCES))

    assert follow("shop", "a", "b") == ["a", "b"]
    first = dict(follower._followed["shop"])
    assert follow("other", "a") == ["a"]
    assert follow("shop", "b", "c") == ["b", "c"]
    assert follower._followed["shop"].items() & first.items() == {
        (key, each) for key, each in first.items() if key[1].name == "b"
    }
    assert follow("shop") == []
    assert [each.name for each in follower.followed("other", Topic.SOURCES)] == ["a"]


def test_what_is_followed_for_another_topic_is_left_alone_until_all_is_released(room: Room) -> None:
    config: queue.Queue[str] = queue.Queue()
    handlers = {Topic.SOURCES: room.told.put, Topic.CONFIG: config.put}
    follower = ObjectFollower(room.api.client(), handlers, watches=0, pace=FAST)
    room.followers.append(follower)
    room.names.add("shop")
    login = ObjectReference("ns", "login")
    for topic in handlers:
        follower.follow("shop", topic, {login: ""})
    follower.follow("shop", Topic.SOURCES, {})
    assert (follower.followed("shop", Topic.SOURCES), follower.followed("shop", Topic.CONFIG)) == (set(), {login})
    count = len(room.asked("login"))  # the answer to one that was under way may still count
    wait_for(partial(room.has_asked, "login", count + 1), SECONDS, "another question")
    room.put("login")
    assert config.get(timeout=SECONDS) == "shop"
    assert room.told.empty()
    follower.forget("shop")
    assert follower.followed("shop", Topic.CONFIG) == set()


def test_it_is_asked_for_as_who_reads_it_and_without_its_values(room: Room) -> None:
    user = User.service_account("ns", "deployer")
    room.follow(room.follower(), "login", user=user.name)
    wait_for(lambda: room.asked("login"), SECONDS, "a question")
    request = room.asked("login")[0]
    assert request.header("Impersonate-User") == [user.name]
    assert "PartialObjectMetadata" in request.header("Accept")[0]


def test_a_tenant_with_hundreds_leaves_turns_to_another(room: Room) -> None:
    follower = room.follower(pace=PollingPace(between=0.01, again=0.0))
    for number in range(300):
        room.follow(follower, f"missing-{number}")
    room.follow(follower, "bens", BEN)
    room.put("bens")
    assert room.wait_told() == "bens"
    wait_for(lambda: len(room.asked("bens")) > 5, SECONDS, "turns")
    assert sum("missing" in request.path for request in list(room.api.received)) <= 2 * len(room.asked("bens")) + 2


def test_watches_are_left_to_another_tenant_and_given_back_when_they_end(room: Room) -> None:
    follower = room.follower(watches=4)

    def is_watched(name: str, share: str) -> bool:
        followed = room.follow(follower, name, share)
        wait_for(lambda: followed.cache.complete, SECONDS, name)
        return not room.asked(name)

    assert [is_watched(f"a{number}", ANN) for number in range(3)] == [True, True, False]
    assert is_watched("b", BEN)
    for name in list(room.names):
        follower.forget(name)
    assert is_watched("again", ANN)


def test_there_is_a_bound_on_requests_and_none_for_what_is_not_followed_any_more(room: Room) -> None:
    follower = room.follower(pace=PollingPace(between=0.05, again=0.0))
    room.follow(follower, "login")
    started = time.monotonic()
    wait_for(lambda: len(room.asked("login")) >= 5, SECONDS, "five questions")
    assert time.monotonic() - started >= 4 * 0.05
    follower.forget("login")
    room.follow(follower, "other")
    wait_for(lambda: room.asked("other"), SECONDS, "a question about the other")
    count = len(room.asked("login"))
    wait_for(lambda: len(room.asked("other")) >= 3, SECONDS, "more of them")
    assert len(room.asked("login")) == count


def test_what_cannot_be_asked_for_is_asked_again_in_time(room: Room) -> None:
    room.put("login")
    room.api.faults = [Fault(503), Fault(403), Fault(500)]
    room.follow(room.follower(), "login")
    assert room.wait_told() == "login"


@pytest.mark.parametrize("watches", [0, 2], ids=["polled", "watched"])
def test_what_is_dropped_is_unknown_until_it_is_read_again(room: Room, watches: int) -> None:
    follower = room.follower(watches=watches)
    followed = room.follow(follower, "login", version=room.put("login"))
    wait_for(lambda: followed.cache.complete, SECONDS, "an answer")
    room.api.frozen.set()
    follower.drop()
    assert followed.cache.get(("ns", "login")) is None
    room.api.frozen.clear()
    wait_for(lambda: followed.cache.get(("ns", "login")), SECONDS, lambda: "it is read again")
    wait_for(lambda: followed.cache.complete, SECONDS, "all is known again")
