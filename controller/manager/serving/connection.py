"""One connection: a bounded head of a request, and all that is read, written and negotiated ends by one deadline."""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any

REQUEST_SECONDS = 10.0
"""From when a connection is accepted until the last byte of the answer is sent."""
HEAD_BYTES = 32 << 10
"""Of request line and headers: tokens are a few KiB."""


class Connection(io.RawIOBase):
    """One peer: what it sends is a stream, and all that is read, written and negotiated ends by one deadline."""

    def __init__(self, accepted: socket.socket, peer: str) -> None:
        self.peer = peer
        self._socket = accepted
        self._deadline = time.monotonic() + REQUEST_SECONDS
        self._left = HEAD_BYTES
        self._lock = threading.Lock()

    def start_tls(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on.

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
        """Return True, as BufferedReader asks."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read what the head may still have; more of it is as good as none.

        Raises: OSError.
        """
        if not self._left:
            raise ConnectionAbortedError
        self._limit_time()
        count = self._socket.recv_into(buffer, min(len(buffer), self._left))
        self._left -= count
        return count

    def send(self, data: bytes) -> None:
        """Send all.

        Raises: OSError.
        """
        rest = memoryview(data)
        while rest:
            self._limit_time()
            rest = rest[self._socket.send(rest) :]

    def cut(self) -> None:
        """End it from another thread: whoever reads or writes meets its end."""
        with self._lock, suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # the method of TLS would leave TLS, not end it

    def close(self) -> None:
        """Let what was sent arrive, and be done."""
        with self._lock, suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_WR)
        with self._lock:
            self._socket.close()
