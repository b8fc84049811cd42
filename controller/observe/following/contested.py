"""Objects that a BundleDeployment wants but that have another owner: it continues when they are released.

Objects of other BundleDeployments are watched anyway, by their owner label. The others are followed by name
(object_follower.py), metadata only, and only a few. Only changes of the owner matter, not of the content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from controller.kube.discovery import Discovery
from controller.kube.resources import GroupVersionKind, Resource
from controller.observe.following.followed_objects import FollowedObjects
from controller.observe.following.object_follower import ObjectFollower, Subscription
from controller.observe.records import ObjectKey, Record, project

MOST = 5
"""How many objects are followed for one BundleDeployment; the others are retried periodically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contested:
    """An object that a BundleDeployment wants but must not apply, since it has another owner."""

    kind: GroupVersionKind
    key: ObjectKey
    record: Record | None
    """As it was judged; None if it was not read again."""


class ContestedWatches:
    """Thread-safe.

    Args:
        follower: follows the objects.
        changed: called with the name of a BundleDeployment when an object that it wants has another owner, or none.
    """

    def __init__(self, follower: ObjectFollower, discovery: Discovery, changed: Callable[[str], None]) -> None:
        self._follower, self._discovery, self._changed = follower, discovery, changed
        self._objects = FollowedObjects[ObjectKey, Record | None]()

    def watch(self, name: str, contested: Iterable[Contested], *, share: str = "") -> None:
        """Watch exactly these objects for a BundleDeployment, at most `MOST`.

        Args:
            name: of the BundleDeployment.
            contested: objects that it must not apply.
            share: that is charged for it.

        Raises: ApiError if discovery fails.
        """
        wanted = {each.key: each for each in islice(contested, MOST)}
        kept = self._objects.of(name)
        # May send a request, and fail: nothing changes then.
        added = {
            key: (resource, each.record)
            for key, each in wanted.items()
            if key not in kept and (resource := self._discovery.resource(each.kind)) and each.record
        }

        def _make(key: ObjectKey) -> _ContestedObject:
            resource, record = added[key]
            return _ContestedObject(self._follower, share, resource, record, lambda: self._changed(name))

        followed = {key: each.record for key, each in wanted.items() if key in kept or key in added}
        self._objects.follow(name, followed, _make)


class _ContestedObject:
    """An object that is followed for its owner, for one BundleDeployment."""

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
        """Note the record that was judged last; notify if the owner has changed since."""
        if record is None:
            return
        self._judged = record
        if self.followed.synced:
            self.followed.learn(record)  # the watch may lag behind
            self._compare_known()

    def _compare_known(self) -> None:
        self._compare(None, self.followed.get((self._judged.key.namespace, self._judged.key.name)))

    def _compare(self, _old: Record | None, new: Record | None) -> None:
        if new is None or _owner_inputs(new) != _owner_inputs(self._judged):
            self._changed()


def _owner_inputs(record: Record) -> tuple[object, ...]:
    """Return the fields that decide whether an object may be applied."""
    owner = (record.owner, record.owner_uid, record.applied_digest, record.released_from)
    return (record.uid, record.deleting, *owner, record.controller_uid, record.marks)
