"""A program in a session of its own, with all that it starts: watched while it runs, and ended as one process group.

Not here: what it may use and reach (confinement.py), what is too much, and what its output means.
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
"""Seconds between two calls of a check."""
_MOMENT = 0.001  # the first pause, for a program that ends with its output
CHUNK = 64 * 1024
"""Bytes that are read from a pipe at once, at most."""


class ProcessGroup:
    """A running program that leads a process group. A context manager; nothing of the group is left when it ends.

    Thread-safe: once the program is reaped its number may be that of another one, and nothing is killed any more.

    Args:
        process: was started with `start_new_session`.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._reaping = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def kill(self) -> None:
        """Kill the program and all that it has started, if it was not reaped yet."""
        with self._reaping:
            if self._process.returncode is None:
                self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, check: Callable[[], None] | None = None) -> int:
        """Wait until the program ends, kill what it has left, and reap it.

        Args:
            check: see `await_end`.

        Returns: its exit status; below zero: the signal that ended it.
        """
        self.await_end(check)
        return self.reap()

    def await_end(self, check: Callable[[], None] | None = None) -> None:
        """Wait until the program ends, and kill what it has left; it keeps its number until it is reaped.

        Args:
            check: is called meanwhile, at least every `TICK`; what it raises ends the wait.
        """
        if check is None:
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._poll(check)
        self.kill()

    def reap(self) -> int:
        """Return the exit status of a program that has ended; below zero: the signal that ended it."""
        with self._reaping:
            return self._process.wait()

    def _poll(self, check: Callable[[], None]) -> None:
        pause = _MOMENT
        while os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            check()
            time.sleep(pause)
            pause = min(2 * pause, TICK)

    def close(self) -> None:
        """Kill what still runs, and close the pipes."""
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
    """Hand on what comes out of pipes, until all of them are closed.

    Args:
        takers: what takes the bytes of each pipe.
        check: is called after each piece, and at least every `TICK`; what it or a taker raises ends the reading.
        ended: once it is set, pipes that bring nothing are not waited for.
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
