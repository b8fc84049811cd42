from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable

import pytest

from rukpak.controller.manager.queue import BACKOFF, STALE_ENTRIES, WorkQueue
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.retries import Backoff
from tests.support.clock import Clock

EXACT = Backoff(first=1, longest=300)


@pytest.fixture
def queue(clock: Clock) -> WorkQueue:
    return WorkQueue(EXACT, clock)


def drain(queue: WorkQueue) -> list[str]:
    """Return what waits, without waiting."""
    keys = []
    with queue._condition:
        queue._take_due()
    while queue.stats().depth:
        key = queue.get()
        assert key is not None
        queue.done(key)
        keys.append(key)
    return keys


def test_keys_come_in_the_order_of_their_adds_each_once(queue: WorkQueue) -> None:
    for key in "abacb":
        queue.add(key)
    assert queue.stats().depth == 3
    assert drain(queue) == ["a", "b", "c"]


def test_a_key_that_is_added_while_it_is_worked_on_comes_once_more_afterwards(queue: WorkQueue) -> None:
    queue.add("a")
    assert queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert queue.stats().depth == 0
    queue.done("a")
    assert drain(queue) == ["a"]


def test_workers_do_not_wake_for_delays_that_events_have_overtaken(queue: WorkQueue) -> None:
    queue.add_after("b", 6000)
    for number in range(STALE_ENTRIES // 2):
        queue.add_after(f"a{number}", 10 + number)
        queue.add(f"a{number}")
    drain(queue)
    assert [key for _, key in queue._delayed] == ["b"]


def test_a_delay_that_an_event_has_overtaken_is_forgotten(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after("a", 10)
    queue.add("a")
    assert drain(queue) == ["a"]
    queue.add_after("a", 20)
    clock.now += 10
    assert drain(queue) == []
    clock.now += 10
    assert drain(queue) == ["a"]


def test_a_delayed_key_comes_when_it_is_due(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after("a", 10)
    clock.now += 9.9
    assert drain(queue) == []
    clock.now += 0.1
    assert drain(queue) == ["a"]


def test_a_key_that_becomes_due_while_it_is_worked_on_waits_for_its_end(queue: WorkQueue, clock: Clock) -> None:
    queue.add("a")
    queue.get()
    queue.add_after("a", 1)
    clock.now += 1
    with queue._condition:
        queue._take_due()
    assert queue.stats().depth == 0
    queue.done("a")
    assert drain(queue) == ["a"]


@pytest.mark.parametrize("delays", [(10, 20), (20, 10)])
def test_the_earlier_of_two_delays_wins(delays: tuple[float, float], queue: WorkQueue, clock: Clock) -> None:
    for delay in delays:
        queue.add_after("a", delay)
    clock.now += 10
    assert drain(queue) == ["a"]
    clock.now += 100
    assert drain(queue) == []


def test_an_immediate_add_overtakes_a_delayed_one(queue: WorkQueue, clock: Clock) -> None:
    queue.add_after("a", 10)
    queue.add("a")
    assert drain(queue) == ["a"]
    clock.now += 100
    assert drain(queue) == []


def test_a_delay_does_not_hold_up_a_key_that_waits(queue: WorkQueue) -> None:
    queue.add("a")
    queue.add_after("a", 10)
    assert drain(queue) == ["a"]


def fail(queue: WorkQueue, clock: Clock, times: int) -> list[float]:
    """Have a key fail, each time when it comes back; return its delays."""
    delays = []
    for _ in range(times):
        delays.append(queue.retry("a"))
        clock.now += delays[-1]
        assert drain(queue) == ["a"]
    return delays


def test_failures_of_a_key_double_its_delay_up_to_the_longest(queue: WorkQueue, clock: Clock) -> None:
    assert fail(queue, clock, 11) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_one_that_events_bring_meanwhile_comes_back_no_later_for_that(queue: WorkQueue, clock: Clock) -> None:
    fail(queue, clock, 3)
    assert queue.retry("a") == 8
    for left in (7, 6, 5):
        clock.now += 1
        queue.add("a")
        assert drain(queue) == ["a"]
        assert queue.retry("a") == left
    clock.now += 5
    assert drain(queue) == ["a"]
    assert queue.retry("a") == 16


def test_success_makes_the_backoff_start_anew(queue: WorkQueue, clock: Clock) -> None:
    fail(queue, clock, 2)
    queue.forget("a")
    queue.forget("never seen")
    assert queue.retry("a") == 1


def test_keys_do_not_share_their_backoff(queue: WorkQueue, clock: Clock) -> None:
    fail(queue, clock, 2)
    assert queue.retry("b") == 1


def test_what_the_other_side_asked_for_is_obeyed(queue: WorkQueue, clock: Clock) -> None:
    assert queue.retry("a", at_least=7) == 7
    assert queue.retry("b", at_least=0.5) == 1
    clock.now += 1
    assert drain(queue) == ["b"]


def test_delays_are_spread() -> None:
    delays = {BACKOFF.choose_delay(3) for _ in range(50)}
    assert all(3.2 <= delay <= 4.8 for delay in delays)
    assert len(delays) > 40


def test_a_thousand_failures_that_never_end_do_not_overflow() -> None:
    assert EXACT.choose_delay(100_000) == 300


def test_a_thousand_keys_that_fail_together_do_not_come_back_together(queue: WorkQueue, clock: Clock) -> None:
    delays = [queue.retry(str(number)) for number in range(1000)]
    assert delays[0] == delays[100] == 1
    assert max(delays) == pytest.approx(90)
    clock.now += 1000
    assert queue.retry("later") == 1, "the bucket has filled up again"


def test_delays_that_were_overtaken_do_not_pile_up(queue: WorkQueue) -> None:
    for _ in range(20 * STALE_ENTRIES):
        queue.add_after("a", 300)
        queue.add("a")
        drain(queue)
    assert len(queue._delayed) <= 2 * STALE_ENTRIES


def test_after_closing_nothing_is_handed_out(queue: WorkQueue, clock: Clock) -> None:
    queue.add("a")
    queue.add_after("b", 1)
    queue.close()
    queue.add("c")
    queue.add_after("d", 0)
    queue.retry("e")
    clock.now += 1000
    assert queue.get() is None
    assert queue.stats().depth == 0


def test_what_is_worked_on_while_it_is_closed_does_not_come_again(queue: WorkQueue) -> None:
    queue.add("a")
    assert queue.get() == "a"
    queue.add("a")
    queue.close()
    queue.done("a")
    assert queue.get() is None


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("wake", "key"),
    [
        (lambda queue: queue.add("a"), "a"),
        (lambda queue: queue.add_after("a", 0.01), "a"),
        (lambda queue: queue.close(), None),
    ],
    ids=["an add", "a delay that ends", "closing"],
)
def test_a_waiting_worker_is_woken_by(wake: Callable[[WorkQueue], None], key: str | None) -> None:
    queue, got = WorkQueue(), []
    thread = threading.Thread(target=lambda: got.append(queue.get()))
    thread.start()
    wake(queue)
    join([thread])
    assert got == [key]


def test_a_worker_that_waits_for_a_late_key_takes_an_earlier_one() -> None:
    queue, got = WorkQueue(), []
    queue.add_after("late", 600)
    thread = threading.Thread(target=lambda: got.append(queue.get()))
    thread.start()
    queue.add_after("early", 0.01)
    join([thread])
    assert got == ["early"]


def test_no_add_is_lost_and_no_key_is_worked_on_twice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rukpak.controller.manager.queue.RETRIES_PER_SECOND", 1e9)
    queue = WorkQueue(Backoff(first=0.001, longest=300))
    wanted: dict[str, int] = {}
    seen: dict[str, int] = {}
    busy: set[str] = set()
    overlaps: list[str] = []
    lock = threading.Lock()

    def work() -> None:
        while (key := queue.get()) is not None:
            with lock:
                overlaps.extend([key] if key in busy else [])
                busy.add(key)
                value = wanted[key]
            time.sleep(0)
            with lock:
                busy.discard(key)
                seen[key] = value
            if random.random() < 0.2:
                queue.retry(key)
            else:
                queue.forget(key)
            queue.done(key)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(3000):
        key = str(random.randrange(20))
        with lock:
            wanted[key] = number
        queue.add(key)
    wait_for(lambda: seen == wanted, 60, "all is worked on as it was added last")
    queue.close()
    join(threads)
    assert seen == wanted
    assert overlaps == []


# what nobody can mean


AGES = [1e11, 1e308, math.inf]


@pytest.mark.parametrize("seconds", AGES)
@pytest.mark.parametrize("put", [WorkQueue.add_after, WorkQueue.retry])
def test_a_wait_of_an_age_ends_no_worker(put: Callable[[WorkQueue, str, float], object], seconds: float) -> None:
    queue = WorkQueue(EXACT)
    put(queue, "late", seconds)
    threading.Timer(0.2, queue.add, ["soon"]).start()
    assert queue.get() == "soon"


@pytest.mark.parametrize("seconds", [math.nan, -math.inf, -1.0])
def test_a_wait_that_is_none_is_over(queue: WorkQueue, seconds: float) -> None:
    queue.add_after("a", seconds)
    assert drain(queue) == ["a"]


def test_what_comes_in_an_age_comes_at_once_when_it_changes(queue: WorkQueue) -> None:
    queue.retry("a", 1e11)
    queue.add("a")
    assert drain(queue) == ["a"]


def test_who_counts_and_fails_loses_no_key(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_seconds: float) -> None:
        raise RuntimeError("bug")

    queue = WorkQueue(EXACT, clock, on_waited=fail, on_worked=fail)
    queue.add("a")
    assert queue.get() == "a"
    queue.add("a")
    queue.done("a")
    assert queue.get() == "a"
    assert caplog.messages == ["failed to record time in the queue"] * 3


def test_a_tenant_with_much_to_do_leaves_workers_and_turns_to_another(clock: Clock) -> None:
    queue = WorkQueue(EXACT, clock, workers=4, share=lambda key: key[0])
    for number in range(500):
        queue.add(f"a{number}")
    assert [queue.get(), queue.get()] == ["a0", "a1"]
    queue.add("b0")
    assert queue.get() == "b0"
    got: list[str | None] = []
    waiting = threading.Thread(target=lambda: got.append(queue.get()))
    waiting.start()
    queue.done("a0")
    join([waiting])
    assert got == ["a2"]
    assert queue.stats().depth == 497


def test_a_key_whose_share_changes_frees_the_place_that_it_took(clock: Clock) -> None:
    share = {"key": "before"}
    queue = WorkQueue(EXACT, clock, workers=1, share=share.__getitem__)
    queue.add("key")
    queue.get()
    share["key"] = "after"
    queue.add("key")
    queue.done("key")
    assert drain(queue) == ["key"]
    queue.add("key")
    assert drain(queue) == ["key"]
