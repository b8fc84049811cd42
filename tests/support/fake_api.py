"""A small API server for faults that a real one cannot produce on demand.

In-memory collections with resource versions, paging, watches with bookmarks, streaming lists and 410 after `compact`;
and faults: statuses and headers for the next requests, watches that end immediately, stall, are cut in the middle of a
line or deliver an ERROR event, and a server that stops responding.

It has no schema, no admission, no server-side apply and no metadata-only conversion: these are tested against a real
kube-apiserver. Standalone: `python -m tests.support.fake_api` serves one collection on a free port.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from rukpak.controller.kube.client import Client, Transport
from rukpak.controller.kube.configuration import Configuration

REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 422: "Invalid"}
END_OF_CHUNKS = b"0\r\n\r\n"
TICK = 0.02


@dataclass(frozen=True, slots=True)
class Fault:
    """A reply that replaces the real one. A body of None is a Status."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Received:
    """A request, as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        """Return all values of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


class FakeApi:
    """Serves the collections while it is entered. Attributes may be set at any time."""

    def __init__(self, *collections: str, streaming_lists: bool = True) -> None:
        self.objects: dict[str, dict[str, dict[str, Any]]] = {path: {} for path in collections}
        self.documents: dict[str, tuple[Any, str]] = {}
        """Path to a JSON value and its ETag, if any."""
        self.texts: dict[str, bytes] = {}
        """Path to a text, such as the log of a pod."""
        self.refused: dict[str, Fault] = {}
        """Path to the reply of all its requests."""
        self.version = 100
        self.streaming_lists = streaming_lists
        self.received: list[Received] = []
        self.faults: list[Fault] = []
        """For the next requests, one each."""
        self.watch_faults: list[Fault] = []
        """For the next watches."""
        self.end_watches = False
        """New watches end immediately, and open ones end."""
        self.cut_watches = False
        """The connection of watches is closed in the middle of a line."""
        self.stall_watches = False
        """New watches get their headers and nothing else."""
        self.omit_events = False
        """Watches deliver bookmarks, but no changes."""
        self.omit_bookmarks = False
        """Behaves like a server that ignores unknown parameters: no bookmarks, not even after the initial events."""
        self.watch_error: Mapping[str, Any] | None = None
        """Sent as an ERROR event by watches that are not streaming lists."""
        self.frozen = threading.Event()
        """While it is set, no request is answered."""
        self.delay = 0.0
        """Seconds that each request takes, but for watches."""
        self.second = 1.0
        """How long a second of `timeoutSeconds` takes, of which clients can only send whole ones."""
        self.open_watches = 0
        """That deliver changes now."""
        self._oldest = self.version
        self._events: list[tuple[int, str, str, dict[str, Any]]] = []  # version, collection, type, object
        self._changed = threading.Condition()
        self._followed: dict[str, tuple[bytes, threading.Event]] = {}
        self._sockets: list[socket.socket] = []
        self._stopping = False

    # what a test does

    def follow(self, path: str, begin: bytes) -> threading.Event:
        """Answer a path with a text that does not end; return what is set once a client has closed the connection."""
        self._followed[path] = (begin, threading.Event())
        return self._followed[path][1]

    def put(
        self, collection: str, name: str, *, uid: str = "", about: Mapping[str, Any] | None = None, **content: Any
    ) -> dict[str, Any]:
        """Create or change an object; return it. Another `uid` means another object; `about` is further metadata."""
        with self._changed:
            old = self.objects[collection].get(name)
            self.version += 1
            metadata = {
                **(about or {}),
                "name": name,
                "resourceVersion": str(self.version),
                "uid": uid or (old["metadata"]["uid"] if old else f"uid-{self.version}"),
            }
            value = {"apiVersion": "x.io/v1", "kind": "Foo", **content, "metadata": metadata}
            self.objects[collection][name] = value
            self._events.append((self.version, collection, "MODIFIED" if old else "ADDED", value))
            self._changed.notify_all()
            return value

    def delete(self, collection: str, name: str) -> None:
        """Delete an object."""
        with self._changed:
            value = self.objects[collection].pop(name)
            self.version += 1
            gone = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.version)}}
            self._events.append((self.version, collection, "DELETED", gone))
            self._changed.notify_all()

    def compact(self) -> None:
        """Answer every older resource version with 410 from now on."""
        with self._changed:
            self.version += 1
            self._oldest = self.version
            self._events.clear()

    def restore(self, collection: str, *names: str) -> None:
        """Restore an old backup: only these objects, old versions, and watches that wait for future versions."""
        with self._changed:
            self.version -= 50
            self._oldest = self.version
            self._events.clear()
            self.objects[collection].clear()
        for name in names:
            self.put(collection, name)

    def client(self, **options: Any) -> Client:
        """Return a client of this server."""
        return Client(Transport(lambda: Configuration(host=self.url), **options))

    def kubeconfig(self, path: Path) -> str:
        """Write a kubeconfig for this server; return its path."""
        value = {
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake"}}],
            "current-context": "fake",
        }
        path.write_text(json.dumps(value))
        return str(path)

    def lists(self, collection: str) -> int:
        """Return how often the collection was listed, by stream or by the first page; not how often for its version."""
        return sum(
            request.path == collection
            and request.method == "GET"
            and (request.query.get("watch") != "true" or "sendInitialEvents" in request.query)
            and "continue" not in request.query
            and request.query.get("limit") != "1"
            for request in list(self.received)
        )

    def watches(self) -> int:
        """Return how many watches were asked for."""
        return sum(request.query.get("watch") == "true" for request in list(self.received))

    # serving

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

            def do_GET(self) -> None:
                outer._handle(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self) -> tuple[socket.socket, Any]:
                accepted = super().get_request()
                outer._sockets.append(accepted[0])
                return accepted

            def handle_error(self, request: object, client_address: object) -> None:
                pass  # a client that went away

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(TICK,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop serving; cut kept-alive connections, too."""
        self._stopping = True
        self.frozen.clear()
        self._server.shutdown()
        self._server.server_close()
        for connection in self._sockets:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                connection.close()

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        received = self._receive(request)
        while self.frozen.is_set():
            time.sleep(TICK)
        time.sleep(0.0 if "watch" in received.query else self.delay)
        if self.faults:
            self._send_fault(request, self.faults.pop(0))
        elif received.path in self.refused:
            self._send_fault(request, self.refused[received.path])
        elif received.path in self._followed:
            self._send_endless(request, *self._followed[received.path])
        elif received.path in self.texts:
            self._send(request, 200, self.texts[received.path], {"Content-Type": "text/plain"})
        elif received.path in self.documents:
            self._send_document(request, received)
        elif received.path in self.objects:
            self._handle_collection(request, received)
        elif (everywhere := re.sub("/namespaces/[^/]+/", "/", received.path)) in self.objects:
            self._handle_collection(request, replace(received, path=everywhere))  # with the objects of other namespaces
        else:
            self._handle_object(request, received)

    def _receive(self, request: BaseHTTPRequestHandler) -> Received:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        url = urlsplit(request.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        received = Received(request.command, url.path, query, request.headers.items(), body)
        self.received.append(received)
        return received

    def _send_document(self, request: BaseHTTPRequestHandler, received: Received) -> None:
        value, tag = self.documents[received.path]
        if tag and received.header("If-None-Match") == [tag]:
            request.send_response(304)
            request.end_headers()
        else:
            self._send(request, 200, json.dumps(value).encode(), {"ETag": tag} if tag else {})

    def _handle_collection(self, request: BaseHTTPRequestHandler, received: Received) -> None:
        if received.method == "POST":
            value = json.loads(received.body)
            if value["metadata"]["name"] in self.objects[received.path]:
                self._send_fault(request, Fault(409))
            else:
                self._send_value(request, 201, self.put(received.path, value["metadata"]["name"], **_content(value)))
        elif received.query.get("watch") != "true":
            self._list(request, received)
        elif self.watch_faults:
            self._send_fault(request, self.watch_faults.pop(0))
        else:
            self._watch(request, received)

    def _handle_object(self, request: BaseHTTPRequestHandler, received: Received) -> None:
        collection, _, name = received.path.rpartition("/")
        value = self.objects.get(collection, {}).get(name)
        if value is None:
            self._send_fault(request, Fault(404))
        elif received.method == "GET":
            self._send_value(request, 200, value)
        elif received.method == "DELETE":
            self.delete(collection, name)
            self._send_value(request, 200, {"kind": "Status", "status": "Success"})
        elif received.method == "PUT":
            sent = json.loads(received.body)
            if sent["metadata"].get("resourceVersion") not in (None, value["metadata"]["resourceVersion"]):
                self._send_fault(request, Fault(409))
            else:
                self._send_value(request, 200, self.put(collection, name, **_content(sent)))
        else:
            self._send_value(request, 200, self.put(collection, name))

    def _list(self, request: BaseHTTPRequestHandler, received: Received) -> None:
        with self._changed:
            items = sorted(self.objects[received.path].values(), key=lambda value: str(value["metadata"]["name"]))
            version = self.version
        field, _, wanted = received.query.get("fieldSelector", "").partition("=")
        if field == "metadata.name":
            items = [value for value in items if value["metadata"]["name"] == wanted]
        start, limit = 0, int(received.query.get("limit") or 0)
        if token := received.query.get("continue"):
            start, version = map(int, token.split("-"))
            if version < self._oldest:
                self._send_fault(request, Fault(410))
                return
        metadata = {"resourceVersion": str(version)}
        end = start + limit if limit else len(items)
        if end < len(items):
            metadata["continue"] = f"{end}-{version}"
        self._send_value(request, 200, {"kind": "FooList", "metadata": metadata, "items": items[start:end]})

    def _watch(self, request: BaseHTTPRequestHandler, received: Received) -> None:
        listing = received.query.get("sendInitialEvents") == "true"
        seen = int(received.query.get("resourceVersion") or 0)
        if listing and not self.streaming_lists:
            self._send_fault(request, Fault(422))
            return
        if not listing and seen < self._oldest:
            self._send_fault(request, Fault(410))
            return
        self._begin_chunks(request)
        if self.stall_watches:
            self._wait_while(lambda: self.stall_watches)
            return
        if listing:
            seen = self._send_initial_events(request, received.path)
        elif self.watch_error:
            self._send_event(request, "ERROR", self.watch_error)
            request.wfile.write(END_OF_CHUNKS)
            return
        with self._changed:
            self.open_watches += 1
        try:
            self._send_changes(request, received, seen)
        finally:
            with self._changed:
                self.open_watches -= 1

    def _begin_chunks(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        request.wfile.flush()

    def _send_initial_events(self, request: BaseHTTPRequestHandler, collection: str) -> int:
        with self._changed:
            items, version = list(self.objects[collection].values()), self.version
        for value in items:
            self._send_event(request, "ADDED", value)
        annotations = {"k8s.io/initial-events-end": "true"}
        self._send_bookmark(request, {"resourceVersion": str(version), "annotations": annotations})
        return version

    def _send_changes(self, request: BaseHTTPRequestHandler, received: Received, seen: int) -> None:
        ends = time.monotonic() + self.second * float(received.query.get("timeoutSeconds") or 3600)
        while not (self.end_watches or self.cut_watches or self._stopping) and time.monotonic() < ends:
            with self._changed:
                fresh = self._events_since(seen, received.path)
                seen = max(seen, self.version)
                if not fresh:
                    self._changed.wait(TICK)
            for kind, value in [] if self.omit_events else fresh:
                self._send_event(request, kind, value)
        if self.cut_watches:
            request.wfile.write(b'20\r\n{"type":"ADD')
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        if not self.end_watches and seen <= self.version:
            self._send_bookmark(request, {"resourceVersion": str(seen)})
        request.wfile.write(END_OF_CHUNKS)

    def _events_since(self, version: int, collection: str) -> list[tuple[str, dict[str, Any]]]:
        # From the end: there are thousands, and watches of clients that are gone look, too.
        news = takewhile(lambda event: event[0] > version, reversed(self._events))
        return [(kind, value) for _, path, kind, value in news if path == collection][::-1]

    def _send_endless(self, request: BaseHTTPRequestHandler, begin: bytes, ended: threading.Event) -> None:
        self._begin_chunks(request)
        request.wfile.write(b"%x\r\n%s\r\n" % (len(begin), begin))
        request.wfile.flush()
        request.connection.recv(1)  # a client that goes away sends its end
        ended.set()

    def _wait_while(self, condition: Any) -> None:
        while condition() and not self._stopping:
            time.sleep(TICK)

    def _send_bookmark(self, request: BaseHTTPRequestHandler, metadata: Mapping[str, Any]) -> None:
        if not self.omit_bookmarks:
            self._send_event(request, "BOOKMARK", {"kind": "Foo", "metadata": metadata})

    def _send_event(self, request: BaseHTTPRequestHandler, kind: str, value: Mapping[str, Any]) -> None:
        data = json.dumps({"type": kind, "object": value}).encode() + b"\n"
        middle = len(data) // 2  # chunks do not end at line ends
        for part in (data[:middle], data[middle:]):
            request.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        request.wfile.flush()

    def _send_value(self, request: BaseHTTPRequestHandler, status: int, value: Any) -> None:
        self._send(request, status, json.dumps(value).encode(), {})

    def _send_fault(self, request: BaseHTTPRequestHandler, fault: Fault) -> None:
        status = {
            "kind": "Status",
            "status": "Failure",
            "code": fault.status,
            "reason": REASONS.get(fault.status, "InternalError"),
            "message": f"injected {fault.status}",
            "details": dict(fault.details),
        }
        body = json.dumps(status).encode() if fault.body is None else fault.body
        self._send(request, fault.status, body, fault.headers)

    def _send(self, request: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        request.send_response(status)
        for name, text in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, text)
        request.end_headers()
        request.wfile.write(body)


def _content(sent: Mapping[str, Any]) -> dict[str, Any]:
    namespace = sent["metadata"].get("namespace")
    return {**sent, "about": {"namespace": namespace} if namespace else {}}


if __name__ == "__main__":
    with FakeApi("/apis/x.io/v1/foos") as api:
        api.put("/apis/x.io/v1/foos", "a")
        print(f"curl '{api.url}/apis/x.io/v1/foos?watch=true&sendInitialEvents=true&timeoutSeconds=5'")
        threading.Event().wait()
