"""Hosts of sources: how they are written, and which ones the administrator allows (`Network.allowed_hosts`).

Pure. A pattern is a host, or `*.` and a domain for all hosts below it, and optionally a port, by default the usual one
of the scheme. Only the host in the spec is checked: the administrator chooses mirrors, and an allowed host its
redirects.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from api.errors import BundleError
from api.plugins import Network
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote

PORTS = {"https": 443, "http": 80, "ssh": 22}
"""The usual port of each scheme."""
_PATTERN = re.compile(
    r"(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?::\d{1,5})?|\[[0-9A-Fa-f:]+\](?::\d{1,5})?"
)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's own, without resolving it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
        message = f"{field}: {problem}; use an allowed host, or ask the administrator to add it"
        raise BundleError(Reason.INSECURE_REFUSED, message)


def _is_match(location: Location, pattern: str) -> bool:
    host, (wanted, port) = location.host.lower().rstrip("."), _split(pattern)
    if location.port != (port or PORTS[location.scheme]):
        return False
    return host.endswith(wanted[1:]) if wanted.startswith("*.") else host == wanted


def _split(pattern: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{pattern}")
    return parts.hostname or "", parts.port
