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

SLOW_AFTER_SECONDS = 5.0
"""After so long status names what a deletion waits for."""
BLOCKED_AFTER_SECONDS = 60.0
"""After so long a person should look at it."""
# What finalizers of Kubernetes itself wait for.
_AWAITED = {
    "foregroundDeletion": "the objects that it owns still exist",
    "kubernetes.io/pvc-protection": "a pod still uses it",
    "kubernetes.io/pv-protection": "a claim is still bound to it",
    "customresourcecleanup.apiextensions.k8s.io": "its custom resources still exist",
}


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
    first = min(map(_tier, ours), default=None)
    current = _releasable(ours) if orphan else [record for record in ours if _tier(record) is first]
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


def describe_awaited(record: Record, explanation: str = "") -> str:
    """Name an object that is being deleted and still exists, with what holds it.

    Args:
        record: the object.
        explanation: what is known about it besides its finalizers.
    """
    return f"{record.key} ({explanation or _holder(record)})"


def _holder(record: Record) -> str:
    if record.finalizers:
        known = [_AWAITED[name] for name in record.finalizers if name in _AWAITED]
        return f"finalizer {', '.join(record.finalizers)}{': ' if known else ''}{', '.join(known)}"
    if record.key[:2] == ("", "Pod"):
        return "its containers are being stopped"
    if record.key[:2] == ("", "Namespace"):
        return "its content is being deleted"
    return "no finalizer; the API server has not removed it yet"


def _is_left(record: Record, owner: Owner, *, orphan: bool) -> bool:
    # --cascade=orphan strips the references before we see the deletion: label and UID suffice then.
    return is_ours(record, owner, carries_reference=not loses_reference(record, orphan=orphan))


def _tier(record: Record) -> Tier:
    if is_custom(record.key):
        return Tier.CUSTOM_RESOURCES
    if record.key.kind == "Namespace":
        return Tier.NAMESPACES
    return Tier.DEFINITIONS if record.key.kind == "CustomResourceDefinition" else Tier.OBJECTS
