"""Who may read the metrics: the API server says who a token belongs to, and what that account may do.

As controller-runtime does it: TokenReview, then SubjectAccessReview for `get` on the path. Answers are kept for a short
while, by the digest of the token: a scrape every few seconds costs two requests a minute.

Who shows one unknown token after another costs the API server no more than a few requests a second, and holds up nobody
who was admitted before: strangers are counted by peer and in all, and have questions and memory of their own.
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

from controller.kube.client import ApiError, Client

log = logging.getLogger(__name__)

_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
KEPT_SECONDS = {HTTPStatus.OK: 60.0, HTTPStatus.UNAUTHORIZED: 10.0, HTTPStatus.FORBIDDEN: 10.0}
KEPT = 256
AT_ONCE = 2
"""Questions under way for strangers, and as many for who was admitted before."""
PER_PEER, IN_ALL = (1.0, 5), (5.0, 20)
"""Unknown tokens a second that are asked about, and how many of them at once after a while without any."""
TOKEN_CHARACTERS = 16 << 10
TIMEOUT = (2.0, 5.0)

Key = tuple[str, str]
"""Digest of a token, and a path."""
Verdict = tuple[HTTPStatus, float]
"""An answer, and until when it holds."""


class Allowance:
    """How often something may be done: tokens that fill up with time, for each key. Not thread-safe.

    Args:
        rate: tokens a second.
        burst: as many are kept.
        clock: seconds.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> bool:
        """Take a token, if there is one."""
        now = self._clock()
        tokens, since = self._left.pop(key, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        has_one = tokens >= 1
        _keep(self._left, key, (tokens - has_one, now))
        return has_one


class Reviewer:
    """Thread-safe.

    Args:
        client: is not fenced: reviews are POSTs, and standbys are scraped, too.
        clock: seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._admitted: OrderedDict[Key, Verdict] = OrderedDict()
        self._refused: OrderedDict[Key, Verdict] = OrderedDict()
        self._per_peer, self._in_all = Allowance(*PER_PEER, clock), Allowance(*IN_ALL, clock)
        self._asking = {is_known: threading.BoundedSemaphore(AT_ONCE) for is_known in (True, False)}
        self._lock = threading.Lock()

    def review(self, token: str, path: str, peer: str) -> HTTPStatus:
        """Return whether whoever has a token may get a path.

        Args:
            token: '' for none.
            path: that is asked for.
            peer: address of who asks.

        Returns: 200; 401 or 403 for who may not; 429 for who asks too often; 503 if it cannot be found out.
        """
        if not token or len(token) > TOKEN_CHARACTERS:
            return HTTPStatus.UNAUTHORIZED
        key = (hashlib.sha256(token.encode()).hexdigest(), path)
        with self._lock:
            is_known = key in self._admitted
            status, until = self._admitted.get(key) or self._refused.get(key) or (HTTPStatus.OK, 0.0)
            if self._clock() < until:
                return status
            if not is_known and not (self._per_peer.take(peer) and self._in_all.take("")):
                return HTTPStatus.TOO_MANY_REQUESTS
        if not self._asking[is_known].acquire(blocking=False):
            return HTTPStatus.TOO_MANY_REQUESTS
        try:
            return self._ask_and_keep(key, token)
        finally:
            self._asking[is_known].release()

    def _ask_and_keep(self, key: Key, token: str) -> HTTPStatus:
        try:
            status = self._ask(token, key[1])
        except ApiError as error:
            log.warning("metrics cannot be authorized", extra={"reply": str(error)})
            return HTTPStatus.SERVICE_UNAVAILABLE
        with self._lock:
            self._admitted.pop(key, None)
            self._refused.pop(key, None)
            kept = self._admitted if status is HTTPStatus.OK else self._refused
            _keep(kept, key, (status, self._clock() + KEPT_SECONDS[status]))
        return status

    def _ask(self, token: str, path: str) -> HTTPStatus:
        who = self._post(TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        if not who.get("authenticated"):
            return HTTPStatus.UNAUTHORIZED
        user = who.get("user") or {}
        wish = {
            "user": user.get("username", ""),
            **{key: user[key] for key in ("uid", "groups", "extra") if user.get(key)},
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        may = self._post(ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", wish)
        return HTTPStatus.OK if may.get("allowed") else HTTPStatus.FORBIDDEN

    def _post(self, path: str, api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": api_version, "kind": kind, "spec": spec}
        value: dict[str, Any] = self._client.request("POST", path, body=body, timeout=TIMEOUT).value
        return value.get("status") or {}


def _keep(known: OrderedDict[_KeyT, _ValueT], key: _KeyT, value: _ValueT) -> None:
    """Add an entry, in place of the oldest where there are too many."""
    known[key] = value
    if len(known) > KEPT:
        known.popitem(last=False)
