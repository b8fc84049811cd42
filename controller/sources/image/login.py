"""Logging in to a registry: challenges, credentials and bearer tokens.

Calls are anonymous until the registry sends a challenge (`WWW-Authenticate`, RFC 9110, sections 11.2 to 11.6.1), and
then use one set of credentials after another. Why not oras' expression for challenges: it mixes the parameters of all
of them, and misses values without quotes.

Invariants: credentials and tokens are sent to the registry's own host or to its token server, never over plain http;
each request is repeated at most once per set of credentials, and once more if a login has expired meanwhile (which some
registries report by 400 or 403 instead of 401). A registry that refuses without a challenge is asked for one, once.

Tokens are anonymous, by user name and password, or by identity token. oras implements the first two exchanges, with a
session that uses the transport, so that deadline, limits and address checks apply to token servers, too; it reads no
configuration and runs no credential helper. A token server must belong to the registry by name; for credentials the
rule is stricter, and requires https. Without verified https it must be the registry's own host and port: the registry
chooses the address, and gets what is found there as a token. For the same reason, messages reveal nothing about
responses of other addresses.

The exchanges: https://distribution.github.io/distribution/spec/auth/token/ and …/auth/oauth/. Not here: which entries
of a Secret are for a repository (credentials.py).
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode, urlsplit

import oras.auth
import oras.auth.utils
import oras.logger

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, RegistryCredentials
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote
from rukpak.controller.sources.credentials import find_credentials
from rukpak.controller.sources.hosts import origin_of
from rukpak.controller.sources.image.reference import Endpoint
from rukpak.controller.sources.transport import Response, Transport
from rukpak.controller.sources.trust import basic

_LONGEST = 4096
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - of the grammar
_PLAIN = r'[^\s",=][^\s",]*'  # more than a token: some registries do not quote the URL of realm
_SCHEME = re.compile(_TOKEN)
# Possessive, so that an unclosed quote costs linear time.
_PARAMETER = re.compile(rf'({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*+)"|({_PLAIN}))')
_ESCAPED = re.compile(r"\\(.)")
_REFUSALS = (400, 401, 403)
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 200, 401, 403, 404
_ANSWER_BYTES = 64 * 1024
_BEARER = re.compile(r"[\x21-\x7e]+")
_PATH = re.compile(r"/(?!/)")
_CLIENT = "rukpak"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """One way to authenticate."""

    scheme: str
    """In lower case: `basic`, `bearer`."""
    parameters: dict[str, str] = field(default_factory=dict)
    """By name in lower case."""


def parse_challenges(header: str) -> list[Challenge]:
    """Return the challenges of a header, in order; none if it is suspiciously long.

    Text outside the grammar is skipped; a challenge that is incomplete after that fails.
    """
    found, position = list[Challenge](), 0
    if len(header) > _LONGEST:
        return found
    while position < len(header):
        parameter = _PARAMETER.match(header, position)
        word = parameter or _SCHEME.match(header, position)
        if parameter and found:
            name, quoted, plain = parameter.groups()
            found[-1].parameters.setdefault(name.lower(), plain or _ESCAPED.sub(r"\1", quoted or ""))
        elif word and not parameter:
            found.append(Challenge(scheme=word[0].lower()))
        position = word.end() if word else position + 1
    return found


def choose_credentials(credentials: Credentials | None, endpoint: Endpoint) -> tuple[RegistryCredentials, ...]:
    """Return the credentials for an endpoint, the best first.

    A user name and password are for the registry that the spec names, not for its mirror.
    """
    if credentials is None:
        return ()
    found = find_credentials(credentials.registries, endpoint.name)
    if credentials.username and not endpoint.is_mirror:
        own = RegistryCredentials(registry=endpoint.host, username=credentials.username, password=credentials.password)
        return (*found, own)
    return found


class Login:
    """The login at one registry, for one call of the source: with each candidate in order, or anonymous without.

    Args:
        transport: to the registry, and to the token servers that it names.
        endpoint: of the registry.
        access: credentials, and the path that starts messages.
        verify: whether the transport verifies certificates.
    """

    def __init__(self, transport: Transport, endpoint: Endpoint, access: Access, *, verify: bool) -> None:
        oras.logger.logger.log_handler.clear()  # it logs to stderr, including responses of token servers
        self.transport, self.endpoint, self.path = transport, endpoint, access.path
        self._verify = verify
        candidates = choose_credentials(access.credentials, endpoint)
        self._candidates = deque[RegistryCredentials | None](candidates or (None,))
        self._challenges: list[Challenge] = []
        self._authorization = ""
        self._accepted = False
        self.has_credentials = bool(candidates)

    @property
    def headers(self) -> Mapping[str, str]:
        """The header that authenticates; empty before the first challenge."""
        return {"Authorization": self._authorization} if self._authorization else {}

    def accept(self) -> None:
        """Note that the registry has accepted the login."""
        self._accepted = True

    def answer(self, refusal: Response) -> bool:
        """Log in again after a refusal; return whether there was another way, now in `headers`.

        Raises: BundleError (InsecureRefused, Unreachable).
        """
        self._challenges = parse_challenges(refusal.headers.get("WWW-Authenticate", "")) or self._challenges
        if refusal.status not in _REFUSALS or not self._challenges:
            return False
        if self._authorization and not self._accepted:
            self._candidates.popleft()  # an accepted login has expired, and is renewed instead
        self._accepted = False
        return self._log_in()

    def may_begin(self, status: int) -> bool:
        """Return whether a refusal may be due to credentials that were never asked for."""
        return self.has_credentials and not self._challenges and status in (_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND)

    def begin(self, base: Response) -> bool:
        """Log in as the base of the API asks for it; return whether there is a way, now in `headers`.

        Without a challenge there the password is sent all the same, as by other clients.

        Raises: BundleError (InsecureRefused, Unreachable).
        """
        if base.status != _OK:
            return self.answer(base)
        self._challenges = [Challenge(scheme="basic")]
        return self._log_in()

    def _log_in(self) -> bool:
        while self._candidates:
            self._authorization = self._authorize(self._candidates[0])
            if self._authorization:
                return True
            self._candidates.popleft()
        self._authorization = ""
        return False

    def _authorize(self, candidate: RegistryCredentials | None) -> str:
        by_scheme = {challenge.scheme: challenge for challenge in reversed(self._challenges)}
        if bearer := by_scheme.get("bearer"):
            token = self.request_token(bearer, candidate)
            return f"Bearer {token}" if token else ""
        if "basic" in by_scheme and candidate and candidate.password:
            return basic(candidate.username, candidate.password)
        return ""

    # token servers

    def request_token(self, challenge: Challenge, credentials: RegistryCredentials | None) -> str:
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
            if self.transport.conceal(error) is error:
                raise
            raise self._refused(
                Reason.UNREACHABLE, "a token server at an address that cannot be used; check the registry"
            ) from None

    def _asked(self, challenge: Challenge) -> dict[str, str]:
        scope = f"repository:{self.endpoint.repository}:pull"
        found = {name: challenge.parameters.get(name, "") for name in ("realm", "service", "scope")}
        # A path alone is one of the registry itself.
        realm = f"https://{self.endpoint.host}{found['realm']}" if _PATH.match(found["realm"]) else found["realm"]
        return {**found, "realm": realm, "scope": found["scope"] or scope}

    def _exchange(self, asked: Mapping[str, str], credentials: RegistryCredentials | None) -> str:
        exchange = oras.auth.TokenAuth()
        exchange.session = SimpleNamespace(get=self._get)
        exchange._tls_verify = True  # noqa: SLF001 - oras passes it on, and it is ignored
        if credentials:
            exchange.set_basic_auth(credentials.username, credentials.password)
        # oras takes a realm that begins with HTTPS:// for a host.
        header = oras.auth.utils.authHeader({**asked, "realm": urlsplit(asked["realm"]).geturl()})
        return str(exchange.request_token(header) or "")

    def _get(self, realm: str, *, headers: Mapping[str, str], params: Mapping[str, str], **_: Any) -> _Answer:
        # Of the headers of oras only one is sent.
        own = {name: value for name, value in headers.items() if name == "Authorization"}
        separator = "&" if urlsplit(realm).query else "?"
        return self._send("GET", f"{realm}{separator}{urlencode(params)}", own)

    def _refresh(self, asked: Mapping[str, str], identity_token: str) -> str:
        # oras does not support it (OAuth 2.0, RFC 6749, section 6).
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
        named = "" if self._is_own(url) else f"https://{self.endpoint.host}"
        response = self.transport.send(method, url, headers, body=body, named=named)
        answer = _Answer(response.status, response.read_all(_ANSWER_BYTES))
        self.transport.settle()
        return answer

    def _check(self, realm: str, *, is_secret: bool) -> None:
        scheme, host = _split_realm(realm)
        if is_secret and scheme == "http":
            problem = " over plain http, to which no credentials are sent; configure https there"
        elif scheme not in ("https", "http") or not is_related(host, self.endpoint.location.host, is_secret=is_secret):
            problem = ", which is not in the domain of the registry; use another registry"
        elif not self._is_own(realm) and (scheme == "http" or not self._verify):
            problem = " at another address without verified https; use https and certificateData"
        else:
            return
        raise self._refused(Reason.INSECURE_REFUSED, f"token server {quote(host)}{problem}")

    def _is_own(self, url: str) -> bool:
        # Other spellings of its host and port are the same origin.
        return origin_of(url) == origin_of(f"{urlsplit(url).scheme}://{self.endpoint.host}")

    def _refused(self, reason: Reason, problem: str) -> BundleError:
        registry = quote(self.endpoint.host)
        return BundleError(reason, f"registry {registry} uses {problem}", place=f"{self.path}.ref")


@dataclass(frozen=True, slots=True)
class _Answer:
    """The part of a response of requests that oras uses for a token."""

    status_code: int
    body: bytes

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
        return {key: value for key, value in found if isinstance(value, str) and _BEARER.fullmatch(value)}


def _split_realm(realm: str) -> tuple[str, str]:
    try:
        scheme, host, _ = origin_of(realm)
    except ValueError:
        return "", ""
    return ("", "") if "@" in urlsplit(realm).netloc else (scheme, host or "")


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
    is_shared = f".{parent}".endswith(tuple(f".{shared}" for shared in _SHARED)) or _SECOND_LEVEL.fullmatch(parent)
    if "." not in parent or registry.replace(".", "").isdigit() or (is_secret and is_shared):
        return False
    return host == parent or host.endswith("." + parent)
