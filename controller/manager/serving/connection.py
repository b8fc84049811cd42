"""Connections: reading and writing within limits of time and size, and how many peers may be connected.

A connection has one request head of limited size, and one deadline for handshake, reading and writing. When a limit is
reached, a new connection replaces the one that has been silent for the longest time: of the same peer if that has
reached its own limit. A connection whose request has arrived is never closed for another.
"""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

ConnectionT = TypeVar("ConnectionT")
REQUEST_SECONDS = 10.0
"""From accepting a connection to sending the last byte of the response."""
HEAD_BYTES = 32 << 10
"""Limit of request line and headers; tokens have a few KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Numbers of simultaneous connections."""

    total: int
    per_peer: int
    """Of one address. A kubelet has one short connection for each running probe, so two."""


@dataclass(frozen=True, slots=True)
class _Admitted:
    peer: str
    is_silent: bool = True


class ConnectionLimiter(Generic[ConnectionT]):
    """Thread-safe."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._admitted: OrderedDict[ConnectionT, _Admitted] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of admitted connections."""
        return len(self._admitted)

    def admit(self, connection: ConnectionT, peer: str) -> tuple[bool, ConnectionT | None]:
        """Admit a new connection; return whether there was room, and the connection to close for it, if any."""
        with self._lock:
            of_peer = [each for each, admitted in self._admitted.items() if admitted.peer == peer]
            evicted: ConnectionT | None = None
            if len(of_peer) >= self._limits.per_peer or len(self._admitted) >= self._limits.total:
                rivals = of_peer if len(of_peer) >= self._limits.per_peer else self._admitted
                evicted = self._find_silent(rivals)
                if evicted is None:
                    return False, None
                del self._admitted[evicted]
            self._admitted[connection] = _Admitted(peer)
            return True, evicted

    def _find_silent(self, connections: Iterable[ConnectionT]) -> ConnectionT | None:
        return next((each for each in connections if self._admitted[each].is_silent), None)

    def mark_heard(self, connection: ConnectionT) -> bool:
        """Note that the request of a connection has arrived; return whether the connection is still admitted."""
        with self._lock:
            if connection not in self._admitted:
                return False
            self._admitted[connection] = _Admitted(self._admitted[connection].peer, is_silent=False)
            return True

    def release(self, connection: ConnectionT) -> None:
        """Remove a connection, if it is still admitted."""
        with self._lock:
            self._admitted.pop(connection, None)


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
