"""Which objects are deleted next when a BundleDeployment is deleted. Pure; prune.py sends the requests.

Custom resources first, while their operator still runs, then everything else in reverse apply order, then
CustomResourceDefinitions, and Namespaces last. A tier starts once the previous one is gone. Nothing is repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from controller.apply.order import is_custom
from controller.apply.ownership import Owner, is_ours, loses_reference
from controller.observe.records import ObjectKey, Record

BLOCKED_AFTER_SECONDS = 60.0


class Tier(IntEnum):
    """Objects that are deleted at the same time, in order."""

    CUSTOM_RESOURCES = 0
    OBJECTS = 1
    DEFINITIONS = 2
    NAMESPACES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Teardown:
    """The objects that still exist, and which of them are next."""

    remaining: tuple[Record, ...]
    now: tuple[Record, ...]
    """Deleted or released in this pass."""
    awaited: tuple[Record, ...]
    """Already being deleted: the next tier waits for them."""


def plan_teardown(observed: Mapping[ObjectKey, Record], owner: Owner, *, orphan: bool) -> Teardown:
    """Decide which objects are deleted now.

    Args:
        observed: the objects that carry our label and that a kept revision names.
        owner: the BundleDeployment that is being deleted.
        orphan: whether its objects are released and kept.
    """
    ours = [record for record in observed.values() if _is_left(record, owner, orphan=orphan)]
    current = _releasable(ours) if orphan else [record for record in ours if _tier(record) is min(map(_tier, ours))]
    return Teardown(
        remaining=tuple(ours),
        now=tuple(record for record in current if not record.deleting),
        awaited=tuple(record for record in current if record.deleting),
    )


def is_orphaned(observed: Iterable[Record], owner: Owner) -> bool:
    """Whether the garbage collector has stripped the owner references from the objects of a BundleDeployment.

    It does so for `--cascade=orphan`, and then removes its finalizer, which may be gone when the controller looks.

    Args:
        observed: the objects that carry our label and that a kept revision names.
        owner: the BundleDeployment that is being deleted.
    """
    marked = [record for record in observed if (record.owner, record.owner_uid) == (owner.name, owner.uid)]
    references = [record.controller_uid for record in marked if not loses_reference(record, orphan=False)]
    return bool(references) and not any(references)


def _releasable(ours: list[Record]) -> list[Record]:
    # Those that never had a reference first: until the others are released, they show `is_orphaned` after a restart.
    first = [record for record in ours if loses_reference(record, orphan=False) and not record.deleting]
    return first or ours


def blockers(awaited: Iterable[Record]) -> str:
    """Describe what blocks the deletion of objects, for a condition."""
    texts = [f"{record.key} ({', '.join(record.finalizers) or 'being deleted'})" for record in awaited]
    shown = sorted(texts)[:3]
    more = f" and {len(texts) - len(shown)} more" if len(texts) > len(shown) else ""
    return ", ".join(shown) + more


def _is_left(record: Record, owner: Owner, *, orphan: bool) -> bool:
    # --cascade=orphan strips the references before we see the deletion: label and UID suffice then.
    return is_ours(record, owner, carries_reference=not loses_reference(record, orphan=orphan))


def _tier(record: Record) -> Tier:
    if is_custom(record.key):
        return Tier.CUSTOM_RESOURCES
    if record.key.kind == "Namespace":
        return Tier.NAMESPACES
    return Tier.DEFINITIONS if record.key.kind == "CustomResourceDefinition" else Tier.OBJECTS
