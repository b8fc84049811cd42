"""What has changed since a reader last looked, so that it looks at nothing else.

A collection numbers its changes, and keeps the last one of each key. Each reader remembers the number up to which it
has read. Old entries are dropped: a reader that is too far behind, or was never there, looks at everything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Generic, TypeVar

from controller.observe.records import ObjectKey, Record

Key = TypeVar("Key")

LONGEST = 4096
SHORTEST = 64
"""Keys in a journal, above which it is shortened, however large or small the collection is."""
UNREAD = -1
"""The number of a reader that has read nothing."""


class Journal(Generic[Key]):
    """The numbered changes of a collection. Not thread-safe.

    Args:
        first: the number of its first change.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        """The number from which on all changes are known."""
        self._end = first
        self._last: dict[Key, int] = {}
        """The number of the last change of each key, the oldest first."""

    @property
    def end(self) -> int:
        """The number of the next change: a reader that has read everything continues there."""
        return self._end

    def add(self, key: Key, size: int) -> None:
        """Note that something has changed.

        Args:
            key: of what has changed.
            size: of the collection. A journal of more than twice as many keys would mostly have those of what is gone,
                and is not cheaper to read than the collection.
        """
        self._last.pop(key, None)  # to become the newest
        self._last[key] = self._end
        self._end += 1
        longest = min(max(SHORTEST, 2 * size), LONGEST)
        if len(self._last) > longest:
            self._last = dict(islice(self._last.items(), len(self._last) - longest // 2, None))
            self._first = next(iter(self._last.values()))

    def since(self, number: int) -> set[Key] | None:
        """Return what has changed from a number on; None if that is not known any more."""
        if number < self._first:
            return None
        newest_first = reversed(self._last.items())
        return {key for key, _ in takewhile(lambda entry: entry[1] >= number, newest_first)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A snapshot of the observed objects of an owner."""

    records: Mapping[ObjectKey, Record]
    number: int
    """Of this snapshot in the journal of the objects."""
    since: int
    """Of the previous one, as the reader gave it."""
    changed: Collection[ObjectKey] | None
    """Objects that have changed, appeared or disappeared in between; None if any may have."""


@dataclass(slots=True)
class Reader:
    """A reader of observed objects and of what is expected of them, each with a journal of its own."""

    seen: int = UNREAD
    """The number of the last snapshot of the objects."""
    expected: int = UNREAD

    def read(self, look: Look, expectations: Journal[ObjectKey]) -> set[ObjectKey] | None:
        """Return what has changed of both since the last call; None if anything may have."""
        touched = expectations.since(self.expected)
        changed = look.changed if look.since == self.seen else None
        self.seen, self.expected = look.number, expectations.end
        return None if touched is None or changed is None else touched.union(changed)
