"""All watches, as the rest of the controller uses them: BundleDeployments, managed objects, and their prerequisites.

Managed objects are watched by their owner label, as metadata unless their health needs more, and kept as small records.
Replies to our own requests are learned immediately, so that no pass plans with older data. An object is judged on its
event. When something else that verdicts depend on changes (a health check, the storage version, a StorageClass), the
kind is listed again while its watch continues. Nothing is decided here: the listener gets the BundleDeployments to
reconcile.

This module only connects the parts that `__init__` lists.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.kube.cache import Trace, make_trace
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import NAMESPACES, Resource, read_kinds
from rukpak.controller.kube.watch import ListWatch, Reflector
from rukpak.controller.observe.definitions import Definition, Definitions, StorageClasses
from rukpak.controller.observe.deployments import SeenDeployment, SeenDeployments, is_damaged, needs_pass
from rukpak.controller.observe.evaluation import Evaluator
from rukpak.controller.observe.kinds import CLAIM, Listener, ManagedObjects, Projection, ServedKinds
from rukpak.controller.sharing import share_of

API_SERVICES = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)


class Watches:
    """Thread-safe."""

    def __init__(
        self,
        client: Client,
        discovery: Discovery,
        listener: Listener,
        shard: str = "",
        *,
        share: Callable[[BundleDeployment], str] = share_of,
    ) -> None:
        self._discovery, self._listener = discovery, listener
        self.evaluator = Evaluator()
        self.history = 0
        """How often `refresh` was called: what was read before does not count any more."""
        self.deployments = SeenDeployments(client, self._deployment_changed, self._deployments_synced, shard)
        self._definitions = Definitions(client, self._definition_changed, self._definitions_settled)
        self._classes = StorageClasses(client, self._classes_changed, lambda: self.objects.notify_requiring(CLAIM))
        self._namespaces = _watch_changes(client, NAMESPACES, lambda _old, _new: listener.cluster_changed())
        self._single: list[Reflector[Any]] = [
            self.deployments.reflector,
            self._definitions.reflector,
            _watch_changes(client, API_SERVICES, self._api_service_changed),
            self._namespaces,
        ]
        """Those that are started at once."""
        self.served = ServedKinds(discovery, self._definitions)
        self.projection = Projection(self.deployments, self._definitions, self._classes, self.evaluator)
        self.objects = ManagedObjects(
            client,
            served=self.served,
            projection=self.projection,
            deployments=self.deployments,
            listener=listener,
            share=lambda name: share(found) if (found := self.deployments.outline(name)) else "",
        )

    def include(self, reflector: Reflector[Any]) -> None:
        """Start, stop, check and refresh another watch together with these; only before they start."""
        self._single.append(reflector)

    def start(self) -> None:
        """Start to watch; returns immediately."""
        for reflector in self._single:
            reflector.start()

    def stop(self) -> None:
        """Stop all watches; returns immediately."""
        for reflector in self._reflectors():
            reflector.stop()
        self.objects.stop()
        self.evaluator.stop()

    def _reflectors(self) -> list[Reflector[Any]]:
        return [*self._single, self._classes.reflector, *self.objects.reflectors()]

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
        self.objects.drop()

    def lacks_namespace(self, name: str) -> bool:
        """Return whether a namespace does not exist, according to the watch; False if that is not known."""
        return self._namespaces.synced and self._namespaces.cache.get(("", name)) is None

    # events of the watches

    def _deployments_synced(self) -> None:
        for name in self.deployments.names():
            self._listener.deployment_changed(name)

    def _deployment_changed(self, old: SeenDeployment | None, new: SeenDeployment | None) -> None:
        if old and not (new and new.served):  # gone, or moved to another shard
            self.objects.forget(old.name, decided=False)
        if new and new.served and new.outline:
            self._prepare(new.outline)
            self.objects.checks_changed(new.name, self.deployments.changed_checks(old, new))
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
            self.objects.prepare(outline.metadata.name, recorded)

    def _is_damaged(self, name: str) -> bool:
        seen = self.deployments.get(name)  # a reply to a write of ours may be newer than the event
        return seen is not None and seen.outline is not None and is_damaged(seen.outline)

    def _definition_changed(self, old: Definition | None, new: Definition | None) -> None:
        self._served_kinds_changed()
        self.objects.definition_changed(old, new)
        if old and new and old.served != new.served:
            self.objects.notify_requiring(new.kind)
        self._listener.cluster_changed()

    def _definitions_settled(self) -> None:
        for outline in self.deployments.outlines():
            self._prepare(outline)
        self.objects.definitions_settled()

    def _classes_changed(self) -> None:
        self.objects.classes_changed()

    def _api_service_changed(self, _old: Trace | None, new: Trace | None) -> None:
        self._served_kinds_changed()
        self.objects.notify_unwatched(new.name.partition(".")[2] if new else "")  # named <version>.<group>
        self._listener.cluster_changed()

    def _served_kinds_changed(self) -> None:
        # They may be served now.
        self._discovery.invalidate()
        reflectors: list[Reflector[Any]] = [self.deployments.reflector, *self.objects.reflectors()]
        for reflector in reflectors:
            if reflector.denied:
                reflector.wake()


def _watch_changes(
    client: Client, resource: Resource, changed: Callable[[Trace | None, Trace | None], None]
) -> Reflector[Trace]:
    return Reflector(ListWatch(client, resource.path(), metadata=True), project=make_trace, on_change=changed)
