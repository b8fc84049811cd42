"""Objects that a BundleDeployment wants and somebody else owns: it goes on when the owner releases them.

Objects of other BundleDeployments carry the owner label and are watched anyway; these here carry none. Each is followed
by name (object_follower.py), metadata only, and not more than a few. What counts is who owns an object, not what is in
it: that may change all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from controller.kube.discovery import Discovery
from controller.kube.resources import GroupVersionKind, Resource
from controller.observe.followed_objects import FollowedObjects
from controller.observe.object_follower import ObjectFollower, Subscription
from controller.observe.records import ObjectKey, Record, project

MOST = 5
"""Objects that are watched for one BundleDeployment; the others are retried periodically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contested:
    """An object that a BundleDeployment wants and may not apply, since somebody else owns it."""

    kind: GroupVersionKind
    key: ObjectKey
    record: Record | None
    """As it was judged; None: it was not read again."""


class ContestedWatches:
    """Thread-safe.

    Args:
        follower: follows the objects.
        changed: called with the name of a BundleDeployment when an object that it wants is another's, or nobody's.
    """

    def __init__(self, follower: ObjectFollower, discovery: Discovery, changed: Callable[[str], None]) -> None:
        self._follower, self._discovery, self._changed = follower, discovery, changed
        self._objects = FollowedObjects[ObjectKey, Record | None]()

    def watch(self, name: str, contested: Iterable[Contested], *, share: str = "") -> None:
        """Watch exactly these objects for a BundleDeployment, as far as they are not too many.

        Args:
            name: of the BundleDeployment.
            contested: objects that it may not apply.
            share: at whose expense.

        Raises: ApiError if discovery does not answer.
        """
        wanted = {each.key: each for each in islice(contested, MOST)}
        kept = self._objects.of(name)
        # May take a request, and fail: then all stays as it is.
        added = {
            key: (resource, each.record)
            for key, each in wanted.items()
            if key not in kept and (resource := self._discovery.resource(each.kind)) and each.record
        }

        def make(key: ObjectKey) -> _ContestedObject:
            resource, record = added[key]
            return _ContestedObject(self._follower, share, resource, record, lambda: self._changed(name))

        followed = {key: each.record for key, each in wanted.items() if key in kept or key in added}
        self._objects.follow(name, followed, make)


class _ContestedObject:
    """One object, followed for one BundleDeployment: its owner counts."""

    def __init__(
        self, follower: ObjectFollower, share: str, resource: Resource, record: Record, changed: Callable[[], None]
    ) -> None:
        self._changed, self._judged = changed, record
        key = record.key
        subscription = Subscription(
            resource=resource,
            namespace=key.namespace,
            name=key.name,
            project=lambda manifest: project(manifest, key.group, key.kind),
            on_change=self._compare,
            on_synced=self._compare_known,
        )
        self.followed = follower.make(share, subscription)

    def expect(self, record: Record | None) -> None:
        """Note how the object was judged last; another owner since is news."""
        if record is None:
            return
        self._judged = record
        if self.followed.synced:
            self.followed.learn(record)  # the watch may be behind it
            self._compare_known()

    def _compare_known(self) -> None:
        self._compare(None, self.followed.get((self._judged.key.namespace, self._judged.key.name)))

    def _compare(self, _old: Record | None, new: Record | None) -> None:
        if new is None or _owner_inputs(new) != _owner_inputs(self._judged):
            self._changed()


def _owner_inputs(record: Record) -> tuple[object, ...]:
    """Return what of an object decides whether it may be applied."""
    owner = (record.owner, record.owner_uid, record.applied_digest, record.released_from)
    return (record.uid, record.deleting, *owner, record.controller_uid, record.marks)
