"""Kinds of managed objects: each is watched once, as long as any BundleDeployment requires it.

A kind is watched by the owner label, as metadata unless health needs more. A kind that the cluster does not serve has
no objects; the BundleDeployments that require it are notified when it may be served.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from http import HTTPStatus

from controller.kube.client import ApiError, Client
from controller.kube.resources import BUILT_IN_GROUPS, GroupVersionKind, Resource
from controller.kube.shard import DEFAULT_SHARD
from controller.kube.watch.reflector import Reflector
from controller.observe.definitions import Definition
from controller.observe.deployments import HealthCheck
from controller.observe.health.checks import concerns
from controller.observe.health.storage import UNBOUND
from controller.observe.listener import Listener
from controller.observe.managed.kind_watch import GroupKind, KindWatch, group_kind_of
from controller.observe.managed.objects import ManagedObjects
from controller.observe.managed.projection import CLAIM, Projection
from controller.observe.managed.registry import Registry
from controller.observe.managed.served_kinds import ServedKinds
from controller.observe.records import Record


class ManagedKinds:
    """Thread-safe."""

    def __init__(
        self,
        client: Client,
        registry: Registry,
        objects: ManagedObjects,
        *,
        served: ServedKinds,
        projection: Projection,
        listener: Listener,
        selector: str = DEFAULT_SHARD.objects_selector,
    ) -> None:
        self._selector = selector
        self._client, self._registry, self._objects = client, registry, objects
        self._served, self._projection, self._listener = served, projection, listener

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

    def withdraw(self, name: str) -> None:
        """Stop watching what `prepare` started for a BundleDeployment that is gone; a pass does so for `require`."""
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
            label_selector=self._selector,
            metadata=not full,
            project=lambda manifest: self._projection.project(manifest, resource, full=full),
            on_change=self._objects.changed,
            on_synced=lambda: self._listed(watch),
            on_failed=lambda: self.notify_requiring(watch.group_kind),
        )
        watch = KindWatch(kind=kind, resource=resource, full=full, reflector=reflector)
        return watch

    def _listed(self, watch: KindWatch) -> None:
        """Let a synced watch take over from its predecessor, if it has one."""
        if before := self._registry.take_over(watch):
            before.reflector.stop()
            indexed = self._registry.indexed(watch.group_kind)
            for key in indexed | {record.key for record in watch.reflector.records()}:
                self._objects.refile(key, watch.reflector)
        self.notify_requiring(watch.group_kind)

    def notify_requiring(self, group_kind: GroupKind) -> None:
        """Notify all that require a kind that its objects are known now, or cannot be listed."""
        self._notify(self._registry.find_requiring(lambda kind: kind == group_kind))

    # changes of what verdicts depend on

    def _relist(self, watch: KindWatch, *, awaited: bool = False) -> None:
        """List a kind again, while its watch continues until the new one is synced."""
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
