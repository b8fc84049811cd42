"""Managed objects: each kind that a BundleDeployment requires, watched once, and its objects by owner.

In: the required kinds, events of the watches, and replies to our own applies. Out: records by owner, and calls to the
listener. A kind is watched by the owner label, as metadata unless health needs more. One that the cluster does not
serve has no objects; the BundleDeployments that require it are notified when it may be served.

When something that verdicts depend on has changed, a kind is listed again while its watch continues. The new watch
takes over once it is synced, so that no object is unknown meanwhile.

What threads share is changed under one lock, in steps that send no request and notify nobody.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from rukpak.api import names
from rukpak.controller.formats.objects import BUILT_IN_GROUPS, ObjectKey
from rukpak.controller.kube.cache import Indexer
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.kube.watch import ListWatch, Reflector
from rukpak.controller.observe.definitions import Definition, Definitions, StorageClasses
from rukpak.controller.observe.deployments import HealthCheck, SeenDeployments
from rukpak.controller.observe.evaluation import Evaluations, Evaluator
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
from rukpak.controller.observe.health.verdict import Context, State, Verdict
from rukpak.controller.observe.records import Journal, Look, Record, project

OWNER, KINDS = "owner", "kinds"
"""Indexes: of objects by owner, and of BundleDeployments by the kinds that they need."""
GroupKind = tuple[str, str]
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


@dataclass(slots=True, kw_only=True, eq=False)
class KindWatch:
    """The watch of a kind. Guarded by the lock of `ManagedObjects`."""

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

    def is_outdated(self, old: Definition | None, new: Definition) -> bool:
        """Return whether a changed definition requires another path, or other verdicts."""
        version = self.resource.version
        moved = new.resource is not None and new.resource.path() != (self.successor or self).resource.path()
        return moved or (old is not None and version in old.reporting) != (version in new.reporting)


class OwnedObjects:
    """Records by owner, and what has changed of each owner's. Not thread-safe."""

    def __init__(self) -> None:
        self._records: Indexer[ObjectKey, Record] = Indexer({OWNER: lambda record: (record.owner,)})
        """Only of objects that have an owner."""
        self._journals: dict[str, Journal[ObjectKey]] = {}
        """Only of owners that have objects."""
        self._first = 0
        """More than any number of a journal that was dropped, so that its readers read everything."""

    def of(self, owner: str) -> dict[ObjectKey, Record]:
        """Return a snapshot of the objects of an owner."""
        return dict(self._records.index(OWNER, owner))

    def look(self, owner: str, since: int) -> Look:
        """Return such a snapshot, and what has changed since the one with this number."""
        journal = self._journals.get(owner)
        number, changed = (journal.end, journal.since(since)) if journal else (self._first, None)
        return Look(records=self.of(owner), since=since, number=number, changed=changed)

    def find(self, key: ObjectKey) -> Record | None:
        """Return the record of an object."""
        return self._records.get(key)

    def kinds_of(self, owner: str) -> set[GroupKind]:
        """Return the kinds of the objects of an owner."""
        return {(key.group, key.kind) for key in self._records.index(OWNER, owner)}

    def of_kind(self, group_kind: GroupKind) -> set[ObjectKey]:
        """Return the keys of all objects of a kind."""
        return {key for key in self._records if (key.group, key.kind) == group_kind}

    def put(self, key: ObjectKey, record: Record | None) -> Record | None:
        """Keep an object under its owner; None, or an object without owner, removes it.

        Returns: the previous record.
        """
        record = record if record and record.owner else None
        before = self._records.put(key, record)
        for owner in {each.owner for each in (before, record) if each}:
            journal = self._journals.get(owner) or self._journals.setdefault(owner, Journal(self._first))
            size = len(self._records.index(OWNER, owner))
            journal.add(key, size)
            if not size:
                self._first = max(self._first, journal.end + 1)
                del self._journals[owner]
        return before

    def drop(self, group_kind: GroupKind | None = None) -> None:
        """Remove all objects, or those of a kind."""
        for key in self.of_kind(group_kind) if group_kind else list(self._records):
            self.put(key, None)


