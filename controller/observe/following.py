"""What a BundleDeployment waits for besides its own objects: it continues when one of these changes.

Single objects are followed at a bounded cost, metadata only: Secrets and ServiceAccounts that caused a failure, as the
identity that reads them, and objects that have another owner. The first are watched: that takes a thread and a
connection, and reports a change immediately. There are 32 watches in total; a share (sharing.py) gets half of
them if it is the only one, else less. All other objects are polled on one thread, with at most four requests a second
and each object at most every 10 s; shares take turns. So a tenant with a thousand missing Secrets notices a new one
within about four minutes, and its neighbor with a single one within seconds. An object is compared with the version
that was read, so that no change is lost between reading it, failing, and following it.

RBAC is watched while permissions are missing: after any change of it, whatever it grants, the BundleDeployments that
lack some are retried. Where it is forbidden to watch, refused requests are retried periodically.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from rukpak.controller.kube.cache import Cache, Change, Key, RecordT, Trace, make_trace
from rukpak.controller.kube.client import ApiError, Client, User
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.encoding import METADATA
from rukpak.controller.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    GroupVersionKind,
    Resource,
)
from rukpak.controller.kube.watch import Reflector
from rukpak.controller.observe.records import ObjectKey, Record, project
from rukpak.controller.processes.supervision import Kind, Supervisor
from rukpak.controller.sharing import Shares

__all__ = ["Followed", "ObjectFollower", "Subscription"]
log = logging.getLogger(__name__)
WATCHES = 32
TIMEOUT = (2.0, 5.0)
"""Seconds to connect, and of silence: how long a slow request of one tenant may delay the others."""
ExpectedT_contra = TypeVar("ExpectedT_contra", contravariant=True)
KeyT = TypeVar("KeyT", bound=Hashable)
MOST = 5
"""How many objects are followed for one BundleDeployment; the others are retried periodically."""
RESOURCES = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingPace:
    """Timing of polling, in seconds."""

    between: float = 0.25
    """Between two requests."""
    again: float = 10.0
    """Between two requests for the same object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription(Generic[RecordT]):
    """An object to follow, of which only metadata is read.

    Attributes:
        project: returns the record of an object, which it must not keep.
        user: to act as; None for the controller.
        on_change: gets (old, new) on a thread of the follower; keep it short.
        on_synced: called on that thread once it is known whether the object exists.
    """

    resource: Resource
    namespace: str
    name: str
    project: Callable[[dict[str, Any]], RecordT]
    user: User | None = None
    on_change: Callable[[RecordT | None, RecordT | None], None]
    on_synced: Callable[[], None] = lambda: None

    @property
    def key(self) -> Key:
        """The key of its record."""
        return self.namespace, self.name


class Followed(Protocol[RecordT]):
    """An object that is followed."""

    @property
    def synced(self) -> bool:
        """Whether it is known if the object exists."""

    def get(self, key: Key) -> RecordT | None:
        """Return the newest known record."""

    def learn(self, record: RecordT) -> None:
        """Keep the record of a reply, if it is newer."""

    def start(self) -> None:
        """Start; only once."""

    def stop(self) -> None:
        """Stop; returns immediately."""


class ObjectFollower:
    """Thread-safe.

    Args:
        watches: how many objects are watched; the others are polled.
    """

    def __init__(self, client: Client, *, watches: int = WATCHES, pace: PollingPace = PollingPace()) -> None:
        self._client = client
        self._places = Shares(watches)
        self._lock = threading.Lock()
        self._poller = _Poller(pace, client.supervisor)
        self._followed: WeakSet[_ByWatch[Any] | _ByPolling[Any]] = WeakSet()
        self._objects: list[FollowedObjects[Any, Any]] = []

    def make(self, share: str, subscription: Subscription[RecordT]) -> Followed[RecordT]:
        """Return a follower of an object, charged to a share; the caller starts it."""
        client = self._client.acting_as(subscription.user)
        with self._lock:
            has_place = self._places.take(share)
        made: _ByWatch[RecordT] | _ByPolling[RecordT] = (
            _ByWatch(client, subscription, lambda: self._give_back(share))
            if has_place
            else _ByPolling(client, subscription, self._poller, share)
        )
        with self._lock:
            self._followed.add(made)
        return made

    def include(self, objects: FollowedObjects[Any, Any]) -> None:
        """Let `release` end what is followed there, too."""
        self._objects.append(objects)

    def release(self, name: str) -> None:
        """Follow nothing for a BundleDeployment any more."""
        for objects in self._objects:
            objects.release(name)

    def drop(self) -> None:
        """Forget all records, and read the objects again: the cluster is in another state than known."""
        with self._lock:
            followed = list(self._followed)
        for each in followed:
            each.drop()

    def _give_back(self, share: str) -> None:
        with self._lock:
            self._places.give_back(share)


class _ByWatch(Reflector[RecordT]):
    """Follows by a watch, whose place is given back when it stops."""

    def __init__(self, client: Client, subscription: Subscription[RecordT], ended: Callable[[], None]) -> None:
        self._ended = ended
        super().__init__(
            client,
            subscription.resource.path(subscription.namespace),
            field_selector=f"metadata.name={subscription.name}",
            metadata=True,
            project=subscription.project,
            on_change=subscription.on_change,
            on_synced=subscription.on_synced,
        )

    def stop(self) -> None:
        """Stop, and give the place back."""
        super().stop()
        self._ended()


