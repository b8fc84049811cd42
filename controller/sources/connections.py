"""Connections of urllib3 that are judged by their address once they are made, and cut at a deadline.

Invariants: a link-local address is never talked to, this machine's own only where that is admitted, plain http only to
the latter unless the user gave up TLS. The address is that of the connection, so neither a redirect nor a changing name
gets around it.

Not here: requests, timeouts and errors (transport.py).
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from typing import Any

import urllib3

from api.errors import BundleError
from api.plugins import Network
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote

_AWS_METADATA = ipaddress.ip_address("fd00:ec2::254")  # not link-local, and still nobody's business


class Guard:
    """Judges the address of every connection once it is made, and ends them all at the deadline.

    Args:
        subject: field path that messages begin with.
        network: which addresses the administrator admits.
        plain: whether plain http may be spoken to more than loopback addresses.
    """

    def __init__(self, subject: str, network: Network, *, plain: bool = False) -> None:
        self._subject, self._network, self._plain = subject, network, plain
        self._connections: list[urllib3.connection.HTTPConnection] = []

    def admit(self, connection: urllib3.connection.HTTPConnection, peer: socket.socket, *, plain: bool) -> None:
        """Take a new connection into care, or close it.

        Raises: BundleError (InsecureRefused).
        """
        problem = forbidden(peer.getpeername()[0], self._network, plain=plain and not self._plain)
        if problem:
            peer.close()
            message = f"{self._subject}: {quote(connection.host)} must not be used: {problem}; use another address"
            raise BundleError(Reason.INSECURE_REFUSED, message)
        self._connections.append(connection)

    def cut(self) -> None:
        """End all connections: whoever reads from one meets its end at once."""
        for connection in self._connections:
            if isinstance(connection.sock, socket.socket):
                with suppress(OSError):  # closed meanwhile
                    socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all connections, also those of answers that nobody read to the end."""
        for connection in self._connections:
            connection.close()


def forbidden(peer: str, network: Network, *, plain: bool) -> str:
    """Return why an address may not be talked to, in plain http if that is asked for; '' if it may."""
    address = ipaddress.ip_address(peer.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_link_local or address == _AWS_METADATA:
        return "its address is link-local, where clouds keep their metadata"
    admitted = any(address in ipaddress.ip_network(allowed) for allowed in network.allowed_networks)
    if (address.is_multicast or address.is_unspecified) and not admitted:
        return "its address is nobody's"
    if address.is_loopback:
        return "" if network.allow_loopback or admitted else "its address is this machine's own"
    return "plain http is for loopback addresses only" if plain else ""


class _PlainConnection(urllib3.connection.HTTPConnection):
    guard: Guard

    def _new_conn(self) -> socket.socket:
        peer = super()._new_conn()
        self.guard.admit(self, peer, plain=True)
        return peer


class _SecureConnection(urllib3.connection.HTTPSConnection):
    guard: Guard

    def _new_conn(self) -> socket.socket:
        peer = super()._new_conn()
        self.guard.admit(self, peer, plain=False)
        return peer


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
