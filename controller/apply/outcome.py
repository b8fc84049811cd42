"""What became of each task of a plan: the values that carrying it out (execute.py) ends with."""

from __future__ import annotations

from dataclasses import dataclass

from api.errors import BundleError
from controller.apply.drift.explanation import DriftedObject
from controller.apply.plan import Task
from controller.observe.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a task."""

    task: Task
    error: BundleError | None = None
    """Why the object is not as it is wanted; None: it is."""
    postponed: bool = False
    """It was changed again and again: it is repaired later."""
    tried: bool = False
    """Whether something was sent, so that a failure is news."""
    record: Record | None = None
    """The object as the reply to our write showed it."""
    spared: bool = False
    """Fields of ours are somebody else's, and it stays so: spec.drift.mode is Report."""
    drift: DriftedObject | None = None
    """Of what is spared: what was changed; None: it has our values nevertheless."""
    repaired: bool = False
    """Somebody had changed it, and it was put right."""
    recreated: bool = False
    """It was deleted to change an immutable field, and is created again as soon as it is gone."""
    warnings: tuple[str, ...] = ()
    """Of the API server."""
