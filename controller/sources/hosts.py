"""Hosts and addresses of sources: what URLs mean, which are allowed, where redirects lead, and what others are told of.

A pattern of `Network.allowed_hosts` is a host, or `*.` and a domain for all hosts below it, and optionally a port, by
default the usual one of the scheme. Only the host in the spec is checked: the administrator chooses mirrors, and an
allowed host its redirects.

Redirects are followed from https to https, and from plain http to the same origin only (scheme, host and port, RFC
6454). A tenant could use its own server to send the controller to services that only the controller reaches; so an
error at an address that the user has not named reveals neither its name, nor its response, nor whether it exists.
Whatever goes wrong there, also with the content that is sent, ends the call with one error, at one time: refused and
silent ports, other certificates, any status, and any content look alike. Nor does the server that has redirected see a
difference: it is not asked again, and its connections stay open until then.

What lasts longer than `SECONDS` because the other host keeps sending content is told later. Once that is verified by
its digest, or is the list or the repository that was looked for, it is like content of the named host.

Link-local and metadata addresses are refused whatever the options say. Of `denied_networks` and `allowed_networks` the
narrowest network that contains an address decides; of two equal ones, the denied one. Addresses allowed that way may be
loopback, multicast or unspecified. Of an IPv6 address with an embedded IPv4 address (NAT64, 6to4, Teredo, …) both are
checked, because a gateway or a tunnel delivers to the embedded one.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from urllib.parse import unquote, urljoin, urlsplit

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Network
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote

HTTP, HTTPS = "http", "https"
_NOT_VISIBLE = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
PORTS = {HTTPS: 443, HTTP: 80, "ssh": 22}
"""The usual port of each scheme."""
_PATTERN = re.compile(
    r"(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?::\d{1,5})?|\[[0-9A-Fa-f:]+\](?::\d{1,5})?"
)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's own, without resolving it."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_address(host: str) -> bool:
    """Return whether a host is an IP address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The host and port that a URL names."""

    scheme: str
    """One of `PORTS`."""
    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine by name."""
        return is_loopback(self.host)

    @property
    def origin(self) -> tuple[str, str, int]:
        """What credentials are for: never sent to another one (RFC 6454)."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host, and the port unless it is the usual one, as URLs and messages contain them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address(Location):
    """The parts of a URL."""

    path: str
    query: str

    @property
    def url(self) -> str:
        """The URL in normal form, without a fragment."""
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{self.authority}{self.path}{query}"

    @property
    def name(self) -> str:
        """The last element of the path: the name of the file."""
        return unquote(self.path).rpartition("/")[2]


def parse_address(text: str) -> Address:
    """Parse a URL.

    Raises: ValueError with the problem and the remedy, without any part of the URL.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("is not a URL; correct it") from None
    if parts.scheme not in (HTTP, HTTPS) or not host or _NOT_VISIBLE.search(text):
        raise ValueError("is not a URL like https://host/path; correct it")
    if "@" in parts.netloc:
        raise ValueError("must not contain a user or a password; use a Secret in auth")
    return Address(
        scheme=parts.scheme, host=host, port=port or PORTS[parts.scheme], path=parts.path or "/", query=parts.query
    )


def find_problems(text: str, path: str, parse: Callable[[str], object], shown: str = "") -> list[str]:
    """Return what `parse`, which raises ValueError, finds wrong with a text, starting with the path of its field.

    Args:
        text: of the field.
        path: of the field.
        parse: of the text.
        shown: what is said of the text; by default it is quoted.
    """
    try:
        parse(text)
    except ValueError as error:
        return [f"{path}: {shown or quote(text)} {error}"]
    return []


def find_url_problems(url: str, path: str, parse: Callable[[str], object]) -> list[str]:
    """Return what `parse` finds wrong with a URL, as `find_problems`; it is quoted unless it has a password."""
    return find_problems(url, path, parse, "the URL" if "@" in url else "")


def parse_pattern(text: str) -> str:
    """Return a pattern in normal form.

    Raises: ValueError.
    """
    if not _PATTERN.fullmatch(text):
        raise ValueError(f'"{text}" is not a host like example.com, example.com:5000 or *.example.com')
    _split(text)
    return text.lower()


def check_host(field: str, location: Location, network: Network) -> None:
    """Refuse a host that no pattern of `network` allows, if it has any; `field` is the path of the field that names it.

    Raises: BundleError (InsecureRefused).
    """
    patterns = network.allowed_hosts
    if patterns and not any(_is_match(location, pattern) for pattern in patterns):
        problem = f"host {quote(location.authority)} is not in --allowed-hosts"
        problem = f"{problem}; use an allowed host, or ask the administrator to add it"
        raise BundleError(Reason.INSECURE_REFUSED, problem, place=field)


def _is_match(location: Location, pattern: str) -> bool:
    host, (wanted, port) = location.host.lower().rstrip("."), _split(pattern)
    if location.port != (port or PORTS[location.scheme]):
        return False
    return host.endswith(wanted[1:]) if wanted.startswith("*.") else host == wanted


