"""The listeners for probes and metrics: small, limited, and never a delay for passes.

Each listener has a thread that only accepts, and a thread for each connection. A connection is one request and ends by
its deadline, however slowly the peer negotiates, sends or reads.

Not here: what is served (metrics.py, probes.py) and to whom (reviews.py), limits on reading and writing
(connection.py), which connections are kept (connection_limiter.py).
"""

from __future__ import annotations

import errno
import io
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from controller.manager.serving.connection import ConnectionLimiter, ConnectionLimits, PeerConnection
from controller.processes.supervision import Kind, Supervisor

log = logging.getLogger(__name__)

PROBES = ConnectionLimits(total=64, per_peer=16)
METRICS = ConnectionLimits(total=32, per_peer=8)
BACKLOG = 128
PAUSE_SECONDS = 0.1
"""After a connection that could not be accepted, for lack of file descriptors for example."""
TEXT = "text/plain; charset=utf-8"


class ListenError(OSError):
    """An address cannot be listened on; the message is one line."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


Route = Callable[[], Reply]
Review = Callable[[str, str, str], HTTPStatus]
"""Takes a bearer token, a path and the address of the peer; returns 200 if the owner of the token may get the path."""


class Server:
    """Listens from construction on, and replies after `start`.

    The address is that of the option `flag`: an empty host is all addresses, port 0 a free one. Without a context it
    serves plain http, without a review to everyone.

    Raises: ListenError.
    """

    def __init__(
        self,
        flag: str,
        address: tuple[str, int],
        routes: Mapping[str, Route],
        *,
        limits: ConnectionLimits,
        supervisor: Supervisor,
        context: Callable[[], ssl.SSLContext] | None = None,
        review: Review | None = None,
    ) -> None:
        self._flag, self._scheme = flag, "https" if context else "http"
        self._routes, self._review, self._context = routes, review, context
        self._supervisor = supervisor
        self._limiter: ConnectionLimiter[PeerConnection] = ConnectionLimiter(limits)
        self._stopping = False
        self._socket = _listen(flag, *address)

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
            if self._context:
                connection.start_tls(self._context())
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
        status = self._review(token, path, connection.peer) if self._review else HTTPStatus.OK
        if status is HTTPStatus.OK and path not in self._routes:
            status = HTTPStatus.NOT_FOUND
        if status is not HTTPStatus.OK:
            return Reply(status, f"{status.phrase}\n".encode())
        try:
            return self._routes[path]()
        except Exception:
            log.exception("failed to handle a request", extra={"path": path})
            return Reply(HTTPStatus.INTERNAL_SERVER_ERROR, b"internal error, see the log of the controller\n")


def _listen(flag: str, host: str, port: int) -> socket.socket:
    """Return a listening socket; an empty host is all addresses, of IPv4 and IPv6 where both exist."""
    is_dual = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_dual or ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=is_dual)
    except (OSError, UnicodeError) as error:
        is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "the port is in use" if is_taken else _first_words(error)
        raise ListenError(f"{flag} {host}:{port}: {why}; choose another address or off") from error


def _first_words(error: Exception) -> str:
    """Return the error of the operating system, without the address that the library appends."""
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
