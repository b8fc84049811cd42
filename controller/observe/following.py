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
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any

from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.cache import Cache, Trace, key_of, make_trace
from rukpak.controller.kube.client import ApiError, Client, User
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.encoding import METADATA
from rukpak.controller.kube.errors import attempt
from rukpak.controller.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    GroupVersionKind,
    Resource,
)
from rukpak.controller.kube.watch import ListWatch, Reflector
from rukpak.controller.observe.records import Record, project
from rukpak.controller.processes.supervision import Kind, Supervisor
from rukpak.controller.sharing import Shares

log = logging.getLogger(__name__)
WATCHES = 32
TIMEOUT = (2.0, 5.0)
"""Seconds to connect, and of silence: how long a slow request of one tenant may delay the others."""
MOST = 5
"""How many contested objects are followed for one BundleDeployment; the others are retried periodically."""
RESOURCES = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)


class Topic(Enum):
    """What an object is followed for, which decides what happens when it changes."""

    SOURCES = auto()
    """Secrets and local content that sources have read."""
    CONFIG = auto()
    """What `spec.configFrom` refers to."""
    ACCOUNTS = auto()
    """Missing ServiceAccounts."""
    CONTESTED = auto()
    """Wanted objects that have another owner or are being deleted."""
    DEPENDENCIES = auto()
    """Objects that are waited for, other than BundleDeployments."""
    RIGHTS = auto()
    """All roles and bindings: any may grant what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingPace:
    """Timing of polling, in seconds."""

    between: float = 0.25
    """Between two requests."""
    again: float = 10.0
    """Between two requests for the same object."""


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """An object, and the user that reads it."""

    namespace: str
    name: str
    user: str = ""
    """Empty: the controller."""
    resource: Resource = SECRETS


Seen = str | Record
"""How a pass saw an object: its resourceVersion, empty if it did not exist; or all that decides who owns it."""


class ObjectFollower:
    """Thread-safe; a BundleDeployment has one pass at a time.

    Args:
        client: acts as the user of each reference.
        handlers: called with the name of a BundleDeployment when an object is not as its pass saw it.
        watches: how many objects are watched; the others are polled.
        pace: of polling.
    """

    def __init__(
        self,
        client: Client,
        handlers: Mapping[Topic, Callable[[str], None]],
        *,
        watches: int = WATCHES,
        pace: PollingPace = PollingPace(),
    ) -> None:
        self._client, self._handlers = client, handlers
        self._watches = Shares(watches)
        self._poller = _Poller(pace, client.supervisor)
        self._followed: dict[str, dict[tuple[Topic, ObjectReference], _Followed]] = {}
        self._lacking: set[str] = set()
        """BundleDeployments that follow rights."""
        self._grants: list[Reflector[Trace]] = []
        self._lock = threading.Lock()

    def followed(self, name: str, topic: Topic) -> Collection[ObjectReference]:
        """Return the objects that a BundleDeployment follows."""
        with self._lock:
            return {reference for found, reference in self._followed.get(name, ()) if found is topic}

    def follow(
        self, name: str, topic: Topic, objects: Mapping[ObjectReference, Seen | None], *, share: str = ""
    ) -> None:
        """Have a BundleDeployment follow exactly these objects.

        Args:
            name: of the BundleDeployment.
            topic: what for; objects of other topics remain followed.
            objects: how the pass saw each; None: not again, which is for one that is followed already.
            share: that is charged for it.
        """
        with self._lock:
            before = self._followed.pop(name, {})
            kept = {key: each for key, each in before.items() if key[0] is not topic or key[1] in objects}
            ended = [each for key, each in before.items() if key not in kept]
            started = {
                (topic, reference): self._open(reference, partial(self._handlers[topic], name), share)
                for reference, seen in objects.items()
                if seen is not None and (topic, reference) not in kept
            }
            if current := kept | started:
                self._followed[name] = current
        self._stop(ended)
        for reference, seen in objects.items():
            if seen is not None:
                current[topic, reference].expect(seen)
        for each in started.values():
            if each.reflector:
                each.reflector.start()
            else:
                self._poller.add(each)

    def follow_rights(self, name: str, *, lacks: bool) -> None:
        """Have a BundleDeployment follow all roles and bindings while it lacks permissions."""
        with self._lock:
            is_new, begins = lacks and name not in self._lacking, lacks and not self._lacking
            (self._lacking.add if lacks else self._lacking.discard)(name)
            ended: list[Reflector[Trace]] = []
            if begins:
                self._grants = [self._watch_grants(resource) for resource in RESOURCES]
            elif not self._lacking:
                ended, self._grants = self._grants, []
            started = self._grants if begins else []
        for reflector in started:
            reflector.start()
        for reflector in ended:
            reflector.stop()
        if is_new and not begins:
            self._handlers[Topic.RIGHTS](name)  # it may have missed a change between the refusal and now

    def _watch_grants(self, resource: Resource) -> Reflector[Trace]:
        # The first list may contain what was granted since the refusal, so its completion counts as a change.
        reflector = Reflector[Trace](
            ListWatch(self._client, resource.path(), metadata=True),
            project=make_trace,
            on_change=lambda _old, _new: self._grants_changed() if reflector.synced else None,
            on_synced=self._grants_changed,
        )
        return reflector

    def _grants_changed(self) -> None:
        with self._lock:
            lacking = sorted(self._lacking)
        for name in lacking:
            self._handlers[Topic.RIGHTS](name)

    def forget(self, name: str) -> None:
        """Follow nothing for a BundleDeployment any more."""
        with self._lock:
            ended = self._followed.pop(name, {})
        self._stop(ended.values())
        self.follow_rights(name, lacks=False)

    def drop(self) -> None:
        """Forget all records, and read the objects again: the cluster is in another state than known."""
        with self._lock:
            followed = [each for objects in self._followed.values() for each in objects.values()]
        for each in followed:
            (each.reflector or each.cache).drop()

    def _open(self, reference: ObjectReference, changed: Callable[[], None], share: str) -> _Followed:
        client = self._client.acting_as(User(reference.user) if reference.user else None)
        followed = _Followed(client, reference, changed, share)
        if self._watches.take(share):
            followed.watch()
        return followed

    def _stop(self, ended: Iterable[_Followed]) -> None:
        for each in ended:
            if each.reflector:
                each.reflector.stop()
                with self._lock:
                    self._watches.give_back(each.share)
            else:
                self._poller.remove(each)


class _Followed:
    """An object that is followed for one BundleDeployment, and how its pass saw it: watched or polled."""

    def __init__(self, client: Client, reference: ObjectReference, changed: Callable[[], None], share: str) -> None:
        self._client, self._reference, self._changed, self.share = client, reference, changed, share
        self._seen: Seen = ""
        self.reflector: Reflector[Record] | None = None
        """None: it is polled."""
        self.cache: Cache[Record] = Cache()
        """The object, if it is known to exist."""

    def watch(self) -> None:
        """Have it watched, once the reflector is started; it is polled otherwise."""
        reference = self._reference
        path, selector = reference.resource.path(reference.namespace), f"metadata.name={reference.name}"
        self.reflector = Reflector(
            ListWatch(self._client, path, field_selector=selector, metadata=True),
            project=self._project,
            on_change=self.compare,
            on_synced=self._note_synced,
        )
        self.cache = self.reflector.cache

    def poll(self) -> None:
        """Send one request, and report changes; a failed one is retried in its turn."""
        path = self._reference.resource.path(self._reference.namespace, self._reference.name)
        get = partial(self._client.request, "GET", path, accept=METADATA, timeout=TIMEOUT)
        self.cache.begin_listing()
        try:
            reply = attempt(get, HTTPStatus.NOT_FOUND)
        except ApiError:
            return
        found = [self._project(reply.value)] if reply else []
        version = found[0].resource_version if found else ""
        for change in self.cache.replace({key_of(each): each for each in found}, version):
            self.compare(change.old, change.new)
        was_complete = self.cache.complete
        self.cache.end_listing()
        if self.cache.complete and not was_complete:
            self._note_synced()

    def _project(self, manifest: dict[str, Any]) -> Record:
        return project(manifest, self._reference.resource.group, self._reference.resource.kind)

    def expect(self, seen: Seen) -> None:
        """Learn how the pass saw the object; notify if it differs now."""
        self._seen = seen
        if isinstance(seen, Record) and self.cache.complete:
            self.cache.learn(seen)  # the watch may lag behind
            self.compare(None, self._known)
        elif known := self._known:
            self.compare(None, known)

    @property
    def _known(self) -> Record | None:
        return self.cache.get((self._reference.namespace, self._reference.name))

    def _note_synced(self) -> None:
        # If it was deleted before it was followed, there is no event.
        known = self._known
        if known is None or isinstance(self._seen, Record):  # which may have been judged again during the first list
            self.compare(None, known)

    def compare(self, _old: Record | None, new: Record | None) -> None:
        """Notify if the object is not as it was seen."""
        if _differs(self._seen, new):
            self._changed()


def _differs(seen: Seen, now: Record | None) -> bool:
    if isinstance(seen, Record):
        return now is None or _owner_inputs(now) != _owner_inputs(seen)
    # Versions compare as integers, see kube/cache.py.
    return int(now.resource_version) > int(seen or 0) if now else bool(seen)


def _owner_inputs(record: Record) -> tuple[object, ...]:
    owner = (record.owner, record.owner_uid, record.applied_digest, record.released_from)
    return (record.uid, record.deleting, *owner, record.controller_uid, record.marks)


class _Poller:
    """Polls objects one by one, each share in turn, on a thread that ends when there is none. Thread-safe."""

    def __init__(self, pace: PollingPace, supervisor: Supervisor) -> None:
        self._pace, self._supervisor = pace, supervisor
        self._lines: OrderedDict[str, OrderedDict[_Followed, float]] = OrderedDict()
        """Shares in order of their turns; for each its objects, least recently polled first, and when each is due."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, followed: _Followed) -> None:
        """Start to poll an object, soon for the first time."""
        with self._changed:
            line = self._lines.setdefault(followed.share, OrderedDict())
            line[followed] = 0.0
            line.move_to_end(followed, last=False)
            if self._thread is None:
                self._thread = self._supervisor.thread(Kind.WATCH, "object follower", self._run)
                self._thread.start()
            self._changed.notify()

    def remove(self, followed: _Followed) -> None:
        """Stop polling an object."""
        with self._changed:
            line = self._lines.get(followed.share, OrderedDict())
            line.pop(followed, None)
            if not line:
                self._lines.pop(followed.share, None)
                self._changed.notify()

    def _run(self) -> None:
        while followed := self._next():
            try:
                followed.poll()
            except Exception:  # one object must not stop the others
                log.exception("object not polled", extra={"share": followed.share})
            time.sleep(self._pace.between)

    def _next(self) -> _Followed | None:
        with self._changed:
            while self._lines:
                now = time.monotonic()
                for share, line in self._lines.items():
                    followed, due = next(iter(line.items()))
                    if due <= now:
                        line[followed] = now + self._pace.again
                        line.move_to_end(followed)
                        self._lines.move_to_end(share)
                        return followed
                self._changed.wait(min(next(iter(line.values())) for line in self._lines.values()) - now)
            self._thread = None
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contested:
    """An object that a BundleDeployment wants but must not apply, since it has another owner."""

    kind: GroupVersionKind
    key: ObjectKey
    record: Record | None
    """As it was judged; None if it was not read again."""


def follow_contested(
    follower: ObjectFollower, discovery: Discovery, name: str, contested: Iterable[Contested], *, share: str = ""
) -> None:
    """Have a BundleDeployment follow exactly these objects that it must not apply, at most `MOST`.

    Raises: ApiError if discovery fails; then nothing changes.
    """
    known = {_key_of(reference): reference for reference in follower.followed(name, Topic.CONTESTED)}
    objects: dict[ObjectReference, Seen | None] = {}
    for each in {each.key: each for each in islice(contested, MOST)}.values():
        if reference := known.get(each.key):
            objects[reference] = each.record
        elif each.record and (resource := discovery.resource(each.kind)):  # may send a request
            objects[ObjectReference(each.key.namespace, each.key.name, resource=resource)] = each.record
    follower.follow(name, Topic.CONTESTED, objects, share=share)


def _key_of(reference: ObjectReference) -> ObjectKey:
    resource = reference.resource
    return ObjectKey(resource.group, resource.kind, reference.namespace, reference.name)