def _split(pattern: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{pattern}")
    return parts.hostname or "", parts.port


Origin = tuple[str, str | None, int | None]
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
"""What a URL may contain; browsers and clients encode anything else in one (quote of urllib.parse)."""
log = logging.getLogger(__name__)
SECONDS = 10.0
"""From the request to another host to the report of a failure."""
_MARGIN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one request goes, for messages."""

    subject: str
    """Field path that starts messages."""
    host: str
    """Host and port that the user named, wherever the request goes."""
    is_elsewhere: bool = False
    """Whether the request goes to another origin than the named one."""
    proxy: str = ""
    """Host and port of the proxy that the request goes through, for messages."""
    named_by: str = ""
    """What names the other origin, and which remedy there is, if it is no redirect; in messages."""

    @property
    def described(self) -> str:
        """The host for messages, with the proxy in between if there is one."""
        return f"{quote(self.host)} through proxy {quote(self.proxy)}" if self.proxy else quote(self.host)

    def report(self, access: Access, done: int, total: int = 0) -> None:
        """Tell how many bytes have arrived; what another host sends is counted, but not shown."""
        if self.is_elsewhere:
            access.receive(done)
        else:
            access.progress(done, total)

    def unreachable(
        self, problem: str, retry_after: float | None = None, *, kind: type[BundleError] = BundleError
    ) -> BundleError:
        """Return the error for a host that cannot be reached, or that fails."""
        check = "check the address, the proxy and the network" if self.proxy else "check the address and the network"
        problem = f"cannot read from {self.described}: {problem}; {check}"
        return kind(Reason.UNREACHABLE, problem, place=self.subject, retry_after=retry_after)

    def show(self, error: BundleError) -> BundleError:
        """Return an error as the user may see it."""
        return self.unusable() if self.is_elsewhere else error

    def unusable(self) -> BundleError:
        """Return the only error that users see about a place that was not named."""
        problem = self.named_by or f"{quote(self.host)} redirects to an address that cannot be used; check that server"
        return BundleError(Reason.UNREACHABLE, problem, place=self.subject)

    def not_followed(self) -> BundleError:
        """Return the error for a redirect that is not followed."""
        problem = (
            f"{quote(self.host)} redirects, which is followed only from https to https, or over plain http to the same "
            "host and port; use the address that it redirects to"
        )
        return self.show(BundleError(Reason.INSECURE_REFUSED, problem, place=self.subject))


def place_of(subject: str, named: str, url: str, network: Network, named_by: str = "") -> Place:
    """Return the place of a request for `url` on behalf of the URL that was named."""
    origin = scheme, host, port = origin_of(url)
    proxy = network.proxies.find(scheme, host or "", port or 0)
    return Place(
        subject=subject,
        host=host_of(named),
        is_elsewhere=origin != origin_of(named),
        proxy=proxy.authority if proxy else "",
        named_by=named_by,
    )


def follow(url: str, location: str) -> str:
    """Return the URL that a response redirects to; '' if it must not be followed.

    Args:
        url: of the request.
        location: header of the response, perhaps relative.
    """
    try:
        target = urljoin(url, location)
        here, there = origin_of(url), origin_of(target)
        parts = urlsplit(target)
    except ValueError:
        return ""
    is_usable = bool(parts.hostname) and "@" not in parts.netloc
    return target if is_usable and (here[0] == there[0] == "https" or here == there) else ""


def origin_of(url: str) -> Origin:
    """Return scheme, host and port of a URL.

    Raises: ValueError for an invalid port.
    """
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)


def host_of(url: str) -> str:
    """Return host and port as a URL contains them."""
    return urlsplit(url).netloc.rpartition("@")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detour:
    """A request to a host that the spec does not name.

    Attributes:
        shown: the only error that users see.
        began: monotonic seconds.
    """

    shown: BundleError
    began: float = field(default_factory=time.monotonic)

    @property
    def until(self) -> float:
        """When the header of a response must have arrived, in monotonic seconds."""
        return self.began + SECONDS - _MARGIN

    def end(self, error: BundleError, access: Access) -> BundleError:
        """Wait until failures are reported, and return the error to report; the log may contain the real one."""
        if time.monotonic() >= access.deadline > self.until:
            return error  # it took so long that there is nothing to hide: a large file
        log.debug("failed at another host", extra={"shown": self.shown.message, "problem": error.message})
        access.cancelled.wait(max(min(self.began + SECONDS, access.deadline) - time.monotonic(), 0.0))
        return self.shown


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
    parsed = map(ipaddress.ip_network, networks)
    return max((each.prefixlen for each in parsed if address in each), default=-1)


def embedded(address: IPv4Address | IPv6Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that are embedded in an IPv6 address, and that packets to it may reach."""
    return () if isinstance(address, IPv4Address) or address in _NO_ADDRESSES else tuple(_embedded(address))


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
    # Without bits 64 to 71 (RFC 6052, 2.2).
    yield IPv4Address(number & 0xFFFFFFFF)
    packed = number.to_bytes(16, "big")
    without = packed[:8] + packed[9:]
    for start in (8, 7, 6):
        found = IPv4Address(without[start : start + 4])
        if found not in _THIS_NETWORK:  # padding of a longer prefix
            yield found
