"""Threads that send requests about objects, shared among tenants.

Batches take turns, one request each. A tenant gets another thread only while more threads are free than it uses, so
that slow requests of one tenant leave some for the others.

How many run is limited as the API server can take them: additive increase, multiplicative decrease, at most one change
per second, since requests in flight report the same load several times. The API server has fair queues, so each tenant
has its own limit.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextvars import Context, copy_context
from http import HTTPStatus
from queue import SimpleQueue
from typing import Any, TypeVar

from controller.kube.client import ApiError, User
from controller.processes.supervision import Kind, Supervisor

Reply = TypeVar("Reply")
REFUSED_FACTOR = 0.5
SLOW_FACTOR = 0.75
SLOW_SECONDS = 2.0
"""A slower reply means that the server is overloaded: milliseconds are usual."""
HOLD_SECONDS = 1.0
"""The least time between two changes: the limit grows by one request per second."""
Item = TypeVar("Item")
Result = TypeVar("Result")


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


class _Batch:
    """The requests of one caller, which start in order."""

    def __init__(
        self, function: Callable[[Any], Any], items: Sequence[Any], concurrency: ConcurrencyLimit, *, shares: bool
    ) -> None:
        self.function, self.items = function, items
        self.concurrency, self.shares = concurrency, shares
        self.results: list[Any] = [None] * len(items)
        self.errors: dict[int, BaseException] = {}
        self.started = self.finished = 0
        self.cancelled = False
        self.done = threading.Event()
        self._context: Context = copy_context()

    def release_caller(self) -> None:
        """Wake the caller once every item that was started, or will be, has finished."""
        if self.finished == len(self.items) or (self.cancelled and self.finished == self.started):
            self.done.set()

    def run(self, index: int) -> None:
        """Run one item in the context of the caller, which its log messages need."""
        try:
            self.results[index] = self._context.copy().run(self.function, self.items[index])
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self.errors[index] = error


class Pool:
    """Thread-safe.

    The caller sends, too, as long as it is the turn of its batch, and each thread that starts a request wakes the next
    one if there is another to start: handing a request to another thread costs about as much as sending it.

    Args:
        workers: concurrent requests, and threads.
        limits: of the requests of each tenant.
        supervisor: keeps the threads alive.
    """

    def __init__(self, workers: int, limits: ConcurrencyLimits, supervisor: Supervisor) -> None:
        self._workers, self._limits = workers, limits
        self._batches: deque[_Batch] = deque()
        self._busy: Counter[ConcurrencyLimit] = Counter()
        self._stopped = False
        self._lock = threading.Lock()
        self._idle = 0
        """Threads that wait and have not been woken."""
        self._wakes: SimpleQueue[None] = SimpleQueue()
        """Each wakes one of them."""
        for number in range(workers):
            supervisor.thread(Kind.APPLY, f"apply-{number}", self._work).start()

    def run(self, function: Callable[[Item], Result], items: Sequence[Item], user: User | None = None) -> list[Result]:
        """Run a function on each item, concurrently; returns the results in the order of the items.

        Args:
            function: sends requests as `user`.
            items: start in this order.
            user: whose share of the threads is used; None: the controller's, which may use all.

        Raises: the error of the first item that failed; CancelledError if the pool was stopped.
        """
        batch = _Batch(function, items, self._limits.of(user), shares=user is not None)
        with self._lock:
            batch.cancelled = self._stopped
            if items and not self._stopped:
                self._batches.append(batch)
            batch.release_caller()
        while (index := self._take_own_turn(batch)) is not None:
            self._run(batch, index)
        batch.done.wait()
        if batch.errors:
            raise batch.errors[min(batch.errors)]
        if batch.finished < len(items):
            raise CancelledError
        return batch.results

    def stop(self) -> None:
        """Start no more requests."""
        with self._lock:
            self._stopped = True
            while self._batches:
                batch = self._batches.popleft()
                batch.cancelled = True
                batch.release_caller()
        for _ in range(self._workers):
            self._wakes.put(None)

    def _work(self) -> None:
        while self._take_turn():
            pass

    def _take_turn(self) -> bool:
        """Wait for a turn and run it; returns False once the pool is stopped.

        A separate function, so that no batch is kept alive while a thread waits for the next one.
        """
        turn = self._next()
        if turn is None:
            return False
        self._run(*turn)
        return True

    def _next(self) -> tuple[_Batch, int] | None:
        """Wait for a turn and return it; None if the pool was stopped."""
        while True:
            with self._lock:
                if self._stopped:
                    return None
                if batch := self._first_startable():
                    return batch, self._begin(batch)
                self._idle += 1
            self._wakes.get()

    def _take_own_turn(self, batch: _Batch) -> int | None:
        """Return the item that the caller of a batch runs now; None if it is not the turn of its batch."""
        with self._lock:
            if self._first_startable() is batch:
                return self._begin(batch)
            self._wake_next()
            return None

    def _begin(self, batch: _Batch) -> int:
        self._batches.remove(batch)
        index, batch.started = batch.started, batch.started + 1
        if batch.started < len(batch.items):
            self._batches.append(batch)
        self._busy[batch.concurrency] += 1
        self._wake_next()
        return index

    def _run(self, batch: _Batch, index: int) -> None:
        try:
            batch.run(index)
        finally:
            with self._lock:
                self._busy[batch.concurrency] -= 1
                self._busy += Counter()  # removes zeros
                batch.finished += 1
                batch.release_caller()

    def _wake_next(self) -> None:
        """Wake a thread if there is a turn for it; it wakes the next one."""
        if self._idle and self._first_startable():
            self._idle -= 1
            self._wakes.put(None)

    def _first_startable(self) -> _Batch | None:
        return next((batch for batch in self._batches if self._may_start(batch)), None)

    def _may_start(self, batch: _Batch) -> bool:
        busy, free = self._busy[batch.concurrency], self._workers - self._busy.total()
        return free > 0 and busy < batch.concurrency.limit and (busy < free or not batch.shares)
