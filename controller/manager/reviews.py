"""Who may read the metrics: the API server says who a token belongs to, and what that account may do.

As controller-runtime does it: TokenReview, then SubjectAccessReview for `get` on the path. Answers are kept for a short
while, by the digest of the token: a scrape every few seconds costs two requests a minute.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from controller.kube.client import ApiError, Client

log = logging.getLogger(__name__)

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
KEPT_SECONDS = {HTTPStatus.OK: 60.0, HTTPStatus.UNAUTHORIZED: 10.0, HTTPStatus.FORBIDDEN: 10.0}
KEPT = 256
TIMEOUT = (2.0, 5.0)


class Reviewer:
    """Thread-safe.

    Args:
        client: is not fenced: reviews are POSTs, and standbys are scraped, too.
        clock: seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._known: OrderedDict[tuple[str, str], tuple[HTTPStatus, float]] = OrderedDict()
        self._lock = threading.Lock()

    def review(self, token: str, path: str) -> HTTPStatus:
        """Return 200 if whoever has this token may get a path; else 401, 403, or 503 if that cannot be found out."""
        if not token:
            return HTTPStatus.UNAUTHORIZED
        key = (hashlib.sha256(token.encode()).hexdigest(), path)
        with self._lock:
            status, until = self._known.get(key, (HTTPStatus.OK, 0.0))
        if self._clock() < until:
            return status
        try:
            status = self._ask(token, path)
        except ApiError as error:
            log.warning("metrics cannot be authorized", extra={"reply": str(error)})
            return HTTPStatus.SERVICE_UNAVAILABLE
        with self._lock:
            self._known[key] = (status, self._clock() + KEPT_SECONDS[status])
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
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
