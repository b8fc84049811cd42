"""A clock that only the test moves, and an event that nobody waits for."""

from __future__ import annotations

import threading


class Clock:
    """Stands for `time.monotonic` and `time.time`; `now` is in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Unwaited(threading.Event):
    """Says that a call of a source is no longer needed; who waits on it for a while goes on at once."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set() if timeout is not None else super().wait()
