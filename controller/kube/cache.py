"""The records of a collection in two layers: the state of the watch, and newer replies to our own requests.

The watch always lags a little. Without the upper layer, a pass after an apply would see the old object and apply it
again. resourceVersions of one API server compare as integers (conformance since Kubernetes 1.35), so a reply is kept
only until the watch reaches its version: an older event cannot hide it, and an object that was deleted meanwhile does
not reappear. `Change`s describe the history of the watch alone, without gaps.

After a restore of etcd from a backup, what happened last has never happened. The version of the collection goes back,
too, but soon exceeds the known one, since every component writes.

Not here: requests and threads (watch.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

Key = tuple[str, str]
"""Namespace ("" for a cluster-scoped object) and name."""


class Record(Protocol):
    """The part of an object that is kept: small, immutable."""

    @property
    def namespace(self) -> str:
        """Empty for a cluster-scoped object."""

    @property
    def name(self) -> str:
        """`metadata.name`."""

    @property
    def uid(self) -> str:
        """`metadata.uid`."""

    @property
    def resource_version(self) -> str:
        """`metadata.resourceVersion`."""


RecordT = TypeVar("RecordT", bound=Record)


@dataclass(frozen=True, slots=True)
class Trace:
    """The identity and version of an object."""

    namespace: str
    name: str
    uid: str
    resource_version: str


def make_trace(manifest: Mapping[str, Any]) -> Trace:
    """Return the record of an object for watches that only need to know that it changed."""
    metadata = manifest["metadata"]
    return Trace(metadata.get("namespace", ""), metadata["name"], metadata["uid"], metadata["resourceVersion"])


@dataclass(frozen=True, slots=True)
class Change(Generic[RecordT]):
    """A change of an object; never both None. A deleted and recreated object is two changes."""

    old: RecordT | None
    new: RecordT | None


@dataclass(frozen=True, slots=True)
class _Ahead(Generic[RecordT]):
    """The state of an object in a reply; no record if it was deleted."""

    version: int
    record: RecordT | None
    listing: int
    """How many lists had started by then."""


class Continuity(Enum):
    """How the state of a cluster follows the known one."""

    SAME = auto()
    """The last known change has happened, and so everything before it."""
    UNKNOWN = auto()
    """Its object has changed since, or is gone."""
    OLDER = auto()
    """It has not happened: etcd was restored from a backup."""


IdT = TypeVar("IdT")
ValueT = TypeVar("ValueT")
IndexFunctions = Mapping[str, Callable[[ValueT], Collection[Hashable]]]
"""By index, a function from a value to what it is found by there."""


class Indexer(Generic[IdT, ValueT]):
    """Values by key, and by what index functions say of them, as client-go's. Not thread-safe."""

    def __init__(self, functions: IndexFunctions[ValueT]) -> None:
        self._functions = functions
        self._values: dict[IdT, ValueT] = {}
        self._indexes: dict[str, dict[Hashable, dict[IdT, ValueT]]] = {name: {} for name in functions}
        """Only of what has values."""

    def get(self, key: IdT) -> ValueT | None:
        """Return the value of a key."""
        return self._values.get(key)

    def __iter__(self) -> Iterator[IdT]:
        """Yield all keys, those that were put last last."""
        return iter(self._values)

    def put(self, key: IdT, value: ValueT | None) -> ValueT | None:
        """Set the value of a key; None removes it. Return the previous one."""
        before = self._values.pop(key, None)  # the key goes, too: the new value may share its texts with the new one
        if value is not None:
            self._values[key] = value
        for name, function in self._functions.items():
            index = self._indexes[name]
            for each in set(function(before)) if before is not None else ():
                del index[each][key]
                if not index[each]:
                    del index[each]
            if value is not None:
                for each in function(value):
                    index.setdefault(each, {})[key] = value
        return before

    def index(self, name: str, by: Hashable) -> Mapping[IdT, ValueT]:
        """Return what is found by something in an index, as it is now: it changes with the next `put`."""
        return self._indexes[name].get(by, {})

    def entries(self, name: str) -> Collection[Any]:
        """Return everything by which something is found in an index, likewise."""
        return self._indexes[name].keys()


