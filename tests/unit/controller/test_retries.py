from __future__ import annotations

import math
import weakref
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.retries import OF_SECRETS, Backoff, Retries
from tests.support.clock import Clock


@pytest.fixture
def book(clock: Clock) -> Retries:
    return Retries(clock, jitter=lambda: 1.0)


def error(reason: Reason, retry_after: float | None = None) -> BundleError:
    return BundleError(reason, "it failed", retry_after=retry_after)


class Case(NamedTuple):
    name: str
    reason: Reason
    expect: list[float | None]
    """Seconds after the first, the second … failure; None: never."""
    retry_after: float | None = None


CASES = [
    Case("a permanent failure is not retried automatically", Reason.INVALID_CONFIG, [None, None]),
    Case("a slow one every five minutes", Reason.NOT_FOUND, [300, 300, 300]),
    Case("one that waits for an event is tried like a slow one besides", Reason.COLLISION, [300, 300]),
    Case(
        "a transient one after a second, doubled up to five minutes",
        Reason.UNREACHABLE,
        [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300],
    ),
    Case("a transient one not before the other side asked for it", Reason.UNREACHABLE, [20, 20, 20, 20, 20, 32], 20),
    Case("a transient one not sooner than its backoff", Reason.UNREACHABLE, [1, 2, 4], 0.5),
    Case("a wait that is known to be short is doubled, too", Reason.WAITING_FOR_CRD, [0.5, 1, 2, 4], 0.5),
    Case("work in progress that says when to look again, too", Reason.APPLYING, [0.5, 1, 2, 4], 0.5),
    Case("and is not longer than any other", Reason.WAITING_FOR_CRD, [200, 300, 300], 200),
    Case("who asks for an age gets an hour", Reason.UNREACHABLE, [3600, 3600], 99999999999),
    Case("who asks for eternity gets an hour", Reason.UNREACHABLE, [3600, 3600], math.inf),
    Case("who asks for no number gets the backoff", Reason.UNREACHABLE, [1, 2, 4], math.nan),
    Case("what asks a slow one to wait is not obeyed: it is slow already", Reason.NOT_FOUND, [300], 10),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_when_a_failure_is_tried_again(case: Case, book: Retries, clock: Clock) -> None:
    for seconds in case.expect:
        book.failed("key", "v1", error(case.reason, case.retry_after))
        assert book.seconds_to_next() == (seconds and pytest.approx(seconds))
        clock.now += (seconds or 1e9) - 0.1
        assert book.holding("key", "v1")
        clock.now += 0.2
        assert bool(book.holding("key", "v1")) is (seconds is None)


def test_jitter_spreads_what_failed_together(clock: Clock) -> None:
    factors = iter([0.9, 1.1])
    book = Retries(clock, jitter=lambda: next(factors))
    delays = [book.failed(name, "v1", error(Reason.NOT_FOUND)).not_before - clock.now for name in "ab"]
    assert delays == pytest.approx([270, 330])


def test_something_else_is_tried_at_once_and_begins_anew(book: Retries) -> None:
    for _ in range(5):
        book.failed("key", "v1", error(Reason.UNREACHABLE))
    assert book.holding("key", "v2") is None
    assert book.failed("key", "v2", error(Reason.UNREACHABLE)).count == 1


def test_keys_do_not_hold_each_other(book: Retries) -> None:
    failure = error(Reason.REFUSED)
    book.failed("key", "v1", failure)
    assert book.holding("key", "v1") is failure
    assert book.holding("other", "v1") is None


def test_success_forgets_one_key(book: Retries) -> None:
    for key in ("a", "b"):
        book.failed(key, "v1", error(Reason.REFUSED))
    book.succeeded("a")
    assert book.holding("a", "v1") is None
    assert book.holding("b", "v1")


def test_the_end_of_a_wait_frees_what_waits_and_nothing_else(book: Retries) -> None:
    book.failed("waits", "v1", error(Reason.COLLISION))
    book.failed("slow", "v1", error(Reason.REFUSED))
    for reason in OF_SECRETS:
        book.failed(reason, "v1", error(reason))
    book.end_waits()
    assert book.holding("waits", "v1") is None
    assert book.holding("slow", "v1")
    assert all(book.holding(reason, "v1") for reason in OF_SECRETS)


def test_what_fails_as_before_while_an_end_may_not_have_come_through_is_tried_again_soon(
    book: Retries, clock: Clock
) -> None:
    book.failed("before", "v1", error(Reason.FORBIDDEN))
    book.end({Reason.FORBIDDEN}, lag=0.5)
    assert book.seconds_until("before") == 0.5
    clock.now += 0.4
    book.failed("right", "v1", error(Reason.FORBIDDEN))
    book.failed("other", "v1", error(Reason.REFUSED))
    assert book.seconds_to_next() == pytest.approx(0.1)
    clock.now += 0.1
    assert book.holding("before", "v1") is None
    assert book.holding("right", "v1") is None
    assert book.holding("other", "v1")
    book.failed("right", "v1", error(Reason.FORBIDDEN))
    assert book.seconds_until("right") == 300


def test_when_everything_starts_over_no_failure_is_left(book: Retries) -> None:
    book.failed("key", "v1", error(Reason.IMMUTABLE))
    book.clear()
    assert book.last("key", "v1") is None


def test_the_earliest_of_all_keys_comes_next(book: Retries) -> None:
    book.failed("slow", "v1", error(Reason.REFUSED))
    book.failed("soon", "v1", error(Reason.UNREACHABLE))
    book.failed("never", "v1", error(Reason.IMMUTABLE))
    assert book.seconds_to_next() == 1


def test_how_long_one_key_waits(book: Retries, clock: Clock) -> None:
    book.failed("soon", "v1", error(Reason.UNREACHABLE))
    book.failed("never", "v1", error(Reason.IMMUTABLE))
    assert [book.seconds_until(key) for key in ("soon", "never", "unknown")] == [1, math.inf, 0]
    clock.now += 5
    assert book.seconds_until("soon") == 0


def test_what_is_due_is_said_once_so_that_nothing_spins_on_what_nobody_wants_any_more(
    book: Retries, clock: Clock
) -> None:
    book.failed("key", "v1", error(Reason.UNREACHABLE))
    clock.now += 2
    assert book.seconds_to_next() == 0
    assert book.seconds_to_next() is None


def test_what_a_thing_failed_with_last_is_known_also_when_it_is_due(book: Retries, clock: Clock) -> None:
    failure = error(Reason.UNREACHABLE)
    book.failed("key", "v1", failure)
    clock.now += 2
    assert book.last("key", "v1") is failure
    assert book.last("key", "v2") is None


@pytest.mark.parametrize(
    ("backoff", "expect"),
    [
        (Backoff(first=1, longest=10), [1, 2, 4, 8, 10, 10]),
        (Backoff(first=2, longest=300, factor=3), [2, 6, 18, 54, 162, 300, 300]),
        (Backoff(first=5, longest=3), [3, 3]),
    ],
)
def test_delays_grow_up_to_the_longest(backoff: Backoff, expect: list[float]) -> None:
    assert [backoff.delay(failures) for failures in range(1, len(expect) + 1)] == expect
    assert [backoff.choose_delay(failures) for failures in range(1, len(expect) + 1)] == expect
    assert backoff.delay(100_000) == backoff.longest


def test_delays_are_spread_by_the_jitter() -> None:
    delays = [Backoff(first=4, longest=300, jitter=0.5).choose_delay(1) for _ in range(200)]
    assert all(2 <= delay <= 6 for delay in delays)
    assert max(delays) - min(delays) > 2


class List:
    """Stands for what a server has sent, of any size."""


def fail_with(answers: list[weakref.ref[List]]) -> None:
    """Fail as a source does: because of an answer that one function holds, and of an error that led to it."""
    answer = List()
    answers.append(weakref.ref(answer))
    try:
        int(repr(answer))
    except ValueError:
        raise error(Reason.NOT_FOUND) from None


def test_a_failure_that_is_kept_keeps_nothing_of_what_led_to_it(book: Retries) -> None:
    answers: list[weakref.ref[List]] = []
    for keep in (partial(book.failed, "key", "t"), partial(book.revise, "key")):
        with pytest.raises(BundleError) as caught:
            fail_with(answers)
        keep(caught.value)
        del caught
    assert book.last("key", "t") is not None
    assert [answer() for answer in answers] == [None, None]
