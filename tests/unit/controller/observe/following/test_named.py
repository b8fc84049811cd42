from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

import pytest

from rukpak.controller.observe.following import ObjectFollower, ObjectReference, Topic
from tests.support.fake_api import FakeApi, Received

SECRETS = "/api/v1/namespaces/ns/secrets"
SECRET = ObjectReference("ns", "login")
SECONDS = 60.0


class Room:
    """An API server with one namespace, and the names that were notified."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.told: queue.Queue[str] = queue.Queue()
        self.follower = ObjectFollower(api.client(), {Topic.SOURCES: self.told.put})

    def follow(self, name: str, objects: dict[ObjectReference, str]) -> None:
        self.follower.follow(name, Topic.SOURCES, objects)

    def put(self) -> str:
        """Write the Secret; return its version."""
        return str(self.api.put(SECRETS, "login", about={"namespace": "ns"})["metadata"]["resourceVersion"])

    def wait_told(self) -> str:
        return self.told.get(timeout=SECONDS)

    def watched(self, count: int) -> list[Received]:
        """Wait until so many watches were asked for; return them."""
        deadline = time.monotonic() + SECONDS
        while self.api.watches() < count:
            assert time.monotonic() < deadline, f"{self.api.watches()} watches"
            time.sleep(0.005)
        return [request for request in self.api.received if request.query.get("watch") == "true"]


@pytest.fixture
def room() -> Iterator[Room]:
    with FakeApi(SECRETS) as api:
        made = Room(api)
        yield made
        for name in ("shop", "other"):
            made.follower.forget(name)


def test_one_that_was_missing_is_told_when_it_comes(room: Room) -> None:
    room.follow("shop", {SECRET: ""})
    room.watched(1)
    room.put()
    assert room.wait_told() == "shop"


def test_one_that_came_before_it_was_watched_is_told(room: Room) -> None:
    room.put()
    room.follow("shop", {SECRET: ""})
    assert room.wait_told() == "shop"


def test_one_that_changed_after_it_was_read_and_before_it_was_watched_is_told(room: Room) -> None:
    version = room.put()
    room.put()
    room.follow("shop", {SECRET: version})
    assert room.wait_told() == "shop"


def test_one_that_is_as_it_was_read_is_no_news_until_it_changes(room: Room) -> None:
    room.follow("shop", {SECRET: room.put()})
    room.watched(1)
    assert room.told.empty()
    room.put()
    assert room.wait_told() == "shop"
    assert room.told.empty()


def test_one_that_goes_is_told(room: Room) -> None:
    room.follow("shop", {SECRET: room.put()})
    room.watched(1)
    room.api.delete(SECRETS, "login")
    assert room.wait_told() == "shop"


def test_one_that_went_before_it_was_watched_is_told(room: Room) -> None:
    version = room.put()
    room.api.delete(SECRETS, "login")
    room.follow("shop", {SECRET: version})
    assert room.wait_told() == "shop"


def test_one_that_changed_while_it_was_tried_is_told_when_that_has_failed(room: Room) -> None:
    first = room.put()
    room.follow("shop", {SECRET: first})
    room.watched(1)
    room.put()
    assert room.wait_told() == "shop"
    room.follow("shop", {SECRET: first})
    assert room.wait_told() == "shop"


def test_it_is_watched_by_name_and_as_who_reads_it(room: Room) -> None:
    room.follow("shop", {ObjectReference("ns", "login", "system:serviceaccount:ns:deployer"): ""})
    (request,) = room.watched(1)
    assert (request.path, request.query["fieldSelector"]) == (SECRETS, "metadata.name=login")
    assert request.header("Impersonate-User") == ["system:serviceaccount:ns:deployer"]
    assert "PartialObjectMetadata" in request.header("Accept")[0]


def test_it_is_watched_once_as_long_as_it_fails(room: Room) -> None:
    for _ in range(3):
        room.follow("shop", {SECRET: ""})
    room.follow("other", {SECRET: ""})
    assert len(room.watched(2)) == 2


def test_a_watch_that_is_not_needed_stops(room: Room) -> None:
    room.follow("shop", {SECRET: ""})
    room.watched(1)
    room.follow("shop", {})
    deadline = time.monotonic() + SECONDS
    while any(SECRETS in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "a watch is left"
        time.sleep(0.005)
    room.put()
    assert room.told.empty()
