"""Connections of urllib3 to addresses that were judged, which can be cut.

Invariants: a name is resolved once, its addresses are judged, and one of those that may be talked to is connected to:
neither a redirect nor a changing name gets around that, and nothing is sent to the others, not even to find out whether
they listen. Connecting to all addresses of a name takes a bounded time.

Not here: which addresses may be talked to (addresses.py), requests, timeouts and errors (transport.py).
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any

import urllib3
from urllib3.util.connection import create_connection

from api.errors import BundleError
from api.plugins import Network
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.addresses import forbidden

_CONNECTING_SECONDS = 15.0  # for all addresses of a name; each has the timeout of the connection besides


class Guard:
    """Judges the addresses of every connection before it is made, and can end them all.

    Args:
        subject: field path that messages begin with.
        network: which addresses the administrator admits.
        plain: whether plain http may be spoken to more than loopback addresses.
    """

    def __init__(self, subject: str, network: Network, *, plain: bool = False) -> None:
        self._subject, self._network, self._plain = subject, network, plain
        self._opening: socket.socket | None = None
        self._open: list[socket.socket] = []
        self._connections: list[urllib3.connection.HTTPConnection] = []

    def connect(self, connection: urllib3.connection.HTTPConnection, host: str, *, plain: bool) -> socket.socket:
        """Return a socket that is connected to the first address of a host that takes the connection.

        Raises: BundleError (InsecureRefused if no address may be talked to); what urllib3 and sockets raise.
        """
        addresses = self.admit(host, _resolve(host, connection.port), plain=plain)
        peer = _connect_first(addresses, connection)
        self._close_opening()
        # While TLS is being agreed upon the socket is out of reach, but not its double.
        self._opening = peer.dup()
        return peer

    def admit(self, host: str, addresses: list[str], *, plain: bool) -> list[str]:
        """Return the addresses of a host that may be talked to.

        Raises: BundleError (InsecureRefused if there is none).
        """
        problems = [forbidden(address, self._network, plain=plain and not self._plain) for address in addresses]
        admitted = [address for address, problem in zip(addresses, problems, strict=True) if not problem]
        if not admitted:
            message = f"{self._subject}: {quote(host)} must not be used: {problems[0]}; use another address"
            raise BundleError(Reason.INSECURE_REFUSED, message)
        return admitted

    def keep(self, connection: urllib3.connection.HTTPConnection) -> None:
        """Take a connection into care that is ready for requests."""
        self._close_opening()
        if isinstance(connection.sock, socket.socket):
            self._open.append(connection.sock)  # it may outlast connection.sock, for as long as an answer is read
        self._connections.append(connection)

    def cut(self) -> None:
        """End all connections: whoever reads from one meets its end at once."""
        for peer in (self._opening, *self._open):
            if peer:
                with suppress(OSError):  # closed meanwhile
                    socket.socket.shutdown(peer, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all connections, also those of answers that nobody read to the end."""
        self._close_opening()
        for connection in self._connections:
            connection.close()

    def _close_opening(self) -> None:
        opening, self._opening = self._opening, None
        if opening:
            opening.close()


def _resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host in the resolver's order.

    Raises: OSError; LocationParseError for what cannot be a name.
    """
    try:
        answers = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise urllib3.exceptions.LocationParseError(host) from None
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def _connect_first(addresses: list[str], connection: urllib3.connection.HTTPConnection) -> socket.socket:
    until = time.monotonic() + _CONNECTING_SECONDS
    failure = OSError("no address")
    for address in addresses:
        try:
            return create_connection(
                (address, connection.port), connection.timeout, socket_options=connection.socket_options
            )
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
        super().connect()
        self.guard.keep(self)


class _SecureConnection(urllib3.connection.HTTPSConnection):
    guard: Guard

    def _new_conn(self) -> socket.socket:
        return self.guard.connect(self, self._dns_host, plain=False)

    def connect(self) -> None:
        super().connect()
        self.guard.keep(self)


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection

    def _validate_conn(self, conn: Any) -> None:
        """Connect, without the warning of a certificate that the user said not to verify."""
        if conn.is_closed:
            conn.connect()


class GuardedPools(urllib3.PoolManager):
    """Pools whose every connection goes through a guard; `options` are those of urllib3."""

    def __init__(self, guard: Guard, **options: Any) -> None:
        super().__init__(**options)
        self.pool_classes_by_scheme = {
            "http": type("_GuardedPlainPool", (_PlainPool,), {"ConnectionCls": _guarded(_PlainConnection, guard)}),
            "https": type("GuardedSecurePool", (_SecurePool,), {"ConnectionCls": _guarded(_SecureConnection, guard)}),
        }


def _guarded(connection: type, guard: Guard) -> type:
    return type(connection.__name__, (connection,), {"guard": guard})
