from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from rukpak.controller.observe.following import RESOURCES, ObjectFollower, Topic
from rukpak.controller.playground.processes import wait_for
from tests.support.fake_api import FakeApi

PATHS = [resource.path() for resource in RESOURCES]
SECONDS = 60.0


class Room:
    """An API server with roles and bindings, and the names that were notified."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.told: queue.Queue[str] = queue.Queue()
        self.follower = ObjectFollower(api.client(), {Topic.RIGHTS: self.told.put})

    def take(self, count: int) -> list[str]:
        """Return the next names that are notified."""
        return sorted(self.told.get(timeout=SECONDS) for _ in range(count))


@pytest.fixture
def room() -> Iterator[Room]:
    with FakeApi(*PATHS) as api:
        made = Room(api)
        yield made
        for name in ("shop", "other"):
            made.follower.forget(name)


def test_what_was_granted_before_the_first_list_is_told_with_its_end(room: Room) -> None:
    room.follower.follow_rights("shop", lacks=True)
    assert room.take(len(PATHS)) == ["shop"] * len(PATHS)


@pytest.mark.parametrize("path", PATHS)
def test_a_change_is_told_to_all_that_lack_rights(room: Room, path: str) -> None:
    room.follower.follow_rights("shop", lacks=True)
    room.take(len(PATHS))
    room.follower.follow_rights("other", lacks=True)
    room.take(1)
    room.api.put(path, "new")
    assert room.take(2) == ["other", "shop"]


def test_who_comes_later_may_have_missed_what_was_granted_meanwhile(room: Room) -> None:
    room.follower.follow_rights("shop", lacks=True)
    room.take(len(PATHS))
    for _ in range(2):
        room.follower.follow_rights("other", lacks=True)
    assert room.take(1) == ["other"]
    assert room.told.empty()


def test_when_no_permissions_are_missing_nothing_is_watched(room: Room) -> None:
    room.follower.follow_rights("shop", lacks=True)
    room.take(len(PATHS))
    wait_for(lambda: room.api.watches() == len(PATHS), SECONDS, "all are watched")
    room.follower.follow_rights("shop", lacks=False)
    room.api.put(PATHS[0], "new")
    room.follower.follow_rights("other", lacks=True)
    assert room.take(len(PATHS)) == ["other"] * len(PATHS)
