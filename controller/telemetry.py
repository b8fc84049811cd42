"""What a pass tells about itself, for metrics: how long its phases took, what sources were asked, what has drifted.

The core tells, and knows nobody who listens: an Observer is passed in where phases happen, by default one that hears
nothing. Not here: metrics themselves (manager/metrics.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum


class Phase(Enum):
    """A part of the work on one BundleDeployment that takes time."""

    RESOLVE = "resolve"
    FETCH = "fetch"
    RENDER = "render"
    APPLY = "apply"
    PRUNE = "prune"


class SourceResult(Enum):
    """What became of asking for one source."""

    RESOLVED = "resolved"
    FETCHED = "fetched"
    REUSED = "reused"
    """Its content was in the content store: nobody was asked."""
    NOT_MODIFIED = "not modified"
    """A poll found the digest that is in use."""
    ERROR = "error"


class Observer:
    """Hears nothing; those who listen override what they want to know. Called on any thread: keep it short."""

    def phase_ended(self, phase: Phase, seconds: float, *, succeeded: bool) -> None:
        """A phase ended."""

    def source_asked(self, kind: str, result: SourceResult) -> None:
        """A source of this kind was asked for, or found in the content store."""

    def drift_found(self, detected: int, repaired: int) -> None:
        """So many objects were found changed by somebody, and so many put right again."""


DEAF = Observer()


@contextmanager
def timed(observer: Observer, phase: Phase, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Tell how long a block takes, and whether it raises."""
    started = clock()
    try:
        yield
    except BaseException:
        observer.phase_ended(phase, clock() - started, succeeded=False)
        raise
    observer.phase_ended(phase, clock() - started, succeeded=True)
