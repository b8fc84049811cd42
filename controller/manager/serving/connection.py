"""One accepted connection: a request head of limited size, and one deadline for handshake, reading and writing."""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any

REQUEST_SECONDS = 10.0
"""From accepting a connection to sending the last byte of the response."""
HEAD_BYTES = 32 << 10
"""Limit of request line and headers; tokens have a few KiB."""


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
