"""URLs of files: which are accepted, their normal form, and which parts messages may show.

Pure. Invariant: neither user info nor a query is ever shown, since they may contain secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from controller.sources.hosts import PORTS, Location

HTTP, HTTPS = "http", "https"
_NOT_VISIBLE = re.compile(r"[\x00-\x20\x7f-\x9f\\]")


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
