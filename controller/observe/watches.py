"""All watches: BundleDeployments, the managed objects of each kind that any of them has, and what ends a wait.

Managed objects are watched by their owner label, as metadata unless their health needs more (rule 6), and kept
as small records. What a reply to a request of our own says is learnt at once, so that no pass plans on older knowledge.
Objects are judged as they pass by; when what a judgement depends on beside the object has changed (a health check, the
storage version, a StorageClass), its kind is listed anew beside the watch that goes on. Nothing is decided here:
callers are told which BundleDeployment to look at again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Protocol

from pydantic import ValidationError

from api import names
from api.v1alpha2.types import BundleDeployment
from controller.kube.cache import Trace, make_trace
from controller.kube.client import ApiError, Client
from controller.kube.discovery import Discovery
from controller.kube.resources import BUILT_IN_GROUPS, DEPLOYMENTS, NAMESPACES, GroupVersionKind, Resource
from controller.kube.watch import Reflector
from controller.observe.definitions import DEFINITIONS, Definition, Definitions
from controller.observe.health import (
    NOT_OBSERVED,
    UNBOUND,
    Context,
    assess,
    concerns,
    matching,
    needs_full_object,
    pods_of,
)
from controller.observe.records import ObjectKey, Record, project
from controller.observe.storage_classes import StorageClasses

log = logging.getLogger(__name__)

_WAITED_FOR = (
    Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False),
    NAMESPACES,
)
_CLAIM = ("", "PersistentVolumeClaim")
# Where an older version hides what health needs: conditions in an annotation (controller/observe/health/README.md).
_READ_AT = {("autoscaling", "HorizontalPodAutoscaler"): "v2"}


class Listener(Protocol):
    """Who is told what has changed. Called on the threads of the watches: keep it short."""

    def deployment_changed(self, name: str) -> None:
        """A BundleDeployment has another spec, annotation, finalizer or end, or is gone."""

    def objects_changed(self, name: str, *, urgent: bool) -> None:
        """A managed object of it has changed, or can be watched now; urgent unless only its health has changed."""

    def cluster_changed(self, kind: str) -> None:
        """A CustomResourceDefinition, APIService or Namespace has changed, or somebody let go of an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A BundleDeployment as it was seen last; `deployment` is None where this release cannot read it."""

    name: str
    uid: str
    resource_version: str
    deployment: BundleDeployment | None
    checks: tuple[Mapping[str, Any], ...] = ()
    """`spec.healthChecks` as they are written."""
    namespace: str = ""


@dataclass(slots=True, kw_only=True)
class _Sight:
    """How a kind is watched."""

    kind: GroupVersionKind
    resource: Resource
    full: bool
    reflector: Reflector[Record]
    successor: _Sight | None = None
    """Takes over once it knows all: what a judgement depends on has changed."""
    awaited: bool = False
    """Whether passes wait for the successor: what this one says was asked for otherwise."""

    @property
    def known(self) -> bool:
        """Whether all that can be known of the kind is."""
        if self.awaited and self.successor and not self.successor.reflector.settled:
            return False
        return self.reflector.settled


class Watches:
    """Thread-safe."""

    def __init__(self, client: Client, discovery: Discovery, listener: Listener) -> None:
        self._client, self._discovery, self._listener = client, discovery, listener
        self._kinds: dict[tuple[str, str], _Sight] = {}
        self._needs: dict[str, frozenset[tuple[str, str]]] = {}
        self._unwatched: set[tuple[str, str]] = set()
        """Kinds that are needed and that, as far as is known, nothing serves."""
        self._owned: dict[str, dict[ObjectKey, Record]] = {}
        self._owners: dict[ObjectKey, str] = {}
        self._lock = threading.RLock()
        self._deployments = Reflector[_Seen](
            client,
            DEPLOYMENTS.path(),
            project=_see,
            on_change=self._deployment_changed,
            on_synced=self._deployments_synced,
        )
        self._waited_for = [self._wait_for(resource) for resource in _WAITED_FOR]
        self._definitions = Definitions(client, self._definition_changed, self._definitions_settled)
        self._classes = StorageClasses(client, self._classes_changed, lambda: self._kind_synced(_CLAIM))

    def start(self) -> None:
        """Begin to watch; returns at once."""
        self._deployments.start()
        self._definitions.reflector.start()
        for reflector in self._waited_for:
            reflector.start()

    def stop(self) -> None:
        """End all watches; returns at once."""
        for reflector in self._reflectors():
            reflector.stop()

    def _reflectors(self) -> list[Reflector[Any]]:
        shared: list[Reflector[Any]] = [self._deployments, self._definitions.reflector, self._classes.reflector]
        return [*shared, *self._waited_for, *self._of_kinds()]

    def _of_kinds(self) -> list[Reflector[Record]]:
        with self._lock:
            sights = [each for sight in self._kinds.values() for each in (sight, sight.successor) if each]
        return [sight.reflector for sight in sights]

    def stuck(self) -> list[str]:
        """Return the paths of the watches whose threads have ended or hang."""
        return [reflector.path for reflector in self._reflectors() if reflector.stuck]

    def unknown(self) -> list[str]:
        """Return the paths of the collections that are not known yet, with what hinders that."""
        missing = [reflector for reflector in self._reflectors() if reflector.started and not reflector.synced]
        # What may not be listed, or is not served, holds nothing up; without the BundleDeployments there is no work.
        waiting = [each for each in missing if not each.denied or each is self._deployments]
        return [f"{each.path}{f' ({each.last_error})' if each.last_error else ''}" for each in waiting]

    # BundleDeployments

    @property
    def synced(self) -> bool:
        """Whether all BundleDeployments are known."""
        return self._deployments.synced

    def deployment(self, name: str) -> BundleDeployment | None:
        """Return a BundleDeployment as it was seen last; None if there is none, or none that can be read."""
        seen = self._deployments.get(("", name))
        return seen.deployment if seen else None

    def deployments(self) -> list[BundleDeployment]:
        """Return all BundleDeployments that can be read, in no order."""
        return [seen.deployment for seen in self._deployments.records() if seen.deployment]

    def deployment_names(self) -> set[str]:
        """Return the names of all BundleDeployments, of unreadable ones, too."""
        return {seen.name for seen in self._deployments.records()}

    def exists(self, name: str, uid: str) -> bool:
        """Return whether there is a BundleDeployment of that name with that UID."""
        seen = self._deployments.get(("", name))
        return seen is not None and seen.uid == uid

    def learn_deployment(self, manifest: Mapping[str, Any]) -> None:
        """Take over what the reply to a write of ours said."""
        self._deployments.learn(_see(dict(manifest)))

    def forget_deployment(self, name: str, uid: str) -> None:
        """Take over what the reply to a write of ours said: this BundleDeployment is gone."""
        self._deployments.forget(("", name), uid)

    def catch_up(self) -> None:
        """Read all BundleDeployments once more: what somebody else wrote a moment ago may not have come yet.

        Raises: ApiError.
        """
        for manifest in self._client.list(DEPLOYMENTS.path()):
            self.learn_deployment(manifest)

    def _deployments_synced(self) -> None:
        for name in self.deployment_names():
            self._listener.deployment_changed(name)

    def _deployment_changed(self, old: _Seen | None, new: _Seen | None) -> None:
        if new and new.deployment:
            self._ensure(new.deployment)
            self._judge_anew(new.name, (*new.checks, *(old.checks if old else ())), old.checks if old else ())
        seen = new or old
        if seen and (old is None or new is None or _wish(old) != _wish(new)):
            self._listener.deployment_changed(seen.name)

    def _ensure(self, deployment: BundleDeployment) -> None:
        recorded = [GroupVersionKind.parse(text) for text in deployment.status.managed_kinds]
        with self._lock:
            known = deployment.metadata.name in self._needs
        if not known:  # later, passes say what is needed
            with suppress(ApiError):  # of discovery: a pass asks again
                self.need(deployment.metadata.name, recorded)

    # managed objects

    def need(self, name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        """Watch these kinds for a BundleDeployment, too.

        A kind that the cluster does not serve has no objects; the listener is told when it may be served. One that may
        not or cannot be listed now holds nothing up: its objects are looked at before they are applied. For what cannot
        be taken back that is not enough: see `find_unknown`.

        Returns: the kinds whose first list is under way.
        """
        wanted = {(kind.group, kind.kind): kind for kind in kinds}
        with self._lock:
            self._needs[name] = self._needs.get(name, frozenset()) | frozenset(wanted)
            unwatched = {group_kind: kind for group_kind, kind in wanted.items() if group_kind not in self._kinds}
            self._unwatched |= unwatched.keys()  # what comes from now on is told
        dark = [kind for kind in unwatched.values() if not self._can_judge(kind)]
        lit = [kind for kind in unwatched.values() if kind not in dark]
        served = [(kind, resource) for kind in lit if (resource := self._serving(kind))]  # may take a request
        with self._lock:
            for kind, resource in served:
                if (kind.group, kind.kind) not in self._kinds:
                    self._kinds[kind.group, kind.kind] = sight = self._open(kind, resource)
                    sight.reflector.start()
            self._unwatched -= self._kinds.keys()
            sights = {key: self._kinds[key] for key in wanted if key in self._kinds}
        checks = self._checks_of(name)
        for group_kind, sight in sights.items():
            if checks and not sight.full and not sight.awaited and needs_full_object(*group_kind, checks):
                self._look_anew(sight, awaited=True)
        return [kind.kind for kind in dark] + [key[1] for key, sight in sights.items() if not sight.known]

    def need_only(self, name: str, kinds: Iterable[GroupVersionKind]) -> None:
        """Watch no longer for a BundleDeployment what is not among these kinds."""
        with self._lock:
            self._needs[name] = frozenset((kind.group, kind.kind) for kind in kinds)
            self._end_unneeded()

    def forget(self, name: str) -> None:
        """Need nothing for a BundleDeployment that is gone."""
        with self._lock:
            self._needs.pop(name, None)
            self._end_unneeded()

    def is_blind(self, name: str) -> bool:
        """Return whether a kind that a BundleDeployment needs is not watched: as far as is known, nothing serves it."""
        with self._lock:
            return not self._unwatched.isdisjoint(self._needs.get(name, ()))

    def find_unknown(self, name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        """Return the kinds that a BundleDeployment may have objects of that nobody knows, as they cannot be listed.

        Either their API group does not answer discovery, or the API server a list. What may not be listed is left out:
        that would last. A kind that seems not to be served is looked up anew: discovery may have been behind it.

        Raises: ApiError.
        """
        wanted = list(kinds)
        if self.is_blind(name):
            self._discovery.refresh()
            self.need(name, wanted)
        failing = self._discovery.failed_groups()
        return [str(kind) for kind in wanted if self._is_unknown(kind, failing)]

    def is_unseen(self, group: str, kind: str) -> bool:
        """Return whether the objects of a kind are not seen, since the controller may not list it."""
        with self._lock:
            sight = self._kinds.get((group, kind))
        error = sight.reflector.last_error if sight and sight.reflector.denied else None
        return error is not None and error.status == HTTPStatus.FORBIDDEN

    def _is_unknown(self, kind: GroupVersionKind, failing: frozenset[str]) -> bool:
        with self._lock:
            sight = self._kinds.get((kind.group, kind.kind))
        if sight:
            return not (sight.reflector.synced or sight.reflector.denied)
        return kind.group in failing and self._serving(kind) is None

    def _can_judge(self, kind: GroupVersionKind) -> bool:
        """Whether what the health of a kind depends on beside its objects is known, or cannot be."""
        if (kind.group, kind.kind) == _CLAIM:
            self._classes.start()
            return self._classes.settled
        return kind.group in BUILT_IN_GROUPS or self._definitions.settled

    def _open(self, kind: GroupVersionKind, resource: Resource) -> _Sight:
        full = self._needs_full(kind)
        reflector = Reflector[Record](
            self._client,
            resource.path(),
            label_selector=names.OWNER_LABEL,
            metadata=not full,
            project=lambda manifest: self._project(manifest, resource, full=full),
            on_change=self._object_changed,
            on_synced=lambda: self._kind_listed(sight),
            on_failed=lambda: self._kind_synced((kind.group, kind.kind)),
        )
        sight = _Sight(kind=kind, resource=resource, full=full, reflector=reflector)
        return sight

    def _checks_of(self, name: str) -> tuple[Mapping[str, Any], ...]:
        """Return the health checks of a BundleDeployment."""
        seen = self._deployments.get(("", name))
        return seen.checks if seen else ()

    def _needs_full(self, kind: GroupVersionKind) -> bool:
        checks = [check for seen in self._deployments.records() for check in seen.checks]
        return needs_full_object(kind.group, kind.kind, checks)

    def _project(self, manifest: dict[str, Any], resource: Resource, *, full: bool) -> Record:
        """Return what is kept of an object, with its health."""
        group, kind = resource.group, resource.kind
        if not full:
            return project(manifest, group, kind)
        manifest = {**manifest, "apiVersion": resource.api_version, "kind": kind}
        owner = (manifest["metadata"].get("labels") or {}).get(names.OWNER_LABEL, "")
        context = Context(
            storage_class=self._classes.find,
            reports_status=self._definitions.reports_status(group, resource.version, kind),
            checks=matching(self._checks_of(owner), manifest),
        )
        verdict = assess(manifest, context)
        return project(manifest, group, kind, verdict, pods_of(manifest, verdict))

    # what a judgement depends on has changed

    def _look_anew(self, sight: _Sight, *, awaited: bool = False) -> None:
        """List a kind anew, beside the watch that goes on until all is known."""
        try:
            resource = self._serving(sight.kind) or sight.resource  # may take a request
        except ApiError:
            resource = sight.resource
        with self._lock:
            if self._kinds.get((sight.kind.group, sight.kind.kind)) is not sight:
                return
            if sight.successor:
                sight.successor.reflector.stop()
            sight.awaited = sight.awaited or awaited
            sight.successor = self._open(sight.kind, resource)
            sight.successor.reflector.start()

    def _kind_listed(self, sight: _Sight) -> None:
        """Let a watch that knows all take over from the one before it, if there is one."""
        group_kind = (sight.kind.group, sight.kind.kind)
        with self._lock:
            before = self._kinds.get(group_kind)
            succeeds = before is not None and before.successor is sight
            if succeeds:
                self._kinds[group_kind] = sight
        if before and succeeds:
            before.reflector.stop()
            with self._lock:
                filed = {key for key in self._owners if (key.group, key.kind) == group_kind}
            for key in filed | {record.key for record in sight.reflector.records()}:
                self._refile(key, sight.reflector)
        self._kind_synced(group_kind)

    def _judge_anew(self, name: str, checks: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]) -> None:
        """Judge the objects of a BundleDeployment anew that other health checks concern than before."""
        now = self._checks_of(name)
        changed = [check for check in checks if (check in now) != (check in before)]
        with self._lock:
            owned = {(key.group, key.kind) for key in self._owned.get(name, {})}
            needed = self._needs.get(name, frozenset()) & self._kinds.keys()
            # What is being listed for the first time may have been judged already.
            listed = {each for each in needed if not self._kinds[each].reflector.synced}
            sights = [self._kinds[group_kind] for group_kind in (owned & self._kinds.keys()) | listed]
        for sight in sights:
            if any(concerns(check, sight.kind.group, sight.kind.kind) for check in changed):
                self._look_anew(sight, awaited=True)

    def _definition_changed(self, old: Definition | None, new: Definition | None) -> None:
        self._discovery.invalidate()
        self._wake_denied()
        with self._lock:
            sight = self._kinds.get(new.kind) if new else None
        if sight and new and _changes_sight(sight, old, new):
            self._look_anew(sight)
        if new and new.resource:
            self._tell_blind(new.kind[0])
        self._listener.cluster_changed(DEFINITIONS.kind)

    def _tell_blind(self, group: str) -> None:
        """A kind of this group that somebody needs may be served now.

        Its objects may be there already: who applies a definition goes on when the API server serves its kind, and the
        watch of definitions, or discovery, may be behind.
        """
        with self._lock:
            come = {each for each in self._unwatched if each[0] == group}
            blind = [name for name, kinds in self._needs.items() if kinds & come] if come else []
        for name in blind:
            self._listener.objects_changed(name, urgent=True)

    def _definitions_settled(self) -> None:
        """Custom resources can be watched now."""
        with self._lock:
            waiting = [n for n, kinds in self._needs.items() if any(group not in BUILT_IN_GROUPS for group, _ in kinds)]
        for name in waiting:
            self._listener.objects_changed(name, urgent=True)

    def _classes_changed(self) -> None:
        with self._lock:
            sight = self._kinds.get(_CLAIM)
        if sight is None:
            return
        # What is being listed for the first time may have been judged already.
        records = sight.reflector.records()
        if not sight.reflector.synced or any(each.verdict and each.verdict.reason in UNBOUND for each in records):
            self._look_anew(sight)

    def is_namespaced(self, kind: GroupVersionKind) -> bool | None:
        """Return whether the objects of a kind have a namespace; None if the cluster does not serve it."""
        resource = self._discovery.resource(kind)
        return resource.namespaced if resource else None

    def is_missing(self, kind: GroupVersionKind) -> bool:
        """Return whether the cluster does not serve a kind; of a group that does not answer discovery nobody knows."""
        return self._discovery.resource(kind) is None and kind.group not in self._discovery.failed_groups()

    def has_come(self, kind: GroupVersionKind) -> bool:
        """Return whether the cluster serves a kind that it did not serve; asked for nothing while nothing changed."""
        return self._discovery.has_come(kind)

    def seconds_to_look_again(self) -> float | None:
        """Return in how many seconds a kind that is missing may be served, as something has changed; None: it has not.

        Nothing tells when: discovery may be behind the event that made somebody look.
        """
        return self._discovery.seconds_to_look_again()

    def stored(self, group: str, kind: str) -> Resource | None:
        """Return what serves a custom kind at its storage version: no conversion webhook has a say there."""
        definition = self._definitions.of(group, kind)
        return definition.resource if definition else None

    def _serving(self, kind: GroupVersionKind) -> Resource | None:
        """Return what serves a kind where its objects are best read: see definitions.py; else at its own version."""
        if stored := self.stored(kind.group, kind.kind):
            return stored
        best = kind._replace(version=_READ_AT.get((kind.group, kind.kind), kind.version))
        served = self._discovery.resource(best) or self._discovery.resource(kind)
        return served or self._discovery.any_version(kind.group, kind.kind)

    def _end_unneeded(self) -> None:
        needed = frozenset().union(*self._needs.values()) if self._needs else frozenset()
        self._unwatched &= needed
        for group_kind in [group_kind for group_kind in self._kinds if group_kind not in needed]:
            sight = self._kinds.pop(group_kind)
            for each in (sight, sight.successor):
                if each:
                    each.reflector.stop()
            for key in [key for key in self._owners if (key.group, key.kind) == group_kind]:
                del self._owned[self._owners.pop(key)][key]

    def _kind_synced(self, group_kind: tuple[str, str]) -> None:
        with self._lock:
            waiting = [name for name, kinds in self._needs.items() if group_kind in kinds]
        for name in waiting:
            self._listener.objects_changed(name, urgent=True)

    def managed(self, name: str) -> dict[ObjectKey, Record]:
        """Return a snapshot of the objects that carry the owner label of a BundleDeployment, be they ours or copies."""
        with self._lock:
            return dict(self._owned.get(name, {}))

    def learn(self, record: Record) -> Record:
        """Take over what the reply to an apply of ours said; its health is not known until the object is seen.

        Who had the object before is told here: by the time of its event it is filed under the new owner already.

        Returns: what is known now.
        """
        with self._lock:
            sight = self._kinds.get((record.key.group, record.key.kind))
        if sight is None:
            return record
        if sight.full:
            known = sight.reflector.get((record.key.namespace, record.key.name))
            if known and known.resource_version == record.resource_version:
                return known
            record = replace(record, verdict=NOT_OBSERVED)
        for each in (sight, sight.successor):
            if each:
                each.reflector.learn(record)
        before, now = self._index(record.key, sight.reflector)
        if before and now and before.owner != now.owner:
            self._listener.objects_changed(before.owner, urgent=True)
        return record

    def forget_object(self, key: ObjectKey) -> None:
        """Take over that an object of a kind that nobody watches is gone, or carries our label no more."""
        with self._lock:
            sight = self._kinds.get((key.group, key.kind))
        known = sight.reflector.get((key.namespace, key.name)) if sight else None
        if sight and known:
            sight.reflector.forget((key.namespace, key.name), known.uid)
            self._index(key, sight.reflector)

    def _index(self, key: ObjectKey, reflector: Reflector[Record]) -> tuple[Record | None, Record | None]:
        """File what is known of an object now under its owner; returns what was filed before, and is now.

        What a reply said may be newer than the event at hand: the reflector knows.
        """
        with self._lock:
            sight = self._kinds.get((key.group, key.kind))
            if sight is None or sight.reflector is not reflector:
                return None, None  # its watch has ended: nobody would take away again what is filed now
            now = reflector.get((key.namespace, key.name))
            owner = self._owners.pop(key, "")
            before = self._owned.get(owner, {}).pop(key, None)
            if now and now.owner:
                self._owners[key] = now.owner
                self._owned.setdefault(now.owner, {})[key] = now
        return before, now

    def _object_changed(self, old: Record | None, new: Record | None) -> None:
        changed = new or old
        sight = self._kinds.get((changed.key.group, changed.key.kind)) if changed else None
        if changed and sight:
            self._refile(changed.key, sight.reflector)

    def _refile(self, key: ObjectKey, reflector: Reflector[Record]) -> None:
        """File what is known of an object now, and tell whom it concerns."""
        before, now = self._index(key, reflector)
        urgent = _identity(before) != _identity(now)
        if urgent or _progress(before) != _progress(now):
            for name in {record.owner for record in (before, now) if record and record.owner}:
                self._listener.objects_changed(name, urgent=urgent)
        if now is None or (before and before.owner != now.owner):
            self._listener.cluster_changed(key.kind)  # who collided with it may have it now

    # what is only waited for

    def _wake_denied(self) -> None:
        """A kind that was not served may be now."""
        reflectors: list[Reflector[Any]] = [self._deployments, *self._of_kinds()]
        for reflector in reflectors:
            if reflector.denied:
                reflector.wake()

    def _wait_for(self, resource: Resource) -> Reflector[Trace]:
        def changed(_old: Trace | None, new: Trace | None) -> None:
            if resource is not NAMESPACES:
                self._discovery.invalidate()
                self._wake_denied()
                self._tell_blind(new.name.partition(".")[2] if new else "")  # named <version>.<group>
            self._listener.cluster_changed(resource.kind)

        return Reflector[Trace](self._client, resource.path(), metadata=True, project=make_trace, on_change=changed)


def _see(manifest: dict[str, Any]) -> _Seen:
    metadata = manifest["metadata"]
    try:
        deployment = BundleDeployment.model_validate(manifest)
    except ValidationError as error:
        details = error.errors(include_input=False, include_url=False)
        log.warning(
            "BundleDeployment cannot be read", extra={"BundleDeployment": metadata["name"], "problem": str(details[0])}
        )
        deployment = None
    checks = deployment.spec.health_checks if deployment else ()
    return _Seen(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        deployment=deployment,
        checks=tuple(check.model_dump(mode="json", by_alias=True, exclude_defaults=True) for check in checks),
    )


def _wish(seen: _Seen) -> tuple[object, ...]:
    """What of a BundleDeployment asks for a pass; our own writes to its status do not."""
    if seen.deployment is None:
        return (seen.uid,)
    metadata = seen.deployment.metadata
    orders = tuple(metadata.annotations.get(name) for name in names.ORDERS)
    return (seen.uid, metadata.generation, orders, tuple(metadata.finalizers), metadata.deletion_timestamp is None)


def _changes_sight(sight: _Sight, old: Definition | None, new: Definition) -> bool:
    """Whether the objects of a kind are to be read elsewhere, or to be judged otherwise."""
    version = sight.resource.version
    moved = new.resource is not None and new.resource.path() != (sight.successor or sight).resource.path()
    return moved or (old is not None and version in old.reporting) != (version in new.reporting)


def _progress(record: Record | None) -> tuple[object, ...] | None:
    """What of a managed object tells how it gets on: of a hook whatever changes, since one may be well all the time."""
    return (record.verdict, record.resource_version if record.is_hook else "") if record else None


def _identity(record: Record | None) -> tuple[object, ...] | None:
    """What of a managed object a plan depends on."""
    if record is None:
        return None
    owners = (record.owner, record.owner_uid, record.controller_uid)
    return (record.uid, record.applied_digest, record.entry_hash, record.deleting, record.finalizers, *owners)
