"""What this process remembers of a BundleDeployment between passes: only what a restart may lose.

A BundleDeployment that was deleted and recreated has another UID and starts with an empty state.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from api.errors import BundleError
from api.v1alpha2.types import NewPermissions, ObjectMeta
from controller.apply.differences import Differences
from controller.apply.drift.ledger import Ledger
from controller.apply.hooks.runner import HookProgress
from controller.observe.progress import HealthTracker
from controller.observe.records import ObjectKey
from controller.reconcile.drift_counter import DriftCounter
from controller.revisions.accounts.account import Account
from controller.revisions.state import RevisionState

SOON_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What is known of a revision that waits for approval."""

    key: tuple[str, ...]
    """Of what it depends on."""
    differences: Differences
    problems: tuple[BundleError, ...]
    """What would prevent its installation."""
    at: float
    """When it was made, in monotonic seconds."""


@dataclass(slots=True, kw_only=True)
class State(RevisionState):
    """The state of one BundleDeployment; used by one pass at a time."""

    uid: str
    clock: Callable[[], float] = time.monotonic
    since: float = 0.0
    """When it was created, in monotonic seconds."""
    ledger: Ledger = field(default_factory=Ledger)
    health: HealthTracker = field(default_factory=HealthTracker)
    older: frozenset[ObjectKey] = frozenset()
    """Objects that only older revisions name and that still exist."""
    past: tuple[str, frozenset[ObjectKey]] | None = None
    """The digest of the installed revision, and the objects that revisions before it named, as far as it records them;
    None: not read."""
    strays: frozenset[ObjectKey] = frozenset()
    """Objects with our marks that no revision names."""
    strays_reported: frozenset[ObjectKey] = frozenset()
    """Those that an Event has reported."""
    strays_quiet_until: float = 0.0
    """No other such Event is sent before, in monotonic seconds."""
    drift: DriftCounter = field(default_factory=DriftCounter)
    hooks: HookProgress = field(default_factory=HookProgress)
    abandoned: set[ObjectKey] = field(default_factory=set)
    """At deletion: objects that the account may not delete, and leaves to the garbage collector or to users."""
    named_by_takers: dict[str, frozenset[ObjectKey]] = field(default_factory=dict)
    """At deletion: the objects in the revisions of those that take over its objects, by digest."""
    has_no_other_takers: bool = False
    """At deletion: no BundleDeployment of another shard takes over its objects."""
    orphaned: bool = False
    """At deletion: `--cascade=orphan` was requested; the garbage collector removes the finalizer that says so."""
    deleting_since: float | None = None
    """At deletion: when this process first saw it, in monotonic seconds."""
    is_own: bool = False
    """This process has acted for it while it had the label of its shard."""
    torn_down: bool = False
    """None of its objects is left at its deletion, or they were handed over to another shard."""
    checked_account: Account | None = None
    """The account of the last pass, unless it lacks rights to repair what is installed."""
    preview: Preview | None = None
    """Of the revision that waits for approval."""
    permissions: tuple[tuple[str, str], NewPermissions] | None = None
    """Those that a revision adds to another one, and the digests of both."""
    awaits_change: bool = False
    """The cluster must change before it can be installed or deleted."""
    changes: int = 0
    """How often the cluster had changed when the pass started."""
    bug: BundleError | None = None
    """The bug that ended the last pass."""
    unknown_since: float | None = None
    """Since when, in monotonic seconds, a kind has been waiting for its first list."""

    def __post_init__(self) -> None:
        self.since = self.clock()

    def age(self) -> float:
        """Return for how many seconds this process has known the BundleDeployment."""
        return self.clock() - self.since

    def is_listing_new(self) -> bool:
        """Whether a kind has been waiting for its first list for less than 20 s, and need not be reported."""
        now = self.clock()
        if self.unknown_since is None:
            self.unknown_since = now
        return now - self.unknown_since < SOON_SECONDS

    def deletion_age(self) -> float:
        """Return for how many seconds this process has known that it is being deleted."""
        now = self.clock()
        if self.deleting_since is None:
            self.deleting_since = now
        return now - self.deleting_since

    def rest(self, working_on: Collection[str] = ()) -> None:
        """Drop what only a pass with work to do needs; see `RevisionState.rest`."""
        RevisionState.rest(self, working_on)
        self.unknown_since = None
        if not working_on:
            self.hooks = HookProgress()


class States:
    """Thread-safe: the state of each BundleDeployment."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {}
        self._changes = 0
        self._lock = threading.Lock()

    def of(self, metadata: ObjectMeta) -> State:
        """Return the state of a BundleDeployment, an empty one for another UID."""
        with self._lock:
            state = self._states.get(metadata.name)
            if state is None or state.uid != metadata.uid:
                state = self._states[metadata.name] = State(uid=metadata.uid, changes=self._changes)
            return state

    def begin_pass(self, state: State) -> bool:
        """Record the start of a pass; returns whether the cluster has changed since the start of the previous one."""
        with self._lock:
            before, state.changes = state.changes, self._changes
            return before != state.changes

    def is_another(self, metadata: ObjectMeta) -> bool:
        """Whether the remembered state belongs to a deleted BundleDeployment of the same name."""
        with self._lock:
            state = self._states.get(metadata.name)
            return state is not None and state.uid != metadata.uid

    def forget(self, name: str) -> State | None:
        """Drop the state of a BundleDeployment that is gone; returns it."""
        with self._lock:
            return self._states.pop(name, None)

    def clear(self) -> None:
        """Drop all states."""
        with self._lock:
            self._states.clear()

    def cluster_changed(self) -> list[str]:
        """Record a change of the cluster; returns the BundleDeployments that wait for one."""
        with self._lock:
            self._changes += 1
            return [name for name, state in self._states.items() if state.awaits_change]

    def rights_changed(self, name: str) -> None:
        """Record that rights have changed: what the account of a pending revision lacks must be asked again."""
        with self._lock:
            if state := self._states.get(name):
                state.preview = None

    def config_changed(self, name: str) -> None:
        """Record that an object of `spec.configFrom` has changed."""
        with self._lock:
            if state := self._states.get(name):
                state.config_changes += 1

    def sources_changed(self, name: str) -> None:
        """Record that a Secret or local content that sources have read has changed."""
        with self._lock:
            if state := self._states.get(name):
                state.poll.local_changes += 1

    def missed(self, state: State) -> bool:
        """Whether the cluster has changed during the pass of one that waits for a change."""
        with self._lock:
            return state.awaits_change and state.changes != self._changes
