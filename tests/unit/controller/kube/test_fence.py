from __future__ import annotations

import threading

import pytest

from controller.kube.client import SHORTEST_SECONDS, Fence
from controller.kube.errors import ApiError
from hack.control_plane.waiting import wait_for
from tests.support.clock import Clock
from tests.support.fake_api import FakeApi


def admits(fence: Fence) -> bool:
    try:
        with fence.admit():
            return True
    except ApiError as error:
        assert error.reason == "NotLeading"
        return False


def test_it_is_shut_at_first_and_lets_through_until_its_time_is_over() -> None:
    clock = Clock()
    fence = Fence(clock)
    assert not admits(fence)
    fence.open_until(1010)
    assert admits(fence)
    clock.now = 1010 - SHORTEST_SECONDS / 2
    assert not admits(fence)
    fence.open_until(1020)
    assert admits(fence)


def test_a_write_is_told_how_long_it_may_take() -> None:
    fence = Fence(Clock())
    fence.open_until(1007)
    with fence.admit() as seconds:
        assert seconds == 7


def test_once_shut_it_stays_shut() -> None:
    fence = Fence(Clock())
    fence.shut()
    fence.open_until(1010)
    assert not admits(fence)
    assert fence.seconds_left() == 0


def test_shutting_tells_whether_writes_are_still_under_way() -> None:
    fence = Fence(Clock())
    fence.open_until(1010)
    leave = threading.Event()

    def write() -> None:
        with fence.admit():
            leave.wait(10)

    thread = threading.Thread(target=write)
    thread.start()
    wait_for(lambda: fence._under_way, 5, "the write has started")
    assert not fence.shut(0.01)
    leave.set()
    assert fence.shut(5)
    thread.join()


def test_a_write_that_may_not_be_sent_is_not_sent_and_reads_are_free() -> None:
    fence = Fence()
    with FakeApi("/apis/x.io/v1/foos") as api:
        client = api.client(fence=fence)
        with pytest.raises(ApiError, match="NotLeading"):
            client.create("/apis/x.io/v1/foos", {"metadata": {"name": "a"}})
        client.get("/apis/x.io/v1/foos")
        assert [each.method for each in api.received] == ["GET"]


def test_a_write_ends_before_the_time_of_the_leader_is_over() -> None:
    fence = Fence()
    with FakeApi("/apis/x.io/v1/foos") as api:
        client = api.client(fence=fence)
        api.frozen.set()
        fence.open_until(fence._clock() + 0.5)
        with pytest.raises(ApiError, match="Unreachable"):
            client.create("/apis/x.io/v1/foos", {"metadata": {"name": "a"}})
        assert fence.shut()
