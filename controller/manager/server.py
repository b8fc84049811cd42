"""The listeners for probes and metrics: small, bounded, and none of them ever holds up a pass.

Plain http, or https with the handshake on the thread of the connection and under a timeout: in the library's own server
one idle connection stops every scrape. Not here: what is served (metrics.py, probes.py), who may see it (reviews.py).
"""

from __future__ import annotations

import errno
import logging
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

CONNECTIONS = 32
"""At the same time: better a refused scrape than a thread for each connection."""
SILENCE_SECONDS = 10.0
TEXT = "text/plain; charset=utf-8"


class ListenError(OSError):
    """An address cannot be listened on; the message is one line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


Route = Callable[[], Answer]
Review = Callable[[str, str], HTTPStatus]
"""Gets a bearer token and a path; returns 200 if whoever has it may see it."""


class Server:
    """Listens from the moment it is made, and answers from `start` on.

    Args:
        flag: of the option that the address comes from.
        address: host, empty for every address, and port, 0 for a free one.
        routes: what is served, by path.
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
        context: Callable[[], ssl.SSLContext] | None = None,
        review: Review | None = None,
    ) -> None:
        host, port = address
        try:
            self._listener = _Listener(host, port, routes, context, review)
        except (OSError, UnicodeError) as error:
            is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            why = "the port is in use" if is_taken else getattr(error, "strerror", None) or f"{error}"
            raise ListenError(f"{flag} {host}:{port}: {why}; choose another address, or off") from error
        self._flag, self._scheme = flag, "https" if context else "http"

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._listener.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        threading.Thread(target=self._listener.serve_forever, name=f"server {self._flag}", daemon=True).start()
        host = str(self._listener.server_address[0])
        shown = f"[{host}]" if ":" in host else host
        log.info("listening", extra={"option": self._flag, "address": f"{self._scheme}://{shown}:{self.port}"})

    def stop(self) -> None:
        """Listen no longer."""
        self._listener.shutdown()
        self._listener.server_close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        host: str,
        port: int,
        routes: Mapping[str, Route],
        context: Callable[[], ssl.SSLContext] | None,
        review: Review | None,
    ) -> None:
        self.routes, self.review = routes, review
        self._context = context
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._is_dual = not host and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if self._is_dual or ":" in host else socket.AF_INET
        super().__init__(("::" if self._is_dual else host, port), _Handler)

    def server_bind(self) -> None:
        """Bind, without asking the name service for the name of the host, as HTTPServer does."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not self._is_dual)
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            request.settimeout(SILENCE_SECONDS)
            if self._context:
                request = self._context().wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except OSError:  # ssl.SSLError is one: no handshake
            request.close()
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that went away is not worth a traceback."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"
    server_version = "rukpak"
    sys_version = ""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        pass

    def do_GET(self) -> None:
        answer = self._answer(urlsplit(self.path).path)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if answer.status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_HEAD = do_GET  # noqa: N815 - as it is called

    def _answer(self, path: str) -> Answer:
        status = self._review(path)
        if status is HTTPStatus.OK and path not in self.server.routes:
            status = HTTPStatus.NOT_FOUND
        if status is not HTTPStatus.OK:
            return Answer(status, f"{status.phrase}\n".encode())
        try:
            return self.server.routes[path]()
        except Exception:
            log.exception("request not answered", extra={"path": path})
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"see the log\n")

    def _review(self, path: str) -> HTTPStatus:
        if self.server.review is None:
            return HTTPStatus.OK
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return self.server.review(token.strip() if scheme.lower() == "bearer" else "", path)
