"""When the API server last answered, and when a pass last made progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

WORKING = ("worker", "apply")
"""Prefixes of the names of threads that reconcile."""


class Activity:
    """Thread-safe, since each field is one number.

    Args:
        clock: seconds; never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answered = self._worked = clock()

    def request_ended(self, status: int) -> None:
        """Note, on the thread that made it, the end of a request to the API server; status 0: no answer."""
        if status:
            self._answered = self._clock()
        if threading.current_thread().name.startswith(WORKING):
            self._worked = self._clock()

    @property
    def unanswered_seconds(self) -> float:
        """Seconds since the API server answered."""
        return self._clock() - self._answered

    @property
    def idle_seconds(self) -> float:
        """Seconds since a request of a pass ended, with or without an answer."""
        return self._clock() - self._worked
