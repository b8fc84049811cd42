"""Events (`events.k8s.io/v1`), sent by a thread of their own: no pass waits for one, and none is worth a failure."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.resources import Resource

log = logging.getLogger(__name__)

EVENTS = Resource("events.k8s.io", "v1", "Event", "events", namespaced=True)
# Events on cluster-scoped objects are accepted only here and in kube-system.
NAMESPACE = "default"
NOTE_CHARACTERS = 1024
INSTANCE_CHARACTERS = 128
BACKLOG = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Regarding:
    """The cluster-scoped object that an Event is about."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What an Event says."""

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    """What was done or tried, in one word."""
    text: str


class EventRecorder:
    """Thread-safe.

    Args:
        controller: name of the reporting controller, as `core.rukpak.io/rukpak`.
    """

    def __init__(self, client: Client, controller: str) -> None:
        self._client, self._controller = client, controller
        self._instance = socket.gethostname()[:INSTANCE_CHARACTERS] or controller
        self._backlog: queue.Queue[tuple[Regarding, Note]] = queue.Queue(BACKLOG)

    def start(self) -> None:
        """Begin to send."""
        threading.Thread(target=self._run, name="events", daemon=True).start()

    def record(self, regarding: Regarding, note: Note) -> None:
        """Send an Event soon; dropped if a thousand others wait."""
        try:
            self._backlog.put_nowait((regarding, note))
        except queue.Full:
            log.debug("Event dropped", extra={"reason": note.reason, "object": regarding.name})

    def _run(self) -> None:
        while True:
            regarding, note = self._backlog.get()
            try:
                self._client.create(EVENTS.path(NAMESPACE), self._event(regarding, note), metadata=True)
            except ApiError as error:
                log.debug(
                    "Event not sent", extra={"reason": note.reason, "object": regarding.name, "reply": str(error)}
                )

    def _event(self, regarding: Regarding, note: Note) -> dict[str, object]:
        return {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {"name": f"{regarding.name}.{uuid.uuid4().hex[:16]}", "namespace": NAMESPACE},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": note.type,
            "reason": note.reason,
            "action": note.action,
            "note": note.text[:NOTE_CHARACTERS],
            "regarding": {
                "apiVersion": regarding.api_version,
                "kind": regarding.kind,
                "name": regarding.name,
                "uid": regarding.uid,
            },
        }
