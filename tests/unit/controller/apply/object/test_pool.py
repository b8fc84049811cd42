from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextvars import ContextVar

import pytest

from controller.apply.pool import ConcurrencyLimits, Pool
from controller.kube.configuration import User
from controller.processes.supervision import Supervisor
from hack.control_plane.waiting import wait_for

CALLER = ContextVar("caller", default="")


@pytest.fixture
def limits() -> ConcurrencyLimits:
    return ConcurrencyLimits(2, lambda: 0.0)


@pytest.fixture
def pool(limits: ConcurrencyLimits) -> Iterator[Pool]:
    made = Pool(2, limits, Supervisor())
    yield made
    made.stop()


class Gate:
    """Items that wait until they are let go on, and the order in which they came."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.open = threading.Event()

    def pass_through(self, item: str) -> None:
        self.begun.append(item)
        assert self.open.wait(20)


def aside(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_results_are_in_the_order_of_the_items(pool: Pool) -> None:
    assert pool.run(lambda item: item * 2, range(10)) == [item * 2 for item in range(10)]


def test_nothing_to_do_is_done(pool: Pool) -> None:
    assert pool.run(lambda item: item, []) == []


def test_what_is_sent_alone_is_sent_by_the_thread_of_the_caller(pool: Pool) -> None:
    for _ in range(3):
        assert pool.run(lambda _: threading.get_ident(), [0]) == [threading.get_ident()]


def test_as_many_are_under_way_as_there_are_threads_whoever_sends_them() -> None:
    pool, gate = Pool(5, ConcurrencyLimits(5, lambda: 0.0), Supervisor()), Gate()
    callers = [aside(lambda: pool.run(gate.pass_through, ["item"] * 4)) for _ in range(3)]
    wait_for(lambda: len(gate.begun) == 5, 20, "as many as there are threads")
    assert pool._busy.total() == 5
    gate.open.set()
    for caller in callers:
        caller.join(20)
    assert len(gate.begun) == 12
    pool.stop()


def test_callers_that_have_much_to_send_let_another_one_have_its_turn(pool: Pool) -> None:
    gate = Gate()
    many = [aside(lambda: pool.run(gate.pass_through, ["many"] * 20))]
    wait_for(lambda: len(gate.begun) == 2, 20, "both threads taken")
    many += [aside(lambda: pool.run(gate.pass_through, ["as many"] * 20))]
    wait_for(lambda: len(pool._batches) == 2, 20, "both wait")
    few = aside(lambda: pool.run(gate.pass_through, ["few"]))
    wait_for(lambda: len(pool._batches) == 3, 20, "all wait")
    gate.open.set()
    for caller in (*many, few):
        caller.join(20)
    assert gate.begun.index("few") <= 6


def test_who_has_little_to_send_does_not_wait_for_who_has_much(pool: Pool) -> None:
    gate = Gate()
    many = aside(lambda: pool.run(gate.pass_through, [f"many {number}" for number in range(20)]))
    wait_for(lambda: len(gate.begun) == 2, 20, "the first two")
    few = aside(lambda: pool.run(gate.pass_through, ["few"]))
    wait_for(lambda: len(pool._batches) == 2, 20, "both wait")
    gate.open.set()
    many.join(20)
    few.join(20)
    assert gate.begun.index("few") <= 3


def test_no_more_are_under_way_than_the_server_can_do_with(pool: Pool, limits: ConcurrencyLimits) -> None:
    limits.of(None).learn(seconds=0.01, refused=True)
    most: list[int] = []
    pool.run(lambda _: most.append(pool._busy.total()), range(10))
    assert set(most) == {1}


def test_requests_of_a_tenant_that_do_not_end_leave_threads_to_another() -> None:
    pool, gate = Pool(4, ConcurrencyLimits(4, lambda: 0.0), Supervisor()), Gate()
    ann, ben = User.service_account("ann", "a"), User.service_account("ben", "b")
    slow = aside(lambda: pool.run(gate.pass_through, [f"slow {number}" for number in range(20)], ann))
    wait_for(lambda: len(gate.begun) == 2, 20, "half of the threads taken")
    assert pool.run(lambda item: item, ["quick"] * 20, ben) == ["quick"] * 20
    assert pool.run(lambda item: item, ["own"], None) == ["own"]
    assert len(gate.begun) == 2
    gate.open.set()
    slow.join(20)
    assert len(gate.begun) == 20
    pool.stop()


def test_the_first_failure_is_raised_when_all_are_done(pool: Pool) -> None:
    done: list[int] = []

    def fail(item: int) -> None:
        done.append(item)
        if item in (1, 3):
            raise ValueError(str(item))

    with pytest.raises(ValueError, match=r"^1$"):
        pool.run(fail, range(5))
    assert sorted(done) == list(range(5))


def test_what_is_logged_is_logged_for_the_caller(pool: Pool) -> None:
    CALLER.set("me")
    assert pool.run(lambda _: CALLER.get(), [0, 1]) == ["me", "me"]


def test_a_pool_that_is_stopped_begins_nothing_more(pool: Pool) -> None:
    gate, ended = Gate(), threading.Event()

    def run() -> None:
        with pytest.raises(CancelledError):
            pool.run(gate.pass_through, ["a", "b", "c"])
        ended.set()

    aside(run)
    wait_for(lambda: len(gate.begun) == 2, 20, "the first two")
    pool.stop()
    gate.open.set()
    assert ended.wait(20)
    assert sorted(gate.begun) == ["a", "b"]
    with pytest.raises(CancelledError):
        pool.run(gate.pass_through, ["d"])
