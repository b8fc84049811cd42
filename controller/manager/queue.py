"""Work queue: which BundleDeployment is reconciled next.

As in client-go, a key added while it is being processed is processed once more afterwards, never in parallel. An
immediate add overrides a delayed one, and the earlier of two delays wins. Failures back off, and all retries share a
token bucket, so that a thousand keys that fail together are not retried together. Tenants take turns, and none gets
all workers (sharing.py).

Not here: processing (workers.py), and what counts as a failure (reconcile/reconciler.py).
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from rukpak.api.bounds import clamp_delay, clamp_wait
from rukpak.controller.retries import Backoff
from rukpak.controller.sharing import Turns

log = logging.getLogger(__name__)

# Overridden entries stay in the heap until they are the first, or there are more than these plus twice the valid ones.
STALE_ENTRIES = 256
BACKOFF = Backoff(first=1.0, longest=300.0, jitter=0.2)
RETRIES_PER_SECOND, BURST = 10.0, 100
"""How fast all keys together are retried, and how many may exceed that rate at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """A snapshot of a queue."""

    depth: int
    """Keys waiting for a worker, without delayed ones."""
    adds: int
    """Adds so far, without those of keys that were waiting already."""
    retries: int
    busy: tuple[float, ...]
    """For how many seconds each key that is being processed has been."""


def _record(hook: Callable[[float], None], seconds: float) -> None:
    # A failure of a hook must not lose the key that is being handed out or returned.
    try:
        hook(seconds)
    except Exception:
        log.exception("failed to record time in the queue")


class _Bucket:
    """A token bucket that may be overdrawn; the debt is the time to wait."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._filled = now

    def take(self, now: float) -> float:
        """Take a token; return the seconds until it is available."""
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate) - 1
        self._filled = now
        return max(0.0, -self._tokens / self._rate)


class WorkQueue:
    """Thread-safe. Every `get` needs a `done`, and before it `forget` on success or `retry` on failure.

    Up to `workers` keys are processed at the same time; `share` returns the tenant of a key. The hooks get the seconds
    that a key waited for a worker and was processed.
    """

    def __init__(
        self,
        backoff: Backoff = BACKOFF,
        clock: Callable[[], float] = time.monotonic,
        *,
        workers: int = 1,
        share: Callable[[str], str] = lambda _key: "",
        on_waited: Callable[[float], None] = lambda _seconds: None,
        on_worked: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self.workers = workers
        self._backoff = backoff
        self._clock = clock
        self._share = share
        self._on_waited, self._on_worked = on_waited, on_worked
        self._adds = self._retries = 0
        self._condition = threading.Condition()
        self._ready: Turns[tuple[str, str]] = Turns(workers)
        """Shares and keys."""
        self._dirty: dict[str, float] = {}
        """When they were added: keys in `_ready`, and keys that were added again while being processed."""
        self._processing: dict[str, tuple[str, float, float]] = {}
        """Shares of the keys being processed, when that started, and the processor time of its thread then."""
        self._delayed: list[tuple[float, str]] = []
        """A heap. An entry is valid only while `_due` has the same time for its key."""
        self._due: dict[str, float] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        """Failures of a key, each after its backoff, and when the last backoff ends."""
        self._bucket = _Bucket(RETRIES_PER_SECOND, BURST, clock())
        self._closed = False

    def stats(self) -> QueueStats:
        """Return a snapshot."""
        with self._condition:
            now = self._clock()
            return QueueStats(
                depth=self._ready.waiting,
                adds=self._adds,
                retries=self._retries,
                busy=tuple(now - since for _, since, _ in self._processing.values()),
            )

    def add(self, key: str) -> None:
        """Queue a key for processing as soon as possible, once however often it is added."""
        with self._condition:
            self._add(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Queue a key after a delay, unless it is due earlier already."""
        with self._condition:
            self._add_at(key, self._clock() + clamp_delay(seconds))

    def retry(self, key: str, at_least: float = 0.0) -> float:
        """Queue a failed key after its backoff, and at least after the seconds that the server asked for.

        A key that an event triggered during its backoff, and that failed again, keeps its retry time: the number of
        events says nothing about how long the server needs.

        Returns: the delay in seconds.
        """
        with self._condition:
            self._retries += 1
            now = self._clock()
            failures, due = self._failures.get(key, (0, now))
            if due <= now:
                failures, due = failures + 1, now + self._backoff.choose_delay(failures + 1)
            self._failures[key] = (failures, due)
            delay = max(due - now, self._bucket.take(now), clamp_delay(at_least))
            self._add_at(key, now + delay)
            return delay

    def forget(self, key: str) -> None:
        """Reset the backoff of a key that succeeded or is gone."""
        with self._condition:
            self._failures.pop(key, None)

    def get(self) -> str | None:
        """Wait for the next key; None once the queue is closed."""
        with self._condition:
            while True:
                self._take_due()
                if turn := self._ready.begin():
                    share, key = turn
                    now = self._clock()
                    self._processing[key] = share, now, time.thread_time()
                    _record(self._on_waited, now - self._dirty.pop(key))
                    return key
                if self._closed:
                    return None
                self._condition.wait(clamp_wait(self._delayed[0][0] - self._clock()) if self._delayed else None)

    def done(self, key: str) -> None:
        """Note that a worker has finished a key; call it on the thread that got the key."""
        with self._condition:
            share, started, began = self._processing.pop(key)
            self._ready.end(share, seconds=time.thread_time() - began)
            _record(self._on_worked, self._clock() - started)
            if key in self._dirty:
                self._line_up(key)
            self._condition.notify()  # a worker is free

    def close(self) -> None:
        """Accept and hand out no more keys: the next process finds the waiting ones again."""
        with self._condition:
            self._closed = True
            self._ready.clear()
            self._dirty.clear()
            self._delayed.clear()
            self._due.clear()
            self._condition.notify_all()

    def _add(self, key: str) -> None:
        self._due.pop(key, None)
        if self._closed or key in self._dirty:
            return
        self._dirty[key] = self._clock()
        self._adds += 1
        if key not in self._processing:
            self._line_up(key)
            self._condition.notify()

    def _line_up(self, key: str) -> None:
        share = self._share(key)
        self._ready.add(share, (share, key))

    def _add_at(self, key: str, when: float) -> None:
        if self._closed or key in self._dirty or self._due.get(key, when) < when:
            return
        self._due[key] = when
        if len(self._delayed) > STALE_ENTRIES + 2 * len(self._due):
            self._delayed = [(due, other) for other, due in self._due.items()]
            heapq.heapify(self._delayed)
        else:
            heapq.heappush(self._delayed, (when, key))
        self._condition.notify()

    def _take_due(self) -> None:
        now = self._clock()
        while self._delayed:
            when, key = self._delayed[0]
            if self._due.get(key) == when:
                if when > now:
                    break
                self._add(key)
            heapq.heappop(self._delayed)  # also one that is not valid any more, or workers would wake for it
