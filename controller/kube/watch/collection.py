"""The requests that follow a collection, and the replies: a streaming list, a paged list, a watch from a version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from controller.kube.client import Client, LineStream, Page
from controller.kube.encoding import JSON, METADATA, decode
from controller.kube.errors import ApiError, status_error
from controller.kube.watch.cache import Key, RecordT, Trace, key_of, make_trace

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
NO_STREAMING_LISTS = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)

Event = tuple[str, dict[str, Any]]
"""ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

Make = Callable[[dict[str, Any]], RecordT | None]
"""Returns the record of an object; None to skip it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Objects at a path that match the selectors, in full or as PartialObjectMetadata."""

    client: Client
    path: str
    label_selector: str
    field_selector: str
    metadata: bool

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
        """Return the path of the part in one namespace, if the collection has all namespaces."""
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
        try:
            return self._open(start, seconds, silence)
        except ApiError as error:
            if error.status in NO_STREAMING_LISTS:
                return None
            raise

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
    for event in events:
        kind, value = event
        if _ends_list(event):
            return fresh, value["metadata"]["resourceVersion"]
        record = make(value) if kind != "BOOKMARK" else None
        if record is not None and kind == "DELETED":
            fresh.pop(key_of(record), None)
        elif record is not None:
            fresh[key_of(record)] = record
    return None


def read_pages(
    pages: Iterable[Page], make: Make[RecordT], on_page: Callable[[], None]
) -> tuple[dict[Key, RecordT], str]:
    """Return the records of a paged list and its version; call `on_page` for each page.

    Raises: ApiError.
    """
    fresh: dict[Key, RecordT] = {}
    version = ""
    for page in pages:
        on_page()
        if page.restarted:
            fresh.clear()
        records = (record for item in page.items if (record := make(item)) is not None)
        fresh.update((key_of(record), record) for record in records)
        version = page.resource_version
    return fresh, version


def _ends_list(event: Event) -> bool:
    """Return whether this is the bookmark after the last initial event."""
    kind, value = event
    return kind == "BOOKMARK" and INITIAL_EVENTS_END in (value["metadata"].get("annotations") or {})
