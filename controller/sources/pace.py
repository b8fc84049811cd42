"""Whether a call of a source may continue: until its deadline, while its servers respond in time and fast enough.

The rate is measured over all responses of a call together, so that many short ones gain nothing, and only while the
call waits for bytes, not while it processes them. A server that sends nothing is too slow, too.

Not here: cutting connections (transport.py), and killing git (git/process.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Network
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import describe_bytes

RATE_SECONDS = 30.0
"""Period over which the rate is measured."""
TIMED_OUT = "it timed out"


def check_deadline(access: Access) -> None:
    """Check that a call has not been canceled, and that its deadline has not passed.

    Raises: BundleError (Unreachable).
    """
    if access.cancelled.is_set():
        raise BundleError(Reason.UNREACHABLE, "canceled: the result is no longer needed", place=access.path)
    if time.monotonic() >= access.deadline:
        raise BundleError(Reason.UNREACHABLE, "timed out; will be retried automatically", place=access.path)


def too_slow(bytes_per_second: int) -> str:
    """Return what is wrong with a server below the minimum rate."""
    return f"it sends less than {describe_bytes(bytes_per_second)}/s"


class Pace:
    """How fast the servers of one call respond. One thread reads, another may call `problem`.

    Args:
        network: how long a server may be silent, and its minimum rate.
        clock: monotonic seconds.
        until: when a header must have arrived, if that is sooner; the first period of the rate then is as long, and
            includes the time to wait for the header.
    """

    def __init__(
        self, network: Network, clock: Callable[[], float] = time.monotonic, until: float | None = None
    ) -> None:
        self._silent_seconds, self._rate, self._clock = network.idle_seconds, network.bytes_per_second, clock
        self._until = math.inf if until is None else until
        self._period = RATE_SECONDS if until is None else max(until - clock(), 0.0)
        self._asked: float | None = None
        self._reading: float | None = None
        self._spent, self._bytes = 0.0, 0
        self._problem = ""

    def ask(self) -> None:
        """Start waiting for a response."""
        self._asked = self._clock()

    def answered(self) -> None:
        """Stop waiting for a response: its header has arrived, or the request has failed."""
        asked, self._asked = self._asked, None
        if asked is not None and math.isfinite(self._until):
            self._spent += self._clock() - asked

    def begin_read(self) -> None:
        """Start waiting for bytes of a body."""
        self._reading = self._clock()

    def end_read(self, count: int) -> None:
        """Count the bytes that have arrived."""
        self._bytes += count
        if self.problem():
            return
        if self._reading is not None:
            spent, self._reading = self._clock() - self._reading, None  # another thread must never count both
            self._spent += spent
        if self._spent >= self._period:
            self._spent, self._bytes, self._until, self._period = 0.0, 0, math.inf, RATE_SECONDS

    def problem(self) -> str:
        """Return what is wrong with the servers; '' if they are fast enough. The first problem is final."""
        if not self._problem:
            self._problem = self._find_problem(self._clock())
        return self._problem

    def _find_problem(self, now: float) -> str:
        asked, reading = self._asked, self._reading
        if asked is not None and (now - asked >= self._silent_seconds or now >= self._until):
            return TIMED_OUT
        spent = self._spent + (now - reading if reading is not None else 0.0)
        return too_slow(self._rate) if spent >= self._period and self._bytes < self._rate * spent else ""
