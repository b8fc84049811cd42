"""Anonymous bearer tokens of registries, by oras' reading of a challenge; the typed façade of oras.

oras is given no session of requests but one that goes through the transport, so that deadline, caps and address guard
hold for token servers, too; it reads no configuration and runs no credential helper. A token server must belong to the
registry by name.

The exchange: https://distribution.github.io/distribution/spec/auth/token/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import oras.auth
import oras.logger

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.transport import Response, Transport

_CHALLENGE_LENGTH = 4096  # oras' expression takes quadratic time
_ANSWER_BYTES = 64 * 1024
_TOKEN = re.compile(r"[\x21-\x7e]+")


class AnonymousTokens:
    """The token of one registry for one fetch.

    Args:
        transport: the way to the token server.
        host: of the registry, with its port.
        path: of the source in the spec; messages begin with it.
    """

    def __init__(self, transport: Transport, host: str, path: str) -> None:
        oras.logger.logger.log_handler.clear()  # it writes to stderr by itself, answers of token servers included
        self._exchange = _Exchange()
        self._exchange.session = _Session(transport, host, path)

    @property
    def headers(self) -> Mapping[str, str]:
        """The header that carries the token; empty before the first challenge."""
        headers: Mapping[str, str] = self._exchange.get_auth_header()
        return headers

    def renew(self, challenged: Response) -> bool:
        """Answer the challenge of a 401 with a new token; return whether there is one.

        Raises: BundleError (InsecureRefused, Unreachable).
        """
        challenge = challenged.headers.get("WWW-Authenticate", "")
        if len(challenge) > _CHALLENGE_LENGTH or challenge[:7].lower() != "bearer ":
            return False
        _, changed = self._exchange.authenticate_request(challenged, {}, refresh=True)
        return bool(changed)


class _Exchange(oras.auth.TokenAuth):  # type: ignore[misc]
    """oras' exchange, without its second try for those who have a password."""

    _tls_verify = True
    session: Any

    def request_token(self, h: Any) -> None:  # noqa: ARG002 - oras' signature
        """Return nothing: there are no credentials."""
        return


class _Session:
    """As much of a session of requests as oras uses for a token."""

    def __init__(self, transport: Transport, host: str, path: str) -> None:
        self._transport, self._host, self._path = transport, host, path

    def request(self, method: str, realm: str, *, params: Mapping[str, str], verify: bool) -> _Answer:  # noqa: ARG002 - oras' signature
        self._check(realm)
        separator = "&" if urlsplit(realm).query else "?"
        response = self._transport.send(method, f"{realm}{separator}{urlencode(params)}", {})
        return _Answer(response.status, response.read_all(_ANSWER_BYTES))

    def _check(self, realm: str) -> None:
        try:
            url = urlsplit(realm)
            host = url.hostname or ""
        except ValueError:
            host = ""
        own = urlsplit(f"//{self._host}").hostname or ""
        # Plain http is refused by the transport for all but loopback addresses.
        if not is_related(host, own) or url.scheme not in ("https", "http") or "@" in url.netloc:
            raise BundleError(
                Reason.INSECURE_REFUSED,
                f"{self._path}: registry {quote(self._host)} sends for a token to {quote(host)}, which does not belong "
                "to it by name; use another registry",
            )


@dataclass(frozen=True, slots=True)
class _Answer:
    """As much of a response of requests as oras uses for a token."""

    status_code: int
    body: bytes

    @property
    def text(self) -> str:
        """Nothing: oras would log it."""
        return ""

    def json(self) -> dict[str, str]:
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        found = document.items() if isinstance(document, dict) else ()
        return {key: value for key, value in found if isinstance(value, str) and _TOKEN.fullmatch(value)}


def is_related(host: str, registry: str) -> bool:
    """Return whether a token server belongs to a registry by name: the same host, or one of the same parent domain.

    So `auth.docker.io` for `registry-1.docker.io`, and `gitlab.com` for `registry.gitlab.com`. Without a list of
    public suffixes this is too lenient for anything secret; an anonymous request carries nothing.
    """
    parent = registry.partition(".")[2]
    if host == registry or "." not in parent or registry.replace(".", "").isdigit():
        return host == registry
    return host == parent or host.endswith("." + parent)
