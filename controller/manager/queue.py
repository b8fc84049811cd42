"""Work queue: which BundleDeployment is reconciled next. One key at a time, nothing lost, failures back off.

As in client-go, a key that is added while it is worked on is worked on once more afterwards, never in parallel. An
immediate add overtakes a delayed one, and the earlier of two delays wins. Retries also share a token bucket, so that a
thousand keys that fail together do not come back together. Tenants take turns, and none gets all
workers (sharing/shares.py).

Not here: who works (workers.py), and what is a failure (reconcile/reconciler.py).
"""

from __future__ import annotations

import heapq
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from api.bounds import clamp_delay, clamp_wait
from controller.retries import Backoff
from controller.sharing.shares import Turns

log = logging.getLogger(__name__)

# Overtaken entries stay in the heap until they are due, or are as many as this and more than the others.
STALE_ENTRIES = 256
_BACKOFF = Backoff(first=1.0, longest=300.0, jitter=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRate:
    """How failures are spread."""

    backoff: Backoff = _BACKOFF
    """Of one key."""
    retries_per_second: float = 10.0
    """Of all keys together."""
    burst: int = 100
    """So many retries are free of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """What a queue does, at one moment."""

    depth: int
    """Keys that wait for a worker."""
    adds: int
    """So often a key was added that did not wait already."""
    retries: int
    working: int
    """Keys that are being worked on."""
    unfinished_seconds: float
    """For how long they are, all together."""
    longest_seconds: float


def _ignore(_seconds: float) -> None:
    pass


def _tell(hook: Callable[[float], None], seconds: float) -> None:
    """Tell a hook; one that fails must not lose the key that is being handed out or put back."""
    try:
        hook(seconds)
    except Exception:
        log.exception("time in the queue not told")


class _Bucket:
    """Tokens that fill up with time. It may be overdrawn: the debt is what one has to wait for."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._filled = now

    def take(self, now: float) -> float:
        """Take a token; return in how many seconds it is there."""
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate) - 1
        self._filled = now
        return max(0.0, -self._tokens / self._rate)


class WorkQueue:
    """Thread-safe. Every `get` needs a `done`; before that, `forget` on success or `retry` on failure.

    Args:
        workers: keys that are worked on at the same time.
        share: returns whose share of the workers a key takes.
        on_waited: gets the seconds that a key waited, when it is handed out.
        on_worked: gets the seconds that a key was worked on.
    """

    def __init__(
        self,
        rate: RetryRate = RetryRate(),
        clock: Callable[[], float] = time.monotonic,
        *,
        workers: int = sys.maxsize,
        share: Callable[[str], str] = lambda _key: "",
        on_waited: Callable[[float], None] = _ignore,
        on_worked: Callable[[float], None] = _ignore,
    ) -> None:
        self._backoff = rate.backoff
        self._clock = clock
        self._share = share
        self._on_waited, self._on_worked = on_waited, on_worked
        self._added: dict[str, float] = {}
        """Since when keys are dirty."""
        self._begun: dict[str, float] = {}
        """Since when keys are being worked on."""
        self._adds = self._retries = 0
        self._condition = threading.Condition()
        self._ready: Turns[tuple[str, str]] = Turns(workers)
        """Keys, each behind its share."""
        self._dirty: set[str] = set()
        """To be worked on: those in `_ready`, and those that are being worked on and were added again."""
        self._processing: dict[str, str] = {}
        """Keys, and whose share their places are of."""
        self._delayed: list[tuple[float, str]] = []
        """A heap. An entry counts only while `_due` has the same time for its key."""
        self._due: dict[str, float] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        """How often a key failed, each time after its backoff, and until when the last one lasts."""
        self._bucket = _Bucket(rate.retries_per_second, rate.burst, clock())
        self._closed = False

    def __len__(self) -> int:
        """Return how many keys wait for a worker; delayed ones do not count."""
        with self._condition:
            return self._ready.waiting

    def stats(self) -> QueueStats:
        """Return what the queue does now."""
        with self._condition:
            now = self._clock()
            busy = [now - since for since in self._begun.values()]
            return QueueStats(
                depth=self._ready.waiting,
                adds=self._adds,
                retries=self._retries,
                working=len(busy),
                unfinished_seconds=sum(busy),
                longest_seconds=max(busy, default=0.0),
            )

    def add(self, key: str) -> None:
        """Have a key worked on as soon as possible, once, however often it is added before."""
        with self._condition:
            self._add(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Have a key worked on after a delay, unless it is sooner anyway."""
        with self._condition:
            self._add_at(key, self._clock() + clamp_delay(seconds))

    def retry(self, key: str, at_least: float = 0.0) -> float:
        """Have a key that failed worked on after its backoff, but not before what the other side asked for.

        One that an event brought sooner, and that fails again, comes back when it would have: how often something
        happens says nothing of how long the other side needs.

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
        """Note that a key succeeded, or is gone: its backoff starts anew."""
        with self._condition:
            self._failures.pop(key, None)

    def get(self) -> str | None:
        """Wait for the next key; None once the queue is closed."""
        with self._condition:
            while True:
                self._take_due()
                if turn := self._ready.begin():
                    share, key = turn
                    self._dirty.discard(key)
                    self._processing[key] = share
                    now = self._begun[key] = self._clock()
                    _tell(self._on_waited, now - self._added.pop(key, now))
                    return key
                if self._closed:
                    return None
                self._condition.wait(clamp_wait(self._delayed[0][0] - self._clock()) if self._delayed else None)

    def done(self, key: str) -> None:
        """Note that a worker is through with a key."""
        with self._condition:
            self._ready.end(self._processing.pop(key))
            now = self._clock()
            _tell(self._on_worked, now - self._begun.pop(key, now))
            if key in self._dirty:
                self._line_up(key)
            self._condition.notify()  # a place is free, for whoever waits for it

    def close(self) -> None:
        """Take nothing more, and hand nothing more out: what waits is found again by whoever comes next."""
        with self._condition:
            self._closed = True
            self._ready.clear()
            self._dirty.clear()
            self._added.clear()
            self._delayed.clear()
            self._due.clear()
            self._condition.notify_all()

    def _add(self, key: str) -> None:
        self._due.pop(key, None)
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        self._adds += 1
        self._added[key] = self._clock()
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
        while self._delayed and self._delayed[0][0] <= now:
            when, key = heapq.heappop(self._delayed)
            if self._due.get(key) == when:
                self._add(key)
