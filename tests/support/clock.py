"""A clock that only the test moves."""

from __future__ import annotations


class Clock:
    """Stands for `time.monotonic` and `time.time`; `now` is in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
