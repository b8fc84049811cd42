"""The single objects that each BundleDeployment follows: exactly those that its last pass named.

Not here: which objects these are and which changes matter (named.py, contested.py), how one is followed
(object_follower.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from controller.observe.following.object_follower import Followed

ExpectedT_contra = TypeVar("ExpectedT_contra", contravariant=True)
KeyT = TypeVar("KeyT", bound=Hashable)


class FollowedObject(Protocol[ExpectedT_contra]):
    """An object that is followed for one BundleDeployment."""

    @property
    def followed(self) -> Followed[Any]:
        """Its follower."""

    def expect(self, expected: ExpectedT_contra) -> None:
        """Note how the pass saw the object; notify if it differs now."""


class FollowedObjects(Generic[KeyT, ExpectedT_contra]):
    """Thread-safe; a BundleDeployment has one pass at a time."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[KeyT, FollowedObject[ExpectedT_contra]]] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> Collection[KeyT]:
        """Return the objects that a BundleDeployment follows."""
        with self._lock:
            return set(self._by_name.get(name, ()))

    def follow(
        self,
        name: str,
        expected: Mapping[KeyT, ExpectedT_contra],
        make: Callable[[KeyT], FollowedObject[ExpectedT_contra]],
    ) -> None:
        """Have a BundleDeployment follow exactly these objects.

        Args:
            name: of the BundleDeployment.
            expected: how the pass saw each of them.
            make: returns the follower of an object, not started yet; called under the lock.
        """
        with self._lock:
            before = self._by_name.pop(name, {})
            ended = [each for key, each in before.items() if key not in expected]
            started = {key: make(key) for key in expected if key not in before}
            current = {key: each for key, each in before.items() if key in expected} | started
            if current:
                self._by_name[name] = current
        for each in ended:
            each.followed.stop()
        for key, each in current.items():
            each.expect(expected[key])
        for each in started.values():
            each.followed.start()
