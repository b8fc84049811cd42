from __future__ import annotations

import logging
import queue
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.revisions.background import BackgroundWork, Place
from rukpak.controller.telemetry import InternalError, Observer, reconcile_id

SECONDS = 60.0
BUILD, POLL = Place(purpose="build"), Place(purpose="poll")
ANN, BEN = Place(share="account/ann"), Place(share="account/ben")


class Pool(Observer):
    """BackgroundWork, and the names of those whose work has ended."""

    def __init__(self, workers: int) -> None:
        self.finished: queue.Queue[str] = queue.Queue()
        self.begun: queue.Queue[str] = queue.Queue()
        self.bugs = 0
        self.background = BackgroundWork(workers, self.finished.put, self.begun.put, self)

    def bug_found(self) -> None:
        self.bugs += 1

    def wait(self) -> str:
        return self.finished.get(timeout=SECONDS)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(workers=4)
    yield made
    made.background.stop()


def test_a_result_is_handed_out_once_when_the_work_has_ended(pool: Pool) -> None:
    assert pool.background.take("shop", "t1", lambda _: "made") is None
    assert pool.wait() == "shop"
    assert pool.background.take("shop", "t1", lambda _: "not started") == "made"
    assert pool.background.take("shop", "t1", lambda _: "made again") is None
    assert pool.wait() == "shop"


def test_what_was_begun_before_it_is_asked_for_is_handed_out(pool: Pool) -> None:
    pool.background.begin("shop", "t1", lambda _: "begun", BUILD)
    pool.background.begin("shop", "t2", lambda _: "not started", BUILD)
    assert pool.wait() == "shop"
    assert pool.background.take("shop", "t1", lambda _: "not started", BUILD) == "begun"


def test_whether_something_goes_on_is_known(pool: Pool) -> None:
    go_on = threading.Event()
    pool.background.take("shop", "t1", lambda _: go_on.wait(SECONDS))
    assert (pool.background.is_busy("shop"), pool.background.is_busy("other")) == (True, False)
    go_on.set()
    pool.wait()
    assert not pool.background.is_busy("shop")


def test_work_that_goes_on_is_not_started_twice(pool: Pool) -> None:
    go_on, started = threading.Event(), []

    def work(_: threading.Event) -> str:
        started.append(1)
        go_on.wait(SECONDS)
        return "made"

    assert [pool.background.take("shop", "t1", work) for _ in range(3)] == [None, None, None]
    go_on.set()
    pool.wait()
    assert pool.background.take("shop", "t1", work) == "made"
    assert len(started) == 1


def test_what_the_work_raises_is_raised_where_its_result_is_asked_for(pool: Pool) -> None:
    failure = BundleError(Reason.NOT_FOUND, "no such tag")

    def work(_: threading.Event) -> str:
        raise failure

    assert pool.background.take("shop", "t1", work) is None
    pool.wait()
    with pytest.raises(BundleError) as caught:
        pool.background.take("shop", "t1", work)
    assert caught.value is failure


