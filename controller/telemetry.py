"""What passes report for metrics: the duration of phases, source requests, and drift.

The core reports to an Observer that it is given, by default one that ignores everything. Not here: the metrics
themselves (manager/metrics.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum


class Phase(Enum):
    """A part of the work on a BundleDeployment that takes time."""

    RESOLVE = "resolve"
    FETCH = "fetch"
    RENDER = "render"
    APPLY = "apply"
    PRUNE = "prune"


class SourceResult(Enum):
    """The result of a request to a source."""

    RESOLVED = "resolved"
    FETCHED = "fetched"
    REUSED = "reused"
    """The content was in the content store, so nothing was requested."""
    NOT_MODIFIED = "not modified"
    """A poll found an unchanged digest."""
    ERROR = "error"


class Observer:
    """Ignores everything; override the methods of interest. They are called on any thread and must be fast."""

    def phase_ended(self, phase: Phase, seconds: float, *, succeeded: bool) -> None:
        """Report the end of a phase."""

    def source_asked(self, kind: str, result: SourceResult) -> None:
        """Report a request to a source, or that its content was reused."""

    def bug_found(self) -> None:
        """Report a bug that ended work for a pass."""

    def drift_found(self, detected: int, repaired: int) -> None:
        """Report how many objects were found modified, and how many were repaired."""


DEAF = Observer()


@contextmanager
def timed(observer: Observer, phase: Phase, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Report the duration of a block as a phase that fails if it raises."""
    started = clock()
    try:
        yield
    except BaseException:
        observer.phase_ended(phase, clock() - started, succeeded=False)
        raise
    observer.phase_ended(phase, clock() - started, succeeded=True)
