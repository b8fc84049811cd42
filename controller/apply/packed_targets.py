"""The targets of an installed revision in compressed form: a repair unpacks only those that have drifted. Pure.

Targets are distributed over blocks by their keys, so that no index is needed, and serialized one by one in their
block. Not here: how long they are kept (reconcile/memory.py).
"""

from __future__ import annotations

import marshal
import zlib
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from controller.apply.drift.ignored_fields import IgnoredFields
from controller.apply.targets import Target, TargetSet
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey, key_of

TARGETS_IN_BLOCK = (32, 1)
"""On average; the second number if blocks of the first are too large."""
MOST_BYTES = 2 << 20
"""Of one block, and of the targets that are unpacked at once; more would need a reservation (revisions/large.py)."""
ALWAYS_BYTES, BYTES_EACH = 64 << 10, 1 << 10
"""What the compressed targets of a revision may take, the second for each of them: about as much as its record. Those
of few large objects take more, and are read again as quickly."""
_LEVEL = 1
"""Of compression: targets of one kind are alike, and a higher level saves little."""
_Packed = tuple[int, tuple[str, str, str, str], bytes]
"""The position of a target in its bundle, its key, and the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedTargets:
    """The targets of a revision."""

    rest: TargetSet
    """The revision without its targets, except some that are always needed."""
    blocks: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """Bytes of the compressed targets."""
        return sum(map(len, self.blocks))

    def unpack(self, keys: Collection[ObjectKey]) -> TargetSet | None:
        """Return the revision with only these targets, in bundle order; None if they are too large.

        Keys without a target are left out.
        """
        found: list[_Packed] = []
        for number, wanted in _by_block(keys, len(self.blocks)).items():
            found += [each for each in _unpack_block(self.blocks[number]) if each[1] in wanted]
            if sum(len(packed) for _, _, packed in found) > MOST_BYTES:
                return None
        unpacked = (_unpack_target(packed) for _, _, packed in sorted(found))
        return _with_targets(self.rest, [*self.rest.targets, *unpacked])


def pack_targets(wanted: TargetSet, always: Collection[ObjectKey]) -> PackedTargets | None:
    """Return the targets of a revision in compressed form; None if they are too large, or nested too deeply, for that.

    Args:
        wanted: the targets.
        always: keys of a few targets that `unpack` always returns; the install namespace is always one of them.
    """
    kept = [target for target in wanted.targets if target.bare or target.key in always]
    for size in TARGETS_IN_BLOCK:
        with suppress(ValueError):
            blocks = _pack_blocks(wanted, {target.key for target in kept}, size)
            return PackedTargets(rest=_with_targets(wanted, kept), blocks=blocks)
    return None


def _with_targets(wanted: TargetSet, targets: Iterable[Target]) -> TargetSet:
    by_key = {target.key: target for target in targets}
    return replace(wanted, targets=tuple(by_key.values()), by_key=by_key)


def _by_block(keys: Iterable[ObjectKey], count: int) -> dict[int, set[ObjectKey]]:
    """Distribute keys over blocks: differently in each process, which no block outlives."""
    members: dict[int, set[ObjectKey]] = {}
    for key in keys if count else ():
        members.setdefault(hash(key) % count, set()).add(key)
    return members


def _pack_blocks(wanted: TargetSet, without: Collection[ObjectKey], size: int) -> tuple[bytes, ...]:
    positions = {target.key: number for number, target in enumerate(wanted.targets) if target.key not in without}
    count, left = -(-len(positions) // size), max(ALWAYS_BYTES, BYTES_EACH * len(positions))
    members, blocks = _by_block(positions, count), []
    for number in range(count):
        keys = members.get(number, ())
        block = marshal.dumps([(positions[key], tuple(key), _pack_target(wanted.by_key[key])) for key in keys])
        if len(block) > MOST_BYTES:
            raise ValueError("a block is too large")
        blocks.append(zlib.compress(block, _LEVEL))
        left -= len(blocks[-1])
        if left < 0:
            raise ValueError("all blocks together are too large")
    return tuple(blocks)


def _unpack_block(block: bytes) -> list[_Packed]:
    # Our own bytes. Not JSON: it is slower, and cannot serialize deeply nested values.
    return marshal.loads(zlib.decompress(block))  # type: ignore[no-any-return]  # noqa: S302


def _pack_target(target: Target) -> bytes:
    ignored = target.ignored
    fields: Any = (
        (target.digest, target.carries_reference, target.optional, target.recreate),
        (ignored.paths, ignored.accepts_drift, ignored.warnings),
        tuple(target.kind),
        target.manifest,
        target.initial,
    )
    return marshal.dumps(fields)


def _unpack_target(packed: bytes) -> Target:
    (digest, carries_reference, optional, recreate), ignored, kind, manifest, initial = marshal.loads(packed)  # noqa: S302
    paths, accepts_drift, warnings = ignored
    return Target(
        key=key_of(manifest),
        kind=GroupVersionKind(*kind),
        digest=digest,
        carries_reference=carries_reference,
        manifest=manifest,
        initial=initial,
        ignored=IgnoredFields(paths=paths, accepts_drift=accepts_drift, warnings=warnings),
        optional=optional,
        recreate=recreate,
    )
