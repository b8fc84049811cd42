"""Authorization of metrics requests by the API server.

As in controller-runtime: a TokenReview, then a SubjectAccessReview for `get` on the path. Verdicts are cached briefly
by the digest of the token, so that frequent scrapes cost two requests a minute.

A client that sends one unknown token after another costs the API server only a few requests per second, and does not
delay clients admitted before: unknown tokens are limited by peer and in total, with a cache and concurrency of their
own.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from rukpak.controller.kube.client import ApiError, Client

log = logging.getLogger(__name__)
_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
KEPT_SECONDS = {HTTPStatus.OK: 60.0, HTTPStatus.UNAUTHORIZED: 10.0, HTTPStatus.FORBIDDEN: 10.0}
KEPT = 256
CONCURRENT = 2
"""Simultaneous reviews of unknown tokens, and as many of tokens admitted before."""
PER_PEER, IN_TOTAL = (1.0, 5), (5.0, 20)
"""Reviews of unknown tokens: rate per second, and burst."""
TOKEN_CHARACTERS = 16 << 10
TIMEOUT = (2.0, 5.0)
Key = tuple[str, str]
"""Digest of a token, and a path."""
Verdict = tuple[HTTPStatus, float]
"""A status, and until when it is valid."""


class Allowance:
    """A token bucket for each key, with a rate per second and a burst. Not thread-safe."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> bool:
        """Take a token; return whether there was one."""
        now = self._clock()
        tokens, since = self._left.pop(key, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        is_left = tokens >= 1
        _keep(self._left, key, (tokens - is_left, now))
        return is_left


class Reviewer:
    """Thread-safe. The client must not be fenced: reviews are POSTs, and standbys are scraped, too."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._admitted: OrderedDict[Key, Verdict] = OrderedDict()
        self._refused: OrderedDict[Key, Verdict] = OrderedDict()
        self._per_peer, self._in_total = Allowance(*PER_PEER, clock), Allowance(*IN_TOTAL, clock)
        self._slots = {is_known: threading.BoundedSemaphore(CONCURRENT) for is_known in (True, False)}
        self._lock = threading.Lock()

    def review(self, token: str, path: str, peer: str) -> HTTPStatus:
        """Return whether the owner of a token may get a path.

        Args:
            token: empty if there is none.
            path: of the request.
            peer: address of the client.

        Returns: 200, 401 or 403; 429 after too many unknown tokens; 503 if the API server cannot decide.
        """
        if not token or len(token) > TOKEN_CHARACTERS:
            return HTTPStatus.UNAUTHORIZED
        key = (hashlib.sha256(token.encode()).hexdigest(), path)
        with self._lock:
            is_known = key in self._admitted
            status, until = self._admitted.get(key) or self._refused.get(key) or (HTTPStatus.OK, 0.0)
            if self._clock() < until:
                return status
            if not is_known and not (self._per_peer.take(peer) and self._in_total.take("")):
                return HTTPStatus.TOO_MANY_REQUESTS
        if not self._slots[is_known].acquire(blocking=False):
            return HTTPStatus.TOO_MANY_REQUESTS
        try:
            return self._request_and_keep(key, token)
        finally:
            self._slots[is_known].release()

    def _request_and_keep(self, key: Key, token: str) -> HTTPStatus:
        try:
            status = self._request(token, key[1])
        except ApiError as error:
            log.warning("failed to authorize a metrics request", extra={"reply": str(error)})
            return HTTPStatus.SERVICE_UNAVAILABLE
        with self._lock:
            self._admitted.pop(key, None)
            self._refused.pop(key, None)
            kept = self._admitted if status is HTTPStatus.OK else self._refused
            _keep(kept, key, (status, self._clock() + KEPT_SECONDS[status]))
        return status

    def _request(self, token: str, path: str) -> HTTPStatus:
        identity = self._post(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        if not identity.get("authenticated"):
            return HTTPStatus.UNAUTHORIZED
        user = identity.get("user") or {}
        access = {
            "user": user.get("username", ""),
            **{key: user[key] for key in ("uid", "groups", "extra") if user.get(key)},
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        review = self._post(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", access)
        return HTTPStatus.OK if review.get("allowed") else HTTPStatus.FORBIDDEN

    def _post(self, path: str, api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": api_version, "kind": kind, "spec": spec}
        value: dict[str, Any] = self._client.request("POST", path, body=body, timeout=TIMEOUT).value
        return value.get("status") or {}


def _keep(known: OrderedDict[_KeyT, _ValueT], key: _KeyT, value: _ValueT) -> None:
    known[key] = value
    if len(known) > KEPT:
        known.popitem(last=False)