class _ByPolling(Generic[RecordT]):
    """Follows by polling."""

    def __init__(self, client: Client, subscription: Subscription[RecordT], poller: _Poller, share: str) -> None:
        self._client, self._subscription, self._poller = client, subscription, poller
        self.share = share
        self._cache: Cache[RecordT] = Cache()
        self._synced = False

    @property
    def synced(self) -> bool:
        """See Followed."""
        return self._synced

    def get(self, key: Key) -> RecordT | None:
        """See Followed."""
        return self._cache.get(key)

    def learn(self, record: RecordT) -> None:
        """See Followed."""
        self._cache.learn(record)

    def start(self) -> None:
        """See Followed."""
        self._poller.add(self)

    def stop(self) -> None:
        """See Followed."""
        self._poller.remove(self)

    def drop(self) -> None:
        """Forget the record."""
        self._cache.drop()
        self._synced = False

    def poll(self) -> None:
        """Send one request, and report changes; a failed one is retried in its turn."""
        subscription = self._subscription
        path = subscription.resource.path(subscription.namespace, subscription.name)
        try:
            reply = self._client.request("GET", path, accept=METADATA, timeout=TIMEOUT)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                self._take(None)
            return
        self._take(subscription.project(reply.value))

    def _take(self, record: RecordT | None) -> None:
        known = self._cache.get(self._subscription.key)
        if record is not None:
            changes = self._cache.put(record)
        elif known is not None:
            changes = self._cache.remove(known) or [Change(known, None)]
        else:
            changes = []
        for change in changes:
            self._subscription.on_change(change.old, change.new)
        if not self._synced:
            self._synced = True
            self._subscription.on_synced()


class _Poller:
    """Polls objects one by one, each share in turn, on a thread that ends when there is none. Thread-safe."""

    def __init__(self, pace: PollingPace, supervisor: Supervisor) -> None:
        self._pace, self._supervisor = pace, supervisor
        self._lines: OrderedDict[str, OrderedDict[_ByPolling[Any], float]] = OrderedDict()
        """Shares in order of their turns; for each its objects, least recently polled first, and when each is due."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, polled: _ByPolling[Any]) -> None:
        """Start to poll an object, soon for the first time."""
        with self._changed:
            line = self._lines.setdefault(polled.share, OrderedDict())
            line[polled] = 0.0
            line.move_to_end(polled, last=False)
            if self._thread is None:
                self._thread = self._supervisor.thread(Kind.WATCH, "object follower", self._run)
                self._thread.start()
            self._changed.notify()

    def remove(self, polled: _ByPolling[Any]) -> None:
        """Stop polling an object."""
        with self._changed:
            line = self._lines.get(polled.share, OrderedDict())
            line.pop(polled, None)
            if not line:
                self._lines.pop(polled.share, None)
                self._changed.notify()

    def _run(self) -> None:
        while polled := self._next():
            try:
                polled.poll()
            except Exception:  # one object must not stop the others
                log.exception("object not polled", extra={"share": polled.share})
            time.sleep(self._pace.between)

    def _next(self) -> _ByPolling[Any] | None:
        """Wait for the next object that is due, and return it; None, and no thread is left, if there is no object."""
        with self._changed:
            while self._lines:
                now = time.monotonic()
                for share, line in self._lines.items():
                    polled, due = next(iter(line.items()))
                    if due <= now:
                        line[polled] = now + self._pace.again
                        line.move_to_end(polled)
                        self._lines.move_to_end(share)
                        return polled
                self._changed.wait(min(next(iter(line.values())) for line in self._lines.values()) - now)
            self._thread = None
            return None


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

    def release(self, name: str) -> None:
        """Have a BundleDeployment follow nothing."""
        with self._lock:
            ended = self._by_name.pop(name, {})
        for each in ended.values():
            each.followed.stop()


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
        follower.include(self._objects)

    def of(self, name: str) -> Collection[WatchedObject]:
        """Return the objects that are watched for a BundleDeployment."""
        return self._objects.of(name)

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
    """Compare versions as integers, see kube/cache.py."""
    return int(trace.resource_version) > int(version or 0)


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
        follower.include(self._objects)

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


class GrantWatches:
    """Thread-safe.

    Args:
        client: acts as the controller.
        changed: called with the name of a BundleDeployment that lacks permissions when RBAC has changed.
    """

    def __init__(self, client: Client, changed: Callable[[str], None]) -> None:
        self._client, self._changed = client, changed
        self._lacking: set[str] = set()
        self._reflectors: list[Reflector[Trace]] = []
        self._lock = threading.Lock()

    def update(self, name: str, *, lacks: bool) -> None:
        """Note whether a BundleDeployment lacks permissions."""
        started: list[Reflector[Trace]] = []
        stopped: list[Reflector[Trace]] = []
        with self._lock:
            is_new = lacks and name not in self._lacking
            (self._lacking.add if lacks else self._lacking.discard)(name)
            if self._lacking and not self._reflectors:
                started = self._reflectors = [self._watch(resource) for resource in RESOURCES]
            elif self._reflectors and not self._lacking:
                stopped, self._reflectors = self._reflectors, []
        for reflector in started:
            reflector.start()
        for reflector in stopped:
            reflector.stop()
        if is_new and not started:
            self._changed(name)  # it may have missed a change between the refusal and now

    def _watch(self, resource: Resource) -> Reflector[Trace]:
        # The first list may contain what was granted since the refusal, so its completion counts as a change.
        reflector = Reflector[Trace](
            self._client,
            resource.path(),
            metadata=True,
            project=make_trace,
            on_change=lambda _old, _new: self._notify() if reflector.synced else None,
            on_synced=self._notify,
        )
        return reflector

    def _notify(self) -> None:
        with self._lock:
            lacking = sorted(self._lacking)
        for name in lacking:
            self._changed(name)
