"""A program and its children: one process group in a session of its own, watched and killed as one.

Not here: confinement (confinement.py), and the meaning of output.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import BinaryIO, Self

TICK = 0.05
"""Longest time between two calls of a check, in seconds."""
NICENESS = 10
"""Above that of the controller, whose own is 0: a tenth of its weight for the scheduler."""
_FIRST_PAUSE = 0.001  # most programs end right after their output
CHUNK = 64 * 1024
"""Most bytes that one read of a pipe returns."""


class ProcessGroup:
    """A running program that leads a process group, as a context manager that kills the whole group on exit.

    The process must have been started with `start_new_session`. Thread-safe: nothing is killed after the program was
    reaped, since its PID may have been reused. The group gets the processor while the controller does not need it, so
    that what a tenant has to compute delays passes over the BundleDeployments of others as little as possible.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._reaping = threading.Lock()
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PGRP, process.pid, NICENESS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def kill(self) -> None:
        """Kill the whole group, unless the program was reaped."""
        with self._reaping:
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, check: Callable[[], None] | None = None) -> int:
        """Wait for the program as `await_end` does, and reap it; see `reap` for the result."""
        self.await_end(check)
        return self.reap()

    def await_end(self, check: Callable[[], None] | None = None) -> None:
        """Wait until the program ends and kill the rest of the group; the program keeps its PID until it is reaped.

        `check` is called at least every `TICK`; what it raises ends the wait.
        """
        if check is None:
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._poll(check)
        self.kill()

    def reap(self) -> int:
        """Return the exit status of a program that has ended; negative: the signal that killed it."""
        with self._reaping:
            return self._process.wait()

    def _poll(self, check: Callable[[], None]) -> None:
        pause = _FIRST_PAUSE
        while os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            check()
            time.sleep(pause)
            pause = min(2 * pause, TICK)

    def close(self) -> None:
        """Kill the group if it still runs, and close the pipes."""
        if self._process.returncode is None:
            self.kill()
            self.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()


def read_pipes(
    takers: Mapping[BinaryIO, Callable[[bytes], None]],
    check: Callable[[], None],
    ended: threading.Event | None = None,
) -> None:
    """Pass the output of each pipe to its taker until all pipes are closed, or `ended` is set and no data is pending.

    `check` is called at least every `TICK`; what it or a taker raises ends the reading.
    """
    with selectors.DefaultSelector() as selector:
        for pipe, take in takers.items():
            selector.register(pipe, selectors.EVENT_READ, take)
        while selector.get_map():
            ready = selector.select(TICK)
            if not ready and ended and ended.is_set():
                return
            for key, _ in ready:
                data = os.read(key.fd, CHUNK)
                key.data(data)
                if not data:
                    selector.unregister(key.fileobj)
            check()
