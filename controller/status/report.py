"""What a pass found and did, as values: conditions.py and summary.py make the status of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from api.errors import BundleError
from api.v1alpha2.types import SourcePin
from controller.apply.drift.explanation import DriftedObject
from controller.apply.outcome import Outcome
from controller.apply.prune import Removal
from controller.observe.progress import Progress
from controller.observe.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """When to come back to a BundleDeployment if no event comes first."""

    after: float | None = None
    """Seconds; None: only an event brings the next pass."""
    failed: bool = False
    """The pass could not go on: come back with backoff, after `after` at the earliest."""
    cause: str = field(default="", compare=False)
    """Why to come back then, for logs."""


NEVER = Requeue()
UNKNOWN_SECONDS = 30.0
"""When to come back where a kind is not known yet: the end of its first list brings a pass sooner, and so does what may
have it served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One pass over a BundleDeployment that is not being deleted."""

    failure: BundleError | None = None
    """Why the revision that the spec asks for cannot be had."""
    poll_failure: BundleError | None = None
    """Why the sources could not be asked again; their pins stay in use."""
    sources: tuple[SourcePin, ...] | None = None
    """Their pins; None: as status has them."""
    handled_reconcile_at: str | None = None
    """The annotation that was obeyed; None: as status has it."""
    fetching: str = ""
    """What is being done to get it; empty: it is at hand."""
    unknown: tuple[str, ...] = ()
    """Kinds whose objects are not known yet."""
    wanted: str = ""
    """The revision that the spec asks for; empty: not known."""
    applied: bool = False
    """The revision that was worked on is on the cluster in full."""
    revision: str = ""
    """The revision that was worked on: the wanted one, or on a failure what was applied last."""
    outcomes: tuple[Outcome, ...] = ()
    removals: tuple[Removal, ...] = ()
    awaiting_prune: tuple[Record, ...] = ()
    """Objects of an older revision that stay for now."""
    drifted: tuple[DriftedObject, ...] = ()
    """Objects that somebody has changed, and that are not repaired."""
    conflicts: tuple[DriftedObject, ...] = ()
    """Objects that somebody keeps changing."""
    progress: Progress | None = None
    """None before the first apply."""
    install_namespace: str = ""
    managed_state: str = ""
    managed_kinds: tuple[str, ...] = ()
    skipped_kinds: tuple[str, ...] | None = None
    """Of optional objects that the cluster does not serve; None: as status says."""
    warnings: tuple[str, ...] | None = None
    """Of the API server; None: nothing was sent."""

    @property
    def errors(self) -> list[BundleError]:
        """All that went wrong but polls."""
        found = [self.failure, *(outcome.error for outcome in self.outcomes), *(each.error for each in self.removals)]
        return [error for error in found if error]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """One pass over a BundleDeployment that is being deleted."""

    remaining: int
    blockers: str = ""
    """What is not going away although it was asked to a while ago."""
    error: BundleError | None = None
