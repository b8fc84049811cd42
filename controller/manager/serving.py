"""The listeners for probes and metrics: small, limited, and never a delay for passes.

Each listener has a thread that only accepts, and a thread for each connection. A connection is one request with a head
of limited size, and has one deadline for handshake, reading and writing, however slowly the peer is. When a limit is
reached, a new connection replaces the one that has been silent for the longest time: of the same peer if that has
reached its own limit. A connection whose request has arrived is never closed for another.

The API server authorizes requests for metrics. As in controller-runtime: a TokenReview, then a SubjectAccessReview for
`get` on the path. Verdicts are cached briefly by the digest of the token, so that frequent scrapes cost two requests a
minute. A client that sends one unknown token after another costs the API server only a few requests per second, and
does not delay clients admitted before: unknown tokens are limited by peer and in total, with a cache and concurrency of
their own.
"""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import socket
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.processes.supervision import Kind, Supervisor

ConnectionT = TypeVar("ConnectionT")
REQUEST_SECONDS = 10.0
"""From accepting a connection to sending the last byte of the response."""
HEAD_BYTES = 32 << 10
"""Limit of request line and headers; tokens have a few KiB."""
log = logging.getLogger(__name__)
BACKLOG = 128
PAUSE_SECONDS = 0.1
"""After a connection that could not be accepted, for lack of file descriptors for example."""
TEXT = "text/plain; charset=utf-8"
Review = Callable[[str, str, str], HTTPStatus]
"""Takes a bearer token, a path and the address of the peer; returns 200 if the owner of the token may get the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Numbers of simultaneous connections."""

    total: int
    per_peer: int
    """Connections of one address. A kubelet has one short connection for each running probe, so two."""


class ConnectionLimiter(Generic[ConnectionT]):
    """Thread-safe."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._peers: dict[ConnectionT, str] = {}
        """Of admitted connections, the oldest first."""
        self._silent: set[ConnectionT] = set()
        self._lock = threading.Lock()

    def admit(self, connection: ConnectionT, peer: str) -> tuple[bool, ConnectionT | None]:
        """Admit a new connection; return whether there was room, and the connection to close for it, if any."""
        with self._lock:
            of_peer = [each for each, other in self._peers.items() if other == peer]
            evicted: ConnectionT | None = None
            if len(of_peer) >= self._limits.per_peer or len(self._peers) >= self._limits.total:
                rivals = of_peer if len(of_peer) >= self._limits.per_peer else self._peers
                evicted = next((each for each in rivals if each in self._silent), None)
                if evicted is None:
                    return False, None
                self._forget(evicted)
            self._peers[connection] = peer
            self._silent.add(connection)
            return True, evicted

    def mark_heard(self, connection: ConnectionT) -> bool:
        """Note that the request of a connection has arrived; return whether the connection is still admitted."""
        with self._lock:
            self._silent.discard(connection)
            return connection in self._peers

    def release(self, connection: ConnectionT) -> None:
        """Remove a connection, if it is still admitted."""
        with self._lock:
            self._forget(connection)

    def _forget(self, connection: ConnectionT) -> None:
        self._peers.pop(connection, None)
        self._silent.discard(connection)


class PeerConnection(io.RawIOBase):
    """A readable stream of what a peer sends, and a way to reply to it."""

    def __init__(self, accepted: socket.socket, peer: str) -> None:
        self.peer = peer
        self._socket = accepted
        self._deadline = time.monotonic() + REQUEST_SECONDS
        self._left = HEAD_BYTES
        self._lock = threading.Lock()

    def start_tls(self, context: ssl.SSLContext) -> None:
        """Negotiate TLS.

        Raises: OSError.
        """
        with self._lock:
            self._socket = context.wrap_socket(self._socket, server_side=True, do_handshake_on_connect=False)
        self._limit_time()
        self._socket.do_handshake()

    def _limit_time(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def readable(self) -> bool:
        """Return True, for BufferedReader."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read up to the limit of the head.

        Raises: OSError; ConnectionAbortedError beyond the limit.
        """
        if not self._left:
            raise ConnectionAbortedError
        self._limit_time()
        count = self._socket.recv_into(buffer, min(len(buffer), self._left))
        self._left -= count
        return count

    def send(self, data: bytes) -> None:
        """Send all data.

        Raises: OSError.
        """
        rest = memoryview(data)
        while rest:
            self._limit_time()
            rest = rest[self._socket.send(rest) :]

    def cut(self) -> None:
        """End the connection from another thread; reads and writes under way fail."""
        with self._lock, suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # a TLS socket's own method would only unwrap it

    def close(self) -> None:
        """Close the connection after the data sent has been delivered."""
        with self._lock, suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_WR)
        with self._lock:
            self._socket.close()


PROBES = ConnectionLimits(total=64, per_peer=16)
METRICS = ConnectionLimits(total=32, per_peer=8)


class ListenError(OSError):
    """An address cannot be listened on; the message is one line."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


