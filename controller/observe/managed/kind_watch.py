"""The watch of one kind of managed objects, and its successor.

When something that verdicts depend on has changed, the kind is listed again while its watch continues. The new watch
takes over once it is synced, so that no object is unknown meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.kube.resources import GroupVersionKind, Resource
from controller.kube.watch.reflector import Reflector
from controller.observe.definitions import Definition
from controller.observe.records import Record

GroupKind = tuple[str, str]
"""API group and kind."""


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