class _Needs(NamedTuple):
    """What is watched for a BundleDeployment."""

    kinds: frozenset[GroupKind] = frozenset()
    decided: bool = False
    """Whether a pass has decided the kinds; otherwise they are what its status says."""
    heeded: frozenset[ObjectKey] = frozenset()
    """Objects of which any change is reported."""


@lru_cache(maxsize=256)
def _shared(kinds: frozenset[GroupKind]) -> frozenset[GroupKind]:
    # Thousands may need the same few.
    return kinds


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


class Projection:
    """Thread-safe."""

    def __init__(
        self, deployments: SeenDeployments, definitions: Definitions, classes: StorageClasses, evaluator: Evaluator
    ) -> None:
        self._deployments, self._definitions, self._classes = deployments, definitions, classes
        self._evaluator = evaluator

    def can_judge(self, kind: GroupVersionKind) -> bool:
        """Return whether everything else that the health of a kind depends on is known, or cannot be listed.

        For claims this starts the watch of StorageClasses.
        """
        if kind.group_kind == CLAIM:
            self._classes.start()
            return self._classes.reflector.settled
        return kind.group in BUILT_IN_GROUPS or self._definitions.reflector.settled

    def project(self, manifest: dict[str, Any], resource: Resource, *, full: bool, evaluates: bool = False) -> Record:
        """Return the record of an object, with its health if it was read in full.

        Args:
            manifest: of the object.
            resource: that it was read at.
            full: whether it is more than its metadata.
            evaluates: expressions; not on the thread of a watch.
        """
        group, kind = resource.group, resource.kind
        if not full:
            return project(manifest, group, kind)
        manifest = {**manifest, "apiVersion": resource.api_version, "kind": kind}
        owner = (manifest["metadata"].get("labels") or {}).get(names.OWNER_LABEL, "")
        checks = self._checks_on(owner, manifest)
        verdict = self._judge(manifest, resource, checks, evaluates=evaluates)
        record = project(manifest, group, kind, verdict, pods_of(manifest, verdict))
        rollout = rollout_of(manifest, record.applied_at)
        reported = reported_of(manifest, checked=bool(checks))
        return replace(record, rollout=rollout, reported=reported) if rollout or reported else record

    def judge(self, name: str, manifest: Mapping[str, Any], resource: Resource, *, evaluates: bool) -> Verdict:
        """Return the health of any object as a BundleDeployment would judge it.

        Args:
            name: of the BundleDeployment.
            manifest: of the object.
            resource: that it was read at.
            evaluates: expressions; otherwise an object that has some is NotEvaluated.
        """
        return self._judge(manifest, resource, self._checks_on(name, manifest), evaluates=evaluates)

    def _judge(
        self, manifest: Mapping[str, Any], resource: Resource, checks: tuple[HealthCheck, ...], *, evaluates: bool
    ) -> Verdict:
        context = Context(
            binding_mode=self._classes.binding_mode,
            reports_status=self._definitions.reports_status(resource.group, resource.version, resource.kind),
            evaluate=self._evaluator.evaluate if evaluates else None,
            checks=checks,
        )
        return self._definitions.name_holder(manifest, assess(manifest, context))

    def _checks_on(self, name: str, manifest: Mapping[str, Any]) -> tuple[HealthCheck, ...]:
        return matching(self._deployments.checks_of(name), manifest)


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
        before = Record(key=now.key)
    elif now.verdict == NOT_OBSERVED:
        return replace(now, reported=before.reported, outdated=before.outdated, falls=before.falls)
    is_old = is_outdated(before.reported, now.reported, now.applied_at, was_outdated=before.outdated)
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


