"""Secrets and ServiceAccounts that caused a failure, followed while it lasts: any change causes an immediate retry.

Each is followed by name, as the identity that reads it; there is no watch on all Secrets. Only metadata is read, never
a value of a Secret. An object is compared with the version that was read, so that no change is lost between reading it,
failing, and following it. How it is followed is up to object_follower.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.kube.client import User
from controller.kube.resources import SECRETS, Resource
from controller.kube.watch.cache import Trace, make_trace
from controller.observe.following.followed_objects import FollowedObjects
from controller.observe.following.object_follower import ObjectFollower, Subscription


@dataclass(frozen=True, slots=True)
class WatchedObject:
    """An object, and the user that reads it."""

    namespace: str
    name: str
    user: str = ""
    """Empty: the controller."""
    resource: Resource = SECRETS


class NamedWatches:
    """Thread-safe.

    Args:
        follower: follows the objects.
        changed: called with the name of a BundleDeployment when an object differs from the version that it read.
    """

    def __init__(self, follower: ObjectFollower, changed: Callable[[str], None]) -> None:
        self._follower, self._changed = follower, changed
        self._objects = FollowedObjects[WatchedObject, str]()

    def watch(self, name: str, objects: Mapping[WatchedObject, str], *, share: str = "") -> None:
        """Watch exactly these objects for a BundleDeployment.

        Args:
            name: of the BundleDeployment.
            objects: with the resourceVersion that was read; empty if the object did not exist.
            share: that is charged for it.
        """

        def _make(watched: WatchedObject) -> _NamedObject:
            return _NamedObject(self._follower, share, watched, lambda: self._changed(name))

        self._objects.follow(name, objects, _make)


class _NamedObject:
    """An object that is followed for its version, for one BundleDeployment."""

    def __init__(
        self, follower: ObjectFollower, share: str, watched: WatchedObject, changed: Callable[[], None]
    ) -> None:
        self._key = (watched.namespace, watched.name)
        self._changed = changed
        self._version = ""
        subscription = Subscription(
            resource=watched.resource,
            namespace=watched.namespace,
            name=watched.name,
            user=User(watched.user) if watched.user else None,
            project=make_trace,
            on_change=self._compare,
            on_synced=self._note_absence,
        )
        self.followed = follower.make(share, subscription)

    def expect(self, version: str) -> None:
        """Note the version that was read; notify if a later one is already known."""
        self._version = version
        known = self.followed.get(self._key)
        if known is not None and _is_later(known, version):
            self._changed()

    def _note_absence(self) -> None:
        if self._version and self.followed.get(self._key) is None:
            self._changed()  # deleted before it was followed, so there will be no event

    def _compare(self, _old: Trace | None, new: Trace | None) -> None:
        if _is_later(new, self._version) if new else self._version:
            self._changed()


def _is_later(trace: Trace, version: str) -> bool:
    """Compare versions as integers, see kube/watch/cache.py."""
    return int(trace.resource_version) > int(version or 0)
