"""What this process knows of its own applies: how each object was left, and how often it had to be repaired.

Only memory. After a restart an object that carries the digest of its target is compared once, or `status.managedState`
says that all of them are as they were left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from controller.apply.drift.explanation import DriftedObject
from controller.observe.records import ObjectKey, Record
from controller.retries import Backoff

FIRST_SECONDS = 2.0
_BACKOFF = Backoff(first=FIRST_SECONDS, factor=3.0, longest=300.0)
QUIET_SECONDS = 600.0
CONFLICT_COUNT = 3


@dataclass(frozen=True, slots=True)
class Left:
    """How an apply left an object."""

    digest: str
    entry_hash: str


@dataclass(frozen=True, slots=True)
class _Repair:
    count: int
    at: float


@dataclass(slots=True)
class Ledger:
    """The memory of one BundleDeployment; used by one pass at a time.

    The backoff of repairs is that of Argo CD's self-heal: 2 s, times 3, at most 300 s, forgotten after 10 minutes.
    """

    clock: Callable[[], float] = time.monotonic
    left: dict[ObjectKey, Left] = field(default_factory=dict)
    used: dict[ObjectKey, Record | None] = field(default_factory=dict)
    """Namespaces that are not ours, as they were when they were looked at; None: made by this process."""
    explanations: dict[ObjectKey, tuple[str, DriftedObject | None]] = field(default_factory=dict)
    """Of what is not repaired: the resourceVersion that was looked at, and what was found; None: our values."""
    recreated: dict[ObjectKey, str] = field(default_factory=dict)
    """UIDs of objects that were deleted to be created again: while one is still seen, its deletion is awaited."""
    fights: dict[ObjectKey, DriftedObject] = field(default_factory=dict)
    """What was found when an object had to be repaired again and again."""
    _repairs: dict[ObjectKey, _Repair] = field(default_factory=dict)

    def learn(self, records: Iterable[Record]) -> None:
        """Take these objects as they are now for the way we left them."""
        self.left |= {record.key: Left(record.applied_digest, record.entry_hash) for record in records}

    def forget(self, keys: Iterable[ObjectKey]) -> None:
        """Expect nothing of objects that were taken away."""
        for key in keys:
            self.left.pop(key, None)

    def digests(self) -> dict[ObjectKey, str]:
        """Return the applied digest of each object that we left."""
        return {key: left.digest for key, left in self.left.items()}

    def expect_all(self, records: Iterable[Record]) -> None:
        """Take all of these, and no others, for the way we left them."""
        self.left = {record.key: Left(record.applied_digest, record.entry_hash) for record in records}
        self.explanations.clear()
        self.recreated.clear()

    def drifted(self, observed: Mapping[ObjectKey, Record]) -> list[ObjectKey]:
        """Return the objects that are not as they were left, or are gone."""
        return [key for key, left in self.left.items() if not _is_as_left(observed.get(key), left)]

    def is_explained(self, record: Record) -> bool:
        """Whether an object was compared as it is now, and was not as it is wanted."""
        return self.explanations.get(record.key, ("", None))[0] == record.resource_version != ""

    def repaired(self, key: ObjectKey) -> None:
        """Note a repair: the next one of this object waits longer."""
        before = self._repairs.get(key)
        quiet = before is None or self.clock() - before.at > QUIET_SECONDS
        self._repairs[key] = _Repair(1 if quiet or before is None else before.count + 1, self.clock())

    def seconds_to_repair(self, key: ObjectKey) -> float:
        """Return how long to wait before this object may be repaired; 0: now."""
        before = self._repairs.get(key)
        if before is None or self.clock() - before.at > QUIET_SECONDS:
            return 0.0
        return max(before.at + _BACKOFF.delay(before.count) - self.clock(), 0.0)

    def postpones(self, key: ObjectKey, digest: str) -> bool:
        """Whether to apply this would be a repair that comes too soon after the last: another revision never does."""
        left = self.left.get(key)
        return left is not None and left.digest == digest and self.seconds_to_repair(key) > 0

    def is_fought_over(self, key: ObjectKey) -> bool:
        """Whether one repair more makes it an object that somebody keeps changing."""
        before = self._repairs.get(key)
        quiet = before is None or self.clock() - before.at > QUIET_SECONDS
        return not quiet and before is not None and before.count + 1 >= CONFLICT_COUNT

    def conflicts(self) -> list[DriftedObject]:
        """Return the objects that somebody keeps changing: repaired three times without 10 quiet minutes.

        Who leaves one alone for as long as its next repair would wait has given up: that ends it.
        """
        many = (key for key, repair in self._repairs.items() if repair.count >= CONFLICT_COUNT)
        return [
            self.fights.get(key) or DriftedObject(key=key) for key in sorted(many) if self.seconds_to_repair(key) > 0
        ]

    def seconds_of_conflict(self) -> float | None:
        """Return in how many seconds a conflict ends if nothing happens; None: there is none."""
        return min((self.seconds_to_repair(conflict.key) for conflict in self.conflicts()), default=None)


def _is_as_left(record: Record | None, left: Left) -> bool:
    return (
        record is not None
        and not record.deleting
        and (record.applied_digest, record.entry_hash) == (left.digest, left.entry_hash)
    )
