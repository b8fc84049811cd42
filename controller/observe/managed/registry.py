"""The state that threads share: the watch of each kind, the requirements, and the index of objects, under one lock.

Each method is one step under the lock. None sends a request or notifies the listener: kinds.py and objects.py do that
after the step. Starting and stopping a reflector returns immediately, and is part of the step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable

from controller.kube.resources import GroupVersionKind, Resource
from controller.kube.watch.reflector import Reflector
from controller.observe.journal import Look
from controller.observe.managed.kind_watch import GroupKind, KindWatch, group_kind_of
from controller.observe.managed.owned_objects import OwnedObjects
from controller.observe.managed.required_kinds import RequiredKinds
from controller.observe.records import ObjectKey, Record

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
            now = reflector.get((key.namespace, key.name))
            return self._owned.put(key, now), now
