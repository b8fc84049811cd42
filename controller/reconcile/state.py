"""What this process remembers of a BundleDeployment between passes: nothing that a restart must not lose.

A BundleDeployment that was deleted and made again under its name has another UID, and starts with an empty state.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from api.v1alpha2.types import ObjectMeta
from controller.apply.drift.ledger import Ledger
from controller.apply.hooks.runner import HookMemory
from controller.observe.progress import HealthTracker
from controller.observe.records import ObjectKey
from controller.reconcile.drift_counter import DriftCounter
from controller.revisions.state import RevisionState

SOON_SECONDS = 20.0


@dataclass(slots=True, kw_only=True)
class State(RevisionState):
    """The state of one BundleDeployment; used by one pass at a time."""

    uid: str
    clock: Callable[[], float] = time.monotonic
    since: float = 0.0
    """When it was begun, in monotonic seconds."""
    ledger: Ledger = field(default_factory=Ledger)
    health: HealthTracker = field(default_factory=HealthTracker)
    older: frozenset[ObjectKey] = frozenset()
    """Objects that only older revisions name, and that are left."""
    strays: frozenset[ObjectKey] = frozenset()
    """Objects that carry our marks though no revision names them."""
    strays_told: frozenset[ObjectKey] = frozenset()
    """Those of them that an Event was about."""
    strays_quiet_until: float = 0.0
    """When there may be another such Event, in monotonic seconds."""
    drift: DriftCounter = field(default_factory=DriftCounter)
    hooks: HookMemory = field(default_factory=HookMemory)
    abandoned: set[ObjectKey] = field(default_factory=set)
    """At deletion: what the account may not delete, and the garbage collector takes."""
    let_go: bool = False
    """At deletion: nothing of it is left."""
    awaits_change: bool = False
    """Something on the cluster has to change before it can go on."""
    changes: int = 0
    """How often the cluster had changed when the pass began."""
    unknown_since: float | None = None
    """Since when, in monotonic seconds, the first list of a kind has been under way."""

    def __post_init__(self) -> None:
        self.since = self.clock()

    def age(self) -> float:
        """Return for how many seconds this process has known the BundleDeployment."""
        return self.clock() - self.since

    def knows_soon(self) -> bool:
        """Whether a kind whose first list is under way is no news yet."""
        now = self.clock()
        if self.unknown_since is None:
            self.unknown_since = now
        return now - self.unknown_since < SOON_SECONDS

    def rest(self, working_on: Collection[str] = ()) -> None:
        """Drop what only a pass with work to do needs.

        Args:
            working_on: digests of the revisions that every pass needs while the wanted one is not installed.
        """
        RevisionState.rest(self, working_on)
        self.unknown_since = None
        if not working_on:
            self.hooks = HookMemory()


class States:
    """Thread-safe: the state of each BundleDeployment."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {}
        self._changes = 0
        self._lock = threading.Lock()

    def of(self, metadata: ObjectMeta) -> State:
        """Return the state of a BundleDeployment, a new one for another UID."""
        with self._lock:
            state = self._states.get(metadata.name)
            if state is None or state.uid != metadata.uid:
                state = self._states[metadata.name] = State(uid=metadata.uid, changes=self._changes)
            return state

    def begin_pass(self, state: State) -> bool:
        """Note that a pass begins; returns whether the cluster has changed since the one before began."""
        with self._lock:
            before, state.changes = state.changes, self._changes
            return before != state.changes

    def is_another(self, metadata: ObjectMeta) -> bool:
        """Whether what is remembered under this name is of one that is gone, and was made again since."""
        with self._lock:
            state = self._states.get(metadata.name)
            return state is not None and state.uid != metadata.uid

    def forget(self, name: str) -> State | None:
        """Drop the state of one that is gone; returns it."""
        with self._lock:
            return self._states.pop(name, None)

    def cluster_changed(self) -> list[str]:
        """Note that something on the cluster has changed; returns the names of those that wait for such a thing."""
        with self._lock:
            self._changes += 1
            return [name for name, state in self._states.items() if state.awaits_change]

    def missed(self, state: State) -> bool:
        """Whether what one waits for may have come in the midst of the pass that found out that it has to wait."""
        with self._lock:
            return state.awaits_change and state.changes != self._changes
