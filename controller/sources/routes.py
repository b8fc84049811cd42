"""The way to a server: which host to connect to, at which addresses, through which proxy, and with which keys.

A proxy is no hole in the address guard. What it is asked for is judged here first: addresses, names of this machine and
of the cluster are refused in any spelling; all addresses of a name that is resolved here must be allowed, since the
proxy chooses among them; a name that is not resolved here, as in networks without DNS for the rest of the world, must
be public. The address of the proxy itself is the administrator's choice: it is allowed for this connection, and for no
source.

A proxy resolves names itself. What it answers for a name that is not resolved here, or that has another address there,
is left to its own rules.

Not here: which proxy is meant (api/proxies.py), which addresses are allowed (hosts.py), connecting (transport.py,
git/connection.py).
"""

from __future__ import annotations

import math
import re
import socket
import time
from dataclasses import dataclass, replace

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Network
from rukpak.api.proxies import Proxy, is_literal, plain_name
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote
from rukpak.controller.sources.hosts import Location, Place, admit
from rukpak.controller.sources.trust import ClientCertificate

NOT_RESOLVED = "its name cannot be resolved"
ABSENT_SECONDS = 30.0
"""How long a name that is not resolved here is not looked up again for a proxy: where there is one, the DNS may take
seconds to say no, for each connection."""
MOST_ABSENT = 1024
_absent: dict[str, float] = {}
"""When such names were looked up, in monotonic seconds, by name."""
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?")
_OF_CLUSTER = ("localhost", "svc", "cluster.local")
"""Domains of this machine and of the cluster, which mean another one to a proxy."""
_PRIVATE = ("local", "internal", "localdomain", "home.arpa", "corp", "home", "intranet", "lan", "private")
"""Domains that are not in the DNS of the world (RFC 6762, appendix G; RFC 8375; ICANN on .internal)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How to reach a server. Without a proxy host and port are the server's, else the proxy's."""

    host: str
    port: int
    addresses: tuple[str, ...]
    """Addresses of the host, in the resolver's order: the only ones to connect to."""
    proxy: Proxy | None = None
    keys: ClientCertificate | None = None
    """What identifies the controller to the server."""


def find_route(
    subject: str, location: Location, network: Network, *, plain: bool = False, keys: ClientCertificate | None = None
) -> Route:
    """Return how to reach a server.

    Args:
        subject: field path that starts messages.
        location: of the server.
        network: the administrator's settings.
        plain: whether plain http would be used for a source that requires TLS.
        keys: used if they are for this server.

    Raises: BundleError (InsecureRefused if the server must not be asked; Unreachable if the name of a proxy cannot be
        resolved); OSError if that of a server cannot be; UnicodeError for an impossible name.
    """
    keys = keys if keys and location.origin in keys.origins else None
    proxy = network.proxies.find(location.scheme, location.host, location.port)
    if proxy is None:
        found = resolve(location.host, location.port)
        addresses = admit(subject, location.host, found, network, plain=plain)
        return Route(host=location.host, port=location.port, addresses=tuple(addresses), keys=keys)
    if problem := _find_problem(subject, location, network, plain=plain):
        problem = f"{quote(location.host)} is not asked for through proxy {quote(proxy.authority)}: {problem}"
        raise BundleError(Reason.INSECURE_REFUSED, problem, place=subject)
    try:
        addresses = resolve(proxy.host, proxy.port)
    except (OSError, UnicodeError):
        place = Place(subject=subject, host=location.host, proxy=proxy.authority)
        raise place.unreachable(of_proxy(NOT_RESOLVED)) from None
    return Route(host=proxy.host, port=proxy.port, addresses=tuple(addresses), proxy=proxy, keys=keys)


def _find_problem(subject: str, location: Location, network: Network, *, plain: bool) -> str:
    """Return why a proxy is not asked for a server, and the remedy; '' if it is asked.

    Raises: BundleError (InsecureRefused if none of its addresses is allowed); UnicodeError for an impossible name.
    """
    name, remedy = plain_name(location.host), "or ask the administrator to add it to NO_PROXY"
    if plain:
        return "plain http is allowed only to loopback addresses; use https"
    if is_literal(name):
        return f"it is an address, and a proxy is asked for names only; use a name, {remedy}"
    if not _NAME.fullmatch(name):
        raise UnicodeError
    if _is_below(name, _OF_CLUSTER):
        return f"its name is one of this machine or of the cluster; use another name, {remedy}"
    found = _resolve_for_proxy(location.host, location.port)
    if not found:
        if "." in name and not _is_below(name, _PRIVATE):
            return ""
        remedy = "use its public name, or ask the administrator to have it resolved in the cluster"
        return f"its name is a local one, which cannot be resolved here; {remedy}"
    # The proxy may connect to any of them, and to this machine as its own.
    admitted = admit(subject, location.host, found, replace(network, allow_loopback=False), plain=False)
    return "" if len(admitted) == len(found) else f"not all of its addresses are allowed; use another name, {remedy}"


def _resolve_for_proxy(host: str, port: int) -> list[str]:
    """Return the addresses of a server that a proxy connects to; none if its name is not resolved here.

    Raises: UnicodeError for an impossible name.
    """
    if time.monotonic() - _absent.get(host, -math.inf) < ABSENT_SECONDS:
        return []
    try:
        return resolve(host, port)
    except OSError:
        if len(_absent) >= MOST_ABSENT:
            _absent.clear()
        _absent[host] = time.monotonic()
        return []


def _is_below(name: str, domains: tuple[str, ...]) -> bool:
    return any(name == domain or name.endswith(f".{domain}") for domain in domains)


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host in the resolver's order, without brackets.

    Raises: OSError; UnicodeError for an impossible name.
    """
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def of_proxy(problem: str) -> str:
    """Return a problem of a connection as one with the proxy, not with the server."""
    return f"the proxy cannot be reached: {problem}"
