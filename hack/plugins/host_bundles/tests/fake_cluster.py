"""An API server that has one Lease, pods and nodes, over HTTP, as far as agents use it."""

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
SELECTOR = "hosts.rukpak.io/deployment=tool,hosts.rukpak.io/part=agent"


class FakeCluster:
    """What the server has, and what it was asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lease: dict[str, Any] = {"metadata": {"name": "tool", "resourceVersion": "1"}}
        self.nodes: set[str] = set()
        """That have a pod of an agent."""
        self.desired: int | None = None
        """How many nodes should have one, for the DaemonSet; as many as have, if it is None."""
        self.node: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {}}
        """The Node "a"."""
        self.pods: dict[str, dict[str, Any]] = {}
        """Of others on that node, in the namespace "shop", by name."""
        self.protected: set[str] = set()
        """Pods that a disruption budget protects."""
        self.is_away = False
        """Whether it answers all requests with an error."""
        self.conflicts = 0
        self.requests = 0
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
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self.lock:
            self.requests += 1
            return (503, {}) if self.is_away else self._answer(method, parts.path, query, body)

    def _answer(
        self, method: str, path: str, query: dict[str, str], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        answer: tuple[int, dict[str, Any]] = (403, {})  # agents may not do anything else
        match method, path.split("/")[1:]:
            case "GET", ["apis", "coordination.k8s.io", "v1", "namespaces", "hosts", "leases", "tool"]:
                answer = (200, self.lease)
            case "PUT", ["apis", "coordination.k8s.io", "v1", "namespaces", "hosts", "leases", "tool"]:
                answer = self._put(body)
            case "GET", ["api", "v1", "namespaces", "hosts", "pods"]:
                answer = self._list(query)
            case "GET", ["apis", "apps", "v1", "namespaces", "hosts", "daemonsets", "tool"]:
                desired, current = self.desired, len(self.nodes)
                counts = {"desiredNumberScheduled": current if desired is None else desired}
                answer = (200, {"status": {**counts, "currentNumberScheduled": current}})
            case "GET", ["api", "v1", "pods"]:
                answer = (
                    200,
                    {"items": list(self.pods.values())} if query == {"fieldSelector": "spec.nodeName=a"} else {},
                )
            case "GET" | "PATCH", ["api", "v1", "nodes", "a"]:
                self.node = merge(self.node, body)
                answer = (200, self.node)
            case "POST", ["api", "v1", "namespaces", "shop", "pods", name, "eviction"]:
                answer = self._evict(name)
        return answer

    def _evict(self, name: str) -> tuple[int, dict[str, Any]]:
        if name in self.protected:
            return 429, {}
        return (201, {}) if self.pods.pop(name, None) else (404, {})

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


def merge(value: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a JSON merge patch."""
    merged = {key: merge(value.get(key, {}), each) if isinstance(each, dict) else each for key, each in patch.items()}
    return {key: each for key, each in {**value, **merged}.items() if each is not None}


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

        do_GET = do_PUT = do_PATCH = do_POST = _reply  # noqa: N815 - the names of the library

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