class Cache(Generic[RecordT]):
    """Thread-safe. One thread passes on the events of the watch; any thread may read, learn and hide.

    Args:
        functions: of the indexes of the newest known records.
    """

    def __init__(self, functions: IndexFunctions[RecordT] | None = None) -> None:
        self._lock = threading.Lock()
        self._functions = functions or {}
        self._indexer: Indexer[Key, RecordT] = Indexer(self._functions)
        """Empty if there are no indexes."""
        self._watched: dict[Key, RecordT] = {}
        self._ahead: dict[Key, _Ahead[RecordT]] = {}
        self._version = 0
        self._last: RecordT | None = None
        """The object that changed last, as the watch has shown it."""
        self._is_removed = False
        """Whether that was deleted, or does not match the selector any more."""
        self._listings = 0
        self._needed = 1
        """The number of the list that must be complete for the records to count as known."""
        self._complete = 0

    def get(self, key: Key) -> RecordT | None:
        """Return the newest known record of an object."""
        with self._lock:
            return self._newest(key)

    def _newest(self, key: Key) -> RecordT | None:
        ahead = self._ahead.get(key)
        return ahead.record if ahead else self._watched.get(key)

    def _index(self, *keys: Key) -> None:
        if self._functions:
            for key in keys:
                self._indexer.put(key, self._newest(key))

    def records(self) -> list[RecordT]:
        """Return the newest known record of every object, in no order."""
        with self._lock:
            newest = self._watched | {key: ahead.record for key, ahead in self._ahead.items()}
            return [record for record in newest.values() if record is not None]

    def index(self, name: str, by: Hashable) -> list[RecordT]:
        """Return the newest known records that are found by something in an index, in no order."""
        with self._lock:
            return list(self._indexer.index(name, by).values())

    def learn(self, record: RecordT) -> None:
        """Keep the record of a reply, unless the watch or another reply is as new."""
        version = parse_version(record.resource_version)
        with self._lock:
            ahead = self._ahead.get(key_of(record))
            if version > max(self._version, ahead.version if ahead else 0):
                self._ahead[key_of(record)] = _Ahead(version, record, self._listings)
                self._index(key_of(record))

    def amend(self, record: RecordT) -> None:
        """Replace the record of an object by another one of the same version, unless a newer one is known."""
        key = key_of(record)
        with self._lock:
            ahead, known = self._ahead.get(key), self._newest(key)
            if known is None or (known.uid, known.resource_version) != (record.uid, record.resource_version):
                return
            if ahead:
                self._ahead[key] = replace(ahead, record=record)
            else:
                self._watched[key] = record
            self._index(key)

    def hide(self, key: Key, uid: str) -> None:
        """Hide an object that was deleted according to a reply, until the watch reports it again."""
        with self._lock:
            known = self._newest(key)
            if known is not None and known.uid == uid:
                self._ahead[key] = _Ahead(parse_version(known.resource_version), None, self._listings)
                self._index(key)

    @property
    def complete(self) -> bool:
        """Whether a list that began after the last call of `outdate`, if any, is complete."""
        return self._complete >= self._needed

    @property
    def is_current(self) -> bool:
        """Whether the last list began after the last call of `outdate`, if any."""
        return self._listings >= self._needed

    def outdate(self) -> None:
        """Require a list that begins after this. The records stay until then."""
        with self._lock:
            self._needed = self._listings + 1

    def went_back(self, resource_version: str) -> bool:
        """Return whether this version of the collection is older than the known one, and if so require another list."""
        with self._lock:
            is_older = self.complete and 0 < parse_version(resource_version) < self._version
            if is_older:
                self._needed = self._listings + 1
            return is_older

    @property
    def last_key(self) -> Key | None:
        """The key of the object that changed last; None if that is not known."""
        last = self._last
        return key_of(last) if last else None

    def compare_last(self, found: Record | None) -> Continuity:
        """Return how a state follows the known one in which that object is so, or does not exist."""
        last = self._last
        if last is None or (found is None and self._is_removed):
            return Continuity.SAME
        if found is None or found.uid != last.uid or _is_older(last, found):
            return Continuity.UNKNOWN
        return Continuity.OLDER if _is_older(found, last) else Continuity.SAME

    def is_newer_than(self, fresh: Mapping[Key, RecordT]) -> bool:
        """Return whether an object in a list is older than known: its versions never go back."""
        with self._lock:
            pairs = ((self._watched.get(key), new) for key, new in fresh.items())
            return self.complete and any(old and old.uid == new.uid and _is_older(new, old) for old, new in pairs)

    def drop(self) -> None:
        """Forget all records, without changes: they describe another cluster. Require a list that begins after this."""
        with self._lock:
            self._watched, self._ahead, self._version, self._last = {}, {}, 0, None
            self._indexer = Indexer(self._functions)
            self._needed = self._listings + 1

    def begin_listing(self) -> None:
        """Note that replies from now on may be newer than the list that follows."""
        with self._lock:
            self._listings += 1

    def end_listing(self) -> None:
        """Note that the changes of the list have been handled: it is complete."""
        with self._lock:
            self._complete = self._listings

    def replace(self, fresh: Mapping[Key, RecordT], resource_version: str) -> list[Change[RecordT]]:
        """Replace the state of the watch; return the changes, deletions first. Objects are compared by UID.

        An object that was only learned, and is missing from the new state, counts as deleted.
        """
        with self._lock:
            changes = _compare(self._watched, fresh)
            known = self._watched.keys() | fresh.keys()
            self._watched = dict(fresh)
            self._version = parse_version(resource_version)
            newest = max(fresh.values(), key=lambda each: parse_version(each.resource_version), default=None)
            self._last, self._is_removed = newest, False
            # Replies before the listing are dropped: after a restore of etcd, their versions may lie in the future.
            before, self._ahead = self._ahead, {}
            for key, ahead in before.items():
                if ahead.listing == self._listings and ahead.version > self._version:
                    self._ahead[key] = ahead
            self._indexer = Indexer(self._functions)
            self._index(*self._watched, *self._ahead)
            passed = [ahead.record for key, ahead in before.items() if key not in self._ahead and key not in known]
        return [Change(record, None) for record in passed if record is not None] + changes

    def put(self, record: RecordT) -> list[Change[RecordT]]:
        """Handle an ADDED or MODIFIED event; return the changes."""
        with self._lock:
            key = self._reach(record, is_removed=False)
            old = self._watched.get(key)
            self._watched[key] = record
            self._index(key)
        return _compare({key: old} if old is not None else {}, {key: record})

    def remove(self, record: RecordT) -> list[Change[RecordT]]:
        """Handle a DELETED event: the object was deleted, or no longer matches the selector. Return the changes."""
        with self._lock:
            key = self._reach(record, is_removed=True)
            old = self._watched.pop(key, None)
            self._index(key)
        return [Change(old, None)] if old is not None else []

    def _reach(self, record: RecordT, *, is_removed: bool) -> Key:
        key, version = key_of(record), parse_version(record.resource_version)
        self._version, self._last, self._is_removed = max(self._version, version), record, is_removed
        ahead = self._ahead.get(key)
        # An event of the version that was deleted is not newer than the reply to its deletion.
        if ahead and ahead.version + (ahead.record is None) <= version:
            del self._ahead[key]
        return key

    def advance(self, resource_version: str) -> None:
        """Handle a bookmark: all events up to this version were delivered."""
        version = parse_version(resource_version)
        with self._lock:
            self._version = max(self._version, version)
            passed = [key for key, ahead in self._ahead.items() if ahead.record and ahead.version <= version]
            for key in passed:
                del self._ahead[key]
            self._index(*passed)


def key_of(record: Record) -> Key:
    """Return the key of a record."""
    return record.namespace, record.name


def parse_version(resource_version: str) -> int:
    """Return a resourceVersion as a number; 0 if it is not one, so that it is never newer."""
    return int(resource_version) if resource_version.isascii() and resource_version.isdigit() else 0


def _is_older(record: Record, other: Record) -> bool:
    return parse_version(record.resource_version) < parse_version(other.resource_version)


def _compare(before: Mapping[Key, RecordT], after: Mapping[Key, RecordT]) -> list[Change[RecordT]]:
    deleted: list[Change[RecordT]] = []
    changed: list[Change[RecordT]] = []
    for key, old in before.items():
        new = after.get(key)
        if new is None or new.uid != old.uid:
            deleted.append(Change(old, None))
    for key, new in after.items():
        known = before.get(key)
        if known is None or known.uid != new.uid:
            changed.append(Change(None, new))
        elif known.resource_version != new.resource_version:
            changed.append(Change(known, new))
    return deleted + changed
