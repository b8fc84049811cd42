from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from controller.kube.lease import LONGEST_SECONDS, MOST, TURN_SECONDS, Election, Takeovers


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


def test_many_shards_take_turns_and_cost_few_threads(world: World) -> None:
    for number in range(120):
        assert not world.takeovers.wait(f"s{number}", f"b{number}")
    assert len(world.elections) == MOST
    world.takeovers.end("b0")
    assert world.notified == [f"b{MOST}"]
    assert not world.takeovers.wait(f"s{MOST}", f"b{MOST}")
    assert [each.lease for each in world.elections if not each.stopped] == [f"rukpak-s{n}" for n in range(1, MOST + 1)]


def test_an_election_that_is_not_won_makes_room_for_the_next_one_and_has_its_turn_again(world: World) -> None:
    for number in range(MOST + 1):
        world.takeovers.wait(f"s{number}", f"b{number}")
    world.seconds = TURN_SECONDS + 1
    world.takeovers.wait(f"s{MOST}", f"b{MOST}")
    assert [each.lease for each in world.elections if each.stopped] == ["rukpak-s0"]
    world.takeovers.wait("s0", "b0")
    assert [each.lease for each in world.elections if not each.stopped][-1] == "rukpak-s0"


def test_one_that_was_won_is_not_interrupted(world: World) -> None:
    for number in range(MOST):
        world.takeovers.wait(f"s{number}", f"b{number}")
        world.elections[-1].leading = True
        world.elections[-1].win()
    world.seconds = LONGEST_SECONDS / 2
    world.takeovers.wait("more", "more")
    assert not any(each.stopped for each in world.elections)


def test_who_waits_in_the_queue_no_longer_begins_nothing(world: World) -> None:
    for number in range(MOST + 1):
        world.takeovers.wait(f"s{number}", f"b{number}")
    world.takeovers.end(f"b{MOST}")
    world.takeovers.end("b0")
    assert world.notified == []
    world.takeovers.stop()
    assert all(each.stopped for each in world.elections)
