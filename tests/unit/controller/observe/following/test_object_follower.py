from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from rukpak.controller.kube.cache import Trace, make_trace
from rukpak.controller.kube.client import User
from rukpak.controller.kube.resources import SECRETS as KIND
from rukpak.controller.observe.following import Followed, ObjectFollower, PollingPace, Subscription
from rukpak.controller.playground.waiting import wait_for
from tests.support.fake_api import FakeApi, Fault, Received

SECRETS = "/api/v1/namespaces/ns/secrets"
SECONDS = 60.0
FAST = PollingPace(between=0.001, again=0.02)
ANN, BEN = "account/ann", "account/ben"


class Room:
    """An API server with one namespace, and the reported changes."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.told: queue.Queue[tuple[str, bool]] = queue.Queue()
        """Names of objects, and whether they are there."""
        self.synced: queue.Queue[str] = queue.Queue()
        self.followed: list[Followed[Trace]] = []

    def follow(
        self, follower: ObjectFollower, name: str, share: str = ANN, user: User | None = None
    ) -> Followed[Trace]:
        subscription = Subscription(
            resource=KIND,
            namespace="ns",
            name=name,
            user=user,
            project=make_trace,
            on_change=lambda _old, new: self.told.put((name, new is not None)),
            on_synced=lambda: self.synced.put(name),
        )
        followed = follower.make(share, subscription)
        self.followed.append(followed)
        followed.start()
        return followed

    def put(self, name: str) -> None:
        self.api.put(SECRETS, name, about={"namespace": "ns"})

    def is_told(self, name: str) -> bool:
        return (name, True) in list(self.told.queue)

    def wait_told(self) -> tuple[str, bool]:
        return self.told.get(timeout=SECONDS)

    def asked(self, name: str) -> list[Received]:
        return [request for request in list(self.api.received) if request.path == f"{SECRETS}/{name}"]


@pytest.fixture
def room() -> Iterator[Room]:
    with FakeApi(SECRETS) as api:
        made = Room(api)
        yield made
        for followed in made.followed:
            followed.stop()


def threads() -> int:
    return sum(thread.name.startswith(("watch ", "object follower")) for thread in threading.enumerate())


def test_a_thousand_missing_objects_cost_a_few_threads_and_each_is_found(room: Room) -> None:
    before = threads()
    follower = ObjectFollower(room.api.client(), watches=4, pace=FAST)
    for number in range(1000):
        room.follow(follower, f"missing-{number}")
    assert threads() - before <= 3
    for name in ("missing-999", "missing-0"):  # one is asked for, one is watched
        room.put(name)
        wait_for(partial(room.is_told, name), SECONDS, name)


def test_what_is_asked_for_is_told_when_it_comes_changes_and_goes_and_not_else(room: Room) -> None:
    room.follow(ObjectFollower(room.api.client(), watches=0, pace=FAST), "login")
    assert room.synced.get(timeout=SECONDS) == "login"
    room.put("login")
    assert room.wait_told() == ("login", True)
    room.put("login")
    assert room.wait_told() == ("login", True)
    count = len(room.asked("login"))
    wait_for(lambda: len(room.asked("login")) > count + 3, SECONDS, "more questions")
    assert room.told.empty()
    room.api.delete(SECRETS, "login")
    assert room.wait_told() == ("login", False)
    assert room.synced.empty()


def test_it_is_asked_for_as_who_reads_it_and_without_its_values(room: Room) -> None:
    user = User.service_account("ns", "deployer")
    room.follow(ObjectFollower(room.api.client(), watches=0, pace=FAST), "login", user=user)
    room.synced.get(timeout=SECONDS)
    request = room.asked("login")[0]
    assert request.header("Impersonate-User") == [user.name]
    assert "PartialObjectMetadata" in request.header("Accept")[0]


def test_a_tenant_with_hundreds_leaves_turns_to_another(room: Room) -> None:
    follower = ObjectFollower(room.api.client(), watches=0, pace=PollingPace(between=0.01, again=0.0))
    for number in range(300):
        room.follow(follower, f"missing-{number}")
    room.follow(follower, "bens", BEN)
    room.put("bens")
    assert room.wait_told() == ("bens", True)
    wait_for(lambda: len(room.asked("bens")) > 5, SECONDS, "turns")
    assert sum("missing" in request.path for request in list(room.api.received)) <= 2 * len(room.asked("bens")) + 2


def test_watches_are_left_to_another_tenant_and_given_back_when_they_end(room: Room) -> None:
    follower = ObjectFollower(room.api.client(), watches=4, pace=FAST)

    def is_watched(name: str, share: str) -> bool:
        room.follow(follower, name, share)
        room.synced.get(timeout=SECONDS)
        return not room.asked(name)

    assert [is_watched(f"a{number}", ANN) for number in range(3)] == [True, True, False]
    assert is_watched("b", BEN)
    for _ in range(4):
        room.followed.pop().stop()
    assert is_watched("again", ANN)


def test_there_is_a_bound_on_requests_and_none_for_what_is_not_followed_any_more(room: Room) -> None:
    follower = ObjectFollower(room.api.client(), watches=0, pace=PollingPace(between=0.05, again=0.0))
    followed = room.follow(follower, "login")
    started = time.monotonic()
    wait_for(lambda: len(room.asked("login")) >= 5, SECONDS, "five questions")
    assert time.monotonic() - started >= 4 * 0.05
    followed.stop()
    room.follow(follower, "other")
    wait_for(lambda: room.asked("other"), SECONDS, "a question about the other")
    count = len(room.asked("login"))
    wait_for(lambda: len(room.asked("other")) >= 3, SECONDS, "more of them")
    assert len(room.asked("login")) == count


def test_what_cannot_be_asked_for_is_asked_again_in_time(room: Room) -> None:
    room.put("login")
    room.api.faults = [Fault(503), Fault(403), Fault(500)]
    room.follow(ObjectFollower(room.api.client(), watches=0, pace=FAST), "login")
    assert room.wait_told() == ("login", True)


@pytest.mark.parametrize("watches", [0, 2], ids=["polled", "watched"])
def test_what_is_dropped_is_unknown_until_it_is_read_again(room: Room, watches: int) -> None:
    follower = ObjectFollower(room.api.client(), watches=watches, pace=FAST)
    room.put("login")
    followed = room.follow(follower, "login")
    assert room.synced.get(timeout=SECONDS) == "login"
    room.api.frozen.set()
    follower.drop()
    assert followed.get(("ns", "login")) is None
    room.api.frozen.clear()
    wait_for(lambda: followed.get(("ns", "login")), SECONDS, lambda: "it is read again")
    assert room.synced.get(timeout=SECONDS) == "login"
