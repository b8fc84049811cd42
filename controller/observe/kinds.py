"""Managed objects: each kind that a BundleDeployment requires, watched once, and its objects by owner.

In: the required kinds, events of the watches, and replies to our own applies. Out: records by owner, and calls to the
listener. A kind is watched by the owner label, as metadata unless health needs more. One that the cluster does not
serve has no objects; the BundleDeployments that require it are notified when it may be served.

When something that verdicts depend on has changed, a kind is listed again while its watch continues. The new watch
takes over once it is synced, so that no object is unknown meanwhile.

`Registry` is the state that threads share, under one lock: each of its methods is one step, sends no request, and
notifies nobody; `ManagedKinds` does that after the step. The rest of the controller uses
`watches.py`, and through it `ServedKinds`.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Protocol

from rukpak.api import names
from rukpak.controller.formats.objects import BUILT_IN_GROUPS
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.kube.watch import Reflector
from rukpak.controller.observe.definitions import Definition, Definitions, StorageClasses
from rukpak.controller.observe.deployments import HealthCheck, SeenDeployments
from rukpak.controller.observe.evaluation import Evaluations
from rukpak.controller.observe.health.explain import pods_of
from rukpak.controller.observe.health.rules import (
    NOT_EVALUATED,
    NOT_OBSERVED,
    UNBOUND,
    UNOBSERVED,
    assess,
    concerns,
    matching,
    needs_full_object,
)
from rukpak.controller.observe.health.stability import is_outdated, reported_of, rollout_of
from rukpak.controller.observe.health.verdict import Context, Evaluate, State, Verdict
from rukpak.controller.observe.records import Journal, Look, ObjectKey, Record, project

GroupKind = tuple[str, str]
"""API group and kind."""
# The version of a kind whose older versions hide conditions in an annotation (controller/observe/health/README.md).
_READ_AT = {("autoscaling", "HorizontalPodAutoscaler"): "v2"}
CLAIM = ("", "PersistentVolumeClaim")


class Listener(Protocol):
    """Called on the threads of the watches; must return quickly."""

    def deployment_changed(self, name: str) -> None:
        """Spec, annotations, finalizers or deletionTimestamp of a BundleDeployment have changed, or it is gone.

        Or another client has changed its status.
        """

    def objects_changed(self, name: str, *, urgent: bool) -> None:
        """A managed object of it has changed, or can now be watched; urgent unless only its health has changed."""

    def cluster_changed(self) -> None:
        """A CustomResourceDefinition, APIService or Namespace has changed, or an owner has released an object."""


def group_kind_of(kind: GroupVersionKind) -> GroupKind:
    """Return a kind without its version."""
    return kind.group, kind.kind


@dataclass(slots=True, kw_only=True, eq=False)
class KindWatch:
    """The watch of a kind. Guarded by the lock of the registry."""

    kind: GroupVersionKind
    resource: Resource
    full: bool
    """Whether objects are read in full, for their health."""
    reflector: Reflector[Record]
    successor: KindWatch | None = None
    """Takes over once it is synced."""
    awaited: bool = False
    """Whether passes wait for the successor, because the verdicts of this watch are outdated."""

    @property
    def group_kind(self) -> GroupKind:
        """The kind without its version."""
        return group_kind_of(self.kind)

    @property
    def known(self) -> bool:
        """Whether all objects that can be listed are known."""
        if self.awaited and self.successor and not self.successor.reflector.settled:
            return False
        return self.reflector.settled

    def reflectors(self) -> Iterator[Reflector[Record]]:
        """Yield the reflector of this watch and that of its successor."""
        yield self.reflector
        if self.successor:
            yield self.successor.reflector

    def stop(self) -> None:
        """Stop it and its successor; returns immediately."""
        for reflector in self.reflectors():
            reflector.stop()

    def is_outdated(self, old: Definition | None, new: Definition) -> bool:
        """Return whether a changed definition requires another path, or other verdicts."""
        version = self.resource.version
        moved = new.resource is not None and new.resource.path() != (self.successor or self).resource.path()
        return moved or (old is not None and version in old.reporting) != (version in new.reporting)


class RequiredKinds:
    """Not thread-safe: guarded by the lock of the registry."""

    def __init__(self) -> None:
        self._by_name: dict[str, frozenset[GroupKind]] = {}
        self._counts: Counter[frozenset[GroupKind]] = Counter()
        """How many BundleDeployments require each of these sets: thousands may require the same few."""
        self._decided: set[str] = set()
        """BundleDeployments whose kinds a pass has decided; those of the others are what their status says."""
        self._unwatched: set[GroupKind] = set()

    def of(self, name: str) -> frozenset[GroupKind]:
        """Return the kinds that a BundleDeployment requires."""
        return self._by_name.get(name, frozenset())

    def add(self, name: str, kinds: Iterable[GroupKind]) -> None:
        """Add kinds that a BundleDeployment requires."""
        self.replace(name, self.of(name) | frozenset(kinds))

    def replace(self, name: str, kinds: Iterable[GroupKind]) -> None:
        """Set the kinds that a BundleDeployment requires."""
        self._set(name, frozenset(kinds))
        self._decided.add(name)

    def prepare(self, name: str, kinds: Iterable[GroupKind]) -> None:
        """Set the kinds that the status of a BundleDeployment names, until a pass decides."""
        self._set(name, frozenset(kinds))

    def _set(self, name: str, kinds: frozenset[GroupKind]) -> None:
        self._remove(name)
        self._counts[kinds] += 1
        self._by_name[name] = kinds

    def _remove(self, name: str) -> None:
        kinds = self._by_name.pop(name, None)
        if kinds is None:
            return
        self._counts[kinds] -= 1
        if not self._counts[kinds]:
            del self._counts[kinds]

    def is_decided(self, name: str) -> bool:
        """Return whether a pass has decided what a BundleDeployment requires."""
        return name in self._decided

    def drop(self, name: str) -> None:
        """Remove a BundleDeployment."""
        self._remove(name)
        self._decided.discard(name)

    def find_names(self, condition: Callable[[GroupKind], bool]) -> list[str]:
        """Return the BundleDeployments that require a kind for which a condition is true."""
        return [name for name, kinds in self._by_name.items() if any(condition(kind) for kind in kinds)]

    def find_unrequired(self, kinds: Iterable[GroupKind]) -> list[GroupKind]:
        """Return which of these kinds are not required, and forget unwatched kinds that are not."""
        required: frozenset[GroupKind] = frozenset().union(*self._counts)
        self._unwatched &= required
        return [kind for kind in kinds if kind not in required]

    def note_unwatched(self, kinds: Iterable[GroupKind]) -> None:
        """Note that these kinds are not watched yet."""
        self._unwatched.update(kinds)

    def note_watched(self, kinds: Iterable[GroupKind]) -> None:
        """Note that these kinds are watched."""
        self._unwatched.difference_update(kinds)

    def has_unwatched(self, name: str) -> bool:
        """Return whether a BundleDeployment requires an unwatched kind."""
        return not self._unwatched.isdisjoint(self.of(name))

    def find_unwatched(self, group: str) -> list[str]:
        """Return the BundleDeployments that require an unwatched kind of an API group."""
        unwatched = {kind for kind in self._unwatched if kind[0] == group}
        return self.find_names(unwatched.__contains__) if unwatched else []


@dataclass(slots=True)
class _Owned:
    journal: Journal[ObjectKey]
    records: dict[ObjectKey, Record] = field(default_factory=dict)


class OwnedObjects:
    """Not thread-safe: guarded by the lock of the registry."""

    def __init__(self) -> None:
        self._by_owner: dict[str, _Owned] = {}
        """Only owners of objects."""
        self._owners: dict[ObjectKey, str] = {}
        self._first = 0
        """More than any number of a journal that was dropped, so that its readers read everything."""

    def of(self, owner: str) -> dict[ObjectKey, Record]:
        """Return a snapshot of the objects of an owner."""
        return dict(self._records_of(owner))

    def look(self, owner: str, since: int) -> Look:
        """Return a snapshot of the objects of an owner, and what has changed since the one with this number."""
        owned = self._by_owner.get(owner)
        if owned is None:
            return Look(records={}, since=since, number=self._first, changed=None)
        number, changed = owned.journal.end, owned.journal.since(since)
        return Look(records=dict(owned.records), since=since, number=number, changed=changed)

    def find(self, key: ObjectKey) -> Record | None:
        """Return the record of an object."""
        return self._records_of(self._owners.get(key, "")).get(key)

    def kinds_of(self, owner: str) -> set[GroupKind]:
        """Return the kinds of the objects of an owner."""
        return {(key.group, key.kind) for key in self._records_of(owner)}

    def of_kind(self, group_kind: GroupKind) -> set[ObjectKey]:
        """Return the keys of all objects of a kind."""
        return {key for key in self._owners if (key.group, key.kind) == group_kind}

    def put(self, key: ObjectKey, record: Record | None) -> Record | None:
        """Index an object under its owner; None, or an object without owner, removes it.

        Returns: the previous record.
        """
        before = self._owners.pop(key, "")
        known = self._by_owner[before].records.pop(key, None) if before else None
        if record and record.owner:
            self._owners[key] = record.owner
            owned = self._by_owner.setdefault(record.owner, _Owned(Journal(self._first)))
            owned.records[key] = record
        for owner in {before, record.owner if record else ""} - {""}:
            self._note(owner, key)
        return known

    def _records_of(self, owner: str) -> Mapping[ObjectKey, Record]:
        owned = self._by_owner.get(owner)
        return owned.records if owned else {}

    def _note(self, owner: str, key: ObjectKey) -> None:
        owned = self._by_owner[owner]
        owned.journal.add(key, len(owned.records))
        if not owned.records:
            self._first = max(self._first, owned.journal.end + 1)
            del self._by_owner[owner]

    def clear(self) -> None:
        """Remove all objects."""
        for key in list(self._owners):
            self.put(key, None)

    def drop_kind(self, group_kind: GroupKind) -> None:
        """Remove all objects of a kind."""
        for key in self.of_kind(group_kind):
            self.put(key, None)


Open = Callable[[GroupVersionKind, Resource], KindWatch]
"""Returns the watch of a kind, not started yet."""


class Registry:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._watches: dict[GroupKind, KindWatch] = {}
        self._required = RequiredKinds()
        self._owned = OwnedObjects()

    # watches

    def find(self, group_kind: GroupKind) -> KindWatch | None:
        """Return the watch of a kind."""
        with self._lock:
            return self._watches.get(group_kind)

    def reflectors(self) -> list[Reflector[Record]]:
        """Return the reflectors of all kinds, including successors."""
        with self._lock:
            return [reflector for watch in self._watches.values() for reflector in watch.reflectors()]

    def start(
        self, served: Iterable[tuple[GroupVersionKind, Resource]], wanted: Iterable[GroupKind], open_watch: Open
    ) -> dict[GroupKind, KindWatch]:
        """Watch the served kinds that are not watched yet; return the watches of the wanted kinds."""
        with self._lock:
            for kind, resource in served:
                if group_kind_of(kind) not in self._watches:
                    watch = self._watches[group_kind_of(kind)] = open_watch(kind, resource)
                    watch.reflector.start()
            self._required.note_watched(self._watches)
            return {group_kind: self._watches[group_kind] for group_kind in wanted if group_kind in self._watches}

    def start_successor(self, watch: KindWatch, resource: Resource, open_watch: Open, *, awaited: bool) -> None:
        """List a kind again while its watch continues; no effect if that has been replaced."""
        with self._lock:
            if self._watches.get(watch.group_kind) is not watch:
                return
            if watch.successor:
                watch.successor.reflector.stop()
            watch.awaited = watch.awaited or awaited
            watch.successor = open_watch(watch.kind, resource)
            watch.successor.reflector.start()

    def take_over(self, watch: KindWatch) -> KindWatch | None:
        """Make a successor the watch of its kind; return its predecessor, None if it is no successor."""
        with self._lock:
            before = self._watches.get(watch.group_kind)
            if before is None or before.successor is not watch:
                return None
            self._watches[watch.group_kind] = watch
            return before

    def drop_objects(self) -> None:
        """Forget all objects, and list them again: those of another cluster must not be used, not even until then."""
        with self._lock:
            for reflector in self.reflectors():
                reflector.drop()
            self._owned.clear()

    # requirements

    def require(self, name: str, kinds: Collection[GroupKind]) -> set[GroupKind]:
        """Add kinds that a BundleDeployment requires; return those that are not watched."""
        with self._lock:
            self._required.add(name, kinds)
            return self._find_unwatched(kinds)

    def _find_unwatched(self, kinds: Collection[GroupKind]) -> set[GroupKind]:
        unwatched = set(kinds) - self._watches.keys()
        self._required.note_unwatched(unwatched)  # so that those served from now on are reported
        return unwatched

    def prepare(self, name: str, kinds: Collection[GroupKind]) -> set[GroupKind] | None:
        """Set the kinds that a BundleDeployment requires, and stop the watches that are not required.

        Returns: those that are not watched; None if a pass has decided what it requires.
        """
        with self._lock:
            if self._required.is_decided(name):
                return None
            self._required.prepare(name, kinds)
            self._stop_unrequired()
            return self._find_unwatched(kinds)

    def withdraw(self, name: str) -> None:
        """Remove a BundleDeployment, and stop the watches that are not required, unless a pass decides that."""
        with self._lock:
            if not self._required.is_decided(name):
                self.release(name)

    def require_only(self, name: str, kinds: Iterable[GroupKind]) -> None:
        """Set the kinds that a BundleDeployment requires, and stop the watches that are not required."""
        with self._lock:
            self._required.replace(name, kinds)
            self._stop_unrequired()

    def release(self, name: str) -> None:
        """Remove a BundleDeployment, and stop the watches that are not required."""
        with self._lock:
            self._required.drop(name)
            self._stop_unrequired()

    def _stop_unrequired(self) -> None:
        for group_kind in self._required.find_unrequired(list(self._watches)):
            self._watches.pop(group_kind).stop()
            self._owned.drop_kind(group_kind)

    def has_unwatched(self, name: str) -> bool:
        """Return whether a BundleDeployment requires an unwatched kind."""
        with self._lock:
            return self._required.has_unwatched(name)

    def find_unwatched(self, group: str) -> list[str]:
        """Return the BundleDeployments that require an unwatched kind of an API group."""
        with self._lock:
            return self._required.find_unwatched(group)

    def find_requiring(self, condition: Callable[[GroupKind], bool]) -> list[str]:
        """Return the BundleDeployments that require a kind for which a condition is true."""
        with self._lock:
            return self._required.find_names(condition)

    def find_judged_for(self, name: str) -> list[KindWatch]:
        """Return the watches that may have judged objects of a BundleDeployment."""
        with self._lock:
            required = self._required.of(name) & self._watches.keys()
            # Objects of a first list in progress may have been judged already.
            listed = {group_kind for group_kind in required if not self._watches[group_kind].reflector.synced}
            owned = self._owned.kinds_of(name) & self._watches.keys()
            return [self._watches[group_kind] for group_kind in owned | listed]

    # objects

    def owned_by(self, name: str) -> dict[ObjectKey, Record]:
        """Return a snapshot of the objects that carry the owner label of a BundleDeployment."""
        with self._lock:
            return self._owned.of(name)

    def look(self, name: str, since: int) -> Look:
        """Return such a snapshot, and what has changed since the one with this number."""
        with self._lock:
            return self._owned.look(name, since)

    def indexed(self, group_kind: GroupKind) -> set[ObjectKey]:
        """Return the indexed objects of a kind."""
        with self._lock:
            return self._owned.of_kind(group_kind)

    def file(self, key: ObjectKey, reflector: Reflector[Record]) -> tuple[Record | None, Record | None]:
        """Index the newest record of an object, which may be newer than the event.

        Returns: the record before and now; None for both if the reflector has been replaced.
        """
        with self._lock:
            watch = self._watches.get((key.group, key.kind))
            if watch is None or watch.reflector is not reflector:
                return None, None  # its watch has stopped, so nothing would remove the record later
            now = _compare(self._owned.find(key), reflector.get((key.namespace, key.name)))
            return self._owned.put(key, now), now


class ServedKinds:
    """Thread-safe."""

    def __init__(self, discovery: Discovery, definitions: Definitions) -> None:
        self.discovery, self._definitions = discovery, definitions

    def find(self, kind: GroupVersionKind) -> Resource | None:
        """Return the resource to read a kind at: its storage version (definitions.py), else the best that is served.

        Raises: ApiError if discovery fails.
        """
        if stored := self.at_storage_version(kind.group, kind.kind):
            return stored
        best = kind._replace(version=_READ_AT.get((kind.group, kind.kind), kind.version))
        served = self.discovery.resource(best) or self.discovery.resource(kind)
        return served or self.discovery.any_version(kind.group, kind.kind)

    def at_storage_version(self, group: str, kind: str) -> Resource | None:
        """Return the resource of a custom kind at its storage version, which needs no conversion webhook."""
        definition = self._definitions.of(group, kind)
        return definition.resource if definition else None

    def is_namespaced(self, kind: GroupVersionKind) -> bool | None:
        """Return whether a kind is namespaced; None if the cluster serves no version of it: all have the same scope.

        Raises: ApiError if discovery fails.
        """
        resource = self.discovery.resource(kind) or self.discovery.any_version(kind.group, kind.kind)
        return resource.namespaced if resource else None

    def is_missing(self, kind: GroupVersionKind) -> bool:
        """Return whether the cluster does not serve a kind; False if discovery fails for its group.

        Raises: ApiError if all of discovery fails.
        """
        return self.discovery.resource(kind) is None and kind.group not in self.discovery.failed_groups()

    def is_withdrawn(self, kind: GroupVersionKind) -> bool:
        """Return whether the CustomResourceDefinition of a kind serves other versions only; sends no request."""
        return self._definitions.is_withdrawn(kind.group, kind.version, kind.kind)

    def is_aggregated(self, group: str, kind: str) -> bool:
        """Return whether another API server may serve a kind: neither Kubernetes nor a known CRD defines it."""
        return group not in BUILT_IN_GROUPS and self.at_storage_version(group, kind) is None

    def failing_groups(self) -> frozenset[str]:
        """Return the API groups that fail discovery; sends no request unless something changed.

        Raises: ApiError if all of discovery fails.
        """
        return self.discovery.failed_groups()

    def has_appeared(self, kind: GroupVersionKind) -> bool:
        """Return whether a kind that was missing is served now; sends no request unless something changed.

        Raises: ApiError if discovery fails.
        """
        return self.discovery.has_appeared(kind)

    def seconds_to_recheck(self) -> float | None:
        """Return in how many seconds to check a missing kind again; None if discovery is up to date."""
        return self.discovery.seconds_to_recheck()


class Projection:
    """Thread-safe."""

    def __init__(self, deployments: SeenDeployments, definitions: Definitions, classes: StorageClasses) -> None:
        self._deployments, self._definitions, self._classes = deployments, definitions, classes

    def can_judge(self, kind: GroupVersionKind) -> bool:
        """Return whether everything else that the health of a kind depends on is known, or cannot be listed.

        For claims this starts the watch of StorageClasses.
        """
        if group_kind_of(kind) == CLAIM:
            self._classes.start()
            return self._classes.reflector.settled
        return kind.group in BUILT_IN_GROUPS or self._definitions.reflector.settled

    def reads_full(self, kind: GroupVersionKind) -> bool:
        """Return whether the objects of a kind are read in full, for its rule or any health check."""
        return needs_full_object(kind.group, kind.kind, self._deployments.all_checks())

    def checks_read_full(self, name: str, group_kind: GroupKind) -> bool:
        """Return whether the health checks of one BundleDeployment need a kind in full."""
        checks = self._deployments.checks_of(name)
        return bool(checks) and needs_full_object(*group_kind, checks)

    def project(
        self, manifest: dict[str, Any], resource: Resource, *, full: bool, evaluate: Evaluate | None = None
    ) -> Record:
        """Return the record of an object, with its health if it was read in full.

        Args:
            manifest: of the object.
            resource: that it was read at.
            full: whether it is more than its metadata.
            evaluate: evaluates expressions; None on the thread of a watch.
        """
        group, kind = resource.group, resource.kind
        if not full:
            return project(manifest, group, kind)
        manifest = {**manifest, "apiVersion": resource.api_version, "kind": kind}
        owner = (manifest["metadata"].get("labels") or {}).get(names.OWNER_LABEL, "")
        checks = matching(self._deployments.checks_of(owner), manifest)
        verdict = self._judge(checks, manifest, resource, evaluate)
        record = project(manifest, group, kind, verdict, pods_of(manifest, verdict))
        rollout = rollout_of(manifest, record.applied_at)
        reported = reported_of(manifest, checked=bool(checks))
        return replace(record, rollout=rollout, reported=reported) if rollout or reported else record

    def judge(
        self, name: str, manifest: Mapping[str, Any], resource: Resource, evaluate: Evaluate | None = None
    ) -> Verdict:
        """Return the health of an object by the health checks of a BundleDeployment; see `project`."""
        return self._judge(matching(self._deployments.checks_of(name), manifest), manifest, resource, evaluate)

    def _judge(
        self,
        checks: tuple[HealthCheck, ...],
        manifest: Mapping[str, Any],
        resource: Resource,
        evaluate: Evaluate | None,
    ) -> Verdict:
        context = Context(
            storage_class=self._classes.find,
            reports_status=self._definitions.reports_status(resource.group, resource.version, resource.kind),
            evaluate=evaluate,
            checks=checks,
        )
        return self._definitions.name_holder(manifest, assess(manifest, context))


def _health_inputs(record: Record | None) -> tuple[object, ...] | None:
    # Any change of a hook counts, because its verdict may be healthy all the time.
    if record is None:
        return None
    changes = (record.rollout, record.outdated, record.falls)
    return record.verdict, changes, record.resource_version if record.is_hook else ""


def _compare(before: Record | None, now: Record | None) -> Record | None:
    """Return a record with what only its previous one tells: whether its status is older than its spec, and its falls.

    What the reply to an apply does not tell is as before.
    """
    if now is None or not (now.reported or now.rollout or now.verdict == NOT_OBSERVED):
        return now
    if before is None or before.uid != now.uid:
        is_old = now.reported is not None and is_outdated(None, now.reported, now.applied_at, was_outdated=False)
        return replace(now, outdated=True) if is_old else now
    if now.verdict == NOT_OBSERVED:
        return replace(now, reported=before.reported, outdated=before.outdated, falls=before.falls)
    is_old = now.reported is not None and is_outdated(
        before.reported, now.reported, now.applied_at, was_outdated=before.outdated
    )
    falls = before.falls + _falls(before, now)
    return replace(now, outdated=is_old, falls=falls) if is_old or falls else now


def _falls(before: Record, now: Record) -> bool:
    if before.verdict is None or now.verdict is None:
        return False
    was_healthy, is_healthy = (each.state is State.HEALTHY for each in (before.verdict, now.verdict))
    return was_healthy and not is_healthy and now.verdict.reason not in UNOBSERVED


def _plan_inputs(record: Record | None) -> tuple[object, ...] | None:
    if record is None:
        return None
    owners = (record.owner, record.owner_uid, record.controller_uid)
    return (record.uid, record.applied_digest, record.entry_hash, record.deleting, record.finalizers, *owners)


class ManagedKinds:
    """Thread-safe."""

    def __init__(
        self,
        client: Client,
        registry: Registry,
        *,
        served: ServedKinds,
        projection: Projection,
        listener: Listener,
        evaluate: Evaluate,
        share: Callable[[str], str],
        is_foreign: Callable[[str], bool],
    ) -> None:
        self._is_foreign, self._evaluate = is_foreign, evaluate
        self._evaluations = Evaluations(self._judge, share, lambda: client.supervisor)
        self._client, self._registry = client, registry
        self._served, self._projection, self._listener = served, projection, listener
        self._heeded: dict[str, frozenset[ObjectKey]] = {}

    def stop(self) -> None:
        """Judge no more objects by expressions; returns at once. The watches are stopped one by one."""
        self._evaluations.stop()

    def require(self, name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        """Also watch these kinds for a BundleDeployment.

        Returns: the kinds whose first list is in progress.
        Raises: ApiError if discovery fails.
        """
        wanted = {group_kind_of(kind): kind for kind in kinds}
        return self._start(name, wanted, self._registry.require(name, wanted.keys()))

    def _start(
        self, name: str, wanted: Mapping[GroupKind, GroupVersionKind], missing: Collection[GroupKind]
    ) -> list[str]:
        unwatched = [kind for group_kind, kind in wanted.items() if group_kind in missing]
        pending = [kind for kind in unwatched if not self._projection.can_judge(kind)]
        ready = [kind for kind in unwatched if kind not in pending]
        served = [(kind, resource) for kind in ready if (resource := self._served.find(kind))]  # may send a request
        watches = self._registry.start(served, wanted, self._open)
        for group_kind, watch in watches.items():
            if not watch.full and not watch.awaited and self._projection.checks_read_full(name, group_kind):
                self._relist(watch, awaited=True)
        return [kind.kind for kind in pending] + [watch.kind.kind for watch in watches.values() if not watch.known]

    def prepare(self, name: str, kinds: Iterable[GroupVersionKind]) -> None:
        """Watch exactly these kinds for a BundleDeployment until `require` says which it requires.

        Raises: ApiError if discovery fails.
        """
        recorded = {group_kind_of(kind): kind for kind in kinds}
        missing = self._registry.prepare(name, recorded.keys())
        if missing is not None:
            self._start(name, recorded, missing)

    def heed(self, name: str, keys: frozenset[ObjectKey]) -> None:
        """Notify a BundleDeployment of any change of exactly these of its objects."""
        if keys:
            self._heeded[name] = keys
        else:
            self._heeded.pop(name, None)

    def withdraw(self, name: str) -> None:
        """Stop watching what `prepare` started for a BundleDeployment that is gone; a pass does so for `require`."""
        self.heed(name, frozenset())
        self._registry.withdraw(name)

    def find_unknown(self, name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        """Return the kinds whose objects are unknown, see `Watches.find_unknown`.

        Raises: ApiError.
        """
        wanted = list(kinds)
        if self._registry.has_unwatched(name):
            self._served.discovery.refresh()
            self.require(name, wanted)
        failing = self._served.discovery.failed_groups()
        return [str(kind) for kind in wanted if self._is_unknown(kind, failing)]

    def _is_unknown(self, kind: GroupVersionKind, failing: frozenset[str]) -> bool:
        if watch := self._registry.find(group_kind_of(kind)):
            return not (watch.reflector.synced or watch.reflector.denied)
        return kind.group in failing and self._served.find(kind) is None

    def is_forbidden(self, group: str, kind: str) -> bool:
        """Return whether the controller is forbidden to list a kind."""
        watch = self._registry.find((group, kind))
        error = watch.reflector.last_error if watch and watch.reflector.denied else None
        return error is not None and error.status == HTTPStatus.FORBIDDEN

    def _open(self, kind: GroupVersionKind, resource: Resource) -> KindWatch:
        full = self._projection.reads_full(kind)
        reflector = Reflector[Record](
            self._client,
            resource.path(),
            label_selector=names.OWNER_LABEL,
            metadata=not full,
            project=lambda manifest: self._projection.project(manifest, resource, full=full),
            on_change=self._changed,
            on_synced=lambda: self._listed(watch),
            on_failed=lambda: self.notify_requiring(watch.group_kind),
        )
        watch = KindWatch(kind=kind, resource=resource, full=full, reflector=reflector)
        return watch

    def _listed(self, watch: KindWatch) -> None:
        if before := self._registry.take_over(watch):
            before.reflector.stop()
            indexed = self._registry.indexed(watch.group_kind)
            for key in indexed | {record.key for record in watch.reflector.records()}:
                self._refile(key, watch.reflector)
        self.notify_requiring(watch.group_kind)

    def notify_requiring(self, group_kind: GroupKind) -> None:
        """Notify all that require a kind that its objects are known now, or cannot be listed."""
        self._notify(self._registry.find_requiring(lambda kind: kind == group_kind))

    # objects

    def _changed(self, old: Record | None, new: Record | None) -> None:
        record = new or old
        watch = self._registry.find((record.key.group, record.key.kind)) if record else None
        if record and watch:
            self._refile(record.key, watch.reflector)

    def _refile(self, key: ObjectKey, reflector: Reflector[Record]) -> None:
        before, now = self._registry.file(key, reflector)
        urgent = _plan_inputs(before) != _plan_inputs(now)
        if urgent or _health_inputs(before) != _health_inputs(now) or self._is_heeded(before, now):
            owners = {record.owner for record in (before, now) if record and record.owner}
            for name in itertools.filterfalse(self._is_foreign, owners):
                self._listener.objects_changed(name, urgent=urgent)
        if now is None or (before and before.owner != now.owner):
            self._listener.cluster_changed()  # others that collided with it may be able to apply it now
        if now and now.verdict == NOT_EVALUATED:
            self._evaluations.add(now.owner, key)

    def _is_heeded(self, before: Record | None, now: Record | None) -> bool:
        if before is None or now is None or before.resource_version == now.resource_version:
            return False
        return now.key in self._heeded.get(now.owner, ())

    def _judge(self, key: ObjectKey) -> None:
        """Read an object that is not evaluated yet, and judge it; if it has changed since, its event does that again.

        Raises: ApiError.
        """
        watch = self._registry.find((key.group, key.kind))
        known = watch.reflector.get((key.namespace, key.name)) if watch else None
        if watch is None or known is None or known.verdict != NOT_EVALUATED:
            return
        # A list, since the controller may be allowed to list and watch the kind only (config/restricted).
        selector = f"metadata.name={key.name}"
        for manifest in self._client.list(watch.resource.path(key.namespace), field_selector=selector):
            judged = self._projection.project(manifest, watch.resource, full=True, evaluate=self._evaluate)
            for reflector in watch.reflectors():
                reflector.amend(judged)
            self._refile(key, watch.reflector)

    def learn(self, record: Record) -> Record:
        """Learn an object from the reply to an apply; its health is unknown until the watch shows it.

        Notifies the previous owner, since the index has the new one before the event arrives.

        Returns: the newest known record.
        """
        watch = self._registry.find((record.key.group, record.key.kind))
        if watch is None:
            return record
        if watch.full:
            known = watch.reflector.get((record.key.namespace, record.key.name))
            if known and known.resource_version == record.resource_version:
                return known
            record = replace(record, verdict=NOT_OBSERVED)
        for reflector in watch.reflectors():
            reflector.learn(record)
        before, now = self._registry.file(record.key, watch.reflector)
        if before and now and before.owner != now.owner:
            self._listener.objects_changed(before.owner, urgent=True)
        return record

    def learn_gone(self, key: ObjectKey) -> None:
        """Forget an object that is gone or lost our label, of a kind whose watch may not report that."""
        watch = self._registry.find((key.group, key.kind))
        known = watch.reflector.get((key.namespace, key.name)) if watch else None
        if watch and known:
            watch.reflector.forget((key.namespace, key.name), known.uid)
            self._registry.file(key, watch.reflector)

    # changes of what verdicts depend on

    def _relist(self, watch: KindWatch, *, awaited: bool = False) -> None:
        try:
            resource = self._served.find(watch.kind) or watch.resource  # may send a request
        except ApiError:
            resource = watch.resource
        self._registry.start_successor(watch, resource, self._open, awaited=awaited)

    def checks_changed(self, name: str, changed: Iterable[HealthCheck]) -> None:
        """Judge the objects again to which changed health checks of a BundleDeployment apply; passes wait for that."""
        checks = list(changed)
        for watch in self._registry.find_judged_for(name):
            if any(concerns(check, *watch.group_kind) for check in checks):
                self._relist(watch, awaited=True)

    def definition_changed(self, old: Definition | None, new: Definition | None) -> None:
        """Judge the objects of a changed definition again, and notify those whose kinds were not watched."""
        watch = self._registry.find(new.kind) if new else None
        if watch and new and watch.is_outdated(old, new):
            self._relist(watch)
        if new and new.resource:
            self.notify_unwatched(new.kind[0])

    def definitions_settled(self) -> None:
        """Notify all that require a custom kind: it can be watched now."""
        self._notify(self._registry.find_requiring(lambda kind: kind[0] not in BUILT_IN_GROUPS))

    def classes_changed(self) -> None:
        """Judge the claims again that may wait for their StorageClass."""
        watch = self._registry.find(CLAIM)
        if watch is None:
            return
        # Objects of a first list in progress may have been judged already.
        records = watch.reflector.records()
        if not watch.reflector.synced or any(each.verdict and each.verdict.reason in UNBOUND for each in records):
            self._relist(watch)

    def notify_unwatched(self, group: str) -> None:
        """Notify all that require an unwatched kind of this group: it may be served now, and have objects already."""
        self._notify(self._registry.find_unwatched(group))

    def _notify(self, deployments: Iterable[str]) -> None:
        for name in deployments:
            self._listener.objects_changed(name, urgent=True)
