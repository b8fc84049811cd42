"""Bearer tokens of registries: anonymous, by user name and password, by identity token.

oras implements the first two exchanges, with a session that uses the transport, so that deadline, limits and address
checks apply to token servers, too; it reads no configuration and runs no credential helper. A token server must belong
to the registry by name; for credentials the rule is stricter, and requires https. Without verified https it must be the
registry's own host and port: the registry chooses the address, and gets what is found there as a token. For the same
reason, messages reveal nothing about responses of other addresses.

The exchanges: https://distribution.github.io/distribution/spec/auth/token/ and …/auth/oauth/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import oras.auth
import oras.auth.utils
import oras.logger

from api.errors import BundleError
from api.plugins import RegistryCredentials
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.image.challenge import Challenge
from controller.sources.image.endpoint import Endpoint
from controller.sources.transport import Response, Transport

_ANSWER_BYTES = 64 * 1024
_TOKEN = re.compile(r"[\x21-\x7e]+")
_PATH = re.compile(r"/(?!/)")
_CLIENT = "rukpak"
_OK = 200

_PAIRS = {"registry-1.docker.io": ("auth.docker.io",), "registry.gitlab.com": ("gitlab.com",)}
"""Registries and their known token servers."""

_SHARED = (
    "amazonaws.com",
    "azurecr.io",
    "cloudfront.net",
    "github.io",
    "gitlab.io",
    "googleapis.com",
    "herokuapp.com",
    "nip.io",
    "pkg.dev",
    "run.app",
    "sslip.io",
    "windows.net",
)
"""Domains below which anyone can register a name."""
_SECOND_LEVEL = re.compile(r"(?:ac|co|com|edu|go|gob|gov|gouv|gv|ltd|me|mil|ne|net|nom|or|org|plc|sch)\.[a-z]{2}")


class TokenServer:
    """The token servers that one registry names; `path` starts messages, `verify` is the transport's."""

    def __init__(self, transport: Transport, endpoint: Endpoint, path: str, *, verify: bool) -> None:
        oras.logger.logger.log_handler.clear()  # it logs to stderr, including responses of token servers
        self._transport, self._endpoint, self._path, self._verify = transport, endpoint, path, verify

    def request(self, challenge: Challenge, credentials: RegistryCredentials | None) -> str:
        """Return a token for a challenge; '' if it names no server, or the server issues none.

        Raises: BundleError (InsecureRefused, Unreachable, ContentRejected for an endless response).
        """
        asked = self._asked(challenge)
        if not asked["realm"]:
            return ""
        self._check(asked["realm"], is_secret=credentials is not None)
        try:
            if credentials and credentials.identity_token:
                return self._refresh(asked, credentials.identity_token)
            return self._exchange(asked, credentials)
        except BundleError as error:
            if self._transport.conceal(error) is error:
                raise
            raise self._refused(
                Reason.UNREACHABLE, "a token server at an address that cannot be used; check the registry"
            ) from None

    def _asked(self, challenge: Challenge) -> dict[str, str]:
        scope = f"repository:{self._endpoint.repository}:pull"
        found = {name: challenge.parameters.get(name, "") for name in ("realm", "service", "scope")}
        # A path alone is one of the registry itself.
        realm = f"https://{self._endpoint.host}{found['realm']}" if _PATH.match(found["realm"]) else found["realm"]
        return {**found, "realm": realm, "scope": found["scope"] or scope}

    def _exchange(self, asked: Mapping[str, str], credentials: RegistryCredentials | None) -> str:
        exchange = oras.auth.TokenAuth()
        exchange.session = _Session(self._send)
        exchange._tls_verify = True  # noqa: SLF001 - oras passes it on, and our session ignores it
        header = oras.auth.utils.authHeader(asked)
        if credentials is None:
            return str(exchange.request_anonymous_token(header) or "")
        exchange.set_basic_auth(credentials.username, credentials.password)
        return str(exchange.request_token(header) or "")

    def _refresh(self, asked: Mapping[str, str], identity_token: str) -> str:
        """Exchange an identity token, which oras does not support (OAuth 2.0, RFC 6749, section 6)."""
        form = {
            "grant_type": "refresh_token",
            "service": asked["service"],
            "scope": asked["scope"],
            "client_id": _CLIENT,
            "refresh_token": identity_token,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self._send("POST", asked["realm"], headers, urlencode(form).encode())
        found = answer.json() if answer.status_code == _OK else {}
        return found.get("access_token") or found.get("token") or ""

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> _Answer:
        own = urlsplit(url).netloc == self._endpoint.host
        named = "" if own else f"https://{self._endpoint.host}"
        answer = _Answer.of(self._transport.send(method, url, headers, body=body, named=named))
        self._transport.settle()
        return answer

    def _check(self, realm: str, *, is_secret: bool) -> None:
        scheme, host, authority = _split_realm(realm)
        if is_secret and scheme == "http":
            problem = " over plain http, to which no credentials are sent; configure https there"
        elif scheme not in ("https", "http") or not is_related(host, self._endpoint.host_name, is_secret=is_secret):
            problem = ", which is not in the domain of the registry; use another registry"
        elif authority != self._endpoint.host and (scheme == "http" or not self._verify):
            problem = " at another address without verified https; use https and certificateData"
        else:
            return
        raise self._refused(Reason.INSECURE_REFUSED, f"token server {quote(host)}{problem}")

    def _refused(self, reason: Reason, problem: str) -> BundleError:
        registry = quote(self._endpoint.host)
        return BundleError(reason, f"{self._path}.ref: registry {registry} uses {problem}")


class _Session:
    """The part of a session of requests that oras uses for a token."""

    def __init__(self, send: Callable[[str, str, Mapping[str, str]], _Answer]) -> None:
        self._send = send

    def get(self, realm: str, *, headers: Mapping[str, str], **options: Any) -> _Answer:
        """Send a GET request, with no header but `Authorization`. Raises: as the transport."""
        own = {name: value for name, value in headers.items() if name == "Authorization"}
        return self.request("GET", realm, headers=own, **options)

    def request(
        self,
        method: str,
        realm: str,
        *,
        params: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        verify: bool,  # noqa: ARG002 - oras' signature
    ) -> _Answer:
        """Send a request with parameters. Raises: as the transport."""
        separator = "&" if urlsplit(realm).query else "?"
        return self._send(method, f"{realm}{separator}{urlencode(params)}", headers or {})


@dataclass(frozen=True, slots=True)
class _Answer:
    """The part of a response of requests that oras uses for a token."""

    status_code: int
    body: bytes

    @classmethod
    def of(cls, response: Response) -> _Answer:
        """Read a response. Raises: BundleError (ContentRejected over the limit, Unreachable)."""
        return cls(response.status, response.read_all(_ANSWER_BYTES))

    @property
    def text(self) -> str:
        """Nothing, since oras would log it."""
        return ""

    def json(self) -> dict[str, str]:
        """Return the texts of the body that can be tokens."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        found = document.items() if isinstance(document, dict) else ()
        return {key: value for key, value in found if isinstance(value, str) and _TOKEN.fullmatch(value)}


def _split_realm(realm: str) -> tuple[str, str, str]:
    """Return scheme, host, and host with port of a realm; nothing for an invalid URL, or one with a user."""
    try:
        url = urlsplit(realm)
    except ValueError:
        return "", "", ""
    return ("", "", "") if "@" in url.netloc else (url.scheme, url.hostname or "", url.netloc)


def is_related(host: str, registry: str, *, is_secret: bool) -> bool:
    """Return whether a token server belongs to a registry by name: the same host, a known pair, or the same parent.

    Examples: `auth.docker.io` for `registry-1.docker.io`, `gitlab.example.com` for `registry.example.com`.

    Args:
        host: of the token server, without port.
        registry: host of the registry, without port.
        is_secret: whether it gets credentials. Then a parent below which anyone may register names does not count. (A
            malicious registry could request them itself.)
    """
    if host == registry or host in _PAIRS.get(registry, ()):
        return True
    parent = registry.partition(".")[2]
    if "." not in parent or registry.replace(".", "").isdigit() or (is_secret and _is_shared(parent)):
        return False
    return host == parent or host.endswith("." + parent)


def _is_shared(domain: str) -> bool:
    return f".{domain}".endswith(tuple(f".{shared}" for shared in _SHARED)) or bool(_SECOND_LEVEL.fullmatch(domain))
