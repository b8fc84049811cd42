"""Whether a git child that talks to a server gets on: its folder has to grow at the minimum rate, or it has to compute.

Git bounds the pace by itself over http only (`http.lowSpeedLimit`); over ssh nothing else does. Resolving deltas writes
little and may take long, so processor time counts as progress.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from api.plugins import KIBIBYTE, Network
from controller.sources.pace import RATE_SECONDS

_COMPUTING_SECONDS = 1.0
"""Processor time within `RATE_SECONDS` that a child which only waits for a server does not come near."""
# Of /proc/PID/stat, behind the name of the program (proc_pid_stat(5)).
_SESSION, _TIMES = 3, slice(11, 15)


class GitPace:
    """Of one child.

    Args:
        session: whose processes they are.
        network: how long a server may be silent, and how fast it has to be.
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
        self._begun = self._since = clock()
        self._first: int | None = None
        self._size, self._spent = 0, 0.0

    def problem(self, size: int) -> str:
        """Return what is wrong with the server; '' if it keeps up.

        Args:
            size: of the folder in bytes.
        """
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
        if size <= self._first and now - self._begun < self._network.idle_seconds:
            return ""  # nothing has come yet
        return f"it sends less than {rate // KIBIBYTE} KiB a second"


def processor_seconds(session: int) -> float:
    """Return the processor time that the processes of a session have used, and those that they have waited for."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[_SESSION]) == session:
                ticks += sum(map(int, fields[_TIMES]))
    return ticks / os.sysconf("SC_CLK_TCK")
