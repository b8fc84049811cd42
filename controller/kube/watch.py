"""Reflector: a small record of every object of one collection, kept up to date by a watch on a thread of its own.

The whole state comes over a streaming list, on the same connection as the changes after it; over pages where the server
has none. An expired version (410 as a status, as an ERROR event, or on a continue token) means a new list; everything
else goes on from the last version after a pause. Full objects are projected at once and never kept.

A dead connection is noticed three ways: the server ends each watch after a while, a silence in which not even a
bookmark comes counts as a loss, and TCP keepalive probes the peer.

Not here: what is known and what is newer (cache.py), requests and events (collection.py), bytes to lines (replies.py).
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

from api.bounds import clamp_wait
from controller.kube.cache import Cache, Change, Key, Record, RecordT, key_of
from controller.kube.client import DEFAULT_TIMEOUT, PAGE_ITEMS, Client, User
from controller.kube.collection import Collection, Event, ends_list, parse_events
from controller.kube.errors import UNREACHABLE, ApiError
from controller.kube.replies import LineStream
from controller.processes.supervision import Kind
from controller.retries import Backoff

__all__ = ["Key", "Pace", "Record", "Reflector"]

log = logging.getLogger(__name__)

GRACE_SECONDS = 60.0
"""How late a sign of life may be: a machine under load is no reason to end a process."""
_BACKOFF = Backoff(first=0.8, longest=30, jitter=0.5)
DENIED = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_FAILURES = {
    HTTPStatus.FORBIDDEN.value: "watch waits for a right that is missing",
    HTTPStatus.NOT_FOUND.value: "watch waits for a kind that is not served",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times of a reflector, in seconds."""

    watch: tuple[int, int] = (240, 480)
    """How long a watch lasts: at random, so that many do not end together."""
    slack: float = 15
    """How long a server may stay silent beyond what it promised."""
    steady: float = 5
    """A watch that ends sooner is a failure."""
    quiet: float = 150
    """A watch that is silent for longer has lost its server: bookmarks come every minute. One that never brought
    anything in that time may wait for a version in the future, as after a restored etcd: list again."""
    backoff: Backoff = _BACKOFF
    away: float = 5
    """The longest pause while there is no answer. To wait longer spares nobody, and edits go unseen meanwhile."""
    asked: float = 5
    """The longest pause that a server is granted beyond that: priority and fairness asks for one second. One reply to a
    watch must not hide a kind for longer."""
    page: int = PAGE_ITEMS
    """Objects, not seconds."""

    def silence(self, seconds: int) -> float:
        """Return how long a watch of so many seconds may bring nothing."""
        return min(self.quiet, seconds + self.slack)

    def choose_pause(self, failures: int, error: ApiError | None) -> float:
        """Return how long to wait after so many failures in a row, the last of which was this one."""
        backoff = self.backoff
        if error is not None and error.reason == UNREACHABLE:
            backoff = replace(backoff, longest=min(backoff.longest, self.away))
        asked = (error.retry_after or 0.0) if error else 0.0
        return max(backoff.choose_delay(failures), min(asked, self.asked))


