"""Who may ask: only the browser of whoever has the address with the token, and only for pages of this server. Pure.

other machines      it listens on the loopback interface, or with a certificate
other names         the Host must be one of its own, so that no name that resolves to the machine leads here
                    (DNS rebinding)
other sites         Origin and Sec-Fetch-Site must be its own, the cookie is SameSite=Strict, and acts carry a token
                    that only a page of this server has (CSRF)
other users         a cookie, which is given for the token in the address that is printed; each run has a name of its
                    own, which other servers of the machine do not know: cookies do not tell ports apart
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie

CSRF_HEADER = "x-csrf-token"
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Headers of every reply."""
_SAFE = ("GET", "HEAD")
_OWN_SITES = ("", "none", "same-origin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The secrets of one run, and the names of the server."""

    hosts: frozenset[str]
    """Names and addresses that a Host header may have, without the port; also `*.example.com`, as in certificates."""
    port: int
    is_secure: bool = False
    """Whether it serves https."""
    token: str = field(default_factory=secrets.token_urlsafe)
    """In the address that is opened."""
    session: str = field(default_factory=secrets.token_urlsafe)
    """In the cookie."""
    csrf: str = field(default_factory=secrets.token_urlsafe)
    """In the page, and in the header of acts."""

    @property
    def scheme(self) -> str:
        """Scheme of its address."""
        return "https" if self.is_secure else "http"

    @property
    def cookie(self) -> str:
        """The name of its cookie."""
        return f"rukpak-ui-{self.port}"

    def set_cookie(self) -> str:
        """Return the header that gives the session to a browser."""
        secure = "; Secure" if self.is_secure else ""
        return f"{self.cookie}={self.session}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def admits(self, token: str) -> bool:
        """Return whether a token is the one in the address."""
        return _equal(token, self.token)

    def refuse(self, method: str, headers: Mapping[str, str], *, is_entry: bool) -> tuple[HTTPStatus, str] | None:
        """Return with which status and message a request is refused; None if it is not.

        Args:
            method: of the request.
            headers: of it, with names in lower case.
            is_entry: whether it is for the address with the token, which may come from anywhere.
        """
        host = headers.get("host", "")
        if not self._is_own(host):
            return HTTPStatus.MISDIRECTED_REQUEST, "this name is not one of this server"
        if is_entry and method in _SAFE:
            return None
        origin = headers.get("origin", "")
        if origin not in ("", f"{self.scheme}://{host}") or headers.get("sec-fetch-site", "") not in _OWN_SITES:
            return HTTPStatus.FORBIDDEN, "requests of other sites are refused"
        if not _equal(_read_cookie(headers.get("cookie", ""), self.cookie), self.session):
            return HTTPStatus.UNAUTHORIZED, 'open the address that "rukpak ui" has printed'
        if method not in _SAFE and not (origin and _equal(headers.get(CSRF_HEADER, ""), self.csrf)):
            return HTTPStatus.FORBIDDEN, "reload the page: this one is of an earlier run"
        return None

    def _is_own(self, host: str) -> bool:
        name, port = _split(host)
        default = 443 if self.is_secure else 80
        return is_named(name, self.hosts) and (port == str(self.port) or (not port and self.port == default))


def _split(host: str) -> tuple[str, str]:
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name.lower(), port.removeprefix(":")
    name, _, port = host.partition(":")
    return name.lower(), port


def _read_cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def name_run() -> str:
    """Return the name of one run: browsers find whatever is below `localhost` on this machine (RFC 6761)."""
    return f"{secrets.token_hex(16)}.localhost"


def is_named(name: str, names: Collection[str]) -> bool:
    """Return whether a name is one of these, of which `*.` covers one label, as in certificates."""
    label, dot, rest = name.partition(".")
    return name in names or bool(label and dot and f"*.{rest}" in names)
