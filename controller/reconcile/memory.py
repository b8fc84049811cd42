"""What this process remembers of a BundleDeployment between passes: only what a restart may lose.

A BundleDeployment that was deleted and recreated has another UID and starts with an empty memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.status import NewPermissions
from rukpak.api.v1alpha2.types import ObjectMeta, SourcePin
from rukpak.controller.apply.hooks import HookProgress
from rukpak.controller.apply.ledger import Ledger
from rukpak.controller.apply.plan import Action, ApplyOptions, Outcome
from rukpak.controller.apply.targets import Differences, PackedTargets, TargetSet
from rukpak.controller.building.revision import PackedRevision, Revision, Terms
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.progress import HealthTracker
from rukpak.controller.retries import Retries
from rukpak.controller.revisions.accounts import OF_RIGHTS, RIGHTS_SECONDS, Account
from rukpak.controller.revisions.polling import PURPOSE, PollState
from rukpak.controller.revisions.references import KnownConfig
from rukpak.controller.revisions.source_access import SourceProgress
from rukpak.controller.telemetry import InternalError

KNOWN, LISTING, DELETED = "known", "listing", "deleted"
"""A BundleDeployment is known; a kind of it waits for its first list; it is being deleted."""
PREPARATION = "preparation"
"""The key of failures to resolve sources, and to fetch and render content."""
MOST_BYTES = 16 << 20
"""Size of the compressed targets of all installed revisions."""


@dataclass(slots=True)
class DriftCounter:
    """The objects of one BundleDeployment that are known to have drifted; used by one pass at a time."""

    known: set[ObjectKey] = field(default_factory=set)

    def repair(self, outcomes: Iterable[Outcome], options: ApplyOptions) -> tuple[int, int]:
        """Return how many objects were newly found drifted, and how many drifted ones were repaired.

        Args:
            outcomes: of a pass, before the ledger learns from them.
            options: of the same pass.
        """
        drifted = {o.task.target.key: o.tried and not o.error for o in outcomes if _is_drift(o, options)}
        detected = drifted.keys() - self.known
        self.known = {key for key, is_repaired in drifted.items() if not is_repaired}
        return len(detected), len(drifted) - len(self.known)

    def see(self, keys: Collection[ObjectKey]) -> int:
        """Return how many of these objects, which are drifted and not repaired, were not known to be."""
        detected = set(keys) - self.known
        self.known = set(keys)
        return len(detected)


def _is_drift(outcome: Outcome, options: ApplyOptions) -> bool:
    task = outcome.task
    if task.action is Action.CREATE:
        return not task.target.bare and task.target.key in options.ledger.left
    # An ignored field that has our value is no drift.
    return task.action is Action.REPAIR and (outcome.drift is not None or not outcome.spared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What is known of a revision that waits for approval."""

    key: tuple[str, ...]
    """Identifies what it depends on."""
    differences: Differences
    problems: tuple[BundleError, ...]
    """What would prevent its installation."""
    at: float
    """When it was made, in monotonic seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledTargets:
    """What a pass has installed in full."""

    terms: Terms
    targets: PackedTargets
    warnings: tuple[str, ...]
    """About the revision."""
    spec_version: str
    ledger: Ledger
    """The ledger at that time: everything may have changed since it was replaced."""


class InstalledTargetsCache:
    """The targets of installed revisions, so many as fit: those that were used longest ago are dropped. Thread-safe.

    Args:
        most_bytes: of all compressed targets.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[str, InstalledTargets] = {}
        """By name, the one that was used last at the end."""
        self._size = 0
        self._lock = threading.Lock()

    def keep(self, name: str, targets: InstalledTargets | None) -> None:
        """Keep the targets of the installed revision of a BundleDeployment; None: drop them."""
        with self._lock:
            if dropped := self._kept.pop(name, None):
                self._size -= dropped.targets.size
            if targets is None:
                return
            self._kept[name] = targets
            self._size += targets.targets.size
            while self._size > self._most_bytes:
                self._size -= self._kept.pop(next(iter(self._kept))).targets.size

    def find(self, name: str) -> InstalledTargets | None:
        """Return the targets of the installed revision of a BundleDeployment; None if they are not known."""
        with self._lock:
            found = self._kept.pop(name, None)
            if found:
                self._kept[name] = found
            return found


