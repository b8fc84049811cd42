"""Supervision of threads that must keep running: one that dies of a bug is counted and restarted.

A thread that cannot be started, since there are too many on the machine or in the container, is started later. A thread
that dies repeatedly would never do its work, so it ends the process: a new one starts from the state of the cluster,
and the restart is visible. Failures that others cause are no bugs and are handled where they occur.

Not here: the threads of pools, which the standard library keeps.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from rukpak.controller.retries import Backoff

log = logging.getLogger(__name__)

DEATHS = 5
"""A thread that dies more often than this within `WITHIN_SECONDS` ends the process; by default."""
WITHIN_SECONDS = 600.0
PAUSES = Backoff(first=1.0, longest=16.0)
"""Before a restart, since the cause may pass."""


class Kind(StrEnum):
    """Purpose of a thread; a label of a metric."""

    WORKER = "worker"
    WATCH = "watch"
    APPLY = "apply"
    ELECTION = "election"
    EVENTS = "events"
    SERVER = "server"
    START = "start"
    EXPLANATION = "explanation"
    OTHER = "other"


def _ignore(_: object) -> None:
    pass


class Supervisor:
    """Thread-safe. Calls `on_death` on the thread that died, and `end` with the reason, after logging it, to exit."""

    def __init__(
        self,
        on_death: Callable[[Kind], None] = _ignore,
        end: Callable[[str], None] = _ignore,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._on_death, self._end, self._clock, self._sleep = on_death, end, clock, sleep
        self._waiting: deque[_Thread] = deque()
        """Threads that could not be started."""

    def thread(self, kind: Kind, name: str, run: Callable[[], None], *, deaths: int = DEATHS) -> threading.Thread:
        """Return a thread, not started, that calls `run` again after a pause whenever it raises.

        If that happens more often than `deaths` within `WITHIN_SECONDS`, the process ends.
        """
        return _Thread(self._waiting, target=self._keep_alive, args=(kind, name, run, deaths), name=name, daemon=True)

    def start_waiting(self) -> None:
        """Start the threads that could not be started, as far as that is possible now; call it regularly."""
        while self._waiting:
            thread = self._waiting.popleft()
            if thread.try_to_start():
                return  # the others could not be started, either
            log.info("thread started late", extra={"runnable": thread.name})

    def note(self, kind: Kind, name: str, error: BaseException) -> None:
        """Log and count a bug that ended a thread, or a task without a caller to raise it to."""
        log.error("thread died", extra={"kind": kind.value, "runnable": name}, exc_info=error)
        try:
            self._on_death(kind)
        except Exception:
            log.exception("failed to count a thread death", extra={"runnable": name})

    def hook(self, arguments: threading.ExceptHookArgs) -> None:
        """Note the death of an unsupervised thread, such as a timer; use it as `threading.excepthook`."""
        if arguments.exc_value is not None:
            self.note(Kind.OTHER, arguments.thread.name if arguments.thread else "unknown", arguments.exc_value)

    def _keep_alive(self, kind: Kind, name: str, run: Callable[[], None], deaths: int) -> None:
        died: deque[float] = deque()
        while True:
            try:
                run()
            except BaseException as error:  # noqa: BLE001 - a library's SystemExit would end the thread silently
                self.note(kind, name, error)
                problem = type(error).__name__
            else:
                return
            died.append(self._clock())
            while died[-1] - died[0] >= WITHIN_SECONDS:
                died.popleft()
            if len(died) > deaths:
                self._give_up(kind, name, problem, len(died))
                return
            self._sleep(PAUSES.delay(len(died)))

    def _give_up(self, kind: Kind, name: str, problem: str, deaths: int) -> None:
        often = "once" if deaths == 1 else f"{deaths} times within {WITHIN_SECONDS:.0f} s"
        why = f"thread {name} died {often}, most recently of {problem}"
        log.critical("exiting", extra={"kind": kind.value, "runnable": name, "reason": why})
        self._end(why)


class _Thread(threading.Thread):
    """A thread that waits for `Supervisor.start_waiting` if it cannot be started."""

    def __init__(self, waiting: deque[_Thread], **options: Any) -> None:
        super().__init__(**options)
        self._waiting, self._options = waiting, options

    def start(self) -> None:
        """Start it now or later."""
        problem = self.try_to_start()
        if problem:
            log.warning("thread cannot be started yet", extra={"runnable": self.name, "error": problem})

    def try_to_start(self) -> str:
        """Start it, or let it wait and return why; empty if it was started."""
        try:
            super().start()
        except RuntimeError as error:
            if self.ident:
                raise  # started twice
            super().__init__(**self._options)  # else Python 3.13 takes it for one that was started
            self._waiting.append(self)
            return str(error)
        return ""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end; return immediately if it was not started."""
        if self.ident:
            super().join(timeout)
