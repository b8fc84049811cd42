"""How many requests may be under way at the same time: fewer when the API server is busy, more again when it recovers.

Additive increase, multiplicative decrease. What is in flight tells of the same load more than once, so that one second
changes it once. The API server has fair queues, so each tenant has a limit of its own: what one has filled up
slows no other down. Not here: the requests that wait meanwhile (pool.py), and when one that failed is tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

from controller.kube.client import ApiError, User

Reply = TypeVar("Reply")

REFUSED_FACTOR = 0.5
SLOW_FACTOR = 0.75
SLOW_SECONDS = 2.0
"""A reply that takes longer, where milliseconds are usual, tells of a server that has too much to do."""
HOLD_SECONDS = 1.0
"""How long a change stays before the next one, either way: each second one request more."""


class ConcurrencyLimit:
    """Thread-safe.

    Args:
        most: requests at the same time, where the API server is not busy.
        clock: monotonic seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._limit, self._changed = most, clock() - HOLD_SECONDS
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """How many requests may be under way now; at least one."""
        return self._limit

    def watch(self, send: Callable[[], Reply]) -> Reply:
        """Send a request, and take its reply into account.

        Raises: what sending it raises.
        """
        started = self._clock()
        try:
            reply = send()
        except ApiError as error:
            # A webhook may say no with this status, too: that is no load.
            busy = error.status == HTTPStatus.TOO_MANY_REQUESTS and error.transient
            self.learn(seconds=self._clock() - started, refused=busy)
            raise
        self.learn(seconds=self._clock() - started, refused=False)
        return reply

    def learn(self, *, seconds: float, refused: bool) -> None:
        """Take a reply into account that came after so many seconds, or said that there are too many requests."""
        with self._lock:
            now = self._clock()
            if now - self._changed < HOLD_SECONDS:
                return
            limit = self._next(seconds, refused=refused)
            if limit != self._limit:
                self._limit, self._changed = limit, now

    def _next(self, seconds: float, *, refused: bool) -> int:
        if refused:
            return max(int(self._limit * REFUSED_FACTOR), 1)
        if seconds > SLOW_SECONDS:
            return max(int(self._limit * SLOW_FACTOR), 1)
        return min(self._limit + 1, self._most)


class ConcurrencyLimits:
    """That of each tenant, and of the controller itself. Thread-safe.

    Args:
        most: requests of one at the same time, where the API server is not busy.
        clock: monotonic seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._known: dict[str, ConcurrencyLimit] = {}
        self._lock = threading.Lock()

    def of(self, user: User | None) -> ConcurrencyLimit:
        """Return the limit for who acts as a ServiceAccount, one for all of a namespace; None: as the controller."""
        tenant = user.name.rpartition(":")[0] if user else ""
        with self._lock:
            return self._known.setdefault(tenant, ConcurrencyLimit(self._most, self._clock))
