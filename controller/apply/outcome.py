"""For whom a plan is carried out, and what became of each of its tasks: the values around execute.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from api.errors import BundleError
from controller.apply.ledger import Ledger
from controller.apply.ownership import Exists, Owner
from controller.apply.plan import Task
from controller.apply.targets import Target, TargetSet
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
    warnings: tuple[str, ...] = ()
    """Of the API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """For whom, and under which rules, a plan is carried out."""

    owner: Owner
    orphan: bool
    collision_protection: str
    install_namespace: str
    wish: str
    """Generation and annotation: another one lets everything that failed be tried again at once."""
    wanted: TargetSet
    installed: bool
    """The wanted revision is installed in full already."""
    ledger: Ledger
    exists: Exists
    proceed: Callable[[], bool]
    """False as soon as the BundleDeployment is paused, deleted or changed: then nothing more is sent."""
    gate: Callable[[], BundleError | None] = lambda: None
    """Asked once, before anything but Namespaces, CustomResourceDefinitions and classes is sent: why that waits."""

    def attempt(self, target: Target) -> str:
        """Return what is tried with an object: its failures are remembered by that."""
        return f"{target.digest} {self.wish}"
