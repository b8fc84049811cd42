"""How many requests may run at the same time: fewer while the API server is busy, more again when it recovers.

Additive increase, multiplicative decrease, at most one change per second, since requests in flight report the same load
several times. The API server has fair queues, so each tenant has its own limit. Not here: queued requests (pool.py),
and when a failed request is retried.
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
"""A slower reply means that the server is overloaded: milliseconds are usual."""
HOLD_SECONDS = 1.0
"""The least time between two changes: the limit grows by one request per second."""


class ConcurrencyLimit:
    """The limit of one tenant. Thread-safe.

    Args:
        most: concurrent requests while the API server is not busy.
        clock: monotonic seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._limit, self._changed = most, clock() - HOLD_SECONDS
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """How many requests may run now; at least one."""
        return self._limit

    def watch(self, send: Callable[[], Reply]) -> Reply:
        """Send a request and adapt the limit to its reply.

        Raises: what sending it raises.
        """
        started = self._clock()
        try:
            reply = send()
        except ApiError as error:
            # A webhook may also deny with this status: that is no load.
            busy = error.status == HTTPStatus.TOO_MANY_REQUESTS and error.transient
            self.learn(seconds=self._clock() - started, refused=busy)
            raise
        self.learn(seconds=self._clock() - started, refused=False)
        return reply

    def learn(self, *, seconds: float, refused: bool) -> None:
        """Adapt the limit to a reply; `refused`: the server has too many requests."""
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
    """The limits of all tenants and of the controller itself. Thread-safe.

    Args:
        most: concurrent requests of one tenant while the API server is not busy.
        clock: monotonic seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._known: dict[str, ConcurrencyLimit] = {}
        self._lock = threading.Lock()

    def of(self, user: User | None) -> ConcurrencyLimit:
        """Return the limit of a ServiceAccount, one per namespace; None: of the controller."""
        tenant = user.name.rpartition(":")[0] if user else ""
        with self._lock:
            return self._known.setdefault(tenant, ConcurrencyLimit(self._most, self._clock))
