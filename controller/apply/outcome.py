"""The result of each task of a plan, as execute.py returns it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from api.errors import BundleError
from controller.apply.drift.explanation import DriftedObject
from controller.apply.options import ApplyOptions
from controller.apply.plan import Task
from controller.apply.targets import Target
from controller.observe.health.presence import goes_when_done
from controller.observe.records import ObjectKey, Record


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


def find_started(
    options: ApplyOptions, outcomes: Iterable[Outcome], observed: Mapping[ObjectKey, Record]
) -> tuple[str, ...]:
    """Return how `status.startedJobs` names the Jobs of a revision that have been created and go when they are done.

    Recorded before the revision is installed in full: what else it contains may fail for long, and a Job that its TTL
    has removed meanwhile must not run again.

    Args:
        options: of the BundleDeployment.
        outcomes: of the pass.
        observed: the objects that carry its label.
    """
    written = {outcome.task.target.key for outcome in outcomes if outcome.record and not outcome.error}

    def _is_started(target: Target) -> bool:
        record = observed.get(target.key)
        is_there = record is not None and record.applied_digest == target.digest
        return is_there or target.key in written or options.is_started(target)

    jobs = (target for target in options.wanted.targets if goes_when_done(target.manifest))
    return tuple(sorted(target.started_as for target in jobs if _is_started(target)))
