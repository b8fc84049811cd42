"""When what failed may be tried again: backoff, and one book for sources, renderings, objects and repairs.

An entry belongs to a BundleDeployment and a key of its own (an object, the preparation), and to the fingerprint of what
was tried: something else is tried at once. Only the memory of this process: after a restart everything is tried again.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason, Retry

SLOW_SECONDS = 300.0
FIRST_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that grow with each failure in a row; seconds."""

    first: float
    longest: float
    factor: float = 2.0
    jitter: float = 0.0
    """At most this part more or less."""

    def delay(self, failures: int) -> float:
        """Return the delay after so many failures in a row, at least one; jitter left out."""
        return min(self.first * self.factor ** min(failures - 1, 30), self.longest)

    def choose_delay(self, failures: int) -> float:
        """Return the delay after so many failures in a row, at random within the jitter."""
        return self.delay(failures) * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - spreads load


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure that is remembered."""

    fingerprint: str
    error: BundleError
    count: int
    not_before: float
    """On the clock of the book; infinite: only when something else is tried; minus infinity: at any time."""


_TRANSIENT = Backoff(first=FIRST_SECONDS, longest=SLOW_SECONDS)


class Retries:
    """Thread-safe book of failures.

    Args:
        clock: monotonic seconds.
        jitter: factor around 1 that spreads what failed together.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = lambda: random.uniform(0.9, 1.1),  # noqa: S311 - spreads load, keeps no secret
    ) -> None:
        self._clock, self._jitter = clock, jitter
        self._failures: dict[str, dict[Hashable, Failure]] = {}
        self._ended: dict[str, tuple[Collection[Reason], float]] = {}
        """For which reasons failures were ended last, and until when they may come as if they were not."""
        self._lock = threading.Lock()

    def failed(self, name: str, key: Hashable, fingerprint: str, error: BundleError) -> Failure:
        """Note a failure of what `fingerprint` says; its class and its Retry-After set the next time."""
        with self._lock:
            entries = self._failures.setdefault(name, {})
            before = entries.get(key)
            count = before.count + 1 if before and before.fingerprint == fingerprint else 1
            not_before = min(self._clock() + self._delay(error, count), self._end_of_lag(name, error))
            entry = Failure(fingerprint=fingerprint, error=error, count=count, not_before=not_before)
            entries[key] = entry
            return entry

    def _delay(self, error: BundleError, count: int) -> float:
        if error.retry_after is not None and error.reason.retry is Retry.WAIT:
            return Backoff(first=error.retry_after, longest=SLOW_SECONDS).delay(count)
        if error.reason.retry is Retry.PERMANENT:
            return math.inf
        if error.reason.retry is Retry.TRANSIENT:
            return max(_TRANSIENT.delay(count) * self._jitter(), error.retry_after or 0)
        return SLOW_SECONDS * self._jitter()

    def _end_of_lag(self, name: str, error: BundleError) -> float:
        reasons, until = self._ended.get(name, ((), 0.0))
        return until if error.reason in reasons and self._clock() < until else math.inf

    def holding(self, name: str, key: Hashable, fingerprint: str) -> BundleError | None:
        """Return the failure for which this must not be tried yet; None if it may be tried now."""
        with self._lock:
            entry = self._failures.get(name, {}).get(key)
            held = entry and entry.fingerprint == fingerprint and self._clock() < entry.not_before
            return entry.error if entry and held else None

    def seconds_until(self, name: str, key: Hashable) -> float:
        """Return the seconds until one key may be tried; 0: now, infinite: not by itself."""
        with self._lock:
            entry = self._failures.get(name, {}).get(key)
            return max(entry.not_before - self._clock(), 0.0) if entry else 0.0

    def last(self, name: str, key: Hashable, fingerprint: str) -> BundleError | None:
        """Return what this failed with when it was tried last; None if it did not fail, or something else did."""
        with self._lock:
            entry = self._failures.get(name, {}).get(key)
            return entry.error if entry and entry.fingerprint == fingerprint else None

    def succeeded(self, name: str, key: Hashable) -> None:
        """Forget the failures of one key."""
        with self._lock:
            self._failures.get(name, {}).pop(key, None)

    def end_waits(self, name: str) -> None:
        """Let everything that waits for an event be tried at once."""
        with self._lock:
            entries = self._failures.get(name, {})
            for key in [key for key, entry in entries.items() if entry.error.reason.retry is Retry.WAIT]:
                del entries[key]

    def revise(self, name: str, key: Hashable, error: BundleError) -> None:
        """Say of a failure that is remembered what has become known since; its time stays."""
        with self._lock:
            entries = self._failures.get(name, {})
            if entry := entries.get(key):
                entries[key] = replace(entry, error=error)

    def end(self, name: str, reasons: Collection[Reason], *, lag: float = 0.0) -> None:
        """Let what failed for one of these reasons be tried at once.

        Args:
            name: of the BundleDeployment.
            reasons: that may not hold any more.
            lag: for so many seconds something may fail for them nevertheless, or has and is not noted yet: all is tried
                when they are over, and once.
        """
        with self._lock:
            until = self._clock() + lag
            self._ended[name] = (reasons, until)
            entries = self._failures.get(name, {})
            for key, entry in entries.items():
                if entry.error.reason in reasons:
                    entries[key] = replace(entry, not_before=min(entry.not_before, until))

    def forget(self, name: str) -> None:
        """Forget all failures of a BundleDeployment."""
        with self._lock:
            self._failures.pop(name, None)
            self._ended.pop(name, None)

    def seconds_to_next(self, name: str) -> float | None:
        """Return the seconds until the next thing may be tried; None if nothing is to be tried by itself.

        That something may be tried now is said once: it may be under way, or not be wanted any more.
        """
        with self._lock:
            entries = self._failures.get(name, {})
            times = [entry.not_before for entry in entries.values() if math.isfinite(entry.not_before)]
            now = self._clock()
            for key, entry in entries.items():
                if entry.not_before <= now:
                    entries[key] = replace(entry, not_before=-math.inf)
        return max(min(times) - now, 0.0) if times else None
