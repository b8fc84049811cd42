"""The result of each task of a plan, as execute.py returns it."""

from __future__ import annotations

from dataclasses import dataclass

from api.errors import BundleError
from controller.apply.drift.explanation import DriftedObject
from controller.apply.plan import Task
from controller.observe.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a task."""

    task: Task
    error: BundleError | None = None
    """Why the object is not as wanted; None: it is."""
    postponed: bool = False
    """Whether its repair was put off, since it is modified repeatedly."""
    tried: bool = False
    """Whether a request was sent, so that a failure is news."""
    record: Record | None = None
    """The object as the reply to our write shows it."""
    spared: bool = False
    """Whether drift was found and not repaired, since spec.drift.mode is Report."""
    drift: DriftedObject | None = None
    """What was modified, if it was spared; None: its values are still ours."""
    repaired: DriftedObject | None = None
    """What another client had modified or deleted, if it was repaired."""
    recreated: bool = False
    """Whether it was deleted because an immutable field changed; it is created again once it is gone."""
    warnings: tuple[str, ...] = ()
    """From the API server."""