Route = Callable[[], Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """How a server protects what it serves."""

    context: Callable[[], ssl.SSLContext] | None = None
    """Returns the TLS settings of a new connection; None: plain http."""
    review: Review | None = None
    """Who may read what; None: everyone."""
    limits: ConnectionLimits


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    flag: str
    """The option that says it."""
    host: str
    """Empty: all addresses."""
    port: int
    """0: a free one."""


class Server:
    """Listens from construction on, and replies after `start`.

    Raises: ListenError.
    """

    def __init__(
        self, address: Address, routes: Mapping[str, Route], protection: Protection, supervisor: Supervisor
    ) -> None:
        self._flag, self._scheme = address.flag, "https" if protection.context else "http"
        self._routes, self._protection = routes, protection
        self._supervisor = supervisor
        self._limiter: ConnectionLimiter[PeerConnection] = ConnectionLimiter(protection.limits)
        self._stopping = False
        self._socket = _listen(address)

    @property
    def port(self) -> int:
        """The port, also where 0 was given."""
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Start to reply."""
        self._supervisor.thread(Kind.SERVER, f"server {self._flag}", self._accept_all).start()
        host = str(self._socket.getsockname()[0])
        shown = f"[{host}]" if ":" in host else host
        log.info("listening", extra={"option": self._flag, "address": f"{self._scheme}://{shown}:{self.port}"})

    def stop(self) -> None:
        """Stop listening."""
        self._stopping = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        self._socket.close()

    def _accept_all(self) -> None:
        while not self._stopping:
            try:
                accepted, peer = self._socket.accept()
            except OSError:
                if not self._stopping:
                    time.sleep(PAUSE_SECONDS)
                continue
            self._admit(PeerConnection(accepted, str(peer[0])))

    def _admit(self, connection: PeerConnection) -> None:
        is_admitted, evicted = self._limiter.admit(connection, connection.peer)
        if evicted:
            evicted.cut()
        try:
            if is_admitted:
                name = f"connection {self._flag}"
                threading.Thread(target=self._serve, args=(connection,), name=name, daemon=True).start()
                return
        except RuntimeError:  # cannot start a thread
            self._limiter.release(connection)
        connection.close()

    def _serve(self, connection: PeerConnection) -> None:
        try:
            if self._protection.context:
                connection.start_tls(self._protection.context())
            _Handler(connection, self._reply)
        except OSError:
            pass  # such as ssl.SSLError: a peer that disconnects or is too slow is not worth a log line
        except Exception as error:  # noqa: BLE001 - reported as a bug
            self._supervisor.note(Kind.SERVER, f"connection {self._flag}", error)
        finally:
            self._limiter.release(connection)
            connection.close()

    def _reply(self, connection: PeerConnection, path: str, token: str) -> Reply:
        if not self._limiter.mark_heard(connection):
            raise ConnectionAbortedError
        review = self._protection.review
        status = review(token, path, connection.peer) if review else HTTPStatus.OK
        if status is HTTPStatus.OK and path not in self._routes:
            status = HTTPStatus.NOT_FOUND
        if status is not HTTPStatus.OK:
            return Reply(status, f"{status.phrase}\n".encode())
        try:
            return self._routes[path]()
        except Exception:
            log.exception("failed to handle a request", extra={"path": path})
            return Reply(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error, see the log of the controller\n")


def _listen(address: Address) -> socket.socket:
    # An empty host is all addresses, of IPv4 and IPv6 where both exist.
    host, port = address.host, address.port
    is_dual = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_dual or ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=is_dual)
    except (OSError, UnicodeError) as error:
        is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "the port is in use" if is_taken else _first_words(error)
        raise ListenError(f"{address.flag} {host}:{port}: {why}; choose another address or off") from error


def _first_words(error: Exception) -> str:
    # The library appends the address.
    return (getattr(error, "strerror", None) or f"{error}").partition(" (while")[0]


class _Handler(BaseHTTPRequestHandler):
    """Reads one request and sends the response."""

    protocol_version = "HTTP/1.1"
    server_version = "rukpak"
    sys_version = ""

    def __init__(self, connection: PeerConnection, find_reply: Callable[[PeerConnection, str, str], Reply]) -> None:
        self._peer, self._find_reply = connection, find_reply
        self._body = b""
        self.rfile, self.wfile = io.BufferedReader(connection), io.BytesIO()
        self.handle_one_request()
        connection.send(self.wfile.getvalue())
        connection.send(self._body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - overridden
        """Log nothing: clients could fill the log."""

    def do_GET(self) -> None:
        """Write the response."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        reply = self._find_reply(self._peer, urlsplit(self.path).path, bearer)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Connection", "close")
        if reply.status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        if self.command != "HEAD":
            self._body = reply.body

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls


