"""Following single objects at a bounded cost, however many there are: the first by a watch, the others by asking.

A watch takes a thread and a connection, and tells of a change at once. There are 32 for all; a share
(sharing/shares.py) gets half of them alone, less beside others. What goes beyond that is asked for by name, one after
the other on one thread, with four requests a second at most and each object once in 10 s at most; shares take turns.
So a tenant with a thousand missing Secrets learns of one within about four minutes, and its neighbour with one of
them within seconds.
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

from controller.kube.cache import Cache, Change, Key, RecordT
from controller.kube.client import METADATA, ApiError, Client, User
from controller.kube.resources import Resource
from controller.kube.watch import Reflector
from controller.processes.supervision import Kind, Supervisor
from controller.sharing.shares import Shares

__all__ = ["Followed", "ObjectFollower", "Subscription"]

log = logging.getLogger(__name__)

WATCHES = 32
TIMEOUT = (2.0, 5.0)
"""Seconds to connect, and of silence: for no longer do others wait where the API server lets one tenant wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingPace:
    """Times of asking, in seconds."""

    between: float = 0.25
    """From one request to the next."""
    again: float = 10.0
    """From one request for an object to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription(Generic[RecordT]):
    """One object to follow, of which only metadata is read.

    Attributes:
        project: makes the record of an object, which it must not keep.
        user: whom to act as; None: the controller.
        on_change: gets (old, new) on a thread of the follower; keep it short.
        on_synced: called there once it is known whether the object is there.
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
        """Where the record is kept."""
        return self.namespace, self.name


class Followed(Protocol[RecordT]):
    """An object that is followed."""

    @property
    def synced(self) -> bool:
        """Whether it is known if the object is there."""

    def get(self, key: Key) -> RecordT | None:
        """Return what is known of the object."""

    def learn(self, record: RecordT) -> None:
        """Keep what a reply said, if it is newer."""

    def start(self) -> None:
        """Begin. Once only."""

    def stop(self) -> None:
        """End; returns at once."""


class ObjectFollower:
    """Follows objects. Thread-safe.

    Args:
        watches: how many objects have a watch of their own.
    """

    def __init__(self, client: Client, *, watches: int = WATCHES, pace: PollingPace = PollingPace()) -> None:
        self._client = client
        self._places = Shares(watches)
        self._lock = threading.Lock()
        self._poller = _Poller(pace, client.supervisor)

    def make(self, share: str, subscription: Subscription[RecordT]) -> Followed[RecordT]:
        """Return an object to be followed, at the expense of a share; start it."""
        with self._lock:
            has_place = self._places.take(share)
        if has_place:
            return _ByWatch(self._client, subscription, lambda: self._give_back(share))
        return _ByPolling(self._client, subscription, self._poller, share)

    def _give_back(self, share: str) -> None:
        with self._lock:
            self._places.give_back(share)


class _ByWatch(Reflector[RecordT]):
    """By a watch, whose place is given back when it ends."""

    def __init__(self, client: Client, subscription: Subscription[RecordT], ended: Callable[[], None]) -> None:
        self._ended = ended
        super().__init__(
            client,
            subscription.resource.path(subscription.namespace),
            field_selector=f"metadata.name={subscription.name}",
            metadata=True,
            user=subscription.user,
            project=subscription.project,
            on_change=subscription.on_change,
            on_synced=subscription.on_synced,
        )

    def stop(self) -> None:
        super().stop()
        self._ended()


class _ByPolling(Generic[RecordT]):
    """By asking for it whenever it is its turn."""

    def __init__(self, client: Client, subscription: Subscription[RecordT], turns: _Poller, share: str) -> None:
        self._client, self._subscription, self._turns = client, subscription, turns
        self.share = share
        self._cache: Cache[RecordT] = Cache()
        self._synced = False

    @property
    def synced(self) -> bool:
        return self._synced

    def get(self, key: Key) -> RecordT | None:
        return self._cache.get(key)

    def learn(self, record: RecordT) -> None:
        self._cache.learn(record)

    def start(self) -> None:
        self._turns.add(self)

    def stop(self) -> None:
        self._turns.remove(self)

    def ask(self) -> None:
        """Ask once, and tell what has changed; what fails is asked again in its turn."""
        subscription = self._subscription
        path = subscription.resource.path(subscription.namespace, subscription.name)
        try:
            reply = self._client.request("GET", path, accept=METADATA, timeout=TIMEOUT, user=subscription.user)
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
    """Asks for objects one after the other, each share in turn, on a thread that begins with the first. Thread-safe."""

    def __init__(self, pace: PollingPace, supervisor: Supervisor) -> None:
        self._pace, self._supervisor = pace, supervisor
        self._lines: OrderedDict[str, OrderedDict[_ByPolling[Any], float]] = OrderedDict()
        """By share, whose turn is next first: the objects, least recently asked first, and when each is due."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, asked: _ByPolling[Any]) -> None:
        """Have an object asked for, soon and again and again."""
        with self._changed:
            line = self._lines.setdefault(asked.share, OrderedDict())
            line[asked] = 0.0
            line.move_to_end(asked, last=False)
            if self._thread is None:
                self._thread = self._supervisor.thread(Kind.WATCH, "object follower", self._run)
                self._thread.start()
            self._changed.notify()

    def remove(self, asked: _ByPolling[Any]) -> None:
        """Have it asked for no more."""
        with self._changed:
            line = self._lines.get(asked.share, OrderedDict())
            line.pop(asked, None)
            if not line:
                self._lines.pop(asked.share, None)

    def _run(self) -> None:
        while True:
            asked = self._next()
            try:
                asked.ask()
            except Exception:  # one object must not stop the others
                log.exception("object not followed", extra={"share": asked.share})
            time.sleep(self._pace.between)

    def _next(self) -> _ByPolling[Any]:
        """Wait for the next that is due, and return it."""
        with self._changed:
            while True:
                now = time.monotonic()
                for share, line in self._lines.items():
                    asked, due = next(iter(line.items()))
                    if due <= now:
                        line[asked] = now + self._pace.again
                        line.move_to_end(asked)
                        self._lines.move_to_end(share)
                        return asked
                soonest = min((next(iter(line.values())) for line in self._lines.values()), default=None)
                self._changed.wait(None if soonest is None else soonest - now)
