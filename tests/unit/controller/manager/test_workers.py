from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from operator import attrgetter
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest

from rukpak.controller.kube.errors import ApiError
from rukpak.controller.manager.queue import WorkQueue
from rukpak.controller.manager.workers import Workers
from rukpak.controller.processes.supervision import Kind, Supervisor
from rukpak.controller.reconcile.context import NEVER, Requeue
from rukpak.controller.reconcile.reconciler import Reconciler
from rukpak.controller.telemetry import reconcile_id

SECONDS = 60.0
REFUSAL = ApiError(503, "ServiceUnavailable", "overloaded", retry_after=17)
SILENCE = ApiError(0, "Unreachable", "no answer")


class NotedQueue(WorkQueue):
    """A queue that notes what becomes of a name after its pass."""

    def __init__(self, workers: int = 1) -> None:
        super().__init__(workers=workers)
        self.noted: list[tuple[str, float]] = []
        self.through: queue.Queue[str] = queue.Queue()

    def retry(self, key: str, at_least: float = 0.0) -> float:
        self.noted.append(("retry", at_least))
        return at_least

    def add_after(self, key: str, seconds: float) -> None:
        self.noted.append(("after", seconds))

    def forget(self, key: str) -> None:
        self.noted.append(("forget", 0))

    def done(self, key: str) -> None:
        super().done(key)
        self.through.put(key)


@pytest.fixture
def names(request: pytest.FixtureRequest) -> Iterator[NotedQueue]:
    made = NotedQueue(getattr(request, "param", 1))
    yield made
    made.close()


def ignore(_name: str, _bug: BaseException) -> None:
    pass


def reconciler(
    reconcile: Callable[[str], Requeue] = lambda _: NEVER, report: Callable[[str, BaseException], None] = ignore
) -> Reconciler:
    return cast("Reconciler", SimpleNamespace(reconcile=reconcile, report_bug=report))


def work(
    names: NotedQueue, reconcile: Callable[[str], Requeue], report: Callable[[str, BaseException], None] = ignore
) -> Workers:
    workers = Workers(names, reconciler(reconcile, report), Supervisor(sleep=lambda _: None))
    workers.start()
    return workers


def fails(error: Exception) -> Callable[[str], Requeue]:
    def reconcile(name: str) -> Requeue:
        raise error

    return reconcile


class Case(NamedTuple):
    name: str
    reconcile: Callable[[str], Requeue]
    expect: list[tuple[str, float]]


