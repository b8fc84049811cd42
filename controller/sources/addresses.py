"""Which addresses sources may connect to.

Pure. Link-local and metadata addresses are refused whatever the options say. Of `denied_networks` and
`allowed_networks` the narrowest network that contains an address decides; of two equal ones, the denied one. Addresses
allowed that way may be loopback, multicast or unspecified.

Of an IPv6 address with an embedded IPv4 address (NAT64, 6to4, Teredo, …) both are checked, since a gateway or a tunnel
delivers to the embedded one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Network
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote

METADATA = tuple(
    ipaddress.ip_address(text)
    for text in (
        "168.63.129.16",  # Azure
        "100.100.100.200",  # Alibaba Cloud
        "192.0.0.192",  # Oracle Cloud
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS, EKS Pod Identity
        "fd20:ce::254",  # Google Cloud
    )
)
"""The metadata services of clouds, in addition to the link-local 169.254.169.254."""

_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")
_BROADCAST = IPv4Address("255.255.255.255")

# The last four bytes are an IPv4 address: IPv4-compatible, translated (RFC 2765), NAT64 (RFC 6052).
_AT_THE_END = tuple(IPv6Network(text) for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")  # RFC 8215; each network chooses its own prefix length within it
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214, section 6.1
_NO_ADDRESSES = (IPv6Address("::"), IPv6Address("::1"))


def admit(subject: str, host: str, addresses: Iterable[str], network: Network, *, plain: bool) -> list[str]:
    """Return the addresses of a host that are allowed, in order.

    Args:
        subject: field path that starts the message.
        host: for the message.
        addresses: at least one.
        network: the administrator's options.
        plain: whether plain http would be used for a source that requires TLS.

    Raises: BundleError (InsecureRefused if none is allowed).
    """
    problems = {address: forbidden(address, network, plain=plain) for address in addresses}
    admitted = [address for address, problem in problems.items() if not problem]
    if not admitted:
        problem = next(iter(problems.values()))
        problem = f"the address of {quote(host)} is not allowed: {problem}; use another address"
        raise BundleError(Reason.INSECURE_REFUSED, problem, place=subject)
    return admitted


def forbidden(peer: str, network: Network, *, plain: bool) -> str:
    """Return why an address is not allowed; '' if it is.

    Args:
        peer: the address as the resolver or the socket returns it, perhaps with a zone.
        network: the administrator's options.
        plain: whether plain http would be used for a source that requires TLS.
    """
    address = ipaddress.ip_address(peer.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    problems = (_problem(each, network) for each in (address, *embedded(address)))
    if problem := next(filter(None, problems), ""):
        return problem
    return "plain http is allowed only to loopback addresses" if plain and not address.is_loopback else ""


def _problem(address: IPv4Address | IPv6Address, network: Network) -> str:
    if address.is_link_local:
        return "it is link-local, as are cloud metadata services"
    if address in METADATA:
        return "it belongs to a cloud metadata service"
    denied, allowed = _narrowest(address, network.denied_networks), _narrowest(address, network.allowed_networks)
    if denied >= max(allowed, 0):
        return "it is in a network that --denied-networks lists"
    if allowed >= 0:
        return ""
    if address.is_multicast or address.is_unspecified or address in _THIS_NETWORK or address == _BROADCAST:
        return "it is not the address of a single host"
    return "it is a loopback address" if address.is_loopback and not network.allow_loopback else ""


def _narrowest(address: IPv4Address | IPv6Address, networks: Iterable[str]) -> int:
    """Return the longest prefix of the networks that contain an address; -1 if none does."""
    parsed = map(ipaddress.ip_network, networks)
    return max((each.prefixlen for each in parsed if address in each), default=-1)


def embedded(address: IPv4Address | IPv6Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that are embedded in an IPv6 address, and that packets to it may reach."""
    if isinstance(address, IPv4Address) or address in _NO_ADDRESSES:
        return ()
    return tuple(_embedded(address))


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    number = int(address)
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    if any(address in each for each in _AT_THE_END) or (number >> 32) & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFFFFFF)
    if address in _LOCAL_NAT64:
        yield from _embedded_by_nat64(number)


def _embedded_by_nat64(number: int) -> Iterator[IPv4Address]:
    """Yield the address embedded after a prefix of 96, 64, 56 and 48 bits, without bits 64 to 71 (RFC 6052, 2.2)."""
    yield IPv4Address(number & 0xFFFFFFFF)
    packed = number.to_bytes(16, "big")
    without = packed[:8] + packed[9:]
    for start in (8, 7, 6):
        found = IPv4Address(without[start : start + 4])
        if found not in _THIS_NETWORK:  # padding of a longer prefix
            yield found