@dataclass(slots=True, kw_only=True)
class StoredRevisions:
    """What is known of the stored revisions; written by stored.py and inventory.py."""

    read: dict[str, Revision] = field(default_factory=dict)
    """By digest, while passes work on them."""
    packed: dict[str, PackedRevision] = field(default_factory=dict)
    """The large ones of these, compressed: both are dropped when a pass ends."""
    dropped: set[str] = field(default_factory=set)
    """The digests of those that were dropped, to be read again."""
    before: dict[str, str] = field(default_factory=dict)
    """The previous digest of a digest, while its objects may be left; empty: none."""
    kept: tuple[str, ...] | None = None
    """Digests of the kept revisions; None: not known."""
    unapplied: set[str] = field(default_factory=set)
    """Digests of the revisions that were stored and that no pass has begun to apply since."""
    targets: dict[tuple[str, str], TargetSet] = field(default_factory=dict)
    """By digest and the parts of the spec that they depend on."""
    older: frozenset[ObjectKey] = frozenset()
    """Objects that only older revisions name and that still exist."""
    past: tuple[str, frozenset[ObjectKey]] | None = None
    """The digest of the installed revision, and the objects that revisions before it named, as far as it records them;
    None: not read."""

    def learn(self, revision: Revision) -> None:
        """Remember a new revision, or new terms of one: targets depend on both."""
        self.read[revision.digest] = revision
        self._drop_targets({revision.digest})

    def drop(self, digest: str) -> None:
        """Drop a revision that is not stored any more."""
        self.unapplied.discard(digest)
        self.dropped.discard(digest)
        self.packed.pop(digest, None)
        self.read.pop(digest, None)
        self._drop_targets({digest})
        self.kept = None

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of the revisions that passes work on."""
        return (*self.read, *sorted(self.dropped - self.read.keys()))

    def drop_large(self) -> None:
        """Drop large revisions until the next pass, which reads them again."""
        self.dropped |= self.packed.keys() & self.read.keys()
        self.read = {digest: each for digest, each in self.read.items() if digest not in self.packed}
        self._drop_targets(self.packed)
        self.packed.clear()

    def rest(self, working_on: Collection[str]) -> None:
        """Drop all but these revisions."""
        self.kept = None
        self.before.clear()
        self.read = {digest: each for digest, each in self.read.items() if digest in working_on}
        self.dropped &= set(working_on)
        self.targets = {key: each for key, each in self.targets.items() if key[0] in working_on}

    def _drop_targets(self, digests: Collection[str]) -> None:
        self.targets = {key: each for key, each in self.targets.items() if key[0] not in digests}


@dataclass(slots=True, kw_only=True)
class SourceState:
    """What is known of the sources and of `spec.configFrom`; written by finding.py."""

    poll: PollState
    progress: SourceProgress = field(default_factory=SourceProgress)
    """Of the sources that are being resolved or fetched."""
    resolved: tuple[str, tuple[SourcePin, ...]] | None = None
    """The version of the spec and the pins of its sources, until status records them."""
    config: KnownConfig | None = None
    """What `spec.configFrom` refers to, as it was read last."""
    config_changes: int = 0
    """How often one of its objects has changed; set by watches."""

    def rest(self) -> None:
        """Drop what only a pass with work to do needs."""
        self.resolved = None
        self.config = self.config.rest() if self.config else None


@dataclass(slots=True, kw_only=True)
class Strays:
    """Objects with our marks that no revision names; written by inventory.py."""

    reported: frozenset[ObjectKey] = frozenset()
    """Those that an Event has reported."""
    quiet_until: float = 0.0
    """No other such Event is sent before, in monotonic seconds."""


@dataclass(slots=True, kw_only=True)
class Teardown:
    """What is known while a BundleDeployment is being deleted; written by deletion.py."""

    abandoned: set[ObjectKey] = field(default_factory=set)
    """Objects that the account may not delete, and leaves to the garbage collector or to users."""
    named_by_takers: dict[str, frozenset[ObjectKey]] = field(default_factory=dict)
    """The objects in the revisions of those that take over its objects, by digest."""
    orphaned: bool = False
    """`--cascade=orphan` was requested; the garbage collector removes the finalizer that says so."""


@dataclass(slots=True, kw_only=True)
class Memory:
    """What is remembered of one BundleDeployment; used by one pass at a time. All of it may be lost at any time."""

    uid: str
    clock: Callable[[], float] = time.monotonic
    first_seen: dict[str, float] = field(default_factory=dict)
    """When this process first saw what lasts (see `seconds_since`), in monotonic seconds."""
    ledger: Ledger = field(default_factory=Ledger)
    health: HealthTracker = field(default_factory=HealthTracker)
    strays: Strays = field(default_factory=Strays)
    drift: DriftCounter = field(default_factory=DriftCounter)
    hooks: HookProgress = field(default_factory=HookProgress)
    deletion: Teardown = field(default_factory=Teardown)
    torn_down: bool = False
    """None of its objects is left at its deletion."""
    checked_account: Account | None = None
    """The account of the last pass, unless it lacks rights to repair what is installed."""
    preview: Preview | None = None
    permissions: tuple[tuple[str, str], NewPermissions] | None = None
    """Those that a revision adds to another one, and the digests of both."""
    awaits_change: bool = False
    """The cluster must change before it can be installed or deleted."""
    changes: int = 0
    """How often the cluster had changed when the pass started."""
    bug: InternalError | None = None

    stored: StoredRevisions = field(default_factory=StoredRevisions)
    retries: Retries = field(default_factory=Retries)
    sources: SourceState = field(init=False)

    def __post_init__(self) -> None:
        self.first_seen[KNOWN] = self.clock()
        self.sources = SourceState(poll=PollState(retries=self.retries))

    def seconds_since(self, what: str) -> float:
        """Return for how many seconds `KNOWN`, `LISTING` or `DELETED` lasts; the first call starts the count."""
        now = self.clock()
        return now - self.first_seen.setdefault(what, now)

    def rest(self, working_on: Collection[str] = ()) -> None:
        """Drop what only a pass with work to do needs, to save memory.

        Args:
            working_on: digests of the revisions that every pass needs until the wanted one is installed.
        """
        self.stored.rest(working_on)
        self.sources.rest()
        self.first_seen.pop(LISTING, None)
        if not working_on:
            self.hooks = HookProgress()


class Memories:
    """Thread-safe: the state of each BundleDeployment."""

    def __init__(self, make_retries: Callable[[], Retries] = Retries) -> None:
        self._make_retries = make_retries
        self._memories: dict[str, Memory] = {}
        self._changes = 0
        self._lock = threading.Lock()

    def of(self, metadata: ObjectMeta) -> Memory:
        """Return the state of a BundleDeployment, an empty one for another UID."""
        with self._lock:
            memory = self._memories.get(metadata.name)
            if memory is None or memory.uid != metadata.uid:
                memory = self._memories[metadata.name] = Memory(
                    uid=metadata.uid, changes=self._changes, retries=self._make_retries()
                )
            return memory

    def begin_pass(self, memory: Memory) -> bool:
        """Record the start of a pass; returns whether the cluster has changed since the start of the previous one."""
        with self._lock:
            before, memory.changes = memory.changes, self._changes
            return before != memory.changes

    def is_another(self, metadata: ObjectMeta) -> bool:
        """Whether the remembered state belongs to a deleted BundleDeployment of the same name."""
        with self._lock:
            memory = self._memories.get(metadata.name)
            return memory is not None and memory.uid != metadata.uid

    def drop(self, name: str) -> Memory | None:
        """Drop the state of a BundleDeployment that is gone; returns it."""
        with self._lock:
            return self._memories.pop(name, None)

    def clear(self) -> None:
        """Drop all states."""
        with self._lock:
            self._memories.clear()

    def cluster_changed(self) -> list[str]:
        """Record a change of the cluster; returns the BundleDeployments that wait for one."""
        with self._lock:
            self._changes += 1
            return [name for name, memory in self._memories.items() if memory.awaits_change]

    def rights_changed(self, name: str) -> None:
        """Record that rights have changed: what failed for want of them is retried, and what was asked asked again."""
        with self._lock:
            if memory := self._memories.get(name):
                memory.preview = None
                memory.sources.config_changes += 1
                memory.retries.end(OF_RIGHTS, lag=RIGHTS_SECONDS)

    def config_changed(self, name: str) -> None:
        """Record that an object of `spec.configFrom` has changed."""
        with self._lock:
            if memory := self._memories.get(name):
                memory.sources.config_changes += 1

    def sources_changed(self, name: str) -> None:
        """Record that a Secret or local content that sources have read has changed: what failed is retried."""
        with self._lock:
            if memory := self._memories.get(name):
                memory.sources.poll.local_changes += 1
                memory.retries.succeeded(PREPARATION)
                memory.retries.succeeded(PURPOSE)

    def objects_changed(self, name: str) -> None:
        """Record that an object that waits for another owner or a deletion may be free."""
        with self._lock:
            if memory := self._memories.get(name):
                memory.retries.end_waits()

    def missed(self, memory: Memory) -> bool:
        """Whether the cluster has changed during the pass of one that waits for a change."""
        with self._lock:
            return memory.awaits_change and memory.changes != self._changes
