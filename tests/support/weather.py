"""Bad weather between a controller and a real API server: a proxy that answers instead, hangs up, or delays.

What happens to a request is a pure function of the seed, of its method and path, and of how often these were requested
in this storm (`forecast`). Each method and path is hit a few times at most, so that every storm ends. A storm starts by
cutting every watch. The proxy listens on plain loopback and adds the administrator's token, as `kubectl proxy` does
with its own.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit
from weakref import WeakSet

from rukpak.controller.playground.cluster import read_token
from tests.support.web_servers import QuietServer

HITS = 2
"""How often a method and path is hit in one storm at most."""
CHANCE = 0.4
SLOW_SECONDS = 0.7
STALE_SECONDS = 1.5
"""How late the events of a stale watch are."""
BURST_SECONDS = 0.2
"""Events within this time are delivered together."""
SECONDS = 600.0
"""Of silence after which the API server counts as gone: the controller is to find that out sooner."""
WATCH = "WATCH"
HOPS = frozenset({"host", "connection", "keep-alive", "transfer-encoding", "authorization", "accept-encoding"})
"""Headers that are about one connection, or that the proxy says itself."""


class Fault(Enum):
    """What can go wrong; the value says how."""

    TOO_MANY = "429 with Retry-After"
    BROKEN = "500"
    UNAVAILABLE = "503"
    CONFLICT = "409"
    EXPIRED = "410 as status"
    EXPIRED_LATER = "410 as an event"
    CUT = "hung up before the API server heard of it"
    HALF = "hung up during the reply"
    LOST = "hung up instead of the reply"
    TIMED_OUT = "504 instead of the reply"
    SLOW = "the reply comes late"
    STALE = "the watch comes late"


ANYWHERE = (Fault.TOO_MANY, Fault.BROKEN, Fault.UNAVAILABLE, Fault.CUT)
READS = (*ANYWHERE, Fault.HALF, Fault.SLOW)
CREATIONS = (*READS, Fault.LOST, Fault.TIMED_OUT)
CHANGES = (*CREATIONS, Fault.CONFLICT)
WATCHES = (*ANYWHERE, Fault.HALF, Fault.STALE, Fault.STALE, Fault.EXPIRED, Fault.EXPIRED_LATER)
FAULTS = {"GET": READS, "POST": CREATIONS, WATCH: WATCHES}
REFUSALS = {
    Fault.TOO_MANY: (429, "TooManyRequests", "the server is busy, try again"),
    Fault.BROKEN: (500, "InternalError", "etcdserver: leader changed"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    Fault.CONFLICT: (409, "Conflict", "the object has been modified; apply your changes to the latest version"),
    Fault.EXPIRED: (410, "Expired", "too old resource version"),
    Fault.TIMED_OUT: (504, "Timeout", "request did not complete within the allotted timeout"),
}
"""Code, reason and message."""


def forecast(seed: int, verb: str, path: str, nth: int) -> Fault | None:
    """Return what happens to a request; None: nothing.

    Args:
        seed: of the storm; 0 is fair weather.
        verb: its method, or WATCH.
        path: without query.
        nth: how often that was asked for before in this storm.
    """
    dice = random.Random(f"{seed} {verb} {path} {nth}")
    if not seed or nth >= HITS or dice.random() >= CHANCE:
        return None
    return dice.choice(FAULTS.get(verb, CHANGES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as it came, and what became of it."""

    verb: str
    path: str
    fault: Fault | None


class Weather:
    """Proxy on a free loopback port between `with` and its end.

    Args:
        server: address of the API server, with https.
        authority: file of the certificate that its own is checked with, in the folder of its control plane.
    """

    def __init__(self, server: str, authority: Path) -> None:
        self._host = urlsplit(server).netloc
        self._tls = ssl.create_default_context(cafile=authority)
        self.token = read_token(authority.parent)
        self._lock = threading.Lock()
        self._seed = 0
        self._asked: Counter[tuple[str, str]] = Counter()
        self._upstream: WeakSet[http.client.HTTPSConnection] = WeakSet()
        self._watching: set[socket.socket] = set()
        self._hushed: set[socket.socket] = set()
        self._deaf: set[socket.socket] = set()
        self._ended = threading.Event()
        self._proxy = _Proxy(("127.0.0.1", 0), type("Handler", (_Handler,), {"weather": self}))
        self.requests: list[Seen] = []
        """Since the last storm began."""
        self.retry_after = "1"
        """What a 429 asks for."""
        self.address = f"http://127.0.0.1:{self._proxy.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._proxy.shutdown()
        self._proxy.server_close()
        self._cut_watches()
        for connection in list(self._upstream):
            if connection.sock:
                hang_up(connection.sock)

    def write_kubeconfig(self, file: Path) -> Path:
        """Write a kubeconfig by which the API server is reached through here."""
        cluster = {"name": "weather", "cluster": {"server": self.address}}
        context = {"name": "weather", "context": {"cluster": "weather"}}
        config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
        file.write_text(json.dumps(config | {"current-context": "weather"}), encoding="utf-8")
        return file

    def storm(self, seed: int) -> None:
        """Start a storm: hit requests from now on, and cut every watch."""
        with self._lock:
            self._seed = seed
            self._asked.clear()
            self.requests = []
        self._cut_watches()

    def calm(self) -> None:
        """Let everything through from now on. Watches that are late are cut."""
        with self._lock:
            self._seed = 0
        self._cut_watches()

    def hush(self) -> None:
        """Keep the current watches open and silent until the other side hangs up."""
        with self._lock:
            self._hushed |= self._watching
            self.requests = []

    def deafen(self) -> None:
        """Deliver only bookmarks to the current watches."""
        with self._lock:
            self._deaf |= self._watching
            self.requests = []

    def faults(self) -> list[Fault]:
        """Return what has happened since the last storm began."""
        return [seen.fault for seen in list(self.requests) if seen.fault]

    def _cut_watches(self) -> None:
        with self._lock:
            watching = set(self._watching)
        for connection in watching:
            hang_up(connection)

    # what a handler asks

    def meet(self, verb: str, path: str) -> Fault | None:
        """Record a request, and return what happens to it."""
        with self._lock:
            nth = self._asked[verb, path]
            self._asked[verb, path] += 1
            fault = forecast(self._seed, verb, path, nth)
            self.requests.append(Seen(verb=verb, path=path, fault=fault))
        return fault

    def leave(self, verb: str, path: str, fault: Fault | None) -> None:
        """Record that a request is finished, whatever its outcome."""

    def watching(self, connection: socket.socket, *, begins: bool) -> None:
        """Record that a watch starts, or has ended."""
        with self._lock:
            (self._watching.add if begins else self._watching.discard)(connection)
            self._hushed.discard(connection)
            self._deaf.discard(connection)

    def is_hushed(self, connection: socket.socket) -> bool:
        return connection in self._hushed

    def omits(self, connection: socket.socket, line: bytes) -> bool:
        return connection in self._deaf and not line.startswith(b'{"type":"BOOKMARK"')

    def pause(self, seconds: float) -> None:
        self._ended.wait(seconds)

    def connect(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=SECONDS)
        self._upstream.add(connection)
        return connection


