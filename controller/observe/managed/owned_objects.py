"""The index of managed objects by the owner in their label, including copies by others."""

from __future__ import annotations

from controller.observe.managed.kind_watch import GroupKind
from controller.observe.records import ObjectKey, Record


class OwnedObjects:
    """Not thread-safe: guarded by the lock of the registry."""

    def __init__(self) -> None:
        self._by_owner: dict[str, dict[ObjectKey, Record]] = {}
        self._owners: dict[ObjectKey, str] = {}

    def of(self, owner: str) -> dict[ObjectKey, Record]:
        """Return a snapshot of the objects of an owner."""
        return dict(self._by_owner.get(owner, {}))

    def kinds_of(self, owner: str) -> set[GroupKind]:
        """Return the kinds of the objects of an owner."""
        return {(key.group, key.kind) for key in self._by_owner.get(owner, {})}

    def of_kind(self, group_kind: GroupKind) -> set[ObjectKey]:
        """Return the keys of all objects of a kind."""
        return {key for key in self._owners if (key.group, key.kind) == group_kind}

    def put(self, key: ObjectKey, record: Record | None) -> Record | None:
        """Index an object under its owner; None, or an object without owner, removes it.

        Returns: the previous record.
        """
        owner = self._owners.pop(key, "")
        before = self._by_owner.get(owner, {}).pop(key, None)
        if record and record.owner:
            self._owners[key] = record.owner
            self._by_owner.setdefault(record.owner, {})[key] = record
        return before

    def drop_kind(self, group_kind: GroupKind) -> None:
        """Remove all objects of a kind."""
        for key in self.of_kind(group_kind):
            del self._by_owner[self._owners.pop(key)][key]
