"""How many objects one revision would change, compared with another one. Pure.

The cluster is not asked: what drifts meanwhile is repaired in either case, and the answer stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from api.v1alpha2.types import Changes
from controller.apply.drift import united
from controller.apply.removal import Disposal, RemovalCause, dispose
from controller.apply.targets import Target, TargetSet
from controller.observe.records import ObjectKey, project


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The objects that a revision would change."""

    created: tuple[ObjectKey, ...] = ()
    changed: tuple[ObjectKey, ...] = ()
    deleted: tuple[ObjectKey, ...] = ()
    recreated: tuple[ObjectKey, ...] = ()
    """Those of `changed` that may be deleted and created again."""

    @property
    def counts(self) -> Changes:
        """How many objects would change."""
        return Changes(
            create=len(self.created), change=len(self.changed), delete=len(self.deleted), recreate=len(self.recreated)
        )


def find_differences(before: TargetSet | None, after: TargetSet, *, prunes: bool) -> Differences:
    """Return the objects that a revision would change.

    Args:
        before: the targets of the revision on the cluster; None if there is none.
        after: the targets of the other revision.
        prunes: whether objects that only the first one contains are deleted.
    """
    old, new = _managed(before), _managed(after)
    changed = [target for key, target in new.items() if key in old and _differ(old[key], target)]
    deleted = [key for key, target in old.items() if key not in after.by_key and _is_deleted(target)]
    return Differences(
        created=tuple(key for key in new if key not in old),
        changed=tuple(target.key for target in changed),
        deleted=tuple(deleted) if prunes else (),
        recreated=tuple(target.key for target in changed if target.recreate),
    )


def _managed(targets: TargetSet | None) -> Mapping[ObjectKey, Target]:
    return {target.key: target for target in (targets.targets if targets else ()) if not target.bare}


def _differ(old: Target, new: Target) -> bool:
    """Whether their objects differ; the digests also differ when other fields are ignored."""
    return old.digest != new.digest and united(old.manifest, old.initial) != united(new.manifest, new.initial)


def _is_deleted(target: Target) -> bool:
    record = project(target.manifest, target.key.group, target.key.kind)
    return dispose(record, RemovalCause.PRUNE) is not Disposal.RELEASE
