"""When the API server last responded, and when a pass last made progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

WORKING = ("worker", "apply")
"""Name prefixes of the threads that work on passes."""


class Activity:
    """Thread-safe, since each field is one number. The clock is in monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answered = self._worked = clock()

    def request_ended(self, status: int) -> None:
        """Note the end of a request to the API server, on the thread that made it; status 0: no response."""
        if status:
            self._answered = self._clock()
        if threading.current_thread().name.startswith(WORKING):
            self._worked = self._clock()

    @property
    def unanswered_seconds(self) -> float:
        """Seconds since the API server responded."""
        return self._clock() - self._answered

    @property
    def idle_seconds(self) -> float:
        """Seconds since a request of a pass ended, with or without a response."""
        return self._clock() - self._worked
