"""Replies: read as a whole, or line by line over minutes, as for a watch.

Chunks do not end at line ends, so lines are assembled, up to a limit. `close` shuts the socket down, which wakes a
reader on another thread: closing the reply instead would wait for that reader.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import urllib3

from controller.kube.encoding import decode, parse_warnings
from controller.kube.errors import ApiError, unanswered

LINE_BYTES = 16 << 20
SEGMENT_BYTES = 64 << 10
TOO_LARGE = "TooLarge"
"""Reason of the error for a reply that exceeds a limit."""


@dataclass(frozen=True, slots=True)
class Response:
    """A reply with 2xx, or 304 to a conditional request."""

    status: int
    value: Any
    """The body; None if it is empty."""
    warnings: tuple[str, ...]
    headers: Mapping[str, str]


def read_whole(reply: urllib3.BaseHTTPResponse, max_bytes: int | None = None) -> Response:
    """Read a reply to its end, and release its connection.

    Raises: ApiError, with reason TOO_LARGE after `max_bytes`.
    """
    try:
        data = reply.read(None if max_bytes is None else max_bytes + 1)
        if max_bytes is not None and len(data) > max_bytes:
            reply.close()  # do not wait for the rest
            raise ApiError(0, TOO_LARGE, f"the reply is larger than {max_bytes} bytes")
    except (urllib3.exceptions.HTTPError, OSError) as error:
        reply.close()
        raise unanswered(error) from error
    finally:
        reply.release_conn()
    try:
        value = decode(data) if data else None
    except ValueError:
        raise ApiError(0, "NotUnderstood", "the reply of the API server is not JSON") from None
    return Response(reply.status, value, parse_warnings(reply.headers.getlist("Warning")), reply.headers)


class LineStream:
    """The lines of one reply. One thread iterates; any may call `close`.

    Args:
        silence: seconds without a byte after which the peer counts as lost.
    """

    def __init__(self, reply: urllib3.BaseHTTPResponse, silence: float, line_bytes: int = LINE_BYTES) -> None:
        self._reply = reply
        self._line_bytes = line_bytes
        self._closed = False
        self._socket: socket.socket | None = getattr(reply.connection, "sock", None)
        self.set_silence(silence)

    def set_silence(self, seconds: float) -> None:
        """Set the seconds without a byte after which the peer counts as lost."""
        if self._socket is not None:
            with contextlib.suppress(OSError):  # closed meanwhile: the reader notices
                self._socket.settimeout(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        self._reply.close()  # unread data makes the connection unusable
        self._reply.release_conn()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines that are not empty until the reply ends or is closed.

        Raises: ApiError if the connection is lost, or a line exceeds the limit.
        """
        try:
            yield from self._lines()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if not self._closed:
                raise unanswered(error) from error

    def _lines(self) -> Iterator[bytes]:
        rest = bytearray()
        for segment in self._reply.stream(SEGMENT_BYTES, decode_content=True):
            rest += segment
            if b"\n" not in segment:
                self._check(rest)
                continue
            *lines, last = rest.split(b"\n")
            rest = last
            for line in lines:
                self._check(line)
                if line and not self._closed:
                    yield bytes(line)

    def _check(self, line: bytearray) -> None:
        if len(line) > self._line_bytes:
            raise ApiError(0, TOO_LARGE, f"an event is larger than {self._line_bytes} bytes")

    def close(self) -> None:
        """End the stream, also for a waiting reader; returns immediately."""
        self._closed = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