CASES = [
    Case("done, until an event comes", lambda _: NEVER, [("forget", 0)]),
    Case("done, until a time comes", lambda _: Requeue(after=5), [("forget", 0), ("after", 5)]),
    Case("at once", lambda _: Requeue(after=0), [("forget", 0), ("after", 0)]),
    Case("could not go on", lambda _: Requeue(failed=True), [("retry", 0)]),
    Case("could not go on, and knows when it may", lambda _: Requeue(after=7, failed=True), [("retry", 7)]),
    Case("the API server says when to come back", fails(REFUSAL), [("retry", 17)]),
    Case("the API server does not answer", fails(SILENCE), [("retry", 0)]),
    Case("a bug", fails(ZeroDivisionError()), [("retry", 0)]),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_becomes_of_a_name(case: Case, names: NotedQueue) -> None:
    work(names, case.reconcile)
    names.add("shop")
    assert names.through.get(timeout=SECONDS) == "shop"
    assert names.noted == case.expect


def test_a_bug_in_one_pass_does_not_end_the_worker(names: NotedQueue, caplog: pytest.LogCaptureFixture) -> None:
    def reconcile(name: str) -> Requeue:
        return NEVER if name == "good" else Requeue(after=1 / 0)

    work(names, reconcile)
    for name in ("bad", "good"):
        names.add(name)
        names.through.get(timeout=SECONDS)
    (error,) = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert (error.getMessage(), error.exc_info is not None) == ("Reconciler error", True)
    assert vars(error)["BundleDeployment"] == "bad"


def test_a_bug_is_reported_in_the_pass_that_it_ended(names: NotedQueue) -> None:
    seen: list[str] = []

    def reconcile(name: str) -> Requeue:
        seen.append(reconcile_id.get())
        raise ZeroDivisionError

    def report(name: str, bug: BaseException) -> None:
        seen.extend([reconcile_id.get(), name, type(bug).__name__])

    work(names, reconcile, report=report)
    names.add("shop")
    names.through.get(timeout=SECONDS)
    assert seen == [seen[0], seen[0], "shop", "ZeroDivisionError"]


@pytest.mark.parametrize("error", [REFUSAL, SILENCE, KeyError("the same bug"), SystemExit(1)], ids=repr)
def test_a_report_that_fails_changes_nothing_else(error: BaseException, names: NotedQueue) -> None:
    def report(name: str, bug: BaseException) -> None:
        raise error

    workers = work(names, fails(ZeroDivisionError()), report=report)
    for _ in range(2):
        names.add("shop")
        names.through.get(timeout=SECONDS)
    assert (names.noted, workers.dead()) == ([("retry", 0)] * 2, [])


def test_a_pass_that_the_end_of_the_process_cuts_short_is_no_error(
    names: NotedQueue, caplog: pytest.LogCaptureFixture
) -> None:
    work(names, fails(CancelledError()))
    names.add("shop")
    assert names.through.get(timeout=SECONDS) == "shop"
    assert (names.noted, caplog.records) == ([], [])


def test_what_the_api_server_says_is_logged_without_what_was_sent(
    names: NotedQueue, caplog: pytest.LogCaptureFixture
) -> None:
    work(names, fails(ApiError(422, "Invalid", 'data.password: Invalid value: "hunter2"')))
    names.add("shop")
    names.through.get(timeout=SECONDS)
    (entry,) = [entry for entry in caplog.records if entry.name == "rukpak.controller.manager.workers"]
    assert (entry.levelno, vars(entry)["reply"]) == (logging.WARNING, "422 Invalid")


def test_each_pass_has_an_id_of_its_own(names: NotedQueue) -> None:
    seen: list[str] = []

    def reconcile(name: str) -> Requeue:
        seen.append(reconcile_id.get())
        return NEVER

    work(names, reconcile)
    for _ in range(2):
        names.add("shop")
        names.through.get(timeout=SECONDS)
    assert all(seen)
    assert len(set(seen)) == 2


@pytest.mark.parametrize("names", [4], indirect=True, ids=["of which a tenant gets half"])
def test_passes_of_two_bundle_deployments_run_at_the_same_time(names: NotedQueue) -> None:
    meeting = threading.Barrier(2)

    def reconcile(name: str) -> Requeue:
        meeting.wait(SECONDS)
        return NEVER

    work(names, reconcile)
    names.add("a")
    names.add("b")
    assert {names.through.get(timeout=SECONDS) for _ in range(2)} == {"a", "b"}
    assert ("retry", 0) not in names.noted


def test_the_end_waits_for_passes_that_are_under_way(names: NotedQueue) -> None:
    began, go_on, ended = threading.Event(), threading.Event(), []

    def reconcile(name: str) -> Requeue:
        began.set()
        go_on.wait(SECONDS)
        ended.append(name)
        return NEVER

    workers = work(names, reconcile)
    names.add("shop")
    assert began.wait(SECONDS)
    names.close()
    go_on.set()
    workers.join(SECONDS)
    assert ended == ["shop"]


def test_a_library_that_ends_the_program_ends_no_worker(names: NotedQueue) -> None:
    def reconcile(name: str) -> Requeue:
        if name == "bad":
            sys.exit(2)
        return NEVER

    workers = work(names, reconcile)
    for name in ("bad", "good"):
        names.add(name)
        assert names.through.get(timeout=SECONDS) == name
    assert (names.noted, workers.dead()) == ([("retry", 0), ("forget", 0)], [])


def test_a_worker_that_dies_is_replaced_and_its_name_is_kept(names: NotedQueue) -> None:
    """As one did for a result that could not be waited for."""
    failures, died = [OverflowError("timeout value is too large")], list[Kind]()

    def on_pass(_result: str, _seconds: float, _is_bug: bool) -> None:
        if failures:
            raise failures.pop()

    supervisor = Supervisor(died.append, sleep=lambda _: None)
    workers = Workers(names, reconciler(), supervisor, on_pass)
    workers.start()
    for _ in range(2):
        names.add("shop")
        names.through.get(timeout=SECONDS)
    assert (names.noted, died, workers.dead()) == ([("retry", 0), ("forget", 0)], [Kind.WORKER], [])


@pytest.mark.parametrize("names", [2], indirect=True)
def test_a_worker_that_has_not_begun_is_not_one_that_ended(names: NotedQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a probe said that came while the threads were started."""
    seen: list[list[str]] = []
    workers = Workers(names, reconciler(), Supervisor())
    start = threading.Thread.start

    def probed(thread: threading.Thread) -> None:
        seen.append(workers.dead())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", probed)
    workers.start()
    assert (seen, workers.dead()) == ([[], []], [])
