"""Watching the objects that somebody else has, while a BundleDeployment wants them: it goes on when the other lets go.

Objects of other BundleDeployments carry the owner label and are watched anyway; these here carry none. Each is followed
by name (lookout.py), metadata only, and not more than a few. What counts is whose an object is, not what is in it:
that may change all the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from controller.kube.discovery import Discovery
from controller.kube.resources import GroupVersionKind, Resource
from controller.observe.lookout import Lookout, Sight
from controller.observe.records import ObjectKey, Record, project

MOST = 5
"""Objects that are watched for one BundleDeployment; the others are tried again in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contested:
    """An object that a BundleDeployment wants and may not have."""

    kind: GroupVersionKind
    key: ObjectKey
    record: Record | None
    """As it was judged; None: it was not looked at again."""


class ContestedWatches:
    """Thread-safe.

    Args:
        lookout: follows the objects.
        changed: called with the name of a BundleDeployment when an object that it wants is another's, or nobody's.
    """

    def __init__(self, lookout: Lookout, discovery: Discovery, changed: Callable[[str], None]) -> None:
        self._lookout, self._discovery, self._changed = lookout, discovery, changed
        self._watches: dict[str, dict[ObjectKey, _Watch]] = {}
        self._lock = threading.Lock()

    def watch(self, name: str, contested: Iterable[Contested], *, share: str = "") -> None:
        """Watch exactly these objects for a BundleDeployment, as far as they are not too many.

        Args:
            name: of the BundleDeployment.
            contested: objects that it may not have.
            share: at whose expense.

        Raises: ApiError if discovery does not answer.
        """
        wanted = {each.key: each for each in islice(contested, MOST)}
        if not wanted and name not in self._watches:
            return
        with self._lock:
            before = self._watches.get(name, {})
        kept = {key: watch for key, watch in before.items() if key in wanted}
        # May take a request, and fail: then all stays as it is.
        resources = {key: self._discovery.resource(each.kind) for key, each in wanted.items() if key not in kept}
        started = {
            key: self._make(name, share, record, resource)
            for key, resource in resources.items()
            if resource and (record := wanted[key].record)
        }
        with self._lock:
            self._watches.pop(name, None)
            if kept or started:
                self._watches[name] = kept | started
        for key in before.keys() - kept.keys():
            before[key].followed.stop()
        for key, each in kept.items():
            each.expect(wanted[key].record)
        for each in started.values():
            each.followed.start()

    def _make(self, name: str, share: str, record: Record, resource: Resource) -> _Watch:
        return _Watch(self._lookout, share, resource, record, lambda: self._changed(name))


class _Watch:
    """One object, watched for one BundleDeployment."""

    def __init__(
        self, lookout: Lookout, share: str, resource: Resource, record: Record, changed: Callable[[], None]
    ) -> None:
        self._changed, self._judged = changed, record
        key = record.key
        sight = Sight(
            resource=resource,
            namespace=key.namespace,
            name=key.name,
            project=lambda manifest: project(manifest, key.group, key.kind),
            on_change=self._compare,
            on_synced=self._look,
        )
        self.followed = lookout.make(share, sight)

    def expect(self, record: Record | None) -> None:
        """Note how the object was judged last; that it is another's since is news."""
        if record is None:
            return
        self._judged = record
        if self.followed.synced:
            self.followed.learn(record)  # the watch may be behind it
            self._look()

    def _look(self) -> None:
        self._compare(None, self.followed.get((self._judged.key.namespace, self._judged.key.name)))

    def _compare(self, _old: Record | None, new: Record | None) -> None:
        if new is None or _whose(new) != _whose(self._judged):
            self._changed()


def _whose(record: Record) -> tuple[object, ...]:
    """What of an object is looked at when it is judged."""
    owner = (record.owner, record.owner_uid, record.applied_digest, record.released_from)
    return (record.uid, record.deleting, *owner, record.controller_uid, record.marks)
