"""Follows any number of single objects at a bounded cost: the first by watches, the others by polling.

A watch takes a thread and a connection, and reports a change immediately. There are 32 in total; a share
(sharing/shares.py) gets half of them if it is the only one, else less. All other objects are polled on one thread, with
at most four requests a second and each object at most every 10 s; shares take turns. So a tenant with a thousand
missing Secrets notices a new one within about four minutes, and its neighbor with a single one within seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, Protocol
from weakref import WeakSet

from controller.kube.client import METADATA, ApiError, Client, User
from controller.kube.resources import Resource
from controller.kube.watch.cache import Cache, Change, Key, RecordT
from controller.kube.watch.reflector import Reflector
from controller.processes.supervision import Kind, Supervisor
from controller.sharing.shares import Shares

__all__ = ["Followed", "ObjectFollower", "Subscription"]

log = logging.getLogger(__name__)

WATCHES = 32
TIMEOUT = (2.0, 5.0)
"""Seconds to connect, and of silence: how long a slow request of one tenant may delay the others."""


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
    """Polls objects one by one, each share in turn, on a thread that starts with the first object. Thread-safe."""

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

    def _run(self) -> None:
        while True:
            polled = self._next()
            try:
                polled.poll()
            except Exception:  # one object must not stop the others
                log.exception("object not polled", extra={"share": polled.share})
            time.sleep(self._pace.between)

    def _next(self) -> _ByPolling[Any]:
        """Wait for the next object that is due, and return it."""
        with self._changed:
            while True:
                now = time.monotonic()
                for share, line in self._lines.items():
                    polled, due = next(iter(line.items()))
                    if due <= now:
                        line[polled] = now + self._pace.again
                        line.move_to_end(polled)
                        self._lines.move_to_end(share)
                        return polled
                soonest = min((next(iter(line.values())) for line in self._lines.values()), default=None)
                self._changed.wait(None if soonest is None else soonest - now)
