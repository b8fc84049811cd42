"""An extension API server on loopback: one group with one namespaced kind, Thing, whose objects are in memory.

It knows as much of the API as the aggregator, the garbage collector and a client that applies ask of it. An APIService
finds it by a Service of type ExternalName (`service`), since the tests' clusters have no network for pods.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import trustme

from tests.support.web_servers import QuietServer

Manifest = dict[str, Any]
VERBS = ["create", "delete", "get", "list", "patch", "watch"]


class AggregatedApi:
    """Serves between `with` and its end.

    Attributes:
        objects: by path.
    """

    def __init__(self, group: str) -> None:
        self.group, self.objects = group, dict[str, Manifest]()
        self.version = 1
        self.events: list[Manifest] = []
        self.changed, self.is_ended = threading.Condition(), False
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("localhost").configure_cert(context)
        self._server = QuietServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self}))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.is_ended = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    # what a bundle brings

    def service(self) -> Manifest:
        """Return the Service that leads here."""
        port = self._server.server_address[1]
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "things"}, "spec": spec}

    def api_service(self, namespace: str) -> Manifest:
        """Return the APIService, with the namespace of the Service."""
        service = {"namespace": namespace, "name": "things", "port": self._server.server_address[1]}
        spec = {"group": self.group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10}
        return {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1.{self.group}"},
            "spec": {**spec, "service": service, "insecureSkipTLSVerify": True},
        }

    def thing(self, name: str) -> Manifest:
        """Return an object of the group."""
        return {"apiVersion": f"{self.group}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"size": 1}}

    # what a handler does

    def kinds(self) -> Manifest:
        thing = {"name": "things", "singularName": "thing", "namespaced": True, "kind": "Thing", "verbs": VERBS}
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{self.group}/v1", "resources": [thing]}

    def list(self, path: str) -> Manifest:
        found = [value for key, value in self.objects.items() if path.endswith("/v1/things") or key.startswith(path)]
        about = {"resourceVersion": str(self.version)}
        return {"kind": "ThingList", "apiVersion": f"{self.group}/v1", "metadata": about, "items": found}

    def apply(self, path: str, body: Manifest, manager: str) -> tuple[HTTPStatus, Manifest]:
        """Replace an object by what is applied: there is one manager."""
        with self.changed:
            known = self.objects.get(path)
            self.version += 1
            entry = {
                "manager": manager,
                "operation": "Apply",
                "apiVersion": f"{self.group}/v1",
                "fieldsType": "FieldsV1",
            }
            metadata = {
                **body["metadata"],
                "namespace": path.split("/")[5],
                "uid": known["metadata"]["uid"] if known else str(uuid.uuid4()),
                "resourceVersion": str(self.version),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{**entry, "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:size": {}}}}],
            }
            self.objects[path] = {**body, "metadata": metadata}
            self._report("MODIFIED" if known else "ADDED", self.objects[path])
            return HTTPStatus.OK if known else HTTPStatus.CREATED, self.objects[path]

    def delete(self, path: str) -> bool:
        """Delete an object; return whether it was there."""
        with self.changed:
            known = self.objects.pop(path, None)
            if known:
                self.version += 1
                metadata = {**known["metadata"], "resourceVersion": str(self.version)}
                self._report("DELETED", {**known, "metadata": metadata})
            return known is not None

    def _report(self, kind: str, value: Manifest) -> None:
        self.events.append({"type": kind, "object": value})
        self.changed.notify_all()

    def watch(self, version: int, seconds: float) -> Iterator[Manifest]:
        """Yield what has happened since a version, and what happens from now on."""
        ends = time.monotonic() + seconds
        while not self.is_ended and time.monotonic() < ends:
            with self.changed:
                news = [each for each in self.events if int(each["object"]["metadata"]["resourceVersion"]) > version]
                if not news:
                    self.changed.wait(ends - time.monotonic())
            yield from news
            version = int(news[-1]["object"]["metadata"]["resourceVersion"]) if news else version


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the client acknowledges a head that comes alone 40 ms later
    api: AggregatedApi

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if url.path == f"/apis/{self.api.group}/v1":
            self._reply(HTTPStatus.OK, self.api.kinds())
        elif "sendInitialEvents" in query:
            self._fail(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid")
        elif "watch" in query:
            self._watch(int(query["resourceVersion"][0]), float(query["timeoutSeconds"][0]))
        elif url.path.endswith("/things"):
            self._reply(HTTPStatus.OK, self.api.list(url.path))
        elif url.path in self.api.objects:
            self._reply(HTTPStatus.OK, self.api.objects[url.path])
        else:
            self._fail(HTTPStatus.NOT_FOUND, "NotFound")

    def do_PATCH(self) -> None:
        url = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._reply(*self.api.apply(url.path, body, parse_qs(url.query).get("fieldManager", [""])[0]))

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.api.delete(urlsplit(self.path).path):
            self._reply(HTTPStatus.OK, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
        else:
            self._fail(HTTPStatus.NOT_FOUND, "NotFound")

    def _watch(self, version: int, seconds: float) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in self.api.watch(version, seconds):
            self.wfile.write(json.dumps(event).encode() + b"\n")

    def _fail(self, status: HTTPStatus, reason: str) -> None:
        failure = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason}
        self._reply(status, {**failure, "code": status.value, "message": reason})

    def _reply(self, status: HTTPStatus, value: Manifest) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
