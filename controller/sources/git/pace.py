"""Whether a git child that talks to a server makes progress: its folder must grow at the minimum rate, or it computes.

Git limits the pace itself over http only (`http.lowSpeedLimit`), not over ssh. Resolving deltas writes little and may
take long, so processor time counts as progress.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from api.plugins import Network
from controller.sources.pace import RATE_SECONDS, too_slow

_COMPUTING_SECONDS = 1.0
"""Processor time within `RATE_SECONDS` that a child needs far less of while it waits for a server."""
# Fields of /proc/PID/stat after the name of the program (proc_pid_stat(5)).
_SESSION, _TIMES = 3, slice(11, 15)


class GitPace:
    """The progress of one child.

    Args:
        session: of the child's processes.
        network: how long a server may be silent, and its minimum rate.
        clock: monotonic seconds.
        computed: processor time of a session so far, in seconds.
    """

    def __init__(
        self,
        session: int,
        network: Network,
        clock: Callable[[], float] = time.monotonic,
        computed: Callable[[int], float] | None = None,
    ) -> None:
        self._session, self._network, self._clock = session, network, clock
        self._computed = computed or processor_seconds
        self._started = self._since = clock()
        self._first: int | None = None
        self._size, self._spent = 0, 0.0

    def problem(self, size: int) -> str:
        """Return what is wrong with the server, given the size of the folder in bytes; '' if it is fast enough."""
        now = self._clock()
        if self._first is None:
            self._first = self._size = size
        elapsed = now - self._since
        if elapsed < RATE_SECONDS:
            return ""
        spent = self._computed(self._session)
        rate = self._network.bytes_per_second
        if size - self._size >= rate * elapsed or spent - self._spent >= _COMPUTING_SECONDS:
            self._since, self._size, self._spent = now, size, spent
            return ""
        if size <= self._first and now - self._started < self._network.idle_seconds:
            return ""  # nothing has arrived yet
        return too_slow(rate)


def processor_seconds(session: int) -> float:
    """Return the processor time used by the processes of a session, and by the children that they have waited for."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has exited
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[_SESSION]) == session:
                ticks += sum(map(int, fields[_TIMES]))
    return ticks / os.sysconf("SC_CLK_TCK")
