"""A web server whose responses a test writes itself, down to the bytes of headers and how a body ends."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Framing(Enum):
    """How a client learns where a body ends (RFC 9112, section 6)."""

    LENGTH = "Content-Length"
    CHUNKED = "Transfer-Encoding"
    CLOSE = "the end of the connection"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]

    @property
    def place(self) -> str:
        """The path without its query."""
        return self.path.partition("?")[0]


@dataclass(kw_only=True)
class Reply:
    """A response."""

    status: int = 200
    headers: dict[str, str | bytes] = field(default_factory=dict)
    body: bytes = b""
    framing: Framing = Framing.LENGTH


Answer = Callable[[Asked], Reply]


class OddServer:
    """Serves on a free loopback port inside `with`.

    Args:
        answer: called for each request.
        tls: of the server; None for plain http.
    """

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Asked] = []
        self._answer = answer
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"server_of_the_test": self}))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"{'https' if tls else 'http'}://{self.host}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, asked: Asked) -> Reply:
        self.requests.append(asked)
        return self._answer(asked)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_the_test: OddServer

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = self.server_of_the_test.reply(Asked(method=self.command, path=self.path, headers=dict(self.headers)))
        headers: dict[str, str | bytes] = {**reply.headers}
        body = reply.body
        if reply.framing is Framing.LENGTH:
            headers["Content-Length"] = str(len(body))
        elif reply.framing is Framing.CHUNKED:
            headers["Transfer-Encoding"] = "chunked"
            body = (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
        else:
            headers["Connection"] = "close"
            self.close_connection = True
        lines = [f"HTTP/1.1 {reply.status} Odd".encode()]
        lines += [name.encode() + b": " + _bytes(value) for name, value in headers.items()]
        self.wfile.write(b"\r\n".join([*lines, b"", b""]))
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_GET  # noqa: N815 - http.server's names


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")
