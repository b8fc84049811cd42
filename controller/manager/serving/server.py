"""The listeners for probes and metrics: small, bounded, and none of them ever holds up a pass.

Each has a thread that accepts and does nothing else, and one for each connection; neither can shut the other out. A
connection is one request, and over when its time is, however slowly the peer speaks, shakes hands or reads.

Not here: what is served (routes.py) and to whom (reviews.py), reading and writing within limits (connection.py), who
may stay connected (connection_limiter.py).
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

from controller.manager.serving.connection import Connection
from controller.manager.serving.connection_limiter import ConnectionLimiter, ConnectionLimits
from controller.processes.supervision import Kind, Supervisor

log = logging.getLogger(__name__)

PROBES = ConnectionLimits(total=64, per_peer=16)
METRICS = ConnectionLimits(total=32, per_peer=8)
BACKLOG = 128
PAUSE_SECONDS = 0.1
"""After what could not be accepted, as when there is no file descriptor left."""
TEXT = "text/plain; charset=utf-8"


class ListenError(OSError):
    """An address cannot be listened on; the message is one line."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


Route = Callable[[], Reply]
Review = Callable[[str, str, str], HTTPStatus]
"""Gets a bearer token, a path and the address of the peer; returns 200 if whoever has the token may see the path."""


class Server:
    """Listens from the moment it is made, and answers from `start` on.

    Args:
        flag: of the option that the address comes from.
        address: host, empty for every address, and port, 0 for a free one.
        routes: what is served, by path.
        limits: how many may be connected.
        supervisor: keeps the thread alive that accepts.
        context: what TLS needs; None: plain http.
        review: who may see it; None: everybody.

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
        self._limiter: ConnectionLimiter[Connection] = ConnectionLimiter(limits)
        self._stopping = False
        self._socket = _listen(flag, *address)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Begin to answer."""
        self._supervisor.thread(Kind.SERVER, f"server {self._flag}", self._accept_all).start()
        host = str(self._socket.getsockname()[0])
        shown = f"[{host}]" if ":" in host else host
        log.info("listening", extra={"option": self._flag, "address": f"{self._scheme}://{shown}:{self.port}"})

    def stop(self) -> None:
        """Listen no longer."""
        self._stopping = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()

    def _accept_all(self) -> None:
        while not self._stopping:
            try:
                accepted, peer = self._socket.accept()
            except OSError:
                if not self._stopping:
                    time.sleep(PAUSE_SECONDS)
                continue
            self._admit(Connection(accepted, str(peer[0])))

    def _admit(self, connection: Connection) -> None:
        is_admitted, evicted = self._limiter.admit(connection, connection.peer)
        if evicted:
            evicted.cut()
        try:
            if is_admitted:
                name = f"connection {self._flag}"
                threading.Thread(target=self._serve, args=(connection,), name=name, daemon=True).start()
                return
        except RuntimeError:  # no thread can be started
            self._limiter.release(connection)
        connection.close()

    def _serve(self, connection: Connection) -> None:
        try:
            if self._context:
                connection.start_tls(self._context())
            _Handler(connection, self._answer)
        except OSError:
            pass  # ssl.SSLError is one: who goes away, or is late, is not worth a line
        except Exception as error:  # noqa: BLE001 - noted; the next one is answered
            self._supervisor.note(Kind.SERVER, f"connection {self._flag}", error)
        finally:
            self._limiter.release(connection)
            connection.close()

    def _answer(self, connection: Connection, path: str, token: str) -> Reply:
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
            log.exception("request not answered", extra={"path": path})
            return Reply(HTTPStatus.INTERNAL_SERVER_ERROR, b"see the log\n")


def _listen(flag: str, host: str, port: int) -> socket.socket:
    """Return a socket that listens: at an empty host on every address, of both families where there are both."""
    is_dual = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_dual or ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=is_dual)
    except (OSError, UnicodeError) as error:
        is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = "the port is in use" if is_taken else _first_words(error)
        raise ListenError(f"{flag} {host}:{port}: {why}; choose another address, or off") from error


def _first_words(error: Exception) -> str:
    """Return what the operating system says, without the address that the library adds."""
    return (getattr(error, "strerror", None) or f"{error}").partition(" (while")[0]


class _Handler(BaseHTTPRequestHandler):
    """Reads one request and sends its answer."""

    protocol_version = "HTTP/1.1"
    server_version = "rukpak"
    sys_version = ""

    def __init__(self, connection: Connection, answer: Callable[[Connection, str, str], Reply]) -> None:
        self._peer, self._find_answer = connection, answer
        self._body = b""
        self.rfile, self.wfile = io.BufferedReader(connection), io.BytesIO()
        self.handle_one_request()
        connection.send(self.wfile.getvalue())
        connection.send(self._body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        pass

    def do_GET(self) -> None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        answer = self._find_answer(self._peer, urlsplit(self.path).path, bearer)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")
        if answer.status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        if self.command != "HEAD":
            self._body = answer.body

    do_HEAD = do_GET  # noqa: N815 - as it is called
