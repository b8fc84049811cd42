"""All watches, as the rest of the controller sees them: BundleDeployments, managed objects, and what ends a wait.

Managed objects are watched by their owner label, as metadata unless their health needs more, and kept as small records.
What a reply to a request of our own says is learned at once, so that no pass plans on older knowledge. Objects are
judged when their event comes; when what a verdict depends on beside the object has changed (a health check, the storage
version, a StorageClass), the kind is listed once more beside the watch that goes on. Nothing is decided here: callers
are told which BundleDeployment to reconcile.

Not here: how it is done. This module connects the parts that `__init__` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from api.v1alpha2.types import BundleDeployment
from controller.kube.client import ApiError, Client
from controller.kube.discovery import Discovery
from controller.kube.resources import GroupVersionKind, Resource
from controller.kube.watch import Reflector
from controller.observe.definitions import Definition, Definitions
from controller.observe.deployments import SeenDeployment, SeenDeployments, asks_for_pass
from controller.observe.listener import Listener
from controller.observe.managed.kind_watch import group_kind_of
from controller.observe.managed.kinds import ManagedKinds
from controller.observe.managed.objects import ManagedObjects
from controller.observe.managed.projection import CLAIM, Projection
from controller.observe.managed.registry import Registry
from controller.observe.managed.served_kinds import ServedKinds
from controller.observe.prerequisites import Prerequisites
from controller.observe.records import ObjectKey, Record
from controller.observe.storage_classes import StorageClasses

__all__ = ["Listener", "Watches"]


class Watches:
    """Thread-safe."""

    def __init__(self, client: Client, discovery: Discovery, listener: Listener) -> None:
        self._discovery, self._listener = discovery, listener
        self._deployments = SeenDeployments(client, self._deployment_changed, self._deployments_synced)
        self._definitions = Definitions(client, self._definition_changed, self._definitions_settled)
        self._classes = StorageClasses(client, self._classes_changed, self._classes_settled)
        self._prerequisites = Prerequisites(client, self._api_service_changed, listener.cluster_changed)
        self._registry = Registry()
        self._objects = ManagedObjects(self._registry, listener)
        self._served = ServedKinds(discovery, self._definitions)
        projection = Projection(self._deployments, self._definitions, self._classes)
        self._kinds = ManagedKinds(
            client, self._registry, self._objects, served=self._served, projection=projection, listener=listener
        )

    def start(self) -> None:
        """Begin to watch; returns at once."""
        self._deployments.reflector.start()
        self._definitions.reflector.start()
        for reflector in self._prerequisites.reflectors:
            reflector.start()

    def stop(self) -> None:
        """End all watches; returns at once."""
        for reflector in self._reflectors():
            reflector.stop()

    def _reflectors(self) -> list[Reflector[Any]]:
        single = (self._deployments.reflector, self._definitions.reflector, self._classes.reflector)
        return [*single, *self._prerequisites.reflectors, *self._registry.reflectors()]

    def stuck(self) -> list[str]:
        """Return the paths of the watches whose threads have ended or hang."""
        return [reflector.path for reflector in self._reflectors() if reflector.stuck]

    def unknown(self) -> list[str]:
        """Return the paths of the collections that are not known yet, with what hinders that."""
        missing = [reflector for reflector in self._reflectors() if reflector.started and not reflector.synced]
        # What may not be listed, or is not served, holds nothing up; without the BundleDeployments there is no work.
        waiting = [each for each in missing if not each.denied or each is self._deployments.reflector]
        return [f"{each.path}{f' ({each.last_error})' if each.last_error else ''}" for each in waiting]

    # BundleDeployments

    @property
    def synced(self) -> bool:
        """Whether all BundleDeployments are known."""
        return self._deployments.reflector.synced

    def deployment(self, name: str) -> BundleDeployment | None:
        """Return a BundleDeployment as it was seen last; None if there is none, or none that can be read."""
        seen = self._deployments.get(name)
        return seen.deployment if seen else None

    def outline(self, name: str) -> BundleDeployment | None:
        """Return the same, without `config` and parameters if it is large: for what is asked often."""
        seen = self._deployments.get(name)
        return seen.outline if seen else None

    def outlines(self) -> list[BundleDeployment]:
        """Return the outlines of all BundleDeployments that can be read, in no order."""
        return self._deployments.outlines()

    def deployment_names(self) -> set[str]:
        """Return the names of all BundleDeployments, of unreadable ones, too."""
        return self._deployments.names()

    def exists(self, name: str, uid: str) -> bool:
        """Return whether there is a BundleDeployment of that name with that UID."""
        seen = self._deployments.get(name)
        return seen is not None and seen.uid == uid

    def learn_deployment(self, manifest: Mapping[str, Any]) -> None:
        """Take over what the reply to a write of ours said."""
        self._deployments.learn(manifest)

    def forget_deployment(self, name: str, uid: str) -> None:
        """Take over what the reply to a write of ours said: this BundleDeployment is gone."""
        self._deployments.forget(name, uid)

    def catch_up(self) -> None:
        """Read all BundleDeployments once more: what somebody else wrote a moment ago may not have arrived yet.

        Raises: ApiError.
        """
        self._deployments.catch_up()

    # managed objects

    def need(self, name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        """Watch these kinds for a BundleDeployment, too.

        A kind that the cluster does not serve has no objects; the listener is told when it may be served. One that may
        not or cannot be listed now holds nothing up: its objects are read before they are applied. For what cannot
        be undone that is not enough: see `find_unknown`.

        Returns: the kinds whose first list is under way.
        Raises: ApiError if discovery does not answer.
        """
        return self._kinds.require(name, kinds)

    def need_only(self, name: str, kinds: Iterable[GroupVersionKind]) -> None:
        """Watch no longer for a BundleDeployment what is not among these kinds."""
        self._registry.require_only(name, map(group_kind_of, kinds))

    def forget(self, name: str) -> None:
        """Watch nothing for a BundleDeployment that is gone."""
        self._registry.release(name)

    def is_blind(self, name: str) -> bool:
        """Return whether a kind of a BundleDeployment is not watched: as far as is known, nothing serves it."""
        return self._registry.is_blind(name)

    def find_unknown(self, name: str, kinds: Iterable[GroupVersionKind]) -> list[str]:
        """Return the kinds that a BundleDeployment may have objects of that nobody knows, as they cannot be listed.

        Either their API group does not answer discovery, or the API server a list. What may not be listed is left out:
        that would last. A kind that seems not to be served is looked up again: discovery may have been behind it.

        Raises: ApiError.
        """
        return self._kinds.find_unknown(name, kinds)

    def is_unseen(self, group: str, kind: str) -> bool:
        """Return whether the objects of a kind are not seen, since the controller may not list it."""
        return self._kinds.is_unseen(group, kind)

    def managed(self, name: str) -> dict[ObjectKey, Record]:
        """Return a snapshot of the objects that carry the owner label of a BundleDeployment, be they ours or copies."""
        return self._registry.owned_by(name)

    def learn(self, record: Record) -> Record:
        """Take over what the reply to an apply of ours said; its health is not known until the object is seen.

        Returns: what is known now.
        """
        return self._objects.learn(record)

    def forget_object(self, key: ObjectKey) -> None:
        """Take over that an object of a kind that nobody watches is gone, or carries our label no more."""
        self._objects.forget(key)

    # what the cluster serves

    def is_namespaced(self, kind: GroupVersionKind) -> bool | None:
        """Return whether the objects of a kind have a namespace; None if the cluster does not serve it.

        Raises: ApiError if discovery does not answer.
        """
        return self._served.is_namespaced(kind)

    def is_missing(self, kind: GroupVersionKind) -> bool:
        """Return whether the cluster does not serve a kind; of a group that does not answer discovery nobody knows.

        Raises: ApiError if discovery does not answer.
        """
        return self._served.is_missing(kind)

    def has_come(self, kind: GroupVersionKind) -> bool:
        """Return whether the cluster serves a kind that it did not serve; asks for nothing while nothing changed."""
        return self._discovery.has_come(kind)

    def seconds_to_look_again(self) -> float | None:
        """Return in how many seconds a kind that is missing may be served, as something has changed; None: it has not.

        Nothing tells when: discovery may be behind the event that made somebody look.
        """
        return self._discovery.seconds_to_look_again()

    def stored(self, group: str, kind: str) -> Resource | None:
        """Return what serves a custom kind at its storage version: no conversion webhook is called there."""
        return self._served.stored(group, kind)

    # what the watches tell

    def _deployments_synced(self) -> None:
        for name in self.deployment_names():
            self._listener.deployment_changed(name)

    def _deployment_changed(self, old: SeenDeployment | None, new: SeenDeployment | None) -> None:
        if new and new.outline:
            recorded = [GroupVersionKind.parse(text) for text in new.outline.status.managed_kinds]
            with suppress(ApiError):  # of discovery: a pass asks again
                self._kinds.prepare(new.name, recorded)  # later, passes say what is required
            self._kinds.checks_changed(new.name, self._deployments.changed_checks(old, new))
        seen = new or old
        if seen and asks_for_pass(old, new):
            self._listener.deployment_changed(seen.name)

    def _definition_changed(self, old: Definition | None, new: Definition | None) -> None:
        self._served_kinds_changed()
        self._kinds.definition_changed(old, new)
        self._listener.cluster_changed()

    def _definitions_settled(self) -> None:
        self._kinds.definitions_settled()

    def _classes_changed(self) -> None:
        self._kinds.classes_changed()

    def _classes_settled(self) -> None:
        self._kinds.tell_requiring(CLAIM)

    def _api_service_changed(self, group: str) -> None:
        self._served_kinds_changed()
        self._kinds.tell_blind(group)
        self._listener.cluster_changed()

    def _served_kinds_changed(self) -> None:
        """Retry what was not served: it may be now."""
        self._discovery.invalidate()
        reflectors: list[Reflector[Any]] = [self._deployments.reflector, *self._registry.reflectors()]
        for reflector in reflectors:
            if reflector.denied:
                reflector.wake()
