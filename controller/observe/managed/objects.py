"""Managed objects: handles events and replies about them, and notifies their owners."""

from __future__ import annotations

from dataclasses import replace

from controller.kube.watch.reflector import Reflector
from controller.observe.health.presence import NOT_OBSERVED
from controller.observe.listener import Listener
from controller.observe.managed.registry import Registry
from controller.observe.records import ObjectKey, Record


class ManagedObjects:
    """Thread-safe."""

    def __init__(self, registry: Registry, listener: Listener) -> None:
        self._registry, self._listener = registry, listener

    def changed(self, old: Record | None, new: Record | None) -> None:
        """Handle an event of a watch."""
        record = new or old
        watch = self._registry.find((record.key.group, record.key.kind)) if record else None
        if record and watch:
            self.refile(record.key, watch.reflector)

    def refile(self, key: ObjectKey, reflector: Reflector[Record]) -> None:
        """Update the index from a reflector, and notify the owners, old and new."""
        before, now = self._registry.file(key, reflector)
        urgent = _plan_inputs(before) != _plan_inputs(now)
        if urgent or _health_inputs(before) != _health_inputs(now):
            for name in {record.owner for record in (before, now) if record and record.owner}:
                self._listener.objects_changed(name, urgent=urgent)
        if now is None or (before and before.owner != now.owner):
            self._listener.cluster_changed()  # others that collided with it may be able to apply it now

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

    def forget(self, key: ObjectKey) -> None:
        """Forget an object that is gone or lost our label, of a kind whose watch may not report that."""
        watch = self._registry.find((key.group, key.kind))
        known = watch.reflector.get((key.namespace, key.name)) if watch else None
        if watch and known:
            watch.reflector.forget((key.namespace, key.name), known.uid)
            self._registry.file(key, watch.reflector)


def _health_inputs(record: Record | None) -> tuple[object, ...] | None:
    """Return the inputs of health; of a hook any change, since it may be healthy all the time."""
    return (record.verdict, record.resource_version if record.is_hook else "") if record else None


def _plan_inputs(record: Record | None) -> tuple[object, ...] | None:
    """Return the fields that a plan depends on."""
    if record is None:
        return None
    owners = (record.owner, record.owner_uid, record.controller_uid)
    return (record.uid, record.applied_digest, record.entry_hash, record.deleting, record.finalizers, *owners)
