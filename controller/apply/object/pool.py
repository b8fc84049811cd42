"""The threads that requests to the API server are sent on, in fair shares: a bundle of many objects holds up no other.

Who has much to send and who has little take turns, one request each. How many are under way concurrency.py says; and a
tenant whose requests are slow gets another thread only while more are free than it has, so that some are left.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextvars import Context, copy_context
from typing import Any, TypeVar

from controller.apply.object.concurrency import ConcurrencyLimit, ConcurrencyLimits
from controller.kube.client import User
from controller.processes.supervision import Kind, Supervisor

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Batch:
    """What one caller has to send; its items are begun in order."""

    def __init__(
        self, function: Callable[[Any], Any], items: Sequence[Any], concurrency: ConcurrencyLimit, *, shares: bool
    ) -> None:
        self.function, self.items = function, items
        self.concurrency, self.shares = concurrency, shares
        self.results: list[Any] = [None] * len(items)
        self.errors: dict[int, BaseException] = {}
        self.begun = self.ended = 0
        self.cancelled = False
        self.over = threading.Event()
        self._context: Context = copy_context()

    def release_caller(self) -> None:
        """Let the caller go on if all is over that was, or will be, begun."""
        if self.ended == len(self.items) or (self.cancelled and self.ended == self.begun):
            self.over.set()

    def run(self, index: int) -> None:
        try:
            # What is logged is logged for the caller.
            self.results[index] = self._context.copy().run(self.function, self.items[index])
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self.errors[index] = error


class Pool:
    """Thread-safe.

    Args:
        workers: threads.
        limits: say how many of them may be busy for whom.
        supervisor: keeps the threads alive.
    """

    def __init__(self, workers: int, limits: ConcurrencyLimits, supervisor: Supervisor) -> None:
        self._workers, self._limits = workers, limits
        self._batches: deque[_Batch] = deque()
        self._busy: Counter[ConcurrencyLimit] = Counter()
        self._stopped = False
        self._changed = threading.Condition()
        for number in range(workers):
            supervisor.thread(Kind.APPLY, f"apply-{number}", self._work).start()

    def run(self, function: Callable[[Item], Result], items: Sequence[Item], user: User | None = None) -> list[Result]:
        """Run a function on each item, on the threads of the pool; returns the results in the order of the items.

        Args:
            function: sends requests as `user`.
            items: in the order in which they are begun.
            user: whose share of the threads is used; None: the controller's, which may have all.

        Raises: the first error by that order; CancelledError if the pool was stopped.
        """
        batch = _Batch(function, items, self._limits.of(user), shares=user is not None)
        with self._changed:
            batch.cancelled = self._stopped
            if items and not self._stopped:
                self._batches.append(batch)
                self._changed.notify_all()
            batch.release_caller()
        batch.over.wait()
        if batch.errors:
            raise batch.errors[min(batch.errors)]
        if batch.ended < len(items):
            raise CancelledError
        return batch.results

    def stop(self) -> None:
        """Begin nothing more."""
        with self._changed:
            self._stopped = True
            while self._batches:
                batch = self._batches.popleft()
                batch.cancelled = True
                batch.release_caller()
            self._changed.notify_all()

    def _work(self) -> None:
        while self._take_turn():
            pass

    def _take_turn(self) -> bool:
        """Wait for a turn, and run it; returns whether there are more to come.

        A function of its own, so that nothing of a batch is kept alive while a thread waits for the next one.
        """
        turn = self._next()
        if turn is None:
            return False
        batch, index = turn
        try:
            batch.run(index)
        finally:
            with self._changed:
                self._busy[batch.concurrency] -= 1
                self._busy += Counter()  # forgets who has nothing under way
                batch.ended += 1
                batch.release_caller()
                self._changed.notify()
        return True

    def _next(self) -> tuple[_Batch, int] | None:
        """Wait for a turn, and return whose it is; None if the pool was stopped."""
        with self._changed:
            batch = self._changed.wait_for(lambda: self._stopped or self._first_that_may())
            if self._stopped or not isinstance(batch, _Batch):
                return None
            self._batches.remove(batch)
            index, batch.begun = batch.begun, batch.begun + 1
            if batch.begun < len(batch.items):
                self._batches.append(batch)
            self._busy[batch.concurrency] += 1
            return batch, index

    def _first_that_may(self) -> _Batch | None:
        return next((batch for batch in self._batches if self._may_begin(batch)), None)

    def _may_begin(self, batch: _Batch) -> bool:
        busy, free = self._busy[batch.concurrency], self._workers - self._busy.total()
        return busy < batch.concurrency.limit and (busy < free or not batch.shares)
