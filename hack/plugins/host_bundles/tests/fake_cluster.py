"""An API server that has one Lease and pods, over HTTP, as far as agents use it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rukpak_hosts_turns import Cluster

TOKEN = "let-me-in"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/hosts/leases/tool"
PODS = "/api/v1/namespaces/hosts/pods"
SELECTOR = "hosts.rukpak.io/deployment=tool,hosts.rukpak.io/part=agent"


class FakeCluster:
    """What the server has, and what it was asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lease: dict[str, Any] = {"metadata": {"name": "tool", "resourceVersion": "1"}}
        self.nodes: set[str] = set()
        """That have a pod of an agent."""
        self.is_away = False
        """Whether it answers all requests with an error."""
        self.conflicts = 0
        self.url = ""

    def client(self) -> Cluster:
        """Return a client of it."""
        return Cluster(self.url, "hosts", "tool", token=lambda: TOKEN)

    def entries(self) -> dict[str, dict[str, str]]:
        """Return the entries in the Lease."""
        with self.lock:
            found: dict[str, dict[str, str]] = json.loads(self.annotations().get("hosts.rukpak.io/nodes", "{}"))
            return found

    def annotations(self) -> dict[str, str]:
        """Return the annotations of the Lease."""
        found: dict[str, str] = self.lease["metadata"].get("annotations", {})
        return found

    def answer(self, method: str, url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body of the answer to a request."""
        parts = urlsplit(url)
        with self.lock:
            if self.is_away:
                return 503, {}
            if (method, parts.path) == ("GET", LEASE):
                return 200, self.lease
            if (method, parts.path) == ("PUT", LEASE):
                return self._put(body)
            if (method, parts.path) == ("GET", PODS):
                return self._list({name: values[0] for name, values in parse_qs(parts.query).items()})
        return 403, {}  # agents may not do anything else

    def _put(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        version = self.lease["metadata"]["resourceVersion"]
        if body["metadata"]["resourceVersion"] != version:
            self.conflicts += 1
            return 409, {}
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(int(version) + 1)}}
        return 200, self.lease

    def _list(self, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        assert query["labelSelector"] == SELECTOR
        wanted = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        nodes = sorted(name for name in self.nodes if wanted in ("", name))
        return 200, {"items": [*({"spec": {"nodeName": name}} for name in nodes), *([] if wanted else [{"spec": {}}])]}


@contextmanager
def serve() -> Iterator[FakeCluster]:
    """Provide a server until the block ends."""
    cluster = FakeCluster()

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_known = self.headers["Authorization"] == f"Bearer {TOKEN}"
            status, body = cluster.answer(self.command, self.path, json.loads(data or b"{}")) if is_known else (401, {})
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = _reply  # noqa: N815 - the names of the library

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    cluster.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield cluster
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
