"""The fence: no write leaves this process unless it leads, and none outlasts the time for which it surely does.

A leader that cannot renew its Lease stops acting before anybody else may start, whatever its threads are doing: each
write is given no more time than is left until then. Not here: who leads (lease.py), and sending (transport.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controller.kube.errors import ApiError

READING = frozenset({"GET", "HEAD"})
SHORTEST_SECONDS = 0.2
"""What is left has to suffice for a reply."""


def read_clock() -> float:
    """Return seconds that go on while the machine sleeps: others count the Lease's time then, too."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Fence:
    """Thread-safe; shut at first."""

    def __init__(self, clock: Callable[[], float] = read_clock) -> None:
        self._clock = clock
        self._until: float | None = None
        self._shut = False
        self._under_way = 0
        self._condition = threading.Condition()

    def open_until(self, when: float) -> None:
        """Let writes through that end before `when`, by the clock; nothing once the fence was shut."""
        with self._condition:
            self._until = when

    def seconds_left(self) -> float:
        """Return for how long writes may go on; 0 if none may."""
        with self._condition:
            return self._seconds_left()

    def _seconds_left(self) -> float:
        return 0.0 if self._shut or self._until is None else max(self._until - self._clock(), 0.0)

    @contextmanager
    def admit(self) -> Iterator[float]:
        """Let one write through; yields the seconds within which it has to end.

        Raises: ApiError if this process does not lead, or hardly any longer.
        """
        with self._condition:
            left = self._seconds_left()
            if left < SHORTEST_SECONDS:
                raise ApiError(0, "NotLeading", "this process does not hold the Lease")
            self._under_way += 1
        try:
            yield left
        finally:
            with self._condition:
                self._under_way -= 1
                self._condition.notify_all()

    def shut(self, seconds: float = 0.0) -> bool:
        """Let nothing through any more; returns whether what was under way has ended within `seconds`."""
        with self._condition:
            self._shut = True
            return self._condition.wait_for(lambda: not self._under_way, seconds)
