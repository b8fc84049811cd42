"""Spare Python's garbage collector what becomes known at startup.

It visits all objects each time their number has grown by a quarter, although nothing in the first lists is garbage:
with 10,000 BundleDeployments, that was half of the CPU of reading them. So until these lists are complete, it visits
nothing twice. Garbage in reference cycles from that time is not freed, which is little: most is freed without it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

LONGEST_SECONDS = 300.0
"""A kind whose first list keeps failing must not prolong the start."""
_OLDEST = 2
"""The generation that has everything."""


class StartCollector:
    """What the collector does until all is known; used by one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends_at = 0.0

    def begin(self) -> None:
        """Visit nothing twice from now on."""
        self._ends_at = self._clock() + LONGEST_SECONDS
        gc.callbacks.append(_freeze_visited)

    def end_once(self, is_over: Callable[[], bool]) -> None:
        """Collect as usual from now on, except what exists already, if the start is over; call it repeatedly."""
        if _freeze_visited in gc.callbacks and (is_over() or self._clock() >= self._ends_at):
            gc.callbacks.remove(_freeze_visited)
            gc.freeze()


def _freeze_visited(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == _OLDEST:
        gc.freeze()
