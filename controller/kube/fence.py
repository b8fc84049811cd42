"""The fence: a process writes only while it is certain to lead.

A leader that cannot renew its Lease must stop writing before another process may start, whatever its threads are doing.
So each write gets no more time than is left until then. Not here: leader election (lease.py), sending (transport.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controller.kube.errors import ApiError

READING = frozenset({"GET", "HEAD"})
SHORTEST_SECONDS = 0.2
"""Minimum time for a write: it must suffice for a reply."""


def read_clock() -> float:
    """Return seconds that also count while the machine sleeps, as they do for the other candidates."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Fence:
    """Thread-safe. Admits nothing until it is opened."""

    def __init__(self, clock: Callable[[], float] = read_clock) -> None:
        self._clock = clock
        self._until: float | None = None
        self._shut = False
        self._under_way = 0
        self._condition = threading.Condition()

    def open_until(self, when: float) -> None:
        """Admit writes that end before `when`, by the clock; no effect once the fence is shut."""
        with self._condition:
            self._until = when

    def seconds_left(self) -> float:
        """Return for how long writes are admitted; 0 if none are."""
        with self._condition:
            return self._seconds_left()

    def _seconds_left(self) -> float:
        return 0.0 if self._shut or self._until is None else max(self._until - self._clock(), 0.0)

    @contextmanager
    def admit(self) -> Iterator[float]:
        """Admit one write; yields the seconds within which it must end.

        Raises: ApiError if this process does not lead, or will not for long enough.
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
        """Admit nothing any more; return whether the writes in progress ended within `seconds`."""
        with self._condition:
            self._shut = True
            return self._condition.wait_for(lambda: not self._under_way, seconds)
