"""Connections of urllib3 that go to allowed addresses only, and can be cut.

Invariants: a name is resolved once, and only its allowed addresses are connected to: neither a redirect nor a changing
name can bypass that, and nothing is sent to other addresses, not even to probe them. Connecting to all addresses of a
name takes a bounded time.

Not here: which addresses are allowed (addresses.py), requests, timeouts and errors (transport.py).
"""

from __future__ import annotations

import math
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import urllib3
from urllib3.util.connection import create_connection

from api.plugins import Network
from controller.sources.addresses import admit

_LEAST_SECONDS = 0.001
_CONNECTING_SECONDS = 15.0  # for all addresses of a name; each also has the timeout of the connection


Peer: TypeAlias = tuple[str | None, int | None]
"""Host and port of a connection."""


class Guard:
    """Checks the addresses of every connection before it is opened, and can cut them all.

    Args:
        subject: field path that starts messages.
        network: which addresses the administrator allows.
        plain: whether plain http is allowed to more than loopback addresses.
    """

    def __init__(self, subject: str, network: Network, *, plain: bool = False) -> None:
        self._subject, self._network, self._plain = subject, network, plain
        self._opening: socket.socket | None = None
        self._open: list[tuple[Peer, socket.socket]] = []
        self._connections: list[urllib3.connection.HTTPConnection] = []
        self.until = math.inf
        """When the next connection must be established, in monotonic seconds, if that is sooner than usual."""

    def connect(self, connection: urllib3.connection.HTTPConnection, host: str, *, plain: bool) -> socket.socket:
        """Return a socket connected to the first address of a host that accepts the connection.

        Raises: BundleError (InsecureRefused if no address is allowed); what urllib3 and sockets raise.
        """
        try:
            addresses = resolve(host.strip("[]"), connection.port)
        except UnicodeError:
            raise urllib3.exceptions.LocationParseError(host) from None
        peer = _connect_first(self.admit(host, addresses, plain=plain), connection, self.until)
        self._close_opening()
        # During the TLS handshake the socket cannot be reached, but its duplicate can.
        self._opening = peer.dup()
        return peer

    def admit(self, host: str, addresses: list[str], *, plain: bool) -> list[str]:
        """Return the allowed addresses of a host; plain http may be allowed to all by the guard itself.

        Raises: BundleError (InsecureRefused if none is allowed).
        """
        return admit(self._subject, host, addresses, self._network, plain=plain and not self._plain)

    def keep(self, connection: urllib3.connection.HTTPConnection) -> None:
        """Register a connection that is ready for requests."""
        self._close_opening()
        if isinstance(connection.sock, socket.socket):
            peer = (connection.host, connection.port)
            self._open.append((peer, connection.sock))  # it may outlive connection.sock while a response is read
        self._connections.append(connection)

    def cut(self, spared: Peer | None = None) -> None:
        """Shut all connections down, but for those to one host: reading from them ends immediately."""
        for opened in (self._opening, *(opened for peer, opened in self._open if peer != spared)):
            if opened:
                with suppress(OSError):  # closed meanwhile
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all connections, including those of responses that were not read to the end."""
        self._close_opening()
        for connection in self._connections:
            connection.close()

    def _close_opening(self) -> None:
        opening, self._opening = self._opening, None
        if opening:
            opening.close()


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host in the resolver's order, without brackets.

    Raises: OSError; UnicodeError for an impossible name.
    """
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def _connect_first(addresses: list[str], connection: urllib3.connection.HTTPConnection, latest: float) -> socket.socket:
    until = min(time.monotonic() + _CONNECTING_SECONDS, latest)
    failure = OSError("no address")
    for address in addresses:
        try:
            timeout = min(connection.timeout or math.inf, max(until - time.monotonic(), _LEAST_SECONDS))
            return create_connection((address, connection.port), timeout, socket_options=connection.socket_options)
        except OSError as error:
            failure = error
        if time.monotonic() >= until:
            break
    raise failure


class _PlainConnection(urllib3.connection.HTTPConnection):
    guard: Guard

    def _new_conn(self) -> socket.socket:
        return self.guard.connect(self, self._dns_host, plain=True)

    def connect(self) -> None:
        """Connect, and register with the guard."""
        super().connect()
        self.guard.keep(self)


class _SecureConnection(urllib3.connection.HTTPSConnection):
    guard: Guard

    def _new_conn(self) -> socket.socket:
        return self.guard.connect(self, self._dns_host, plain=False)

    def connect(self) -> None:
        """Connect, and register with the guard."""
        super().connect()
        self.guard.keep(self)


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection

    def _validate_conn(self, conn: Any) -> None:
        """Connect without a warning about certificates that the user chose not to verify."""
        if conn.is_closed:
            conn.connect()


class GuardedPools(urllib3.PoolManager):
    """Pools that open every connection through a guard.

    Args:
        guard: of all connections.
        context: returns the TLS context; called only if there is a connection over https.
        options: urllib3's.
    """

    def __init__(self, guard: Guard, context: Callable[[], ssl.SSLContext], **options: Any) -> None:
        super().__init__(**options)
        self._context = context
        self.pool_classes_by_scheme = {
            "http": type("_GuardedPlainPool", (_PlainPool,), {"ConnectionCls": _guarded(_PlainConnection, guard)}),
            "https": type("GuardedSecurePool", (_SecurePool,), {"ConnectionCls": _guarded(_SecureConnection, guard)}),
        }

    def _new_pool(
        self, scheme: str, host: str, port: int, request_context: dict[str, Any] | None = None
    ) -> urllib3.HTTPConnectionPool:
        options = dict(self.connection_pool_kw if request_context is None else request_context)
        if scheme == "https":
            options["ssl_context"] = self._context()
        return super()._new_pool(scheme, host, port, options)


def _guarded(connection: type, guard: Guard) -> type:
    return type(connection.__name__, (connection,), {"guard": guard})