class Reflector(Generic[RecordT]):
    """Keeps the records of one collection.

    Args:
        client: its pool needs a connection for each reflector.
        path: of the collection.
        project: makes the record of an object, which it must not keep. An object for which it fails is left out.
        label_selector: which objects, by label.
        field_selector: which objects, by field.
        metadata: whether PartialObjectMetadata is asked for.
        user: whom to act as.
        on_change: gets (old, new) on the reflector's thread; keep it short. It tells the history that the watch has:
            what was learned is told when the watch confirms it, with `old` as it was told last.
        on_synced: called on the reflector's thread once the first list is complete.
        on_failed: called on the reflector's thread when the first list fails for the first time.
        relist_after: seconds until the collection is listed anew, as a net below the watch.
        pace: times that hardly anybody needs to change.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        project: Callable[[dict[str, Any]], RecordT],
        label_selector: str = "",
        field_selector: str = "",
        metadata: bool = False,
        user: User | None = None,
        on_change: Callable[[RecordT | None, RecordT | None], None] = lambda old, new: None,  # noqa: ARG005
        on_synced: Callable[[], None] = lambda: None,
        on_failed: Callable[[], None] = lambda: None,
        relist_after: float = 36_000,
        pace: Pace = Pace(),
    ) -> None:
        self._collection = Collection(
            client=client,
            path=path,
            label_selector=label_selector,
            field_selector=field_selector,
            metadata=metadata,
            user=user,
        )
        self._project = project
        self._on_change = on_change
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._relist_after = relist_after
        self._pace = pace
        self._cache: Cache[RecordT] = Cache()
        self._version = ""
        self._relist_at = 0.0
        self._streaming_lists = True
        self._synced = threading.Event()
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._stream: LineStream | None = None
        self._next_sign = math.inf
        """Until when, in monotonic seconds, the thread has to show that it goes on."""
        self._thread = client.supervisor.thread(Kind.WATCH, f"watch {path}", self._run)
        self.denied = ""
        """Why the collection may not or cannot be listed (403, 404); empty otherwise."""
        self.last_error: ApiError | None = None
        """What the last attempt failed with; None while all is well."""

    def start(self) -> None:
        """Begin to list and watch. Once only."""
        self._expect(0)
        self._thread.start()

    def stop(self) -> None:
        """End; returns at once, the thread ends soon after."""
        self._stopping.set()
        self._awake.set()
        if self._stream is not None:
            self._stream.close()

    def wake(self) -> None:
        """Try again now instead of after the pause: the kind, or the right to list it, may have appeared."""
        self._awake.set()

    @property
    def started(self) -> bool:
        """Whether it was asked to watch: some are only when somebody needs them."""
        return not math.isinf(self._next_sign)

    @property
    def stuck(self) -> bool:
        """Whether its thread has ended, or hangs; to wait for a server that is away is no such thing."""
        if self._stopping.is_set() or not self.started:
            return False
        return not self._thread.is_alive() or time.monotonic() > self._next_sign

    def _expect(self, seconds: float) -> None:
        """Note that the thread goes on, and may be silent for so many seconds."""
        self._next_sign = time.monotonic() + seconds + GRACE_SECONDS

    @property
    def path(self) -> str:
        """Of the collection."""
        return self._collection.path

    @property
    def synced(self) -> bool:
        """Whether a list was complete once."""
        return self._synced.is_set()

    @property
    def settled(self) -> bool:
        """Whether a list was complete once, or cannot be had now."""
        return self.synced or self.last_error is not None

    def get(self, key: Key) -> RecordT | None:
        """Return the record of an object."""
        return self._cache.get(key)

    def records(self) -> list[RecordT]:
        """Return all records as they are now, in no order."""
        return self._cache.records()

    def learn(self, record: RecordT) -> None:
        """Keep what the reply to a write said, if it is newer. The object must match the selectors."""
        self._cache.learn(record)

    def forget(self, key: Key, uid: str) -> None:
        """Hide an object that the reply to a delete said is gone (a Status, not an object)."""
        self._cache.forget(key, uid)

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
                continue  # list anew at once: what is known is too old, and nothing is wrong with the server
            failures += 1
            pause = self._pace.choose_pause(failures, error)
            self._expect(pause)
            if self._awake.wait(clamp_wait(pause)):
                failures = 0  # something has changed, and what it changed may take a moment to show
            self._awake.clear()

    def _attempt(self) -> ApiError | None:
        """Follow the collection over one stream; return why that failed."""
        try:
            self._follow()
        except ApiError as error:
            self._note(error)
            return error
        except Exception as error:  # without its thread a reflector would go stale without a word
            log.exception("watch failed unexpectedly", extra={"path": self.path})
            self._version = ""
            return ApiError(0, "Unexpected", type(error).__name__)
        return None

    def _note(self, error: ApiError) -> None:
        is_news, self.last_error = self.last_error is None, error
        if is_news:
            log.warning(_FAILURES.get(error.status, "watch failed"), extra={"path": self.path, "error": str(error)})
        if error.status == HTTPStatus.GONE:
            self._version = ""
        elif error.status in DENIED:
            self._version = ""
            self.denied = " ".join(error.message.split()) if error.reason else f"{self.path} is not served"
            if error.status == HTTPStatus.NOT_FOUND:
                self._tell(self._cache.replace({}, ""))  # what is not served has no objects
        if is_news and not self.synced:
            self._call(self._on_failed)

    def _follow(self) -> None:
        seconds = random.randint(*self._pace.watch)  # noqa: S311
        self._expect(seconds + self._pace.slack + sum(DEFAULT_TIMEOUT))
        if self._version and time.monotonic() < self._relist_at:
            self._watch(seconds)
            return
        self._cache.begin_listing()
        stream = self._collection.open_list(seconds, self._pace.slack) if self._streaming_lists else None
        if stream is not None:
            self._list_and_watch(stream, seconds)
        else:
            self._list_pages()
            self._watch(seconds)

    def _watch(self, seconds: int) -> None:
        with self._hold(self._collection.open_watch(self._version, seconds, self._pace.silence(seconds))) as stream:
            self._take_changes(parse_events(stream))

    def _list_and_watch(self, opened: LineStream, seconds: int) -> None:
        with self._hold(opened) as stream:
            events = parse_events(stream)
            self._take_list(events)
            stream.set_silence(self._pace.silence(seconds))
            self._take_changes(events)

    def _hold(self, stream: LineStream) -> LineStream:
        """Let `stop` close the stream; it may have come before there was one."""
        self._stream = stream
        if self._stopping.is_set():
            stream.close()
        return stream

    def _take_list(self, events: Iterator[Event]) -> None:
        # A server that does not know streaming lists may ignore the wish, and is asked for pages then.
        self._streaming_lists = False
        fresh: dict[Key, RecordT] = {}
        for event in events:
            kind, value = event
            if ends_list(event):
                self._streaming_lists = True
                self._replace(fresh, value["metadata"]["resourceVersion"])
                return
            record = self._make(value) if kind != "BOOKMARK" else None
            if record is not None and kind == "DELETED":
                fresh.pop(key_of(record), None)
            elif record is not None:
                fresh[key_of(record)] = record
        if not self._stopping.is_set():
            raise ApiError(0, "Incomplete", "the stream ended before the list was complete")

    def _list_pages(self) -> None:
        fresh: dict[Key, RecordT] = {}
        version = ""
        for page in self._collection.pages(self._pace.page):
            self._expect(self._pace.watch[1] + self._pace.slack + sum(DEFAULT_TIMEOUT))
            if page.restarted:
                fresh.clear()
            records = (record for item in page.items if (record := self._make(item)) is not None)
            fresh.update((key_of(record), record) for record in records)
            version = page.resource_version
        self._replace(fresh, version)

    def _replace(self, fresh: dict[Key, RecordT], version: str) -> None:
        self._tell(self._cache.replace(fresh, version))
        self._version = version
        self._relist_at = time.monotonic() + self._relist_after * random.uniform(0.9, 1.1)  # noqa: S311
        self.denied = ""
        self.last_error = None
        if not self._synced.is_set():
            self._synced.set()
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
            self._cache.advance(value["metadata"]["resourceVersion"])
            return
        record = self._learned(value) or self._make(value)
        if record is not None:
            self._tell(self._cache.remove(record) if kind == "DELETED" else self._cache.put(record))

    def _learned(self, value: dict[str, Any]) -> RecordT | None:
        """Return the record of this very version, if a reply told it: each object comes back after its apply."""
        about = value["metadata"]
        # Of a full object a reply tells less than the watch does.
        known = self._cache.get((about.get("namespace", ""), about["name"])) if self._collection.metadata else None
        seen = (about["uid"], about["resourceVersion"])
        return known if known is not None and (known.uid, known.resource_version) == seen else None

    def _make(self, value: dict[str, Any]) -> RecordT | None:
        try:
            return self._project(value)
        except Exception:  # one object must not stop the others
            log.exception("object left out", extra={"path": self.path, "object": value["metadata"].get("name", "")})
            return None

    def _tell(self, changes: list[Change[RecordT]]) -> None:
        for change in changes:
            self._call(self._on_change, change.old, change.new)

    def _call(self, handler: Callable[..., None], *arguments: Any) -> None:
        try:
            handler(*arguments)
        except Exception:  # one object must not stop the others
            log.exception("change not handled", extra={"path": self.path})
