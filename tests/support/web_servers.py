"""Web servers for tests, which record their requests: of files in memory, with odd responses, with faults.

Faults are what a real server cannot produce on demand: any status and headers, redirects, bodies that are cut (once or
for ever), come byte by byte, never end, or have another length than was said, and ranges that are not what was asked
for. Alone: `python -m tests.support.web_servers` serves one file until interrupted.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class FileServer:
    """Serves on a free port of 127.0.0.1.

    Attributes:
        address: `http://127.0.0.1:PORT`.
        files: bodies by path; may be changed at any time.
        requested: paths in the order in which they were asked for.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requested: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[FileServer]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requested.append(self.path)
                body = outer.files.get(self.path)
                self.send_response(HTTPStatus.NOT_FOUND if body is None else HTTPStatus.OK)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
                pass

        return Handler


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
        self._server = QuietServer(("127.0.0.1", 0), type("Handler", (_OddHandler,), {"server_of_the_test": self}))
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


class _OddHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the client acknowledges a head that comes alone 40 ms later
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


_PIECE = 64 * 1024


@dataclass
class File:
    """A file, and the faults when it is requested."""

    body: bytes = b""
    tag: str = ""
    """ETag, with its quotes."""
    modified: str = ""
    """Last-Modified."""
    authorization: str = ""
    """The required Authorization header; '' for none."""
    status: int = 0
    times: int = 1_000_000
    """How many requests get that status; later ones succeed."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers to add or replace."""
    redirect: str = ""
    """URL that is redirected to."""
    cuts: list[int] = field(default_factory=list)
    """The connection ends after this many bytes of a body, one entry for each response."""
    trickle: bool = False
    """The body is sent byte by byte, slowly and without end."""
    endless: bool = False
    """The body is repeated without end, and without a Content-Length."""
    has_ranges: bool = True
    answers_ranges_with: tuple[int, str] | None = None
    """Status and Content-Range whatever was asked for; the body is the right one."""


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]


class FaultyServer:
    """Serves on a free loopback port inside `with`.

    Args:
        tls: of the server; None for plain http.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.files: dict[str, File] = {}
        """By path without query."""
        self.requests: list[Seen] = []
        self._stop = threading.Event()
        self._server = QuietServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"server_of_files": self}))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.address = f"{'https' if tls else 'http'}://{self.host}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()

    def add(self, path: str, body: bytes = b"", **options: object) -> File:
        """Serve a file at a path; replaces the one that was there."""
        self.files[path] = File(body=body, **options)  # type: ignore[arg-type]
        return self.files[path]

    def sent(self, header: str) -> list[str | None]:
        """Return the values of a header in the requests so far."""
        return [seen.headers.get(header) for seen in self.requests]

    # what it answers

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests.append(Seen(request.command, request.path, dict(request.headers)))
        file = self.files.get(request.path.partition("?")[0])
        if file is None:
            self._send(request, 404, File())
        elif file.authorization and request.headers.get("Authorization") != file.authorization:
            self._send(request, 401, File(headers={"WWW-Authenticate": 'Basic realm="files"'}))
        elif file.redirect:
            self._send(request, 302, File(headers={"Location": file.redirect}))
        elif file.status and file.times > 0:
            file.times -= 1
            self._send(request, file.status, File(headers=file.headers))
        elif _is_unchanged(request, file):
            self._send(request, 304, File(tag=file.tag, modified=file.modified))
        else:
            self._send_part(request, file)

    def _send_part(self, request: BaseHTTPRequestHandler, file: File) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        is_same = request.headers.get("If-Range", file.tag) == file.tag
        if not (wanted and is_same and file.has_ranges):
            self._send(request, 200, file)
            return
        start, total = int(wanted[1]), len(file.body)
        status, part = (206, f"bytes {start}-{total - 1}/{total}") if start < total else (416, f"bytes */{total}")
        status, part = file.answers_ranges_with or (status, part)
        self._send(request, status, file, {"Content-Range": part}, start)

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        file: File,
        headers: Mapping[str, str] | None = None,
        start: int = 0,
    ) -> None:
        body = file.body[start:]
        told = {"ETag": file.tag, "Last-Modified": file.modified}
        if not file.endless and status != 304:
            told["Content-Length"] = str(len(body))
        request.send_response(status)
        for name, value in {**told, **(headers or {}), **file.headers}.items():
            if value:
                request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD" and status != 304:
            with suppress(OSError):  # clients of these tests hang up in the middle of a body
                self._write(request, body, file)
        if file.endless or "Content-Length" in file.headers:
            request.close_connection = True

    def _write(self, request: BaseHTTPRequestHandler, body: bytes, file: File) -> None:
        if file.cuts:
            body = body[: file.cuts.pop(0)]
            request.close_connection = True
        for piece in self._pieces(body, file):
            request.wfile.write(piece)

    def _pieces(self, body: bytes, file: File) -> Iterator[bytes]:
        if file.trickle:
            for byte in body:
                yield bytes((byte,))
                if self._stop.wait(0.05):
                    return
        yield from () if file.trickle else _split(body)
        while file.endless and not self._stop.is_set():
            yield from _split(body)


def _split(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]


def _is_unchanged(request: BaseHTTPRequestHandler, file: File) -> bool:
    if (tag := request.headers.get("If-None-Match")) is not None:
        return bool(file.tag) and tag == file.tag
    since = request.headers.get("If-Modified-Since")
    return bool(file.modified) and since == file.modified


class QuietServer(ThreadingHTTPServer):
    """Ends with its process, and says nothing about clients that hang up or do not like its certificate."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._connections: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """End also the connections that clients keep open, and thereby their threads."""
        super().server_close()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """Log nothing: clients of these tests hang up in the middle of a body."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the client acknowledges a head that comes alone 40 ms later
    server_of_files: FaultyServer

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self.server_of_files.answer(self)

    do_HEAD = do_GET  # noqa: N815 - http.server's name


if __name__ == "__main__":
    with FaultyServer() as server:
        server.add("/configmap.yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: served}\n", tag='"1"')
        print(f"serving {server.address}/configmap.yaml until interrupted")
        threading.Event().wait()
