"""Events (`events.k8s.io/v1`), sent on a separate thread: no pass waits for an Event, or fails because of one."""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Literal

from rukpak.api import names
from rukpak.controller.content.limits import visible
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.encoding import micro_time
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import DEPLOYMENTS, Resource
from rukpak.controller.processes.supervision import Kind
from rukpak.controller.untrusted import integer, text

log = logging.getLogger(__name__)

EVENTS = Resource("events.k8s.io", "v1", "Event", "events", namespaced=True)
# Events about cluster-scoped objects are accepted only here and in kube-system.
NAMESPACE = "default"
NOTE_CHARACTERS = 1024
INSTANCE_CHARACTERS = 128
BACKLOG = 1000
SERIES = 1000
SERIES_SECONDS = 360.0
"""As in client-go: after a longer pause, a repeated Event starts a new series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regarding:
    """The BundleDeployment that an Event is about."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The content of an Event."""

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    """What was done or attempted, in one word."""
    text: str


@dataclass(slots=True)
class _Series:
    """An Event that was sent and may be repeated."""

    name: str
    count: int
    last: float
    """When it was sent last, by the clock."""


class EventRecorder:
    """Thread-safe. An Event that is repeated within minutes is counted in the series of the first.

    Args:
        controller: name of the reporting controller, such as `core.rukpak.io/rukpak`.
        clock: seconds.
    """

    def __init__(self, client: Client, controller: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._controller, self._clock = client, controller, clock
        self._instance = socket.gethostname()[:INSTANCE_CHARACTERS] or controller
        self._backlog: queue.Queue[tuple[Regarding, Note] | None] = queue.Queue(BACKLOG)
        self._series: OrderedDict[tuple[Regarding, Note], _Series] = OrderedDict()
        self._thread = client.supervisor.thread(Kind.EVENTS, "events", self._run)
        self._is_denied = False

    def start(self) -> None:
        """Start to send."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Send what is queued, for at most so many seconds, and nothing after it."""
        with contextlib.suppress(queue.Full):
            self._backlog.put_nowait(None)
            self._thread.join(seconds)

    def record(self, regarding: Regarding, note: Note) -> None:
        """Queue an Event; it is dropped if the queue is full."""
        try:
            self._backlog.put_nowait((regarding, note))
        except queue.Full:
            log.debug("Event dropped", extra={"reason": note.reason, "object": regarding.name})

    def _run(self) -> None:
        while (item := self._backlog.get()) is not None:
            regarding, note = item
            try:
                self._send(regarding, note)
            except ApiError as error:
                about = {"reason": note.reason, "object": regarding.name, "reply": str(error)}
                # Nothing depends on Events: a missing permission is logged once.
                is_news = error.status == HTTPStatus.FORBIDDEN and not self._is_denied
                self._is_denied = self._is_denied or is_news
                log.log(logging.WARNING if is_news else logging.DEBUG, "Event not sent", extra=about)

    def _send(self, regarding: Regarding, note: Note) -> None:
        now = self._clock()
        series = self._series.pop((regarding, note), None)
        if series is None or now - series.last > SERIES_SECONDS or not self._repeat(series):
            event = self._make(regarding, note)
            series = _Series(event["metadata"]["name"], 1, now)
            self._client.create(EVENTS.path(NAMESPACE), event, metadata=True)
        series.last = now
        self._series[regarding, note] = series
        if len(self._series) > SERIES:
            self._series.popitem(last=False)

    def _repeat(self, series: _Series) -> bool:
        change = {"series": {"count": series.count + 1, "lastObservedTime": micro_time()}}
        path = EVENTS.path(NAMESPACE, series.name)
        if attempt(lambda: self._client.merge_patch(path, change, metadata=True), HTTPStatus.NOT_FOUND) is None:
            return False
        series.count += 1
        return True

    def _make(self, regarding: Regarding, note: Note) -> dict[str, Any]:
        return {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {"name": f"{regarding.name}.{uuid.uuid4().hex[:16]}", "namespace": NAMESPACE},
            "eventTime": micro_time(),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": note.type,
            "reason": note.reason,
            "action": note.action,
            "note": visible(note.text)[:NOTE_CHARACTERS],
            "regarding": {"apiVersion": DEPLOYMENTS.api_version, "kind": DEPLOYMENTS.kind, **asdict(regarding)},
        }


def select_about(name: str) -> str:
    """Return the field selector of the Events about a BundleDeployment."""
    return f"regarding.kind={names.KIND},regarding.name={name}"


def count_of(event: Mapping[str, Any]) -> int:
    """Return how often an Event has occurred."""
    return integer(event, "series", "count") or integer(event, "deprecatedCount") or 1


def last_seen(event: Mapping[str, Any]) -> str:
    """Return when an Event occurred last, in RFC 3339; empty if it does not say."""
    # The kubelet and others still write Events of the core group, which have their times elsewhere.
    old = text(event, "deprecatedLastTimestamp") or text(event, "deprecatedFirstTimestamp")
    return text(event, "series", "lastObservedTime") or text(event, "eventTime") or old
