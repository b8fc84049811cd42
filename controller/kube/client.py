"""Requests to the API server: JSON in, JSON out, on the TLS, credentials and connection pool of `kubernetes.client`.

Of that package only `ApiClient` is used: its models cost seven times the CPU and three times the memory.

Invariants: thread-safe; ApiError is all that is raised for what network or server do; nothing is retried but one 401,
after the credentials were read again. Not here: connections and credentials (transport.py), what a reply means
for an object (apply/), reading it (replies.py), watches (watch.py).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from controller.kube.configuration import find_loader
from controller.kube.encoding import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    METADATA,
    METADATA_LIST,
    encode,
)
from controller.kube.errors import ApiError, Cause, ConfigurationError
from controller.kube.fence import Fence
from controller.kube.impersonation import User
from controller.kube.replies import TOO_LARGE, LineStream, Response, read_whole
from controller.kube.transport import Request, RequestHook, Timeout, Transport
from controller.processes.supervision import Supervisor

if TYPE_CHECKING:
    from kubernetes.client import Configuration

__all__ = [
    "APPLY_PATCH",
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "METADATA",
    "METADATA_LIST",
    "TOO_LARGE",
    "ApiError",
    "Cause",
    "Client",
    "ConfigurationError",
    "Page",
    "RequestHook",
    "Response",
    "User",
    "connect",
]

Objects = list[dict[str, Any]]
Query = Iterable[tuple[str, str | int]]

DEFAULT_TIMEOUT: Timeout = (5, 30)
PAGE_ITEMS = 500


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a collection."""

    items: Objects
    resource_version: str
    """Of the whole list."""
    more: bool
    restarted: bool = False
    """The pages before were of a list that expired: this one holds everything."""


