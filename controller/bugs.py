"""Bugs: exceptions that no one expected. The log has their traceback; a condition says where in the log.

Not here: threads that a bug terminates (processes/supervision.py).
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TypeVar

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason

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
