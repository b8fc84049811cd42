"""The watch of one kind of managed objects, and its successor.

When what a verdict depends on has changed, the kind is listed once more beside the watch that goes on. The new watch
takes over when it knows all, so that nothing is unknown in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.kube.resources import GroupVersionKind, Resource
from controller.kube.watch import Reflector
from controller.observe.definitions import Definition
from controller.observe.records import Record

GroupKind = tuple[str, str]
"""API group and kind."""


def group_kind_of(kind: GroupVersionKind) -> GroupKind:
    """Return a kind without its version."""
    return kind.group, kind.kind


@dataclass(slots=True, kw_only=True, eq=False)
class KindWatch:
    """How a kind is watched. Guarded by the lock of the registry."""

    kind: GroupVersionKind
    resource: Resource
    full: bool
    """Whether objects are read in full, since their health is judged."""
    reflector: Reflector[Record]
    successor: KindWatch | None = None
    """Takes over once it knows all."""
    awaited: bool = False
    """Whether passes wait for the successor: the verdicts of this one are not those that were asked for."""

    @property
    def group_kind(self) -> GroupKind:
        """Which kind it is."""
        return group_kind_of(self.kind)

    @property
    def known(self) -> bool:
        """Whether all that can be known of the kind is."""
        if self.awaited and self.successor and not self.successor.reflector.settled:
            return False
        return self.reflector.settled

    def reflectors(self) -> Iterator[Reflector[Record]]:
        """Yield the reflector of this watch and that of its successor."""
        yield self.reflector
        if self.successor:
            yield self.successor.reflector

    def stop(self) -> None:
        """End it and its successor; returns at once."""
        for reflector in self.reflectors():
            reflector.stop()

    def is_outdated(self, old: Definition | None, new: Definition) -> bool:
        """Return whether, by its changed definition, the kind is to be read at another path, or judged differently."""
        version = self.resource.version
        moved = new.resource is not None and new.resource.path() != (self.successor or self).resource.path()
        return moved or (old is not None and version in old.reporting) != (version in new.reporting)