class Client:
    """Talks to one API server.

    Args:
        load: reads the configuration: now, and again after a 401.
        user_agent: of every request.
        on_request: see RequestHook; may be set later, too.
        fence: what every write has to pass; None lets all through.

    Raises: ConfigurationError.
    """

    def __init__(
        self,
        load: Callable[[], Configuration],
        *,
        user_agent: str = "rukpak",
        on_request: RequestHook | None = None,
        fence: Fence | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = Transport(load, user_agent=user_agent, on_request=on_request, fence=fence, clock=clock)
        self._user: User | None = None
        self.supervisor = Supervisor()
        """Keeps the threads alive that follow collections through this client; may be set before they are made."""

    def acting_as(self, user: User | None) -> Client:
        """Return a client whose requests go out as another user, over the same connections; None: this one."""
        if user is None:
            return self
        client = copy.copy(self)
        client._user = user  # noqa: SLF001 - of this class
        return client

    @property
    def host(self) -> str:
        """Name and port of the API server."""
        return self._transport.host

    @property
    def on_request(self) -> RequestHook | None:
        """What is told about every request."""
        return self._transport.on_request

    @on_request.setter
    def on_request(self, hook: RequestHook | None) -> None:
        self._transport.on_request = hook

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Any = None,
        content_type: str = "",
        accept: str = JSON,
        timeout: Timeout = DEFAULT_TIMEOUT,
        user: User | None = None,
        if_none_match: str = "",
        max_bytes: int | None = None,
    ) -> Response:
        """Send one request and read the whole reply.

        `path` has every segment quoted, as `Resource.path` does it. `body` is JSON, or bytes that go out as they are.
        `timeout` is seconds to connect, and seconds of silence. `user` is whom to act as, by default the one of
        `acting_as`, else of the configuration.
        `if_none_match` is an ETag: if it still holds, the response has status 304 and no value. Of a reply with more
        than `max_bytes` no more is read.

        Raises: ApiError, with reason TOO_LARGE for such a reply; ValueError for a body that is no JSON.
        """
        user = user or self._user
        headers = [("Accept", accept)]
        if body is not None:
            headers.append(("Content-Type", content_type or JSON))
        if if_none_match:
            headers.append(("If-None-Match", if_none_match))
        reply = self._transport.send(
            Request(
                method=method,
                path=path,
                query=tuple(query),
                headers=(*headers, *(user.headers() if user else ())),
                body=body if body is None or isinstance(body, bytes) else encode(body),
                timeout=timeout,
            )
        )
        return read_whole(reply, max_bytes)

    def stream(
        self,
        path: str,
        *,
        query: Query = (),
        accept: str = JSON,
        timeout: Timeout = DEFAULT_TIMEOUT,
        silence: float = 300,
        user: User | None = None,
    ) -> LineStream:
        """Open a GET whose reply comes line by line. Close it.

        `timeout` counts until the headers are there; afterwards `silence` seconds without a byte mean that the
        connection is lost.

        Raises: ApiError, also while iterating.
        """
        user = user or self._user
        headers = (("Accept", accept), *(user.headers() if user else ()))
        request = Request(method="GET", path=path, query=tuple(query), headers=headers, body=None, timeout=timeout)
        return LineStream(self._transport.send(request), silence)

    def get(self, path: str, *, metadata: bool = False, user: User | None = None) -> Response:
        """Get one object, or only its metadata.

        Raises: ApiError.
        """
        return self.request("GET", path, accept=METADATA if metadata else JSON, user=user)

    def list(
        self,
        path: str,
        *,
        metadata: bool = False,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_ITEMS,
        user: User | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the objects of a collection, each once; a page is asked for when it is needed.

        Raises: ApiError, also while iterating.
        """
        seen: set[str] = set()
        pages = self.pages(
            path,
            metadata=metadata,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            user=user,
        )
        for page in pages:
            for item in page.items:
                uid = item["metadata"].get("uid", "")
                if uid not in seen:
                    seen.add(uid)
                    yield item

    def pages(
        self,
        path: str,
        *,
        metadata: bool = False,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_ITEMS,
        user: User | None = None,
        max_bytes: int | None = None,
    ) -> Iterator[Page]:
        """Yield the pages of a collection. If the list expires on the way, a last page has all of it.

        Raises: ApiError, also while iterating; with reason TOO_LARGE for a page of more than `max_bytes`.
        """
        accept = METADATA_LIST if metadata else JSON
        query = _selectors(label_selector, field_selector)
        token, restarted = "", False
        while True:
            paging: Query = [] if restarted else [("limit", limit), *([("continue", token)] if token else [])]
            try:
                reply = self.request(
                    "GET", path, query=[*query, *paging], accept=accept, user=user, max_bytes=max_bytes
                )
            except ApiError as error:
                if error.status != HTTPStatus.GONE or not token or restarted:
                    raise
                restarted = True
                continue
            value = reply.value
            about = value["metadata"]
            token = "" if restarted else about.get("continue") or ""
            yield Page(value.get("items") or [], about.get("resourceVersion", ""), bool(token), restarted)
            if not token:
                return

    def list_page(
        self,
        path: str,
        *,
        metadata: bool = False,
        label_selector: str = "",
        limit: int = PAGE_ITEMS,
        max_bytes: int | None = None,
    ) -> tuple[Objects, bool]:
        """Return at most `limit` objects of a collection, and whether there are more.

        Raises: ApiError, with reason TOO_LARGE if they take more than `max_bytes`.
        """
        pages = self.pages(path, metadata=metadata, label_selector=label_selector, limit=limit, max_bytes=max_bytes)
        page = next(pages)
        return page.items, page.more

    def apply(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        manager: str,
        force: bool,
        dry_run: bool = False,
        metadata: bool = True,
        user: User | None = None,
    ) -> Response:
        """Apply a whole desired object (server-side apply). 201: it was created; 200: it existed, changed or not.

        `manager` is the field manager, at most 128 bytes; `force` takes fields that others own; with `metadata` the
        reply is metadata only, managedFields included.

        Raises: ApiError.
        """
        query: list[tuple[str, str | int]] = [
            ("fieldManager", manager),
            ("force", "true" if force else "false"),
            ("fieldValidation", "Strict"),
        ]
        return self.request(
            "PATCH",
            path,
            query=[*query, ("dryRun", "All")] if dry_run else query,
            body=body,
            content_type=APPLY_PATCH,
            accept=METADATA if metadata else JSON,
            user=user,
        )

    def merge_patch(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        manager: str = "",
        metadata: bool = False,
        user: User | None = None,
    ) -> Response:
        """Merge into an object (RFC 7386): null deletes, lists are replaced. Status is at `<path>/status`.

        Raises: ApiError.
        """
        return self.request(
            "PATCH",
            path,
            query=[("fieldManager", manager)] if manager else [],
            body=body,
            content_type=MERGE_PATCH,
            accept=METADATA if metadata else JSON,
            user=user,
        )

    def create(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        manager: str = "",
        metadata: bool = False,
        user: User | None = None,
    ) -> Response:
        """Create an object in the collection at `path`.

        Raises: ApiError; 409 with reason `AlreadyExists`.
        """
        return self.request(
            "POST",
            path,
            query=[("fieldManager", manager)] if manager else [],
            body=body,
            accept=METADATA if metadata else JSON,
            user=user,
        )

    def delete(
        self,
        path: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
        user: User | None = None,
    ) -> Response:
        """Delete an object, if it is still the one that `uid` and `resource_version` say (else 409).

        Returns: a Status if it is gone, the object if finalizers hold it.
        Raises: ApiError.
        """
        conditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in conditions.items() if value}
        options: dict[str, Any] = {"propagationPolicy": propagation}
        if preconditions:
            options["preconditions"] = preconditions
        return self.request("DELETE", path, body=options, user=user)


def connect(
    *,
    kubeconfig: str | None,
    context: str | None = None,
    pool: int = 48,
    user_agent: str,
    fence: Fence | None = None,
) -> Client:
    """Return a client for the API server that the kubeconfig names, or the pod's own; its writes pass the fence.

    No request is made yet. See `configuration.find_loader` for the order in which credentials are looked for.

    Raises: ConfigurationError.
    """
    return Client(find_loader(kubeconfig, context, pool), user_agent=user_agent, fence=fence)


def _selectors(label: str, field: str) -> list[tuple[str, str | int]]:
    return [(key, text) for key, text in (("labelSelector", label), ("fieldSelector", field)) if text]
