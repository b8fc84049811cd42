"""Watches: a small record of every object of a collection, kept up to date by a reflector on a thread of its own.

In: the path of a collection, and a function from an object to its record. Out: records, and calls about their changes.

The initial state is read from a streaming list, on the same connection as the changes after it, or from pages if the
server does not support that. After an expired version (410 as status, ERROR event, or of a continue token) it lists
again; after any other failure it continues from the last version after a pause. Full objects are projected, never kept.

A dead connection is noticed in three ways: the server ends each watch after a while, a silence without even a bookmark
counts as a loss, and TCP keepalive probes the peer. A watch that omits events is noticed by the next periodic list.

When etcd is restored from a backup, resourceVersions go back, and a watch of a version in the future is silent. The
API servers restart then. So after an interruption, the version of the collection is compared with the known one first,
and the object that changed last with how it was known. Unless both allow the watch to continue, the collection is
listed again.

Not here: which record is newer (cache.py), bytes to lines (client.py), what the objects mean (`observe`), and single
objects (`observe.following`).
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Generic

from rukpak.api.bounds import clamp_wait
from rukpak.controller.kube.cache import (
    Cache,
    Change,
    Continuity,
    IndexFunctions,
    Key,
    RecordT,
    Trace,
    key_of,
    make_trace,
)
from rukpak.controller.kube.client import DEFAULT_TIMEOUT, PAGE_ITEMS, Client, LineStream, Page
from rukpak.controller.kube.encoding import JSON, METADATA
from rukpak.controller.kube.errors import UNREACHABLE, ApiError, attempt, status_error
from rukpak.controller.processes.supervision import Kind
from rukpak.controller.retries import Backoff
from rukpak.controller.untrusted import decode

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
NO_STREAMING_LISTS = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)

Event = tuple[str, dict[str, Any]]
"""ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

Make = Callable[[dict[str, Any]], RecordT | None]
"""Returns the record of an object; None to skip it."""


