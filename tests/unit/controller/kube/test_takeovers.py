from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from controller.kube.lease import Election
from controller.kube.takeovers import LONGEST_SECONDS, Takeovers


class Taken:
    """Stands for an Election that a test wins and loses."""

    def __init__(self, lease: str, on_elected: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self.lease, self.win, self.lose = lease, on_elected, on_lost
        self.leading = self.started = self.stopped = False

    def start(self) -> None:
        self.started = True

    def stop(self, _seconds: float) -> None:
        self.stopped = True


class World:
    """Takeovers, their elections, and who was notified."""

    def __init__(self) -> None:
        self.elections: list[Taken] = []
        self.notified: list[str] = []
        self.seconds = 0.0
        self.takeovers = Takeovers(self._take, self.notified.append, lambda: self.seconds)

    def _take(self, lease: str, on_elected: Callable[[], None], on_lost: Callable[[], None]) -> Election:
        self.elections.append(Taken(lease, on_elected, on_lost))
        return cast("Election", self.elections[-1])


@pytest.fixture
def world() -> World:
    return World()


def test_all_that_wait_for_a_shard_share_one_election_and_are_notified(world: World) -> None:
    assert not world.takeovers.wait("a", "shop")
    assert not world.takeovers.wait("a", "bar")
    (election,) = world.elections
    assert (election.lease, election.started) == ("rukpak-a", True)
    election.leading = True
    election.win()
    assert world.notified == ["bar", "shop"]
    assert world.takeovers.wait("a", "shop")


def test_the_lease_of_the_default_shard_is_taken_by_its_name(world: World) -> None:
    world.takeovers.wait("", "shop")
    assert world.elections[0].lease == "rukpak"


def test_the_lease_is_released_when_the_last_one_has_been_taken_over(world: World) -> None:
    world.takeovers.wait("a", "shop")
    world.takeovers.wait("a", "bar")
    world.takeovers.end("shop")
    assert not world.elections[0].stopped
    world.takeovers.end("bar")
    assert world.elections[0].stopped


def test_after_a_loss_the_next_wait_takes_part_again(world: World) -> None:
    world.takeovers.wait("a", "shop")
    world.elections[0].lose()
    assert world.notified == ["shop"]
    world.takeovers.wait("a", "shop")
    assert len(world.elections) == 2


def test_a_lease_is_not_kept_for_one_that_cannot_be_taken_over(world: World) -> None:
    world.takeovers.wait("a", "shop")
    world.elections[0].leading = True
    world.elections[0].win()
    world.seconds = LONGEST_SECONDS
    assert world.takeovers.wait("a", "shop")
    world.seconds += 1
    assert not world.takeovers.wait("a", "shop")
    assert world.elections[0].stopped
    world.takeovers.wait("a", "shop")
    assert len(world.elections) == 2


def test_stopping_releases_all(world: World) -> None:
    world.takeovers.wait("a", "shop")
    world.takeovers.wait("b", "bar")
    world.takeovers.stop()
    assert [each.stopped for each in world.elections] == [True, True]