class ManagedObjects:
    """Thread-safe: the objects with the owner label of a BundleDeployment, of each kind that one needs.

    Args:
        client: acts as the controller.
        served: finds the resources of kinds.
        projection: makes records.
        deployments: of all shards; others' are not reported.
        listener: is notified of changes.
        share: returns the share that is charged for the expressions of a BundleDeployment.
    """

    def __init__(
        self,
        client: Client,
        *,
        served: ServedKinds,
        projection: Projection,
        deployments: SeenDeployments,
        listener: Listener,
        share: Callable[[str], str],
    ) -> None:
        self._client, self._served, self._listener = client, served, listener
        self._projection, self._deployments = projection, deployments
        self._evaluations = Evaluations(self._judge, share, lambda: client.supervisor)
        self._lock = threading.RLock()
        self._watches: dict[GroupKind, KindWatch] = {}
        self._needs: Indexer[str, _Needs] = Indexer({KINDS: lambda needs: (needs.kinds,)})
        self._unwatched: set[GroupKind] = set()
        """Kinds that are needed and not watched yet."""
        self._owned = OwnedObjects()

    def reflectors(self) -> list[Reflector[Record]]:
        """Return the reflectors of all kinds, including successors."""
        with self._lock:
            return [reflector for watch in self._watches.values() for reflector in watch.reflectors()]

    def stop(self) -> None:
        """Judge no more objects by expressions; returns at once. The watches are stopped one by one."""
        self._evaluations.stop()

    def drop(self) -> None:
        """Forget all objects, and list them again: those of another cluster must not be used, not even until then."""
        with self._lock:
            for reflector in self.reflectors():
                reflector.drop()
            self._owned.drop()

    # what is needed

    def require(self, name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        """Also watch these kinds for a BundleDeployment.

        A kind that is not served has no objects; the listener is notified when it may be served. A kind that cannot be
        listed delays nothing: its objects are read before they are applied. Before irreversible steps call
        `find_unknown`.

        Returns: the kinds whose first list is in progress.
        Raises: ApiError if discovery fails.
        """
        return self._watch(name, kinds, decided=True)

    def require_only(self, name: str, kinds: Iterable[GroupVersionKind]) -> None:
        """Watch exactly these kinds for a BundleDeployment, so far as they are watched already."""
        with self._lock:
            self._need(name, frozenset(kind.group_kind for kind in kinds), decided=True)

    def prepare(self, name: str, kinds: Iterable[GroupVersionKind]) -> None:
        """Watch exactly these kinds for a BundleDeployment until `require` says which it needs.

        Raises: ApiError if discovery fails.
        """
        self._watch(name, kinds, decided=False)

    def _watch(self, name: str, kinds: Iterable[GroupVersionKind], *, decided: bool) -> list[str]:
        wanted = {kind.group_kind: kind for kind in kinds}
        with self._lock:
            needs = self._needs_of(name)
            if needs.decided and not decided:
                return []
            self._need(name, needs.kinds.union(wanted) if decided else frozenset(wanted), decided=decided)
            unwatched = wanted.keys() - self._watches.keys()
            self._unwatched |= unwatched  # so that those served from now on are reported
        return self._start(name, wanted, unwatched)

    def heed(self, name: str, keys: frozenset[ObjectKey]) -> None:
        """Notify the listener of any change of exactly these objects of a BundleDeployment."""
        with self._lock:
            needs = self._needs_of(name)
            if keys != needs.heeded:
                self._needs.put(name, needs._replace(heeded=keys))

    def forget(self, name: str, *, decided: bool = True) -> None:
        """Watch nothing more for a BundleDeployment that is gone.

        Args:
            name: of the BundleDeployment.
            decided: whether a pass asks for it. Otherwise what a pass has decided to watch is watched until one does.
        """
        with self._lock:
            if decided or not self._needs_of(name).decided:
                self._needs.put(name, None)
                self._stop_unneeded()

    def _needs_of(self, name: str) -> _Needs:
        return self._needs.get(name) or _Needs()

    def _need(self, name: str, kinds: frozenset[GroupKind], *, decided: bool) -> None:
        before = self._needs_of(name)
        if (kinds, decided) != (before.kinds, before.decided):
            self._needs.put(name, before._replace(kinds=_shared(kinds), decided=decided))
        if before.kinds - kinds:
            self._stop_unneeded()

    def _stop_unneeded(self) -> None:
        needed: set[GroupKind] = set().union(*self._needs.entries(KINDS))
        self._unwatched &= needed
        for group_kind in self._watches.keys() - needed:
            for reflector in self._watches.pop(group_kind).reflectors():
                reflector.stop()
            self._owned.drop(group_kind)

    def _start(
        self, name: str, wanted: Mapping[GroupKind, GroupVersionKind], missing: Collection[GroupKind]
    ) -> list[str]:
        unwatched = [kind for group_kind, kind in wanted.items() if group_kind in missing]
        pending = [kind for kind in unwatched if not self._projection.can_judge(kind)]
        ready = [kind for kind in unwatched if kind not in pending]
        served = [(kind, resource) for kind in ready if (resource := self._served.find(kind))]  # may send a request
        with self._lock:
            for kind, resource in served:
                if kind.group_kind not in self._watches:
                    watch = self._watches[kind.group_kind] = self._open(kind, resource)
                    watch.reflector.start()
            self._unwatched -= self._watches.keys()
            watches = {group_kind: self._watches[group_kind] for group_kind in wanted if group_kind in self._watches}
        for group_kind, watch in watches.items():
            is_enough = watch.full or watch.awaited
            if not is_enough and needs_full_object(*group_kind, self._deployments.checks_of(name)):
                self._relist(watch, awaited=True)
        return [kind.kind for kind in pending] + [watch.kind.kind for watch in watches.values() if not watch.known]

    def has_unwatched(self, name: str) -> bool:
        """Return whether a kind of a BundleDeployment is not watched because it is not known to be served."""
        with self._lock:
            return not self._unwatched.isdisjoint(self._needs_of(name).kinds)

    def find_unknown(self, name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        """Return the kinds of which a BundleDeployment may have unknown objects.

        Their API group fails discovery, or listing them fails. Forbidden kinds are left out, since that may be
        permanent. A kind that seems not to be served is looked up again, since discovery may have lagged behind.

        Raises: ApiError.
        """
        wanted = list(kinds)
        if self.has_unwatched(name):
            self._served.discovery.refresh()
            self.require(name, wanted)
        failing = self._served.discovery.failed_groups()
        return [str(kind) for kind in wanted if self._is_unknown(kind, failing)]

    def _is_unknown(self, kind: GroupVersionKind, failing: frozenset[str]) -> bool:
        if watch := self.find_watch(kind.group_kind):
            return not (watch.reflector.synced or watch.reflector.denied)
        return kind.group in failing and self._served.find(kind) is None

    def is_forbidden(self, group: str, kind: str) -> bool:
        """Return whether the controller is forbidden to list a kind."""
        watch = self.find_watch((group, kind))
        error = watch.reflector.last_error if watch and watch.reflector.denied else None
        return error is not None and error.status == HTTPStatus.FORBIDDEN

    # watches

    def find_watch(self, group_kind: GroupKind) -> KindWatch | None:
        """Return the watch of a kind."""
        return self._watches.get(group_kind)

    def _open(self, kind: GroupVersionKind, resource: Resource) -> KindWatch:
        full = needs_full_object(*kind.group_kind, self._deployments.all_checks())
        reflector = Reflector[Record](
            ListWatch(self._client, resource.path(), label_selector=names.OWNER_LABEL, metadata=not full),
            project=lambda manifest: self._projection.project(manifest, resource, full=full),
            on_change=self._changed,
            on_synced=lambda: self._listed(watch),
            on_failed=lambda: self.notify_requiring(watch.kind.group_kind),
        )
        watch = KindWatch(kind=kind, resource=resource, full=full, reflector=reflector)
        return watch

    def _listed(self, watch: KindWatch) -> None:
        with self._lock:
            before = self._watches.get(watch.kind.group_kind)
            takes_over = before is not None and before.successor is watch
            if takes_over:
                self._watches[watch.kind.group_kind] = watch
            indexed = self._owned.of_kind(watch.kind.group_kind) if takes_over else set()
        if before and takes_over:
            before.reflector.stop()
            for key in indexed | {record.key for record in watch.reflector.cache.records()}:
                self._refile(key, watch.reflector)
        self.notify_requiring(watch.kind.group_kind)

    # objects

    def of(self, name: str) -> dict[ObjectKey, Record]:
        """Return a snapshot of the objects with the owner label of a BundleDeployment, copies by others included."""
        with self._lock:
            return self._owned.of(name)

    def look(self, name: str, since: int) -> Look:
        """Return such a snapshot, and what has changed since the one with this number (`Look.number`)."""
        with self._lock:
            return self._owned.look(name, since)

    def _file(self, key: ObjectKey, reflector: Reflector[Record]) -> tuple[Record | None, Record | None]:
        """Keep the newest record of an object, which may be newer than the event.

        Returns: the record before and now; None for both if the reflector has been replaced.
        """
        with self._lock:
            watch = self.find_watch((key.group, key.kind))
            if watch is None or watch.reflector is not reflector:
                return None, None  # its watch has stopped, so nothing would remove the record later
            now = _compare(self._owned.find(key), reflector.cache.get((key.namespace, key.name)))
            return self._owned.put(key, now), now

    def _changed(self, old: Record | None, new: Record | None) -> None:
        record = new or old
        watch = self.find_watch((record.key.group, record.key.kind)) if record else None
        if record and watch:
            self._refile(record.key, watch.reflector)

    def _refile(self, key: ObjectKey, reflector: Reflector[Record]) -> None:
        before, now = self._file(key, reflector)
        urgent = _plan_inputs(before) != _plan_inputs(now)
        if urgent or _health_inputs(before) != _health_inputs(now) or self._is_heeded(before, now):
            owners = {record.owner for record in (before, now) if record and record.owner}
            for name in itertools.filterfalse(self._deployments.is_foreign, owners):
                self._listener.objects_changed(name, urgent=urgent)
        if now is None or (before and before.owner != now.owner):
            self._listener.cluster_changed()  # others that collided with it may be able to apply it now
        if now and now.verdict == NOT_EVALUATED:
            self._evaluations.add(now.owner, key)

    def _is_heeded(self, before: Record | None, now: Record | None) -> bool:
        if before is None or now is None or before.resource_version == now.resource_version:
            return False
        with self._lock:  # a key is absent for a moment while its value is replaced
            return now.key in self._needs_of(now.owner).heeded

    def _judge(self, key: ObjectKey) -> None:
        """Read an object that is not evaluated yet, and judge it; if it has changed since, its event does that again.

        Raises: ApiError.
        """
        watch = self.find_watch((key.group, key.kind))
        known = watch.reflector.cache.get((key.namespace, key.name)) if watch else None
        if watch is None or known is None or known.verdict != NOT_EVALUATED:
            return
        # A list, since the controller may be allowed to list and watch the kind only (config/restricted).
        selector = f"metadata.name={key.name}"
        for manifest in self._client.list(watch.resource.path(key.namespace), field_selector=selector):
            judged = self._projection.project(manifest, watch.resource, full=True, evaluates=True)
            for reflector in watch.reflectors():
                reflector.cache.amend(judged)
            self._refile(key, watch.reflector)

    def learn(self, record: Record) -> Record:
        """Learn an object from the reply to an apply; its health is unknown until the watch shows it.

        Notifies the previous owner, since the index has the new one before the event arrives.

        Returns: the newest known record.
        """
        watch = self.find_watch((record.key.group, record.key.kind))
        if watch is None:
            return record
        if watch.full:
            known = watch.reflector.cache.get((record.key.namespace, record.key.name))
            if known and known.resource_version == record.resource_version:
                return known
            record = replace(record, verdict=NOT_OBSERVED)
        for reflector in watch.reflectors():
            reflector.cache.learn(record)
        before, now = self._file(record.key, watch.reflector)
        if before and now and before.owner != now.owner:
            self._listener.objects_changed(before.owner, urgent=True)
        return record

    def learn_gone(self, key: ObjectKey) -> None:
        """Learn that an object is gone, or lost our label, of a kind whose watch may not report that."""
        watch = self.find_watch((key.group, key.kind))
        known = watch.reflector.cache.get((key.namespace, key.name)) if watch else None
        if watch and known:
            watch.reflector.cache.hide((key.namespace, key.name), known.uid)
            self._file(key, watch.reflector)

    # changes of what verdicts depend on

    def _relist(self, watch: KindWatch, *, awaited: bool = False) -> None:
        # The kind is listed again while its watch continues.
        try:
            resource = self._served.find(watch.kind) or watch.resource  # may send a request
        except ApiError:
            resource = watch.resource
        with self._lock:
            if self.find_watch(watch.kind.group_kind) is not watch:
                return
            if watch.successor:
                watch.successor.reflector.stop()
            watch.awaited = watch.awaited or awaited
            watch.successor = self._open(watch.kind, resource)
            watch.successor.reflector.start()

    def checks_changed(self, name: str, changed: Iterable[HealthCheck]) -> None:
        """Judge the objects again to which changed health checks of a BundleDeployment apply; passes wait for that."""
        checks = list(changed)
        for watch in self._find_judged_for(name) if checks else ():
            if any(concerns(check, *watch.kind.group_kind) for check in checks):
                self._relist(watch, awaited=True)

    def _find_judged_for(self, name: str) -> list[KindWatch]:
        with self._lock:
            # Objects of a first list in progress may have been judged already.
            owned, needed = self._owned.kinds_of(name), self._needs_of(name).kinds
            watches = [watch for each in owned | needed if (watch := self._watches.get(each))]
            return [watch for watch in watches if watch.kind.group_kind in owned or not watch.reflector.synced]

    def definition_changed(self, old: Definition | None, new: Definition | None) -> None:
        """Judge the objects of a changed definition again, and notify those whose kinds were not watched."""
        watch = self.find_watch(new.kind) if new else None
        if watch and new and watch.is_outdated(old, new):
            self._relist(watch)
        if new and new.resource:
            self.notify_unwatched(new.kind[0])

    def definitions_settled(self) -> None:
        """Notify all that need a custom kind: it can be watched now."""
        self._notify(lambda kind: kind[0] not in BUILT_IN_GROUPS)

    def classes_changed(self) -> None:
        """Judge the claims again that may wait for their StorageClass."""
        watch = self.find_watch(CLAIM)
        if watch is None:
            return
        # Asked first: objects of a list that is in progress may have been judged already.
        is_synced = watch.reflector.synced
        records = watch.reflector.cache.records()
        if not is_synced or any(each.verdict and each.verdict.reason in UNBOUND for each in records):
            self._relist(watch)

    def notify_requiring(self, group_kind: GroupKind) -> None:
        """Notify all that need a kind that its objects are known now, or cannot be listed."""
        self._notify(lambda kind: kind == group_kind)

    def notify_unwatched(self, group: str) -> None:
        """Notify all that need an unwatched kind of this group: it may be served now, and have objects already."""
        self._notify(lambda kind: kind[0] == group and kind in self._unwatched)

    def _notify(self, concerns_kind: Callable[[GroupKind], bool]) -> None:
        with self._lock:
            concerned = {kinds for kinds in self._needs.entries(KINDS) if any(map(concerns_kind, kinds))}
            found = [name for name in self._needs if concerned and self._needs_of(name).kinds in concerned]
        for name in found:
            self._listener.objects_changed(name, urgent=True)
