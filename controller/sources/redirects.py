"""Where a request may be redirected to, and what may be told of what happens there.

Pure. From https a redirect is followed to https, from plain http to the same origin only (scheme, host and port, RFC
6454). Whoever controls a server can make it redirect to what only the controller reaches; so an error about a place
that the user has not named tells neither its name nor what it answers nor whether it is there at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote

_PORTS = {"https": 443, "http": 80}
Origin = tuple[str, str | None, int | None]


class ElsewhereError(BundleError):
    """Something went wrong in a place to which a server has sent us; what it was is not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one request goes, for messages."""

    subject: str
    """Field path that messages begin with."""
    host: str
    """Host and port as they were named, wherever the request goes."""
    is_elsewhere: bool = False
    """Whether another origin than the named one is asked."""

    def show(self, error: BundleError) -> BundleError:
        """Return an error as it may be told."""
        return self.unusable() if self.is_elsewhere else error

    def unusable(self) -> ElsewhereError:
        """Return all that is told of a place that was not named."""
        message = f"{self.subject}: {quote(self.host)} redirects to an address that cannot be used; see to that server"
        return ElsewhereError(Reason.UNREACHABLE, message)

    def not_followed(self) -> BundleError:
        """Return the error for a redirect that leads where none may lead."""
        message = (
            f"{self.subject}: {quote(self.host)} redirects, which is followed from https to https only, and from plain "
            "http to the same host and port only; name the address that it redirects to"
        )
        return self.show(BundleError(Reason.INSECURE_REFUSED, message))


def place_of(subject: str, named: str, url: str) -> Place:
    """Return the place of a request for a URL, where another one was named."""
    return Place(subject=subject, host=host_of(named), is_elsewhere=origin_of(url) != origin_of(named))


def follow(url: str, location: str) -> str:
    """Return the URL that an answer redirects to; '' if it must not be followed.

    Args:
        url: that was asked.
        location: header of the answer, perhaps relative.
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

    Raises: ValueError for a port that is none.
    """
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def host_of(url: str) -> str:
    """Return host and port of a URL as they are written."""
    return urlsplit(url).netloc.rpartition("@")[2]
