"""How the last apply left each object, and how often it was repaired, in memory only.

After a restart, an object with the digest of its target is compared once, unless `status.managedState` shows that all
objects are as they were left. What depends on all objects, that state and which of them have drifted, is kept up to
date here with each object that changes, so that a pass looks at no others.

`status.managedState` is one digest for the state in which all objects were left (rule 6): of a sum, to which each
object adds a number of its own. So it does not depend on their order, and changes with one object without a look at the
others. The sum is 2,048 bits wide: for narrow ones, other sets of objects with an equal sum can be found (Wagner, A
Generalized Birthday Problem).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile

from rukpak.controller.apply.drift import MOST_FIELDS, DriftedField, DriftedObject
from rukpak.controller.content.digests import digest_of
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.records import Journal, Look, Reader, Record
from rukpak.controller.retries import Backoff

FIRST_SECONDS = 2.0
_BACKOFF = Backoff(first=FIRST_SECONDS, factor=3.0, longest=300.0)
QUIET_SECONDS = 600.0
NOTICED_SECONDS = 60.0
"""Seconds within which webhooks, policies and quotas notice a deletion: kube-controller-manager counts no quota for up
to 30 s while kinds come and go."""
CONFLICT_COUNT = 3
_BYTES = 256
_MODULUS = 1 << (8 * _BYTES)
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Left:
    """The state of an object after an apply."""

    digest: str
    entry_hash: str

    @classmethod
    def by(cls, record: Record) -> Left:
        """Return the state that an object has now."""
        return cls(record.applied_digest, record.entry_hash)


@dataclass(frozen=True, slots=True)
class MadeWay:
    """The dropped objects that were deleted for another one."""

    attempt: str
    """Fingerprint of the attempt to apply that one; see `ApplyOptions.attempt`."""
    keys: frozenset[ObjectKey]
    refused_at: float | None = None
    """When that one was first refused afterwards, in seconds of the clock; None: it was not."""
    in_vain: bool = False
    """Whether it was refused for too long: the others are created again, and not deleted for it a second time."""


@dataclass(frozen=True, slots=True)
class _Repair:
    count: int
    at: float
    fields: Mapping[str, tuple[DriftedField, int]] = field(default_factory=dict)
    """Fields by path, with how often they were modified, the latest first; a state, such as `DELETED`, is one."""


@dataclass(slots=True)
class Ledger:
    """The ledger of one BundleDeployment, used by one pass at a time.

    Repairs have the backoff of Argo CD's self-heal: 2 s, times 3, up to 300 s, reset after 10 minutes.
    """

    clock: Callable[[], float] = time.monotonic
    left: dict[ObjectKey, Left] = field(default_factory=dict)
    """To be read only: the methods below change it."""
    complete: bool = False
    """Whether these are all objects: they were when nothing was left to do."""
    changes: Journal[ObjectKey] = field(default_factory=Journal)
    reader: Reader = field(default_factory=Reader)
    """For the objects that are known to have drifted."""
    used: dict[ObjectKey, Record | None] = field(default_factory=dict)
    """Namespaces that are not ours, as they were read; None: created by this process."""
    explanations: dict[ObjectKey, tuple[str, DriftedObject | None]] = field(default_factory=dict)
    """By object that is not repaired: the resourceVersion that was read, and its drift; None: its values are ours."""
    recreated: dict[ObjectKey, str] = field(default_factory=dict)
    """UIDs of objects that were deleted to be created again: while the watches show one, it is awaited."""
    holders: dict[ObjectKey, frozenset[ObjectKey]] = field(default_factory=dict)
    """By object that is refused, the dropped ones that have, or seem to have, what it needs: it is tried again as soon
    as one of them is gone."""
    made_way: dict[ObjectKey, MadeWay] = field(default_factory=dict)
    """By object, those that were deleted for it, until it is applied."""
    looked_at: dict[ObjectKey, str] = field(default_factory=dict)
    """By object on which something is left that nobody owns, the resourceVersion at which it was last looked at."""
    _repairs: dict[ObjectKey, _Repair] = field(default_factory=dict)
    """The oldest first, since one that is long ago counts no more."""
    _total: int = 0
    _drifted: set[ObjectKey] = field(default_factory=set)

    @property
    def managed_state(self) -> str:
        """The `status.managedState` of the expected objects."""
        return _describe(self._total)

    def learn(self, records: Iterable[Record]) -> None:
        """Expect these objects to remain as they are now."""
        for record in records:
            self._expect(record.key, Left.by(record))

    def drop(self, keys: Iterable[ObjectKey]) -> None:
        """Expect nothing of objects that were deleted."""
        for key in keys:
            self._expect(key, None)

    def expect_all(self, records: Iterable[Record]) -> None:
        """Expect these objects, and no others, to remain as they are now."""
        found = {record.key: record for record in records}
        self.drop(self.left.keys() - found.keys())
        self.learn(found.values())
        self.complete = True
        self.explanations.clear()
        self.recreated.clear()
        self.holders.clear()
        self.made_way.clear()

    def resume(self, records: Collection[Record], state: str) -> bool:
        """Expect these objects, and no others, if `status.managedState` says that they were left as they are now.

        Returns: whether it does; if not, nothing changes.
        """
        total = sum(_weigh(each.key, Left.by(each)) for each in records) % _MODULUS
        if state != _describe(total):
            return False
        self.expect_all(records)
        return True

    def _expect(self, key: ObjectKey, now: Left | None) -> None:
        # The only place that changes what is expected, and updates what depends on it.
        before = self.left.get(key)
        if now:
            self.left[key] = now  # also an equal one, which shares its texts with the newer record
        else:
            self.left.pop(key, None)
        if now != before:
            self._total = (self._total - _weigh(key, before) + _weigh(key, now)) % _MODULUS
            self.changes.add(key, len(self.left))

    def drifted(self, look: Look) -> set[ObjectKey]:
        """Return the objects that are not as they were left, or do not exist.

        Args:
            look: of `reader`: only what has changed since its last one is compared.
        """
        changed = self.reader.read(look, self.changes)
        if changed is None:
            changed, self._drifted = set(self.left), set()
        self._drifted -= changed
        self._drifted |= {key for key in changed if not _is_as_left(look.records.get(key), self.left.get(key))}
        return set(self._drifted)

    def note_making_way(self, key: ObjectKey, attempt: str, holders: Collection[ObjectKey]) -> None:
        """Record that dropped objects are deleted so that an attempt to apply another one can succeed."""
        self.drop(holders)
        before = self.made_way_for(key, attempt)
        self.made_way[key] = MadeWay(attempt, frozenset(holders) | (before.keys if before else frozenset()))

    def note_refusal(self, key: ObjectKey, attempt: str) -> bool:
        """Record that an object is refused although others made way; return whether it may be accepted soon.

        Webhooks, policies and quotas may not have noticed yet that the others are gone.
        """
        made = self.made_way_for(key, attempt)
        if made is None or made.in_vain:
            return False
        at = self.clock() if made.refused_at is None else made.refused_at
        self.made_way[key] = replace(made, refused_at=at, in_vain=self.clock() - at >= NOTICED_SECONDS)
        return True

    def made_way_for(self, key: ObjectKey, attempt: str) -> MadeWay | None:
        """Return what was deleted for this attempt to apply an object, which has not succeeded yet; None if nothing."""
        made = self.made_way.get(key)
        return made if made and made.attempt == attempt else None

    def is_in_vain(self, key: ObjectKey, attempt: str) -> bool:
        """Whether an object was refused for too long although others had made way."""
        made = self.made_way_for(key, attempt)
        return made is not None and made.in_vain

    def restored(self) -> set[ObjectKey]:
        """Return the dropped objects that were deleted in vain: they are created again."""
        return {key for made in self.made_way.values() if made.in_vain for key in made.keys}

    def is_explained(self, record: Record) -> bool:
        """Whether the drift of an object at its current version is known."""
        return self.explanations.get(record.key, ("", None))[0] == record.resource_version != ""

    def repaired(self, drift: DriftedObject) -> None:
        """Record a repair: the next one of this object waits longer. Several threads of a pass may call it."""
        before = self._last_repair(drift.key) or _Repair(0, 0.0)
        modified = drift.fields or ((DriftedField(drift.state),) if drift.state else ())
        now = {each.path: (each, before.fields.get(each.path, (each, 0))[1] + 1) for each in modified}
        self._repairs.pop(drift.key, None)  # to become the newest
        fields = dict(islice({**now, **before.fields, **now}.items(), MOST_FIELDS))
        self._repairs[drift.key] = _Repair(before.count + 1, self.clock(), fields)

    def seconds_to_repair(self, key: ObjectKey) -> float:
        """Return how long to wait before this object may be repaired; 0: now."""
        before = self._last_repair(key)
        if before is None:
            return 0.0
        return max(before.at + _BACKOFF.delay(before.count) - self.clock(), 0.0)

    def postpones(self, key: ObjectKey, digest: str) -> bool:
        """Whether this would be a repair too soon after the last one; applying another revision never is."""
        left = self.left.get(key)
        return left is not None and left.digest == digest and self.seconds_to_repair(key) > 0

    def conflicts(self) -> list[DriftedObject]:
        """Return the objects that another client keeps modifying: repaired three times without 10 quiet minutes.

        They have the fields that were modified more than once, or all of them if none was. A conflict ends when the
        object is not modified for as long as its next repair would wait.
        """
        self._drop_old_repairs()
        many = {key: repair for key, repair in self._repairs.items() if repair.count >= CONFLICT_COUNT}
        return [_describe_conflict(key, many[key]) for key in sorted(many) if self.seconds_to_repair(key) > 0]

    def seconds_of_conflict(self) -> float | None:
        """Return in how many seconds a conflict ends if nothing happens; None without a conflict."""
        return min((self.seconds_to_repair(conflict.key) for conflict in self.conflicts()), default=None)

    def _drop_old_repairs(self) -> None:
        # Iterates, so it must not run while threads record repairs.
        old = takewhile(lambda key: self._last_repair(key) is None, self._repairs)
        for key in list(old):
            del self._repairs[key]

    def _last_repair(self, key: ObjectKey) -> _Repair | None:
        last = self._repairs.get(key)
        return last if last and self.clock() - last.at <= QUIET_SECONDS else None


def _describe_conflict(key: ObjectKey, repair: _Repair) -> DriftedObject:
    again = tuple(each for each, count in repair.fields.values() if count > 1)
    return DriftedObject(key=key, fields=again or tuple(each for each, _ in repair.fields.values()))


def _is_as_left(record: Record | None, left: Left | None) -> bool:
    if left is None:
        return True  # nothing is expected of it
    return record is not None and not record.deleting and Left.by(record) == left


def _weigh(key: ObjectKey, left: Left | None) -> int:
    if left is None:
        return 0
    text = _ENCODE((*key, left.digest, left.entry_hash))
    return int.from_bytes(hashlib.shake_128(text.encode()).digest(_BYTES), "little")


def _describe(total: int) -> str:
    return f"v2:{digest_of(total.to_bytes(_BYTES, 'little'))}"
