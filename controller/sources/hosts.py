"""Hosts of sources: which ones the administrator allows, which redirects are followed, and what is told of others.

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
"""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Network
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote

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
_DIRECT = Network()
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
"""What a URL may contain; browsers and clients encode anything else in one (quote of urllib.parse)."""
log = logging.getLogger(__name__)
SECONDS = 10.0
"""From the request to another host to the report of a failure."""
_MARGIN = 1.0


class ElsewhereError(BundleError):
    """A request to which a server has redirected failed; the message does not say how."""


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

    def show(self, error: BundleError) -> BundleError:
        """Return an error as the user may see it."""
        return self.unusable() if self.is_elsewhere else error

    def unusable(self) -> ElsewhereError:
        """Return the only error that users see about a place that was not named."""
        problem = self.named_by or f"{quote(self.host)} redirects to an address that cannot be used; check that server"
        return ElsewhereError(Reason.UNREACHABLE, problem, place=self.subject)

    def not_followed(self) -> BundleError:
        """Return the error for a redirect that is not followed."""
        problem = (
            f"{quote(self.host)} redirects, which is followed only from https to https, or over plain http to the same "
            "host and port; use the address that it redirects to"
        )
        return self.show(BundleError(Reason.INSECURE_REFUSED, problem, place=self.subject))


def place_of(subject: str, named: str, url: str, network: Network = _DIRECT, named_by: str = "") -> Place:
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