@dataclass(frozen=True, slots=True)
class ListWatch:
    """Objects at a path that match the selectors, in full or as PartialObjectMetadata."""

    client: Client
    """With a connection for each watch."""
    path: str
    label_selector: str = ""
    field_selector: str = ""
    metadata: bool = False

    def pages(self, limit: int) -> Iterator[Page]:
        """Yield all objects, `limit` at a time.

        Raises: ApiError, also while iterating.
        """
        return self.client.pages(
            self.path,
            metadata=self.metadata,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            limit=limit,
        )

    def read_state(self, key: Key | None) -> tuple[str, Trace | None]:
        """Return the current resourceVersion of the collection, and an object if it exists, in one cheap request.

        Raises: ApiError; 400 if an aggregated API cannot select an object by name.
        """
        # Without the label selector: an API server may have to search for objects that have the label.
        selector = f"metadata.name={key[1]}" if key else self.field_selector
        path = self._path_in(key[0]) if key else self.path
        page = next(replace(self, path=path, label_selector="", field_selector=selector, metadata=True).pages(1))
        found = next((trace for trace in map(make_trace, page.items) if key_of(trace) == key), None)
        return page.resource_version, found

    def _path_in(self, namespace: str) -> str:
        if not namespace or f"/namespaces/{namespace}/" in self.path:
            return self.path
        prefix, _, plural = self.path.rpartition("/")
        return f"{prefix}/namespaces/{namespace}/{plural}"

    def open_list(self, seconds: int, silence: float) -> LineStream | None:
        """Open a stream of all objects and then of changes, for as many seconds.

        Returns: None if the server does not support streaming lists.
        Raises: ApiError.
        """
        start: list[tuple[str, str | int]] = [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        return attempt(lambda: self._open(start, seconds, silence), *NO_STREAMING_LISTS)

    def open_watch(self, version: str, seconds: int, silence: float) -> LineStream:
        """Open a stream of the changes after a version, for as many seconds.

        Raises: ApiError.
        """
        return self._open([("resourceVersion", version)], seconds, silence)

    def _open(self, start: list[tuple[str, str | int]], seconds: int, silence: float) -> LineStream:
        selectors = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return self.client.stream(
            self.path,
            query=[
                ("watch", "true"),
                ("allowWatchBookmarks", "true"),
                ("timeoutSeconds", seconds),
                *start,
                *(selector for selector in selectors if selector[1]),
            ],
            accept=METADATA if self.metadata else JSON,
            silence=silence,
        )


def parse_events(stream: LineStream) -> Iterator[Event]:
    """Yield the events of a stream.

    Raises: ApiError for an ERROR event, for a line that is no event, and when the connection is lost.
    """
    for line in stream:
        try:
            event = decode(line)
            kind, value = event["type"], event["object"]
        except (ValueError, KeyError, TypeError):
            raise ApiError(0, "NotUnderstood", "a line of the watch is not an event") from None
        if kind == "ERROR":
            raise status_error(value)
        yield kind, value


def read_list(events: Iterator[Event], make: Make[RecordT]) -> tuple[dict[Key, RecordT], str] | None:
    """Return the records of a streaming list and its version; None if the stream ends before the list does.

    Raises: ApiError, see parse_events.
    """
    fresh: dict[Key, RecordT] = {}
    for kind, value in events:
        if kind == "BOOKMARK" and INITIAL_EVENTS_END in (value["metadata"].get("annotations") or {}):
            return fresh, value["metadata"]["resourceVersion"]
        record = make(value) if kind != "BOOKMARK" else None
        if record is not None and kind == "DELETED":
            fresh.pop(key_of(record), None)
        elif record is not None:
            fresh[key_of(record)] = record
    return None


_BACKOFF = Backoff(first=0.8, longest=30, jitter=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Timing of a reflector, in seconds."""

    watch: tuple[int, int] = (240, 480)
    """Duration of a watch; random, so that many do not end at the same time."""
    slack: float = 15
    """How long a server may be silent beyond the end of a watch."""
    steady: float = 5
    """A watch that ends sooner counts as failed."""
    quiet: float = 150
    """A watch that is silent for longer has lost its server, which sends bookmarks every minute. One that never got an
    event in that time may wait for a version in the future, as after a restore of etcd: list again."""
    backoff: Backoff = _BACKOFF
    away: float = 5
    """Maximum pause while the server does not answer: a longer one saves nothing, and edits are not noticed."""
    asked: float = 5
    """Maximum pause at the request of the server (priority and fairness: one second), without jitter: one reply must
    not hide a kind for longer."""
    page: int = PAGE_ITEMS
    """Objects in a page, not seconds."""

    def silence(self, seconds: int) -> float:
        """Return how long a watch of so many seconds may be silent."""
        return min(self.quiet, seconds + self.slack)

    def choose_pause(self, failures: int, error: ApiError | None) -> float:
        """Return how long to wait after so many failures in a row, `error` being the last.

        A server that says when to come back knows better than a backoff, for example while it fills its caches after a
        start.
        """
        backoff = self.backoff
        asked = min((error.retry_after or 0.0) if error else 0.0, self.asked)
        if asked >= backoff.first:
            return asked * random.uniform(1, 1 + backoff.jitter)  # noqa: S311 - spreads load
        if error is not None and error.reason == UNREACHABLE:
            backoff = replace(backoff, longest=min(backoff.longest, self.away))
        return backoff.choose_delay(failures)


log = logging.getLogger(__name__)

GRACE_SECONDS = 60.0
"""How late a sign of life may be: a machine under load is no reason to restart the process."""
DENIED = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_FAILURES = {
    HTTPStatus.FORBIDDEN.value: "watch forbidden, waiting for permission",
    HTTPStatus.NOT_FOUND.value: "watched kind is not served, waiting for it",
}


class Reflector(Generic[RecordT]):
    """Keeps the records of one collection.

    Args:
        objects: to list and to watch.
        project: returns the record of an object, which it must not keep. An object for which it fails is skipped.
        functions: of the indexes of the cache.
        on_change: gets (old, new) on the thread of the reflector; keep it short. It reports the history of the watch:
            a learned record only once the watch confirms it, with `old` as last reported.
        on_synced: called on that thread when the first list is complete, and each list that `refresh` requires.
        on_failed: called on that thread when the first list fails for the first time.
        pace: timing, for tests and special cases.
    """

    def __init__(
        self,
        objects: ListWatch,
        *,
        project: Callable[[dict[str, Any]], RecordT],
        functions: IndexFunctions[RecordT] | None = None,
        on_change: Callable[[RecordT | None, RecordT | None], None] = lambda old, new: None,  # noqa: ARG005
        on_synced: Callable[[], None] = lambda: None,
        on_failed: Callable[[], None] = lambda: None,
        pace: Pace = Pace(),
    ) -> None:
        self._objects = objects
        self._project = project
        self._on_change = on_change
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._pace = pace
        self.cache: Cache[RecordT] = Cache(functions)
        self._version = ""
        self._relist_at = 0.0
        self._ends_at = 0.0
        """When, in monotonic seconds, the server ends the stream."""
        self._streaming_lists = True
        self._falls_back = False
        """Whether the next list is read from pages because a streaming list failed."""
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._stream: LineStream | None = None
        self._next_sign = math.inf
        """When, in monotonic seconds, the thread must show its next sign of life."""
        self._thread = objects.client.supervisor.thread(Kind.WATCH, f"watch {objects.path}", self._run)
        self.is_connected = False
        """Whether the API server has answered the current list or watch, whose stream is open."""
        self.denied = ""
        """Why the collection cannot be listed (403, 404); empty otherwise."""
        self.last_error: ApiError | None = None
        """The failure of the last attempt; None if it succeeded."""
        self._logged: set[str] = set()
        """The failures since the last success that were logged."""

    def start(self) -> None:
        """Start to list and watch; only once."""
        self._expect(0)
        self._thread.start()

    def stop(self) -> None:
        """Stop; returns immediately, before the thread ends."""
        self._stopping.set()
        self._interrupt()

    def refresh(self) -> None:
        """List again now. Until that is complete, the collection is not synced, and its records remain."""
        self.cache.outdate()
        self.last_error = None
        self._interrupt()

    def drop(self) -> None:
        """Forget all records now, without telling, and list again: the cluster is another one than known."""
        self.cache.drop()
        self.refresh()

    def _interrupt(self) -> None:
        self._awake.set()
        if self._stream is not None:
            self._stream.close()

    def wake(self) -> None:
        """Retry now instead of after the pause: the kind, or the permission to list it, may exist now."""
        self._awake.set()

    @property
    def started(self) -> bool:
        """Whether it was started: some are only when needed."""
        return not math.isinf(self._next_sign)

    @property
    def stuck(self) -> bool:
        """Whether its thread ended or hangs; waiting for an unavailable server does not count."""
        if self._stopping.is_set() or not self.started:
            return False
        has_ended = self._thread.ident is not None and not self._thread.is_alive()
        return has_ended or time.monotonic() > self._next_sign

    def _expect(self, seconds: float) -> None:
        self._next_sign = time.monotonic() + seconds + GRACE_SECONDS

    @property
    def path(self) -> str:
        """The path of the collection."""
        return self._objects.path

    @property
    def synced(self) -> bool:
        """Whether a list has been completed, since the last call of `refresh` if there was one."""
        return self.cache.complete

    @property
    def settled(self) -> bool:
        """Whether it is synced, or listing currently fails."""
        return self.synced or self.last_error is not None

    def _run(self) -> None:
        failures, expired = 0, False
        while not self._stopping.is_set():
            started = time.monotonic()
            error = self._attempt()
            if time.monotonic() - started >= self._pace.steady:
                failures = 0
                if error is None:
                    continue
            was_expired, expired = expired, error is not None and error.status == HTTPStatus.GONE
            if expired and not was_expired:
                continue  # list again immediately: the known version is too old, and the server is fine
            failures += 1
            pause = self._pace.choose_pause(failures, error)
            self._expect(pause)
            if self._awake.wait(clamp_wait(pause)):
                failures = 0  # something has changed, and may take a moment to take effect
            self._awake.clear()

    def _attempt(self) -> ApiError | None:
        try:
            self._follow()
        except ApiError as error:
            self._note(error)
            return error
        except Exception as error:  # without its thread a reflector would silently go stale
            log.exception("watch failed unexpectedly", extra={"path": self.path})
            self._version = ""
            return ApiError(0, "Unexpected", type(error).__name__)
        finally:
            self.is_connected = False
        return None

    def _note(self, error: ApiError) -> None:
        is_news = self.last_error is None
        if error.status == HTTPStatus.GONE:
            self._version = ""
        elif error.status in DENIED:  # told before it counts as settled
            self._version = ""
            self.denied = " ".join(error.message.split()) if error.reason else f"{self.path} is not served"
            if error.status == HTTPStatus.NOT_FOUND:
                self._report(self.cache.replace({}, ""))  # a kind that is not served has no objects
        if self.cache.is_current:  # else it is about what was known before the last call of `refresh`
            self.last_error = error
        if is_news:
            self._logged.clear()
        if str(error) not in self._logged:  # the first cause may not be the one that lasts
            self._logged.add(str(error))
            log.warning(_FAILURES.get(error.status, "watch failed"), extra={"path": self.path, "error": str(error)})
        if is_news and not self.synced:
            self._call(self._on_failed)

    def _follow(self) -> None:
        now = time.monotonic()
        continues = bool(self._version) and self.synced and now < self._relist_at and self._is_same(now)
        if not continues:
            self._relist_at = now + self._objects.client.relist_seconds * random.uniform(0.8, 1.0)  # noqa: S311
        seconds = min(random.randint(*self._pace.watch), math.ceil(self._relist_at - now))  # noqa: S311
        self._expect(seconds + self._pace.slack + sum(DEFAULT_TIMEOUT))
        self._ends_at = now + seconds
        if continues:
            self._watch(seconds)
            return
        self.cache.begin_listing()
        streams = self._streaming_lists and not self._falls_back
        if streams and (stream := self._objects.open_list(seconds, self._pace.slack)):
            self._list_and_watch(stream, seconds)
        else:
            self._list_pages()
            self._watch(seconds)

    def _is_same(self, now: float) -> bool:
        if self.last_error is None and now >= self._ends_at - 1:
            return True
        state = attempt(lambda: self._objects.read_state(self.cache.last_key), HTTPStatus.BAD_REQUEST)
        if state is None:
            return False
        version, found = state
        continuity = self.cache.compare_last(found)
        if self.cache.went_back(version) or continuity is Continuity.OLDER:
            self._note_restored(version)
        return self.synced and continuity is Continuity.SAME

    def _note_restored(self, version: str) -> None:
        self.cache.outdate()
        log.warning("resourceVersion went back, listing again", extra={"path": self.path, "version": version})
        self._call(self._objects.client.on_restored)

    def _watch(self, seconds: int) -> None:
        with self._hold(self._objects.open_watch(self._version, seconds, self._pace.silence(seconds))) as stream:
            self._take_changes(parse_events(stream))

    def _list_and_watch(self, opened: LineStream, seconds: int) -> None:
        with self._hold(opened) as stream:
            events = parse_events(stream)
            self._take_list(events)
            stream.set_silence(self._pace.silence(seconds))
            if self.synced:
                self._take_changes(events)

    def _hold(self, stream: LineStream) -> LineStream:
        # Both may be called before the stream was opened.
        self._stream, self.is_connected = stream, True
        if self._interrupted:
            stream.close()
        return stream

    @property
    def _interrupted(self) -> bool:
        return self._stopping.is_set() or not self.cache.is_current

    def _take_list(self, events: Iterator[Event]) -> None:
        started, listed = time.monotonic(), None
        self._falls_back = True
        try:
            listed = read_list(events, self._make)
        finally:
            if listed is None and time.monotonic() - started >= self._pace.slack:
                self._streaming_lists = False  # the server ignores the parameter, so the list never ends
        if listed is not None:
            self._replace(*listed)
        elif not self._interrupted:
            raise ApiError(0, "Incomplete", "the stream ended before the list was complete")

    def _list_pages(self) -> None:
        fresh: dict[Key, RecordT] = {}
        version = ""
        for page in self._objects.pages(self._pace.page):
            self._expect(self._pace.watch[1] + self._pace.slack + sum(DEFAULT_TIMEOUT))
            if page.restarted:
                fresh.clear()
            records = (record for item in page.items if (record := self._make(item)) is not None)
            fresh.update((key_of(record), record) for record in records)
            version = page.resource_version
        self._replace(fresh, version)

    def _replace(self, fresh: dict[Key, RecordT], version: str) -> None:
        if self.cache.went_back(version) or self.cache.is_newer_than(fresh):
            self._note_restored(version)
        self._report(self.cache.replace(fresh, version))
        self._version, self._falls_back = version, False
        self.denied = ""
        self.last_error = None
        was_synced = self.synced
        self.cache.end_listing()
        if self.synced and not was_synced:
            self._call(self._on_synced)

    def _take_changes(self, events: Iterator[Event]) -> None:
        started = time.monotonic()
        quiet = True
        try:
            for kind, value in events:
                quiet = False
                self._expect(self._pace.watch[1] + self._pace.slack)
                self.last_error = None
                self._take(kind, value)
                self._version = value["metadata"]["resourceVersion"]
        finally:
            if quiet and time.monotonic() - started >= self._pace.quiet:
                self._version = ""

    def _take(self, kind: str, value: dict[str, Any]) -> None:
        if kind == "BOOKMARK":
            self.cache.advance(value["metadata"]["resourceVersion"])
            return
        record = self._learned(value) or self._make(value)
        if record is not None:
            self._report(self.cache.remove(record) if kind == "DELETED" else self.cache.put(record))

    def _learned(self, value: dict[str, Any]) -> RecordT | None:
        # Every apply of ours is followed by its event.
        about = value["metadata"]
        # Of a full object, a reply contains less than the event.
        known = self.cache.get((about.get("namespace", ""), about["name"])) if self._objects.metadata else None
        seen = (about["uid"], about["resourceVersion"])
        return known if known is not None and (known.uid, known.resource_version) == seen else None

    def _make(self, value: dict[str, Any]) -> RecordT | None:
        try:
            return self._project(value)
        except Exception:  # one object must not stop the others
            log.exception("object skipped", extra={"path": self.path, "object": value["metadata"].get("name", "")})
            return None

    def _report(self, changes: list[Change[RecordT]]) -> None:
        for change in changes:
            self._call(self._on_change, change.old, change.new)

    def _call(self, handler: Callable[..., None], *arguments: Any) -> None:
        try:
            handler(*arguments)
        except Exception:  # one object must not stop the others
            log.exception("change handler failed", extra={"path": self.path})
