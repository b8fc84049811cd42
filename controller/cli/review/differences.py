"""What a revision would make of each object. Pure: values, counts, and the comparison of two revisions.

Not here: the comparison with a cluster (dry_run.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from api.v1alpha2.status import Changes
from controller.apply import differences
from controller.apply.drift import united
from controller.apply.hooks import HookEvent, PlannedHook, hooks_of
from controller.apply.targets import TargetSet
from controller.build.revision import Revision
from controller.cli.review.cleaning import clean
from controller.observe.records import ObjectKey


class Change(Enum):
    """What would be done with an object."""

    NONE = "unchanged"
    CREATED = "created"
    CHANGED = "changed"
    RECREATED = "recreated"
    """Deleted and created again."""
    DELETED = "deleted"
    KEPT = "kept"
    """The revision lacks it, but it is not deleted."""
    REFUSED = "refused"
    """The controller could not apply it."""
    UNREAD = "not compared"
    """The user may not read it; it is shown as rendered."""
    HOOK = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One object before and after."""

    key: ObjectKey
    api_version: str
    change: Change
    before: Mapping[str, Any] | None = None
    """Cleaned, as the next; None if it does not exist, or is not shown."""
    after: Mapping[str, Any] | None = None
    note: str = ""
    """Why, or how it was found."""
    hook: str = ""
    """The event of a hook; empty for an ordinary object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A revision compared with a cluster, or with another revision."""

    name: str
    """Of the BundleDeployment."""
    revision: str
    against: str
    """What it is compared with: `the cluster`, or a digest."""
    objects: Sequence[Difference]
    """In the order of the bundle, then those that it lacks; also unchanged ones."""
    hooks: Sequence[Difference] = field(default_factory=tuple)
    """Those that would run."""
    problems: Sequence[str] = field(default_factory=tuple)

    @property
    def changes(self) -> Changes:
        """How many objects would change."""
        count = [each.change for each in self.objects].count
        recreated = count(Change.RECREATED)
        return Changes(
            create=count(Change.CREATED),
            change=count(Change.CHANGED) + recreated,
            delete=count(Change.DELETED),
            recreate=recreated,
        )

    @property
    def differs(self) -> bool:
        """Whether anything would be done, or is not known."""
        quiet = (Change.NONE, Change.KEPT)
        return bool(self.hooks) or any(each.change not in quiet for each in self.objects)

    @property
    def is_refused(self) -> bool:
        """Whether the controller could not apply an object."""
        return any(each.change is Change.REFUSED for each in self.objects)


def compare_revisions(name: str, before: TargetSet, after: TargetSet, hooks: Sequence[Difference]) -> Comparison:
    """Compare two revisions as they were rendered; hooks are those that differ."""
    found = differences.find_differences(before, after, prunes=True)
    manifests = [
        {target.key: clean(united(target.manifest, target.initial)) for target in targets.targets if not target.bare}
        for targets in (before, after)
    ]

    def _make(key: ObjectKey, change: Change) -> Difference:
        old, new = (each.get(key) for each in manifests)
        version = str((new or old or {}).get("apiVersion"))
        return Difference(key=key, api_version=version, change=change, before=old, after=new)

    made = [_make(key, Change.CREATED) for key in found.created]
    made += [_make(key, Change.CHANGED) for key in found.changed if key not in found.recreated]
    made += [_make(key, Change.RECREATED) for key in found.recreated]
    gone = [key for key in manifests[0] if key not in after.by_key]
    made += [_make(key, Change.DELETED if key in found.deleted else Change.KEPT) for key in gone]
    return Comparison(name=name, revision=after.revision, against=before.revision, objects=made, hooks=hooks)


def compare_hooks(before: Revision | None, after: Revision, *, is_upgrade: bool) -> list[Difference]:
    """Return the hooks that run when a revision is installed, or installed instead of another one.

    Args:
        before: the other one, if it is known.
        after: the revision.
        is_upgrade: whether there is another one.
    """
    events = (
        (HookEvent.PRE_UPGRADE, HookEvent.POST_UPGRADE)
        if is_upgrade
        else (HookEvent.PRE_INSTALL, HookEvent.POST_INSTALL)
    )
    old = {each.key: each for event in events for each in (hooks_of(before, event) if before else ())}
    return [_compare_hook(old.get(each.key), each) for event in events for each in hooks_of(after, event)]


def _compare_hook(before: PlannedHook | None, after: PlannedHook) -> Difference:
    return Difference(
        key=after.key,
        api_version=after.kind.api_version,
        change=Change.HOOK,
        before=clean(before.manifest) if before else None,
        after=clean(after.manifest),
        hook=after.event.value,
    )


def count_unchanged(objects: Iterable[Difference]) -> int:
    """Return how many objects stay as they are."""
    return sum(each.change is Change.NONE for each in objects)
