"""All watches, as the rest of the controller uses them: BundleDeployments, managed objects, and their prerequisites.

Managed objects are watched by their owner label, as metadata unless their health needs more, and kept as small records.
Replies to our own requests are learned immediately, so that no pass plans with older data. An object is judged on its
event. When something else that verdicts depend on changes (a health check, the storage version, a StorageClass), the
kind is listed again while its watch continues. Nothing is decided here: the listener gets the BundleDeployments to
reconcile.

This module only connects the parts that `__init__` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.kube.cache import Trace, make_trace
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import NAMESPACES, GroupVersionKind, Resource, read_kinds
from rukpak.controller.kube.shard import DEFAULT_SHARD, Shard
from rukpak.controller.kube.watch import Reflector
from rukpak.controller.observe.definitions import Definition, Definitions, StorageClasses
from rukpak.controller.observe.deployments import SeenDeployment, SeenDeployments, is_damaged, needs_pass
from rukpak.controller.observe.evaluation import Evaluator
from rukpak.controller.observe.health.verdict import Verdict
from rukpak.controller.observe.kinds import (
    CLAIM,
    Listener,
    ManagedKinds,
    Projection,
    Registry,
    ServedKinds,
    group_kind_of,
)
from rukpak.controller.observe.records import Look, ObjectKey, Record
from rukpak.controller.sharing import share_of

API_SERVICES = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)


class Watches:
    """Thread-safe."""

    def __init__(
        self,
        client: Client,
        discovery: Discovery,
        listener: Listener,
        shard: Shard = DEFAULT_SHARD,
        *,
        share: Callable[[BundleDeployment], str] = share_of,
    ) -> None:
        self._discovery, self._listener = discovery, listener
        self.evaluator = Evaluator()
        self.history = 0
        """How often `refresh` was called: what was read before does not count any more."""
        self.deployments = SeenDeployments(client, self._deployment_changed, self._deployments_synced, shard)
        self._definitions = Definitions(client, self._definition_changed, self._definitions_settled)
        self._classes = StorageClasses(client, self._classes_changed, self._classes_settled)
        self._namespaces = _watch_changes(client, NAMESPACES, lambda _old, _new: listener.cluster_changed())
        self._others: list[Reflector[Any]] = [
            _watch_changes(client, API_SERVICES, self._api_service_changed),
            self._namespaces,
        ]
        self._registry = Registry()
        self.served = ServedKinds(discovery, self._definitions)
        self._projection = Projection(self.deployments, self._definitions, self._classes)
        self._kinds = ManagedKinds(
            client,
            self._registry,
            served=self.served,
            projection=self._projection,
            listener=listener,
            evaluate=self.evaluator.evaluate,
            share=lambda name: share(found) if (found := self.deployments.outline(name)) else "",
            is_foreign=self.deployments.is_foreign,
        )

    def include(self, reflector: Reflector[Any]) -> None:
        """Start, stop, check and refresh another watch together with these; only before they start."""
        self._others.append(reflector)

    def start(self) -> None:
        """Start to watch; returns immediately."""
        self.deployments.reflector.start()
        self._definitions.reflector.start()
        for reflector in self._others:
            reflector.start()

    def stop(self) -> None:
        """Stop all watches; returns immediately."""
        for reflector in self._reflectors():
            reflector.stop()
        self._kinds.stop()
        self.evaluator.stop()

    def _reflectors(self) -> list[Reflector[Any]]:
        single = (self.deployments.reflector, self._definitions.reflector, self._classes.reflector)
        return [*single, *self._others, *self._registry.reflectors()]

    def stuck(self) -> list[str]:
        """Return the paths of the watches whose threads ended or hang."""
        return [reflector.path for reflector in self._reflectors() if reflector.stuck]

    def unsynced(self) -> list[str]:
        """Return the paths of the collections that are not synced yet, with the error if there is one."""
        missing = [reflector for reflector in self._reflectors() if reflector.started and not reflector.synced]
        # What is forbidden or not served delays nothing, except BundleDeployments: without these there is no work.
        waiting = [each for each in missing if not each.denied or each is self.deployments.reflector]
        return [f"{each.path}{f' ({each.last_error})' if each.last_error else ''}" for each in waiting]

    def refresh(self) -> None:
        """List everything again: the cluster is in another state than known. `synced` is false until then.

        etcd was restored from a backup, or the last writes of the previous leader may not be known. No managed object
        is known until its kind is listed, since passes do not wait for a list that fails.
        """
        self.history += 1
        self._discovery.invalidate()
        for reflector in self._reflectors():
            reflector.refresh()
        self._registry.drop_objects()

    # managed objects

    def require(self, name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        """Also watch these kinds for a BundleDeployment.

        A kind that is not served has no objects; the listener is notified when it may be served. A kind that cannot be
        listed delays nothing: its objects are read before they are applied. Before irreversible steps call
        `find_unknown`.

        Returns: the kinds whose first list is in progress.
        Raises: ApiError if discovery fails.
        """
        return self._kinds.require(name, kinds)

    def require_only(self, name: str, kinds: Iterable[GroupVersionKind]) -> None:
        """Watch exactly these kinds for a BundleDeployment, so far as they are watched already."""
        self._registry.require_only(name, map(group_kind_of, kinds))

    def heed(self, name: str, keys: frozenset[ObjectKey]) -> None:
        """Notify the listener of any change of exactly these objects of a BundleDeployment."""
        self._kinds.heed(name, keys)

    def release(self, name: str) -> None:
        """Stop watching for a BundleDeployment that is gone."""
        self._registry.release(name)
        self._kinds.heed(name, frozenset())

    def has_unwatched(self, name: str) -> bool:
        """Return whether a kind of a BundleDeployment is not watched because it is not known to be served."""
        return self._registry.has_unwatched(name)

    def find_unknown(self, name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        """Return the kinds of which a BundleDeployment may have unknown objects.

        Their API group fails discovery, or listing them fails. Forbidden kinds are left out, since that may be
        permanent. A kind that seems not to be served is looked up again, since discovery may have lagged behind.

        Raises: ApiError.
        """
        return self._kinds.find_unknown(name, kinds)

    def is_forbidden(self, group: str, kind: str) -> bool:
        """Return whether the controller is forbidden to list a kind."""
        return self._kinds.is_forbidden(group, kind)

    def managed(self, name: str) -> dict[ObjectKey, Record]:
        """Return a snapshot of the objects with the owner label of a BundleDeployment, copies by others included."""
        return self._registry.owned_by(name)

    def look(self, name: str, since: int) -> Look:
        """Return such a snapshot, and what has changed since the one with this number (`Look.number`)."""
        return self._registry.look(name, since)

    def judge(self, name: str, manifest: Mapping[str, Any], resource: Resource, *, evaluates: bool) -> Verdict:
        """Return the health of any object as a BundleDeployment would judge it.

        Args:
            name: of the BundleDeployment.
            manifest: of the object.
            resource: that it was read at.
            evaluates: expressions; otherwise an object that has some is NotEvaluated.
        """
        return self._projection.judge(name, manifest, resource, self.evaluator.evaluate if evaluates else None)

    def learn(self, record: Record) -> Record:
        """Learn an object from the reply to an apply; its health is unknown until the watch shows it.

        Returns: the newest known record.
        """
        return self._kinds.learn(record)

    def learn_gone(self, key: ObjectKey) -> None:
        """Learn that an object is gone, or lost our label, of a kind whose watch may not report that."""
        self._kinds.learn_gone(key)

    def lacks_namespace(self, name: str) -> bool:
        """Return whether a namespace does not exist, according to the watch; False if that is not known."""
        return self._namespaces.synced and self._namespaces.get(("", name)) is None

    # events of the watches

    def _deployments_synced(self) -> None:
        for name in self.deployments.names():
            self._listener.deployment_changed(name)

    def _deployment_changed(self, old: SeenDeployment | None, new: SeenDeployment | None) -> None:
        if old and not (new and new.served):  # gone, or moved to another shard
            self._kinds.withdraw(old.name)
        if new and new.served and new.outline:
            self._prepare(new.outline)
            self._kinds.checks_changed(new.name, self.deployments.changed_checks(old, new))
        dependents, parties = self.deployments.find_concerned(old, new)
        if parties:
            self._listener.cluster_changed()  # what collided may be taken over now
        if new and not self.deployments.synced:
            return  # it gets a pass with all others, once they are known
        for name in dependents | parties:
            if not self.deployments.is_foreign(name):
                self._listener.deployment_changed(name)
        is_ours = any(each and each.served for each in (old, new))
        if (seen := new or old) and is_ours and (needs_pass(old, new) or self._is_damaged(seen.name)):
            self._listener.deployment_changed(seen.name)

    def _prepare(self, outline: BundleDeployment) -> None:
        # A standby runs no passes.
        recorded = read_kinds(outline.status.managed_kinds)
        with suppress(ApiError):  # of discovery: a pass retries
            self._kinds.prepare(outline.metadata.name, recorded)

    def _is_damaged(self, name: str) -> bool:
        seen = self.deployments.get(name)  # a reply to a write of ours may be newer than the event
        return seen is not None and seen.outline is not None and is_damaged(seen.outline)

    def _definition_changed(self, old: Definition | None, new: Definition | None) -> None:
        self._served_kinds_changed()
        self._kinds.definition_changed(old, new)
        if old and new and old.served != new.served:
            self._kinds.notify_requiring(new.kind)
        self._listener.cluster_changed()

    def _definitions_settled(self) -> None:
        for outline in self.deployments.outlines():
            self._prepare(outline)
        self._kinds.definitions_settled()

    def _classes_changed(self) -> None:
        self._kinds.classes_changed()

    def _classes_settled(self) -> None:
        self._kinds.notify_requiring(CLAIM)

    def _api_service_changed(self, _old: Trace | None, new: Trace | None) -> None:
        self._served_kinds_changed()
        self._kinds.notify_unwatched(new.name.partition(".")[2] if new else "")  # named <version>.<group>
        self._listener.cluster_changed()

    def _served_kinds_changed(self) -> None:
        # They may be served now.
        self._discovery.invalidate()
        reflectors: list[Reflector[Any]] = [self.deployments.reflector, *self._registry.reflectors()]
        for reflector in reflectors:
            if reflector.denied:
                reflector.wake()


def _watch_changes(
    client: Client, resource: Resource, changed: Callable[[Trace | None, Trace | None], None]
) -> Reflector[Trace]:
    return Reflector[Trace](client, resource.path(), metadata=True, project=make_trace, on_change=changed)