@pytest.mark.parametrize("error", [ApiError(503, "", "busy"), CancelledError()], ids=repr)
def test_what_is_no_bug_is_raised_as_it_is(error: BaseException, pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    def work(_: threading.Event) -> str:
        raise error

    assert pool.background.take("shop", "t1", work) is None
    pool.wait()
    with pytest.raises(type(error)):
        pool.background.take("shop", "t1", work)
    assert caplog.records == []


class Answer:
    """Stands for what a server has sent, of any size."""


def test_a_failure_that_waits_to_be_asked_for_keeps_nothing_of_what_led_to_it(pool: Pool) -> None:
    answers: list[weakref.ref[Answer]] = []

    def work(_: threading.Event) -> None:
        answer = Answer()
        answers.append(weakref.ref(answer))
        raise BundleError(Reason.NOT_FOUND, f"nothing is in {type(answer).__name__}")

    pool.background.take("shop", "t1", work)
    pool.wait()
    assert [answer() for answer in answers] == [None]
    with pytest.raises(BundleError, match="nothing is in Answer"):
        pool.background.take("shop", "t1", work)


@pytest.mark.parametrize("bug", [ZeroDivisionError("of a secret"), SystemExit(2), MemoryError()], ids=repr)
def test_a_bug_in_the_work_is_logged_counted_and_raised_with_the_id_of_the_pass(
    bug: BaseException, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    logged: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(reconcile_id.get())

    def work(_: threading.Event) -> str:
        raise bug

    token = reconcile_id.set("0123abcd")
    logger, listener = logging.getLogger("rukpak.controller.revisions.background"), Listener()
    logger.addHandler(listener)
    try:
        assert pool.background.take("shop", "t1", work) is None
        pool.wait()
    finally:
        logger.removeHandler(listener)
        reconcile_id.reset(token)
    with pytest.raises(InternalError) as caught:
        pool.background.take("shop", "t1", work)
    assert caught.value.message.startswith(f"reconcileID 0123abcd: the controller has a bug ({type(bug).__name__});")
    assert "secret" not in caught.value.message
    assert caught.value.__context__ is None
    (entry,) = caplog.records
    assert entry.exc_info
    assert (vars(entry)["BundleDeployment"], entry.exc_info[1]) == ("shop", bug)
    assert (logged, pool.bugs) == (["0123abcd"], 1)


def test_another_ticket_cancels_the_work_and_drops_its_result(pool: Pool) -> None:
    def obsolete(cancelled: threading.Event) -> str:
        assert cancelled.wait(SECONDS)
        return "obsolete"

    pool.background.take("shop", "t1", obsolete)
    assert pool.background.take("shop", "t2", lambda _: "wanted") is None
    assert {pool.wait(), pool.wait()} == {"shop"}
    assert pool.background.take("shop", "t2", lambda _: "not started") == "wanted"


def test_cancelled_work_leaves_no_result(pool: Pool) -> None:
    pool.background.take("shop", "t1", lambda cancelled: cancelled.wait(SECONDS))
    pool.background.cancel("shop")
    pool.wait()
    assert pool.background.take("shop", "t1", lambda _: "again") is None
    pool.wait()
    assert pool.background.take("shop", "t1", lambda _: "again") == "again"


def test_bundle_deployments_do_not_wait_for_each_other(pool: Pool) -> None:
    go_on = threading.Event()
    pool.background.take("slow", "t1", lambda _: go_on.wait(SECONDS))
    pool.background.take("fast", "t1", lambda _: "made")
    assert pool.wait() == "fast"
    go_on.set()
    assert pool.wait() == "slow"


def test_work_of_another_purpose_goes_on_beside_it(pool: Pool) -> None:
    go_on = threading.Event()
    pool.background.take("shop", "poll", lambda _: go_on.wait(SECONDS), POLL)
    pool.background.take("shop", "t1", lambda _: "made")
    assert pool.wait() == "shop"
    assert pool.background.take("shop", "t1", lambda _: "not started") == "made"
    pool.background.cancel("shop", "")
    go_on.set()
    pool.wait()
    assert pool.background.take("shop", "poll", lambda _: False, POLL) is True


def test_the_end_cancels_everything() -> None:
    pool = Pool(workers=1)
    cancellations: queue.Queue[bool] = queue.Queue()
    pool.background.take("shop", "t1", lambda cancelled: cancellations.put(cancelled.wait(SECONDS)))
    pool.background.stop()
    assert cancellations.get(timeout=SECONDS)


def test_a_pass_that_asks_after_the_end_starts_nothing(pool: Pool) -> None:
    pool.background.stop()
    assert pool.background.take("shop", "t1", lambda _: "made") is None
    assert pool.finished.empty()


def drip(pool: Pool, until: threading.Event, count: int, place: Place = ANN) -> None:
    for number in range(count):
        pool.background.take(f"drip-{number}", "t1", lambda _: until.wait(SECONDS), place)


def test_what_never_ends_holds_half_of_the_workers_and_no_other_tenant_up(pool: Pool) -> None:
    end = threading.Event()
    drip(pool, end, 100)
    assert pool.background.counts() == {"waiting": 98, "active": 2}
    pool.background.take("shop", "t1", lambda _: "made", BEN)
    assert pool.wait() == "shop"
    end.set()


def test_a_tenant_waits_for_one_turn_of_another_and_not_for_all() -> None:
    pool, end = Pool(workers=1), threading.Event()
    drip(pool, end, 20)
    pool.background.take("shop", "t1", lambda _: "made", BEN)
    end.set()
    ended = [pool.wait() for _ in range(21)]
    assert ended.index("shop") <= 2
    pool.background.stop()


def test_who_waits_is_known_and_who_begins_after_that_is_told(pool: Pool) -> None:
    end = threading.Event()
    drip(pool, end, 3)
    assert [pool.background.is_queued(f"drip-{number}") for number in range(3)] == [False, False, True]
    assert pool.background.is_busy("drip-2")
    end.set()
    assert pool.begun.get(timeout=SECONDS) == "drip-2"
    assert pool.begun.empty()


def test_what_nobody_asks_for_any_more_does_not_wait_either(pool: Pool) -> None:
    end = threading.Event()
    drip(pool, end, 4)
    pool.background.cancel("drip-2")
    pool.background.take("drip-3", "t2", lambda _: "made", ANN)
    assert pool.background.counts() == {"waiting": 1, "active": 2}
    end.set()


def test_work_that_fails_frees_its_place(pool: Pool) -> None:
    def fail(_: threading.Event) -> None:
        raise BundleError(Reason.NOT_FOUND, "no such tag")

    for number in range(9):
        pool.background.take(f"fails-{number}", "t1", fail, ANN)
    assert {pool.wait() for _ in range(9)} == {f"fails-{number}" for number in range(9)}
    assert pool.background.counts() == {"waiting": 0, "active": 0}
