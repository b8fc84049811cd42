"""What a pass found and did, as values: summary.py turns them into a status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from typing import TYPE_CHECKING

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.status import (
    Changes,
    HistoryEntry,
    Leftover,
    LookedUp,
    NotReady,
    Pending,
    Rollback,
    SourcePin,
    Stray,
    Wave,
)
from rukpak.controller.content.limits import list_first

if TYPE_CHECKING:  # slow to import, and verbs only describe what status has
    from rukpak.controller.apply.drift import DriftedObject
    from rukpak.controller.apply.plan import Outcome
    from rukpak.controller.apply.removal import Removal
    from rukpak.controller.formats.objects import ObjectKey
    from rukpak.controller.observe.progress import Progress
    from rukpak.controller.observe.records import Record

FAILED = (Reason.FAILED, Reason.PROGRESS_DEADLINE_EXCEEDED)
"""Reasons of Healthy that do not end without a person."""


def find_failure(report: Report, entry: HistoryEntry, deadline: float, now: datetime) -> BundleError | None:
    """Return why a revision that is being applied, or was applied last, has failed; None if it has not.

    A hook or an object that has failed counts immediately, an object that was refused after the deadline.

    Args:
        report: of a pass.
        entry: of the revision.
        deadline: `spec.progressDeadline` in seconds.
        now: the time of day.
    """
    if report.failure and report.failure.reason is Reason.HOOK_FAILED and report.revision == entry.revision:
        return report.failure
    if report.fetching or report.failure or report.revision != entry.revision:
        return None
    refusals = [outcome.error for outcome in report.outcomes if outcome.error and outcome.error.reason.retry.stalls]
    if refusals and seconds_to_deadline(report, entry, deadline, now) <= 0:
        return refusals[0]
    health = report.progress.shown if report.progress else None
    # Objects that were refused are among those that count as failed.
    if health and health.reason in FAILED and health.failed > len(refusals):
        return BundleError(health.reason, health.message)
    return None


def seconds_to_deadline(report: Report, entry: HistoryEntry, deadline: float, now: datetime) -> float:
    """Return the seconds until objects of a revision that are refused count as failed; not positive if they do.

    It counts from the first object of the revision on, or of the wave that is being applied.
    """
    began = report.wave.since if report.wave else entry.started_at
    return deadline - (now - began).total_seconds() if began else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A revision that may not be applied, while another one is kept on the cluster."""

    revision: str
    """Its digest."""
    error: BundleError
    """Why: AwaitingApproval or Denied."""
    pending: Pending | None = None
    """What status shows of it; None if it does not wait."""
    problems: tuple[BundleError, ...] = ()
    """What would prevent its installation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One pass over a BundleDeployment that is not being deleted."""

    failure: BundleError | None = None
    """Why the wanted revision is not available."""
    poll_failure: BundleError | None = None
    """Why the sources could not be re-resolved; their pins remain in use."""
    held: Held | None = None
    """The revision that the spec asks for, if it may not be applied; `wanted` is the one that is kept."""
    rollback: Rollback | None = None
    """The rollback that begins with this pass; None: as in status."""
    unkept: BundleError | None = None
    """Why the installed revision is not stored again yet, after another client deleted or changed it; objects are as
    they should be."""
    is_lost: bool = False
    """The revision on the cluster is neither stored nor made again yet, so that its objects are not known."""
    lost: frozenset[str] = frozenset()
    """The digests of older revisions that are not stored any more."""
    sources: tuple[SourcePin, ...] | None = None
    """Their pins; None: unchanged."""
    handled_reconcile_at: str | None = None
    """The value of the annotation that was handled; None: unchanged."""
    fetching: str = ""
    """What is being done to make the wanted revision available, or to find out whether it is still that; empty:
    nothing."""
    unknown: tuple[str, ...] = ()
    """Kinds that are not listed yet."""
    wanted: str = ""
    """The digest of the wanted revision; empty: not known."""
    applied: bool = False
    """`revision` is applied in full."""
    wave: Wave | None = None
    """The wave of `revision` that is being applied; None: unchanged."""
    revision: str = ""
    """The digest that the pass worked on: the wanted one, or after a failure the one applied last."""
    bundle: str = ""
    """What the bundle of `revision` calls itself."""
    pins: tuple[SourcePin, ...] | None = None
    """What the sources of `revision` were resolved to; None: unchanged."""
    looked_up: tuple[LookedUp, ...] | None = None
    """What `revision` was rendered with in addition; None: unchanged."""
    outcomes: tuple[Outcome, ...] = ()
    removals: tuple[Removal, ...] = ()
    awaiting_prune: tuple[Record, ...] = ()
    """Objects of older revisions that are kept for now."""
    drifted: tuple[DriftedObject, ...] = ()
    """Objects that were modified and are not repaired."""
    handed_over: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Objects that another BundleDeployment has taken over, with its name."""
    conflicts: tuple[DriftedObject, ...] = ()
    """Objects that another client keeps changing, also while they are as the bundle has them."""
    strays: tuple[ObjectKey, ...] | None = None
    """Objects with the marks of the BundleDeployment that no revision names, in order; None: unchanged."""
    progress: Progress | None = None
    """None before the first apply."""
    install_namespace: str = ""
    """Empty: unchanged."""
    managed_state: str | None = None
    """None: unchanged; empty: work is left."""
    managed_kinds: tuple[str, ...] | None = None
    """None: unchanged."""
    skipped_kinds: tuple[str, ...] | None = None
    """Kinds of optional objects, which the cluster does not serve; None: unchanged."""
    started_jobs: tuple[str, ...] | None = None
    """Jobs of the wanted revision, as `Target.started_as` says; None: unchanged."""
    failing_groups: tuple[str, ...] | None = None
    """API groups that fail discovery; None: unchanged."""
    leftovers: tuple[Leftover, ...] | None = None
    """None: unchanged."""
    warnings: tuple[str, ...] | None = None
    """All but those about failing groups and leftovers. None: unchanged, since nothing was sent."""

    @property
    def is_renewed(self) -> bool:
        """Whether the wanted revision, which is on the cluster, is being resolved or rendered once more."""
        return bool(self.fetching and self.wanted and not self.failure)

    @property
    def unrepaired_conflicts(self) -> tuple[DriftedObject, ...]:
        """The conflicts in which the other client has changed the object, and the repair was put off."""
        if not self.conflicts:
            return ()  # almost always: the outcomes may be those of many thousand objects
        postponed = {outcome.task.target.key for outcome in self.outcomes if outcome.postponed}
        return tuple(conflict for conflict in self.conflicts if conflict.key in postponed)

    @property
    def errors(self) -> list[BundleError]:
        """All failures except those of polls."""
        found = [self.failure, *(outcome.error for outcome in self.outcomes), *(each.error for each in self.removals)]
        return [error for error in found if error]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """One pass over a BundleDeployment that is being deleted."""

    remaining: int
    awaited: tuple[str, ...] = ()
    """Objects that were deleted a while ago and still exist, with what holds them."""
    blocked: bool = False
    """Whether they have existed for so long that a person should look at them."""
    next_change: float | None = None
    """Seconds until this may change without an event."""
    handing_over: str = ""
    """Which objects it waits for others to take over; empty: none."""
    error: BundleError | None = None


SHORT_DIGEST = 12
NAMED = 3
_FIELDS_SHOWN = (8, 4, 2, 1)


def short(digest: str) -> str:
    """Return the first 12 digits of a digest, without its algorithm."""
    return digest.rpartition(":")[2][:SHORT_DIGEST]


def describe_pins(pins: Iterable[SourcePin]) -> str:
    """Return what sources were resolved to, shortened: `image:v1@8d99d5a38eab,http:0a9e4b7c1f52`."""
    return ",".join(f"{pin.kind}:{f'{pin.reference}@' if pin.reference else ''}{short(pin.digest)}" for pin in pins)


def list_some(items: Iterable[object], most: int = NAMED) -> str:
    """Return the first items in alphabetical order, and how many more there are."""
    texts = sorted(map(str, items))
    return list_first(texts[:most], len(texts))


def list_drifted(objects: Iterable[DriftedObject], room: int) -> str:
    """Return drifted objects, the first with all their fields, as far as there is room for so many characters."""
    found = list(objects)
    named = nsmallest(NAMED, found, key=lambda each: str(each.key))
    for most in (None, *_FIELDS_SHOWN):
        text = list_first((each.describe(most) for each in named), len(found))
        if len(text) <= room:
            break
    return text


def what_strays_are(name: str) -> str:
    """Return what is wrong with the strays of a BundleDeployment, and what to do."""
    return (
        "marked as owned by this BundleDeployment but not part of any of its revisions; not changed; delete with "
        f'"rukpak prune {name}", or remove the label {names.OWNER_LABEL}'
    )


def name_of_reported(each: NotReady | Stray) -> str:
    """Return the name of an object in status, such as `ConfigMap shop/settings`."""
    return f"{each.kind} {f'{each.namespace}/' if each.namespace else ''}{each.name}"


def describe_changes(changes: Changes) -> str:
    """Return how many objects a revision would change, such as `3 to create, 1 to delete`."""
    counts = (
        (changes.create, "to create"),
        (changes.change, "to change"),
        (changes.recreate, "of them possibly to recreate"),
        (changes.delete, "to delete"),
    )
    return ", ".join(f"{count} {what}" for count, what in counts if count) or "no object to change"
