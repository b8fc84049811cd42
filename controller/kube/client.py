"""Requests to the API server: JSON in, JSON out, one method for each verb.

The models of the kubernetes package are not used: they take seven times the CPU and three times the memory.

Invariants: thread-safe; every failure of the network or the server is an ApiError; only a 401 is retried, once, with
credentials that were read again. Not here: connections and credentials (transport.py), reading replies (replies.py),
what they mean for an object (apply/), watches (watch/).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from controller.kube.configuration import find_loader
from controller.kube.encoding import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, METADATA, METADATA_LIST, encode
from controller.kube.errors import ApiError, Cause, ConfigurationError
from controller.kube.fence import Fence
from controller.kube.impersonation import User
from controller.kube.replies import TOO_LARGE, LineStream, Response, read_whole
from controller.kube.transport import Request, RequestHook, Timeout, Transport
from controller.processes.supervision import Supervisor

if TYPE_CHECKING:
    from kubernetes.client import Configuration
    from urllib3 import BaseHTTPResponse

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
RELIST_SECONDS = 36_000.0


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a collection."""

    items: Objects
    resource_version: str
    """Of the whole list."""
    more: bool
    restarted: bool = False
    """Whether the list expired, so that this page contains all objects again."""


class Client:
    """Talks to one API server.

    Args:
        load: reads the configuration: now, and again after a 401.
        user_agent: of every request.
        on_request: see RequestHook; may also be set later.
        fence: admits writes; None for no fence.

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
        """Supervises the threads that use this client; may be replaced before they are created."""
        self.relist_seconds = RELIST_SECONDS
        """After how long a collection is listed again although a watch follows it; may be set before it is watched."""
        self.on_restored: Callable[[], None] = lambda: None
        """Called, on any thread, when a reply shows that the cluster is older than known; may be set before use."""

    def acting_as(self, user: User | None) -> Client:
        """Return a client that acts as a user over the same connections; this client for None."""
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
        """The hook that is called for every request."""
        return self._transport.on_request

    @on_request.setter
    def on_request(self, hook: RequestHook | None) -> None:
        """Set the hook."""
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
        if_none_match: str = "",
        max_bytes: int | None = None,
    ) -> Response:
        """Send one request and read the whole reply.

        The segments of `path` are quoted, see `Resource.path`. `body` is JSON, or bytes that are sent as they are. If
        the ETag `if_none_match` still matches, the response has status 304 and no value.

        Raises: ApiError, with reason TOO_LARGE after `max_bytes`; ValueError for a body that is not valid JSON.
        """
        headers = [("Accept", accept)]
        if body is not None:
            headers.append(("Content-Type", content_type or JSON))
        if if_none_match:
            headers.append(("If-None-Match", if_none_match))
        data = body if body is None or isinstance(body, bytes) else encode(body)
        return read_whole(self._send(method, path, query, headers, timeout, body=data), max_bytes)

    def stream(
        self,
        path: str,
        *,
        query: Query = (),
        accept: str = JSON,
        timeout: Timeout = DEFAULT_TIMEOUT,
        silence: float = 300,
    ) -> LineStream:
        """Open a GET whose reply is read line by line; the caller must close it.

        `timeout` applies until the headers arrive; after that, `silence` seconds without a byte mean that the
        connection is lost.

        Raises: ApiError, also while iterating.
        """
        return LineStream(self._send("GET", path, query, [("Accept", accept)], timeout), silence)

    def _send(
        self,
        method: str,
        path: str,
        query: Query,
        headers: Sequence[tuple[str, str]],
        timeout: Timeout,
        *,
        body: bytes | None = None,
    ) -> BaseHTTPResponse:
        user = self._user.headers() if self._user else ()
        request = Request(
            method=method, path=path, query=tuple(query), headers=(*headers, *user), body=body, timeout=timeout
        )
        return self._transport.send(request)

    def get(self, path: str, *, metadata: bool = False) -> Response:
        """Get one object, or only its metadata.

        Raises: ApiError.
        """
        return self.request("GET", path, accept=METADATA if metadata else JSON)

    def list(
        self,
        path: str,
        *,
        metadata: bool = False,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_ITEMS,
    ) -> Iterator[dict[str, Any]]:
        """Yield the objects of a collection, each once; pages are requested as needed.

        Raises: ApiError, also while iterating.
        """
        seen: set[str] = set()
        for page in self.pages(
            path, metadata=metadata, label_selector=label_selector, field_selector=field_selector, limit=limit
        ):
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
        max_bytes: int | None = None,
    ) -> Iterator[Page]:
        """Yield the pages of a collection. If the list expires meanwhile, a last page contains all objects.

        Raises: ApiError, also while iterating; with reason TOO_LARGE for a page of more than `max_bytes`.
        """
        accept = METADATA_LIST if metadata else JSON
        selectors = [("labelSelector", label_selector), ("fieldSelector", field_selector)]
        query: list[tuple[str, str | int]] = [(key, value) for key, value in selectors if value]
        token, restarted = "", False
        while True:
            paging: Query = [] if restarted else [("limit", limit), *([("continue", token)] if token else [])]
            try:
                value = self.request("GET", path, query=[*query, *paging], accept=accept, max_bytes=max_bytes).value
            except ApiError as error:
                if error.status != HTTPStatus.GONE or not token or restarted:
                    raise
                restarted = True
                continue
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
    ) -> Response:
        """Apply a whole desired object (server-side apply). 201: it was created; 200: it existed, changed or not.

        `manager` is the field manager, at most 128 bytes. `force` takes over fields of other managers. With `metadata`
        the reply is metadata only, managedFields included.

        Raises: ApiError.
        """
        query = [("force", "true" if force else "false"), ("fieldValidation", "Strict")]
        query += [("dryRun", "All")] if dry_run else []
        return self._write("PATCH", path, body, manager, metadata=metadata, query=query, content_type=APPLY_PATCH)

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str = "", metadata: bool = False) -> Response:
        """Merge into an object (RFC 7386): null deletes, lists are replaced. Status is at `<path>/status`.

        Raises: ApiError.
        """
        return self._write("PATCH", path, body, manager, metadata=metadata, content_type=MERGE_PATCH)

    def json_patch(self, path: str, operations: Sequence[Mapping[str, Any]], *, manager: str = "") -> Response:
        """Change an object by operations (RFC 6902): all of them, or none.

        Raises: ApiError; 422 if a `test` fails.
        """
        return self._write("PATCH", path, operations, manager, metadata=False, content_type=JSON_PATCH)

    def create(self, path: str, body: Mapping[str, Any], *, manager: str = "", metadata: bool = False) -> Response:
        """Create an object in the collection at `path`.

        Raises: ApiError; 409 with reason `AlreadyExists`.
        """
        return self._write("POST", path, body, manager, metadata=metadata)

    def _write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        manager: str,
        *,
        metadata: bool,
        query: Sequence[tuple[str, str]] = (),
        content_type: str = JSON,
    ) -> Response:
        query = [*([("fieldManager", manager)] if manager else []), *query]
        accept = METADATA if metadata else JSON
        return self.request(method, path, query=query, body=body, content_type=content_type, accept=accept)

    def delete(
        self,
        path: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
        dry_run: bool = False,
    ) -> Response:
        """Delete an object, or try whether that is allowed; 409 if `uid` or `resource_version` is given and differs.

        Returns: a Status if it is gone, the object if finalizers keep it.
        Raises: ApiError.
        """
        conditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in conditions.items() if value}
        options: dict[str, Any] = {"propagationPolicy": propagation}
        if preconditions:
            options["preconditions"] = preconditions
        if dry_run:
            options["dryRun"] = ["All"]
        return self.request("DELETE", path, body=options)


def connect(
    *, kubeconfig: str | None, context: str | None = None, pool: int = 48, user_agent: str, fence: Fence | None = None
) -> Client:
    """Return a client for the API server of the kubeconfig or of the pod, see `configuration.find_loader`.

    It sends no request yet.

    Raises: ConfigurationError.
    """
    return Client(find_loader(kubeconfig, context, pool), user_agent=user_agent, fence=fence)