_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")
VERDICT_SECONDS = {HTTPStatus.OK: 60.0, HTTPStatus.UNAUTHORIZED: 10.0, HTTPStatus.FORBIDDEN: 10.0}
KEPT_VERDICTS = 256
CONCURRENT_REVIEWS = 2
"""Simultaneous reviews of unknown tokens, and as many of tokens admitted before."""
PER_PEER, IN_TOTAL = (1.0, 5), (5.0, 20)
"""Reviews of unknown tokens: rate per second, and burst."""
TOKEN_CHARACTERS = 16 << 10
REVIEW_TIMEOUT = (2.0, 5.0)
Key = tuple[str, str]
"""Digest of a token, and a path."""
Verdict = tuple[HTTPStatus, float]
"""A status, and until when it is valid."""


class Allowance:
    """A token bucket for each key, with a rate per second and a burst. Not thread-safe."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> bool:
        """Take a token; return whether there was one."""
        now = self._clock()
        tokens, since = self._left.pop(key, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        is_left = tokens >= 1
        _keep(self._left, key, (tokens - is_left, now))
        return is_left


class Reviewer:
    """Thread-safe. The client must not be fenced: reviews are POSTs, and standbys are scraped, too."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._admitted: OrderedDict[Key, Verdict] = OrderedDict()
        self._refused: OrderedDict[Key, Verdict] = OrderedDict()
        self._per_peer, self._in_total = Allowance(*PER_PEER, clock), Allowance(*IN_TOTAL, clock)
        self._slots = {is_known: threading.BoundedSemaphore(CONCURRENT_REVIEWS) for is_known in (True, False)}
        self._lock = threading.Lock()

    def review(self, token: str, path: str, peer: str) -> HTTPStatus:
        """Return whether the owner of a token may get a path.

        Args:
            token: empty if there is none.
            path: of the request.
            peer: address of the client.

        Returns: 200, 401 or 403; 429 after too many unknown tokens; 503 if the API server cannot decide.
        """
        if not token or len(token) > TOKEN_CHARACTERS:
            return HTTPStatus.UNAUTHORIZED
        key = (hashlib.sha256(token.encode()).hexdigest(), path)
        with self._lock:
            is_known = key in self._admitted
            status, until = self._admitted.get(key) or self._refused.get(key) or (HTTPStatus.OK, 0.0)
            if self._clock() < until:
                return status
            if not is_known and not (self._per_peer.take(peer) and self._in_total.take("")):
                return HTTPStatus.TOO_MANY_REQUESTS
        if not self._slots[is_known].acquire(blocking=False):
            return HTTPStatus.TOO_MANY_REQUESTS
        try:
            return self._request_and_keep(key, token)
        finally:
            self._slots[is_known].release()

    def _request_and_keep(self, key: Key, token: str) -> HTTPStatus:
        try:
            status = self._request(token, key[1])
        except ApiError as error:
            log.warning("failed to authorize a metrics request", extra={"reply": str(error)})
            return HTTPStatus.SERVICE_UNAVAILABLE
        with self._lock:
            self._admitted.pop(key, None)
            self._refused.pop(key, None)
            kept = self._admitted if status is HTTPStatus.OK else self._refused
            _keep(kept, key, (status, self._clock() + VERDICT_SECONDS[status]))
        return status

    def _request(self, token: str, path: str) -> HTTPStatus:
        identity = self._post("authentication.k8s.io/v1", "TokenReview", {"token": token})
        if not identity.get("authenticated"):
            return HTTPStatus.UNAUTHORIZED
        user = identity.get("user") or {}
        access = {
            "user": user.get("username", ""),
            **{key: user[key] for key in ("uid", "groups", "extra") if user.get(key)},
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        review = self._post("authorization.k8s.io/v1", "SubjectAccessReview", access)
        return HTTPStatus.OK if review.get("allowed") else HTTPStatus.FORBIDDEN

    def _post(self, api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        path = f"/apis/{api_version}/{kind.lower()}s"
        body = {"apiVersion": api_version, "kind": kind, "spec": spec}
        value: dict[str, Any] = self._client.request("POST", path, body=body, timeout=REVIEW_TIMEOUT).value
        return value.get("status") or {}


def _keep(known: OrderedDict[_KeyT, _ValueT], key: _KeyT, value: _ValueT) -> None:
    known[key] = value
    if len(known) > KEPT_VERDICTS:
        known.popitem(last=False)
