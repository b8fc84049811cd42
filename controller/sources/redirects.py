"""Which redirects are followed, and what messages may reveal about their targets.

Pure. Redirects are followed from https to https, and from plain http to the same origin only (scheme, host and port,
RFC 6454). A server can redirect to addresses that only the controller reaches; so an error at an address that the user
has not named reveals neither its name, nor its response, nor whether it exists. When it is reported is decided in
detours.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.hosts import PORTS

Origin = tuple[str, str | None, int | None]

PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
"""What a URL may contain; browsers and clients encode anything else in one (quote of urllib.parse)."""


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

    def show(self, error: BundleError) -> BundleError:
        """Return an error as the user may see it."""
        return self.unusable() if self.is_elsewhere else error

    def unusable(self) -> ElsewhereError:
        """Return the only error that users see about a place that was not named."""
        message = f"{self.subject}: {quote(self.host)} redirects to an address that cannot be used; check that server"
        return ElsewhereError(Reason.UNREACHABLE, message)

    def not_followed(self) -> BundleError:
        """Return the error for a redirect that is not followed."""
        message = (
            f"{self.subject}: {quote(self.host)} redirects, which is followed only from https to https, or over plain "
            "http to the same host and port; use the address that it redirects to"
        )
        return self.show(BundleError(Reason.INSECURE_REFUSED, message))


def place_of(subject: str, named: str, url: str) -> Place:
    """Return the place of a request for `url` on behalf of the URL that was named."""
    return Place(subject=subject, host=host_of(named), is_elsewhere=origin_of(url) != origin_of(named))


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
