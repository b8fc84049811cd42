"""Which proxy a connection goes through: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as curl and Go read them.

Pure. The variables are those of the controller, so the administrator sets them, and no tenant. In lower case they count
first, as for curl. Localhost and loopback addresses are reached directly, as by Go; so is ssh. Where both differ:
without a port it is 80 (Go), and `.example.com` in NO_PROXY are the hosts below that domain only (Go).

Invariant: neither a message nor a repr contains a user or a password.

Not here: which servers may be asked through a proxy (controller/sources/routes.py).
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

HTTPS_PROXY, HTTP_PROXY, NO_PROXY = "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"
VARIABLES = (HTTPS_PROXY, HTTP_PROXY, NO_PROXY)
"""What is read of an environment."""
IN_CLUSTER = ".svc,.cluster.local"
"""NO_PROXY for servers in the cluster, which no proxy is asked for."""
_USUAL_PORT = 80
_LOCALHOST = "localhost"
_SEPARATOR = re.compile(r"[\s,]+")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,15})://")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")
_WITH_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*):(\d{1,5})")
# Programs that resolve a name take one that ends so for an address in another form (inet_aton(3)): 127.1, 0x7f000001.
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """An http proxy."""

    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def authority(self) -> str:
        """Host and port, for messages."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def authorization(self) -> str:
        """The value of the header `Proxy-Authorization` (RFC 7617); '' without credentials."""
        if not (self.username or self.password):
            return ""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()

    @property
    def url(self) -> str:
        """The URL with the credentials, for the settings of programs; never for messages or command lines."""
        user = f"{quote(self.username, safe='')}:{quote(self.password, safe='')}@" if self.authorization else ""
        return f"http://{user}{self.authority}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxies:
    """The proxies to use, and the hosts that are reached directly."""

    https: Proxy | None = None
    http: Proxy | None = None
    direct: tuple[str, ...] = ()
    """Entries of NO_PROXY in lower case."""

    def find(self, scheme: str, host: str, port: int) -> Proxy | None:
        """Return the proxy for a server; None if it is reached directly."""
        proxy = {"https": self.https, "http": self.http}.get(scheme)
        if proxy is None:
            return None
        name = plain_name(host)
        address = parse_literal(name)
        if name == _LOCALHOST or (address is not None and address.is_loopback):
            return None
        return None if any(_is_match(entry, name, port) for entry in self.direct) else proxy


def read_proxies(environment: Mapping[str, str]) -> Proxies:
    """Return the proxies that an environment names.

    Raises: ValueError for a URL that is not one of an http proxy; it names the variable, and not its value.
    """
    direct = map(_ascii, _SEPARATOR.split(_value(environment, NO_PROXY)))
    return Proxies(
        https=_read(environment, HTTPS_PROXY), http=_read(environment, HTTP_PROXY), direct=tuple(filter(None, direct))
    )


def _read(environment: Mapping[str, str], name: str) -> Proxy | None:
    text = _value(environment, name)
    try:
        return parse_proxy(text) if text else None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _value(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name.lower()) or environment.get(name) or "").strip()


def parse_proxy(text: str) -> Proxy:
    """Return the proxy that a URL names.

    Raises: ValueError if it is not the URL of an http proxy; it does not name the URL.
    """
    scheme = _SCHEME.match(text)
    if scheme and scheme[1].lower() != "http":
        problem = f'a proxy of type "{scheme[1].lower()}" is not supported'
        raise ValueError(f"{problem}; use an http proxy, like http://proxy.example.com:3128")
    remedy = "like http://proxy.example.com:3128; encode special characters of user and password as %XX"
    invalid = ValueError(f"is not the URL of a proxy {remedy}")
    try:
        parts = urlsplit(text if scheme else f"http://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise invalid from None
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    is_host = bool(_HOST.fullmatch(host)) or (":" in host and parse_literal(host) is not None)
    # A "#", "?" or "/" in a password ends the host too early.
    is_whole = not (parts.query or parts.fragment or parts.path.strip("/"))
    if not (is_host and is_whole and text.isprintable()) or port == 0 or ":" in username:
        raise invalid
    return Proxy(host=host, port=port or _USUAL_PORT, username=username, password=password)


# hosts


def plain_name(host: str) -> str:
    """Return a host as it is compared: in lower case, without brackets and dots at the end."""
    return host.strip("[]").lower().rstrip(".")


def parse_literal(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a host is, with or without a zone; None for a name."""
    with suppress(ValueError):
        address = ipaddress.ip_address(name.partition("%")[0])
        return getattr(address, "ipv4_mapped", None) or address
    return None


def is_literal(name: str) -> bool:
    """Return whether a host is an address in any form, such as 10.0.0.1, ::1, 167772161 or 0xa.1, and no name."""
    return parse_literal(name) is not None or bool(_NUMBER.fullmatch(name.rpartition(".")[2]))


def _ascii(name: str) -> str:
    with suppress(UnicodeError):
        return name.lower() if name.isascii() else name.encode("idna").decode()
    return ""


def _is_match(entry: str, name: str, port: int) -> bool:
    # An entry that cannot be read is about none.
    if entry == "*":
        return True
    address = parse_literal(name)
    if "/" in entry:
        return address is not None and any(address in network for network in _networks(entry))
    found = _WITH_PORT.fullmatch(entry)
    wanted = found[1] if found else entry
    if found and int(found[2]) != port:
        return False
    wanted = plain_name(wanted)
    literal = parse_literal(wanted)
    if literal is not None:
        return literal == address
    domain = wanted.removeprefix("*")
    if not domain.strip("."):
        return False
    return name.endswith(domain) if domain.startswith(".") else name == domain or name.endswith(f".{domain}")


def _networks(entry: str) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    with suppress(ValueError):
        yield ipaddress.ip_network(entry.strip("[]"), strict=False)
