"""The index of managed objects by the owner in their label, including copies by others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.observe.journal import Journal, Look
from controller.observe.managed.kind_watch import GroupKind
from controller.observe.records import ObjectKey, Record


@dataclass(slots=True)
class _Owned:
    journal: Journal[ObjectKey]
    records: dict[ObjectKey, Record] = field(default_factory=dict)


class OwnedObjects:
    """Not thread-safe: guarded by the lock of the registry."""

    def __init__(self) -> None:
        self._by_owner: dict[str, _Owned] = {}
        """Only owners of objects."""
        self._owners: dict[ObjectKey, str] = {}
        self._first = 0
        """More than any number of a journal that was dropped, so that its readers read everything."""

    def of(self, owner: str) -> dict[ObjectKey, Record]:
        """Return a snapshot of the objects of an owner."""
        return dict(self._records_of(owner))

    def look(self, owner: str, since: int) -> Look:
        """Return a snapshot of the objects of an owner, and what has changed since the one with this number."""
        owned = self._by_owner.get(owner)
        if owned is None:
            return Look(records={}, since=since, number=self._first, changed=None)
        number, changed = owned.journal.end, owned.journal.since(since)
        return Look(records=dict(owned.records), since=since, number=number, changed=changed)

    def kinds_of(self, owner: str) -> set[GroupKind]:
        """Return the kinds of the objects of an owner."""
        return {(key.group, key.kind) for key in self._records_of(owner)}

    def of_kind(self, group_kind: GroupKind) -> set[ObjectKey]:
        """Return the keys of all objects of a kind."""
        return {key for key in self._owners if (key.group, key.kind) == group_kind}

    def put(self, key: ObjectKey, record: Record | None) -> Record | None:
        """Index an object under its owner; None, or an object without owner, removes it.

        Returns: the previous record.
        """
        before = self._owners.pop(key, "")
        known = self._by_owner[before].records.pop(key, None) if before else None
        if record and record.owner:
            self._owners[key] = record.owner
            owned = self._by_owner.setdefault(record.owner, _Owned(Journal(self._first)))
            owned.records[key] = record
        for owner in {before, record.owner if record else ""} - {""}:
            self._note(owner, key)
        return known

    def _records_of(self, owner: str) -> Mapping[ObjectKey, Record]:
        owned = self._by_owner.get(owner)
        return owned.records if owned else {}

    def _note(self, owner: str, key: ObjectKey) -> None:
        owned = self._by_owner[owner]
        owned.journal.add(key, len(owned.records))
        if not owned.records:
            self._first = max(self._first, owned.journal.end + 1)
            del self._by_owner[owner]

    def clear(self) -> None:
        """Remove all objects."""
        for key in list(self._owners):
            self.put(key, None)

    def drop_kind(self, group_kind: GroupKind) -> None:
        """Remove all objects of a kind."""
        for key in self.of_kind(group_kind):
            self.put(key, None)
