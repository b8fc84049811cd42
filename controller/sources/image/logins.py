"""Logging in to a registry: anonymous until it sends a challenge, then with one set of credentials after another.

Invariants: credentials and tokens are sent to the registry's own host or to its token server, never over plain http;
each request is repeated at most once per set of credentials, and once more if a login has expired meanwhile (which some
registries report by 400 or 403 instead of 401). A registry that refuses without a challenge is asked for one, once.

Not here: which token servers are trusted (tokens.py), which entries of a Secret are for a repository (keyring.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from api.plugins import Credentials, RegistryCredentials
from controller.sources.image.challenge import Challenge, parse_challenges
from controller.sources.image.endpoint import Endpoint
from controller.sources.image.keyring import find_credentials
from controller.sources.image.tokens import TokenServer
from controller.sources.transport import Response
from controller.sources.trust import basic

_REFUSALS = (400, 401, 403)
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 200, 401, 403, 404


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
    """The login at one registry, for one call of the source: with each candidate in order, or anonymous without."""

    def __init__(self, server: TokenServer, candidates: tuple[RegistryCredentials, ...]) -> None:
        self._server = server
        self._candidates = deque[RegistryCredentials | None](candidates or (None,))
        self._challenges: tuple[Challenge, ...] = ()
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
        self._challenges = (Challenge(scheme="basic"),)
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
            token = self._server.request(bearer, candidate)
            return f"Bearer {token}" if token else ""
        if "basic" in by_scheme and candidate and candidate.password:
            return basic(candidate.username, candidate.password)
        return ""