class _Proxy(QuietServer):
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    """One connection of the controller's, and one to the API server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    weather: Weather
    upstream: http.client.HTTPSConnection

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def handle(self) -> None:
        with closing(self.weather.connect()) as self.upstream:
            super().handle()

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        verb = WATCH if "watch" in parse_qs(query) else self.command
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.weather.meet(verb, path)
        try:
            self._answer(verb, body, fault)
        except (OSError, http.client.HTTPException):  # one side has hung up: disconnect the other one, too
            self._hang_up()
        self.weather.leave(verb, path, fault)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - http.server's names

    def _answer(self, verb: str, body: bytes, fault: Fault | None) -> None:
        if fault is Fault.CUT:
            self._hang_up()
        elif fault in REFUSALS and fault is not Fault.TIMED_OUT:
            self._refuse(fault)
        elif verb == WATCH:
            self._relay_watch(fault)
        else:
            self._relay(body, fault)

    def _forward(self, body: bytes) -> http.client.HTTPResponse:
        self.upstream.putrequest(self.command, self.path, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOPS:
                self.upstream.putheader(name, value)
        self.upstream.putheader("Authorization", f"Bearer {self.weather.token}")
        self.upstream.endheaders(body or None)
        return self.upstream.getresponse()

    def _relay(self, body: bytes, fault: Fault | None) -> None:
        reply = self._forward(body)
        content = reply.read()
        if fault is Fault.LOST:
            self._hang_up()
        elif fault is Fault.TIMED_OUT:
            self._refuse(fault)
        else:
            self.weather.pause(SLOW_SECONDS if fault is Fault.SLOW else 0)
            self._send(reply, content, len(content) // 2 if fault is Fault.HALF else None)

    def _send(self, reply: http.client.HTTPResponse, content: bytes, cut: int | None) -> None:
        self._send_head(reply, ("Content-Length", str(len(content))))
        self.wfile.write(content[:cut])
        if cut is not None:
            self._hang_up()

    def _send_head(self, reply: http.client.HTTPResponse, length: tuple[str, str]) -> None:
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in (*HOPS, "content-length", "date"):
                self.send_header(name, value)
        self.send_header(*length)
        self.end_headers()

    def _relay_watch(self, fault: Fault | None) -> None:
        reply = self._forward(b"")
        if reply.status != http.HTTPStatus.OK:
            self._send(reply, reply.read(), None)
            return
        self.weather.watching(self.connection, begins=True)
        try:
            self._send_head(reply, ("Transfer-Encoding", "chunked"))
            for line in self._lines(reply, fault):
                if self.weather.is_hushed(self.connection):
                    break
                if self.weather.omits(self.connection, line):
                    continue
                self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            if self.weather.is_hushed(self.connection):
                self.connection.recv(1)  # until the other side hangs up; it sends nothing
            else:
                self.wfile.write(b"0\r\n\r\n")
        finally:
            self.weather.watching(self.connection, begins=False)
            self.close_connection = True

    def _lines(self, reply: http.client.HTTPResponse, fault: Fault | None) -> Iterator[bytes]:
        told = -SECONDS
        for number, line in enumerate(iter(reply.readline, b"")):
            if fault is Fault.HALF and number:
                yield line[: len(line) // 2]
                self._hang_up()
                return
            if fault is Fault.EXPIRED_LATER and number:
                yield json.dumps({"type": "ERROR", "object": _status(Fault.EXPIRED)}).encode() + b"\n"
                return
            if fault is Fault.STALE and time.monotonic() - told > BURST_SECONDS:
                self.weather.pause(STALE_SECONDS)
                told = time.monotonic()
            yield line

    def _refuse(self, fault: Fault) -> None:
        content = json.dumps(_status(fault)).encode()
        self.send_response(REFUSALS[fault][0])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if fault is Fault.TOO_MANY:
            self.send_header("Retry-After", self.weather.retry_after)
        self.end_headers()
        self.wfile.write(content)

    def _hang_up(self) -> None:
        self.close_connection = True
        hang_up(self.connection)


def _status(fault: Fault) -> dict[str, Any]:
    code, reason, message = REFUSALS[fault]
    value = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return value | {"code": code, "reason": reason, "message": message}


def hang_up(connection: socket.socket) -> None:
    """End a connection, whatever others do with it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
