"""Whether a server keeps up: it has to begin its answer in time, and to send at a minimum rate from then on.

The rate is measured over all answers of one call together, so that many short ones gain nothing, and over the time in
which we wait for bytes, not that in which we work on them. A server that sends nothing at all is too slow, too.

Not here: the time that a call has in all (deadline.py), and ending a connection (connections.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from api.plugins import KIBIBYTE, Network

RATE_SECONDS = 30.0
"""Over which the rate is measured."""


class Pace:
    """Of the servers that one call of a source talks to. One thread reads, another one may look at `problem`.

    Args:
        network: how long a server may be silent, and how fast it has to be.
        clock: monotonic seconds.
    """

    def __init__(self, network: Network, clock: Callable[[], float] = time.monotonic) -> None:
        self._silent_seconds, self._rate, self._clock = network.idle_seconds, network.bytes_per_second, clock
        self._asked: float | None = None
        self._reading: float | None = None
        self._spent, self._bytes = 0.0, 0
        self._problem = ""

    def ask(self) -> None:
        """Note that an answer is awaited."""
        self._asked = self._clock()

    def answered(self) -> None:
        """Note that the header of an answer is there, or will not come."""
        self._asked = None

    def begin_read(self) -> None:
        """Note that bytes of a body are awaited."""
        self._reading = self._clock()

    def end_read(self, count: int) -> None:
        """Note how many bytes have come."""
        self._bytes += count
        if self.problem():
            return
        if self._reading is not None:
            spent, self._reading = self._clock() - self._reading, None  # never both, for whoever looks meanwhile
            self._spent += spent
        if self._spent >= RATE_SECONDS:
            self._spent, self._bytes = 0.0, 0

    def problem(self) -> str:
        """Return what is wrong with the servers; '' if they keep up. What was wrong once stays so."""
        if not self._problem:
            self._problem = self._find_problem(self._clock())
        return self._problem

    def _find_problem(self, now: float) -> str:
        asked, reading = self._asked, self._reading
        if asked is not None and now - asked >= self._silent_seconds:
            return "it does not answer in time"
        spent = self._spent + (now - reading if reading is not None else 0.0)
        if spent >= RATE_SECONDS and self._bytes < self._rate * spent:
            return f"it sends less than {self._rate // KIBIBYTE} KiB a second"
        return ""
