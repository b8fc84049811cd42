"""When a failure may be retried: backoff, and one register of failures of sources, renderings, objects and repairs.

A failure belongs to a key (such as an object, or the preparation) and the fingerprint of the attempt: an attempt with
another fingerprint is made immediately. Failures are kept in memory only: after a restart everything is retried.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, replace

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason, Retry

OF_SECRETS = frozenset({Reason.SECRET_NOT_FOUND, Reason.SECRET_INVALID, Reason.SECRET_FORBIDDEN})
"""These end early only if the Secret, which is followed by name, or rights change."""
SLOW_SECONDS = 300.0
FIRST_SECONDS = 1.0


def waits_for_cluster(reason: Reason) -> bool:
    """Whether a change of another object of the cluster may end a failure, such as a new CustomResourceDefinition."""
    return reason.retry is Retry.WAIT and reason not in OF_SECRETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays in seconds that grow with each consecutive failure."""

    first: float
    longest: float
    factor: float = 2.0
    jitter: float = 0.0
    """Largest random deviation, as a fraction."""

    def delay(self, failures: int) -> float:
        """Return the delay after so many consecutive failures (at least one), without jitter."""
        return min(self.first * self.factor ** min(failures - 1, 30), self.longest)

    def choose_delay(self, failures: int) -> float:
        """Return the delay after so many consecutive failures, with jitter."""
        return self.delay(failures) * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - spreads load


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure that was recorded."""

    fingerprint: str
    error: BundleError
    count: int
    not_before: float
    """On the clock of `Retries`; infinite: never, only another attempt; minus infinity: at any time."""


DELAYS = {
    Retry.TRANSIENT: Backoff(first=FIRST_SECONDS, longest=SLOW_SECONDS),
    Retry.SLOW: Backoff(first=SLOW_SECONDS, longest=SLOW_SECONDS),
    Retry.NONE: Backoff(first=SLOW_SECONDS, longest=SLOW_SECONDS),  # work in progress
    Retry.WAIT: Backoff(first=SLOW_SECONDS, longest=SLOW_SECONDS),  # unless what it waits for has happened before
    Retry.PERMANENT: Backoff(first=math.inf, longest=math.inf),  # until the spec, or what it refers to, is changed
}
"""How long a failure of a pass lasts. Only requests that end within a call are repeated sooner (tenacity), and a pass
that the API server has failed (the work queue)."""


class Retries:
    """Thread-safe: the failures of one BundleDeployment; a jitter factor spreads retries of simultaneous ones."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = lambda: random.uniform(0.9, 1.1),  # noqa: S311 - spreads load
    ) -> None:
        self._clock, self._jitter = clock, jitter
        self._failures: dict[Hashable, Failure] = {}
        self._ended: tuple[Collection[Reason], float] = ((), 0.0)
        """Reasons that `end` was called for last, and the end of its lag."""
        self._lock = threading.Lock()

    def failed(self, key: Hashable, fingerprint: str, error: BundleError) -> Failure:
        """Record a failed attempt; the retry class of its reason and its Retry-After determine the next attempt."""
        with self._lock:
            before = self._failures.get(key)
            count = before.count + 1 if before and before.fingerprint == fingerprint else 1
            not_before = min(self._clock() + self._delay(error, count), self._end_of_lag(error))
            entry = Failure(fingerprint=fingerprint, error=error.without_frames(), count=count, not_before=not_before)
            self._failures[key] = entry
            return entry

    def _delay(self, error: BundleError, count: int) -> float:
        retry = error.reason.retry
        if error.retry_after is not None and retry in (Retry.WAIT, Retry.NONE):
            return Backoff(first=error.retry_after, longest=SLOW_SECONDS).delay(count)
        asked = error.retry_after or 0 if retry is Retry.TRANSIENT else 0
        return max(DELAYS[retry].delay(count) * self._jitter(), asked)

    def _end_of_lag(self, error: BundleError) -> float:
        reasons, until = self._ended
        return until if error.reason in reasons and self._clock() < until else math.inf

    def holding(self, key: Hashable, fingerprint: str) -> BundleError | None:
        """Return the error because of which this attempt must wait; None if it may be made now."""
        entry = self._find(key, fingerprint)
        return entry.error if entry and self._clock() < entry.not_before else None

    def seconds_until(self, key: Hashable) -> float:
        """Return the seconds until a key may be retried; 0: now, infinite: not automatically."""
        entry = self._find(key)
        return max(entry.not_before - self._clock(), 0.0) if entry else 0.0

    def last(self, key: Hashable, fingerprint: str) -> BundleError | None:
        """Return the error of the last attempt if it had this fingerprint and failed."""
        entry = self._find(key, fingerprint)
        return entry.error if entry else None

    def _find(self, key: Hashable, fingerprint: str | None = None) -> Failure | None:
        with self._lock:
            entry = self._failures.get(key)
        return entry if entry and fingerprint in (None, entry.fingerprint) else None

    def succeeded(self, key: Hashable) -> None:
        """Forget the failures of a key."""
        with self._lock:
            self._failures.pop(key, None)

    def end_waits(self) -> None:
        """Allow an immediate retry of everything that a change of the cluster may end."""
        with self._lock:
            for key in [key for key, entry in self._failures.items() if waits_for_cluster(entry.error.reason)]:
                del self._failures[key]

    def revise(self, key: Hashable, error: BundleError) -> None:
        """Replace the error of a recorded failure by a more precise one; its retry time remains."""
        with self._lock:
            if entry := self._failures.get(key):
                self._failures[key] = replace(entry, error=error.without_frames())

    def end(self, reasons: Collection[Reason], *, lag: float = 0.0) -> None:
        """Allow a retry of everything that failed for one of these reasons, which may no longer apply.

        Within `lag` seconds attempts may still fail for them, or be recorded late: all are retried once, after it.
        """
        with self._lock:
            until = self._clock() + lag
            self._ended = (reasons, until)
            for key, entry in self._failures.items():
                if entry.error.reason in reasons:
                    self._failures[key] = replace(entry, not_before=min(entry.not_before, until))

    def clear(self) -> None:
        """Forget all failures."""
        with self._lock:
            self._failures.clear()
            self._ended = ((), 0.0)

    def seconds_to_next(self) -> float | None:
        """Return the seconds until the next retry is due; None if nothing is retried automatically.

        A retry that is due already is returned only once: it may have started, or no longer be wanted.
        """
        with self._lock:
            times = [entry.not_before for entry in self._failures.values() if math.isfinite(entry.not_before)]
            now = self._clock()
            for key, entry in self._failures.items():
                if entry.not_before <= now:
                    self._failures[key] = replace(entry, not_before=-math.inf)
        return max(min(times) - now, 0.0) if times else None
