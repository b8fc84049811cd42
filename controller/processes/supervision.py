"""Threads that must not end: one that a bug has ended is begun again, and counted.

One that dies again and again ends the process, since it would never do its work: a new process starts from what the
cluster says, and whoever runs it sees why. What the other side causes is no bug and is handled where it happens.

Not here: what a thread does. Pools of the standard library keep their threads themselves.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum

from controller.retries import Backoff

log = logging.getLogger(__name__)

DEATHS = 5
"""A thread that dies more often than this within `WITHIN_SECONDS` is given up."""
WITHIN_SECONDS = 600.0
PAUSES = Backoff(first=1.0, longest=16.0)
"""Before a thread goes on: what ended it may pass."""


class Kind(StrEnum):
    """What threads are for; a label of a metric."""

    WORKER = "worker"
    WATCH = "watch"
    APPLY = "apply"
    ELECTION = "election"
    EVENTS = "events"
    SERVER = "server"
    START = "start"
    EXPLANATION = "explanation"
    OTHER = "other"


def _ignore(_kind: Kind) -> None:
    pass


def _give_up(_why: str) -> None:
    pass


class Supervisor:
    """Thread-safe.

    Args:
        on_death: told of each death, on the thread that died.
        end: ends the process; gets the reason, which is logged already.
        clock: seconds.
        sleep: waits for seconds.
    """

    def __init__(
        self,
        on_death: Callable[[Kind], None] = _ignore,
        end: Callable[[str], None] = _give_up,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._on_death, self._end, self._clock, self._sleep = on_death, end, clock, sleep

    def thread(self, kind: Kind, name: str, run: Callable[[], None]) -> threading.Thread:
        """Return a thread, not started, that calls `run` until it returns.

        Where `run` raises, it is called again after a pause; it finds the state that it left.
        """
        return threading.Thread(target=self._keep_alive, args=(kind, name, run), name=name, daemon=True)

    def note(self, kind: Kind, name: str, error: BaseException) -> None:
        """Log and count a bug that has ended a thread, or a piece of work that nobody asks for the result of."""
        log.error("thread died", extra={"kind": kind.value, "runnable": name}, exc_info=error)
        try:
            self._on_death(kind)
        except Exception:
            log.exception("death not counted", extra={"runnable": name})

    def hook(self, arguments: threading.ExceptHookArgs) -> None:
        """Note the death of a thread that nobody keeps alive, such as a timer; to be `threading.excepthook`."""
        if arguments.exc_value is not None:
            self.note(Kind.OTHER, arguments.thread.name if arguments.thread else "unknown", arguments.exc_value)

    def _keep_alive(self, kind: Kind, name: str, run: Callable[[], None]) -> None:
        died: deque[float] = deque()
        while True:
            try:
                run()
            except BaseException as error:  # noqa: BLE001 - SystemExit of a library ends a thread without a word
                self.note(kind, name, error)
                problem = type(error).__name__
            else:
                return
            died.append(self._clock())
            while died[-1] - died[0] >= WITHIN_SECONDS:
                died.popleft()
            if len(died) > DEATHS:
                self._give_up(kind, name, problem, len(died))
                return
            self._sleep(PAUSES.delay(len(died)))

    def _give_up(self, kind: Kind, name: str, problem: str, deaths: int) -> None:
        why = f"thread {name} died {deaths} times within {WITHIN_SECONDS:.0f} s, last of {problem}"
        log.critical("the process ends", extra={"kind": kind.value, "runnable": name, "reason": why})
        self._end(why)
