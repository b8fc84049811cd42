"""URLs of files: which are taken, how they are spelled alike, and what a message may show of them.

Pure. Invariant: neither user info nor a query is ever shown: that is where secrets are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from controller.sources.image.reference import is_loopback

HTTP, HTTPS = "http", "https"
_PORTS = {HTTP: 80, HTTPS: 443}
_NOT_VISIBLE = re.compile(r"[\x00-\x20\x7f-\x9f\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A URL, taken apart."""

    scheme: str
    host: str
    port: int
    path: str
    query: str

    @property
    def usual_port(self) -> int:
        """The scheme's own."""
        return _PORTS[self.scheme]

    @property
    def authority(self) -> str:
        """Host, and the port unless it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == self.usual_port else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL in normal spelling, without a fragment."""
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{self.authority}{self.path}{query}"

    @property
    def name(self) -> str:
        """The last element of the path, as a file is called."""
        return unquote(self.path).rpartition("/")[2]

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine by name."""
        return is_loopback(self.host)


def parse_address(text: str) -> Address:
    """Take a URL apart.

    Raises: ValueError, whose text says what is wrong and how it should be, and shows nothing of the URL.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("is not a URL; correct it") from None
    if parts.scheme not in _PORTS or not host or _NOT_VISIBLE.search(text):
        raise ValueError("is not a URL like https://host/path; correct it")
    if "@" in parts.netloc:
        raise ValueError("must not hold a user or a password; name a Secret in auth")
    return Address(
        scheme=parts.scheme, host=host, port=port or _PORTS[parts.scheme], path=parts.path or "/", query=parts.query
    )
