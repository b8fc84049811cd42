from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import pytest

from rukpak.controller.processes.supervision import DEATHS, WITHIN_SECONDS, Kind, Supervisor
from tests.support.clock import Clock

SECONDS = 60.0


@dataclass
class World:
    """What a supervisor does, on a clock that only its pauses, and what dies, move."""

    clock: Clock = field(default_factory=Clock)
    died: list[Kind] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def supervisor(self) -> Supervisor:
        return Supervisor(self.died.append, self.ended.append, clock=self.clock, sleep=self.pauses.append)

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    def run(self, run: Callable[[], None]) -> threading.Thread:
        thread = self.supervisor().thread(Kind.WATCH, "watch /api/v1/secrets", run)
        thread.start()
        thread.join(SECONDS)
        assert not thread.is_alive()
        return thread


def dies(times: int, error: BaseException, after: Callable[[], None] = lambda: None) -> Callable[[], None]:
    left = [error] * times

    def run() -> None:
        if left:
            after()
            raise left.pop()

    return run


class Case(NamedTuple):
    name: str
    deaths: int
    between: float
    ends: bool


CASES = [
    Case("one that never dies", 0, 0, ends=False),
    Case("one that dies once", 1, 0, ends=False),
    Case("one that dies as often as is borne", DEATHS, 0, ends=False),
    Case("one that dies once more", DEATHS + 1, 0, ends=True),
    Case("one that dies for ever, but seldom", 100, WITHIN_SECONDS / DEATHS, ends=False),
    Case("one that dies a little too often", 100, WITHIN_SECONDS / DEATHS - 1, ends=True),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_death_ends_the_process(case: Case) -> None:
    world = World()
    world.run(dies(case.deaths, ZeroDivisionError(), lambda: world.wait(case.between)))
    assert bool(world.ended) == case.ends


@pytest.mark.parametrize("error", [ValueError("x"), OverflowError("timeout"), SystemExit(1), MemoryError()], ids=repr)
def test_whatever_ends_a_thread_it_goes_on(error: BaseException) -> None:
    world = World()
    world.run(dies(2, error))
    assert (world.died, world.ended) == ([Kind.WATCH, Kind.WATCH], [])


def test_the_pauses_grow() -> None:
    world = World()
    world.run(dies(DEATHS, ZeroDivisionError()))
    assert world.pauses == [1, 2, 4, 8, 16]


def test_a_death_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    World().run(dies(1, ZeroDivisionError("by zero")))
    (entry,) = caplog.records
    assert (entry.levelno, vars(entry)["kind"], vars(entry)["runnable"]) == (
        logging.ERROR,
        "watch",
        "watch /api/v1/secrets",
    )
    assert entry.exc_text
    assert "ZeroDivisionError: by zero" in entry.exc_text


def test_the_reason_of_the_end_is_the_last_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.run(dies(DEATHS + 1, ZeroDivisionError("by zero")))
    why = "thread watch /api/v1/secrets died 6 times within 600 s, most recently of ZeroDivisionError"
    assert (caplog.records[-1].levelno, vars(caplog.records[-1])["reason"]) == (logging.CRITICAL, why)
    assert world.ended == [why]


def test_a_thread_that_may_not_die_ends_the_process_with_its_first_death() -> None:
    world = World()
    run = dies(1, ZeroDivisionError())
    thread = world.supervisor().thread(Kind.ELECTION, "election", run, deaths=0)
    thread.start()
    thread.join(SECONDS)
    assert (world.pauses, world.ended) == ([], ["thread election died once, most recently of ZeroDivisionError"])


def test_a_counter_that_fails_keeps_nobody_dead() -> None:
    world = World()
    supervisor = Supervisor(lambda _: 1 / 0, world.ended.append, sleep=world.pauses.append)  # type: ignore[arg-type]
    thread = supervisor.thread(Kind.WORKER, "worker-0", dies(1, ValueError()))
    thread.start()
    thread.join(SECONDS)
    assert (world.pauses, world.ended) == ([1], [])


def test_a_timer_that_dies_is_counted(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    monkeypatch.setattr(threading, "excepthook", world.supervisor().hook)
    timer = threading.Timer(0, dies(1, ZeroDivisionError()))
    timer.start()
    timer.join(SECONDS)
    assert (world.died, [entry.message for entry in caplog.records]) == ([Kind.OTHER], ["thread died"])


# threads that cannot be started


@pytest.fixture
def crowded() -> Iterator[Callable[[], None]]:
    """A process in which no thread can be started; calling the fixture ends that."""
    before = threading.stack_size(1 << 46)  # more than the address space has

    def end() -> None:
        threading.stack_size(before)

    yield end
    threading.stack_size(before)


def test_a_thread_that_cannot_be_started_is_started_when_it_can(
    crowded: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    supervisor, ran = Supervisor(), threading.Event()
    threads = [supervisor.thread(Kind.WATCH, f"watch {n}", ran.set) for n in range(2)]
    for thread in threads:
        thread.start()
    supervisor.start_waiting()
    assert (ran.is_set(), [thread.is_alive() for thread in threads]) == (False, [False, False])
    crowded()
    supervisor.start_waiting()
    assert ran.wait(SECONDS)
    for thread in threads:
        thread.join(SECONDS)
        assert thread.ident
    assert caplog.messages == ["thread cannot be started yet"] * 2


def test_a_thread_that_was_not_started_is_not_waited_for(crowded: Callable[[], None]) -> None:
    thread = Supervisor().thread(Kind.WATCH, "watch", lambda: None)
    thread.start()
    thread.join()
    assert not thread.ident
    crowded()


def test_a_thread_is_started_only_once() -> None:
    thread = World().run(lambda: None)
    with pytest.raises(RuntimeError, match="only be started once"):
        thread.start()
