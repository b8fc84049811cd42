"""What passes report for metrics (the duration of phases, source requests, and drift), and how they report bugs.

The core reports to an Observer that it is given, by default one that ignores everything. A bug is an exception that no
one expected: the log has its traceback, a condition says where in the log. Not here: the metrics themselves
(manager/metrics.py), and threads that a bug terminates (processes/supervision.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import TypeVar

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason


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
def timed(observer: Observer, phase: Phase) -> Iterator[None]:
    """Report the duration of a block as a phase that fails if it raises."""
    started = time.monotonic()
    try:
        yield
    except BaseException:
        observer.phase_ended(phase, time.monotonic() - started, succeeded=False)
        raise
    observer.phase_ended(phase, time.monotonic() - started, succeeded=True)


reconcile_id: ContextVar[str] = ContextVar("reconcile_id", default="")
"""ID of the pass that the current thread runs, or works for; in each log record."""


Failure = TypeVar("Failure", bound=BundleError)


class InternalError(BundleError):
    """A bug ended a pass, or work for it.

    Args:
        bug: only its type is published, since its text may contain anything.
    """

    def __init__(self, bug: BaseException) -> None:
        kind = type(bug).__name__
        problem = f"the controller has a bug ({kind}); report it with the traceback"
        where = "that its log contains under this ID; will be retried"
        super().__init__(Reason.INTERNAL_ERROR, f"reconcileID {reconcile_id.get() or 'unknown'}: {problem} {where}")
        self.kind = kind


def keep_first(last: Failure | None, error: Failure) -> Failure:
    """Return the last error if this one is the same bug, so that status keeps one ID however often it is retried."""
    is_same = isinstance(last, InternalError) and isinstance(error, InternalError) and last.kind == error.kind
    return last if last is not None and is_same else error
