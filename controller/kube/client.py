"""Requests to the API server, and the fence: a process writes only while it is certain to lead.

Apply patches pass the YAML parser of the API server, which rejects the surrogate pairs of `json.dumps` (any emoji) and
raw U+007F to U+009F, U+FFFE and U+FFFF, and silently turns a raw U+0085 into a space. Hence `encode`.

Chunks do not end at line ends, so lines are assembled, up to a limit. `close` shuts the socket down, which wakes a
reader on another thread: closing the reply instead would wait for that reader.

Requests are sent with urllib3: the kubernetes package cannot send JSON as bytes, repeat a header, or tell a JSON patch
from a strategic one, and its models take seven times the CPU and three times the memory. Errors of the library become
ApiErrors. After a 401 the credentials are read again.

A leader that cannot renew its Lease must stop writing before another process may start, whatever its threads are doing.
So each write gets no more time than is left until then.

Invariants: thread-safe; every failure of the network or the server is an ApiError; only a 401 is retried, once, with
credentials that were read again. Not here: leader election (lease.py).
"""

from __future__ import annotations

import contextlib
import copy
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from urllib3.util.ssl_ import create_urllib3_context

from rukpak.controller.content.limits import describe_bytes
from rukpak.controller.kube.configuration import Configuration, User, find_loader
from rukpak.controller.kube.encoding import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    METADATA,
    METADATA_LIST,
    encode,
    parse_warnings,
)
from rukpak.controller.kube.errors import ApiError, ConfigurationError, reply_error, unanswered
from rukpak.controller.processes.supervision import Supervisor
from rukpak.controller.untrusted import decode

_PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 9}
_KEEP_ALIVE = (
    *urllib3.connection.HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _PROBES.items() if hasattr(socket, name)),
)
"""Ends a half-open watch after 30 + 9 * 15 s."""
SHORTEST_SECONDS = 0.2
"""Minimum time for a write: it must suffice for a reply."""


def read_clock() -> float:
    """Return seconds that also count while the machine sleeps, as they do for the other candidates."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Fence:
    """Thread-safe. Admits nothing until it is opened."""

    def __init__(self, clock: Callable[[], float] = read_clock) -> None:
        self._clock = clock
        self._until: float | None = None
        self._shut = False
        self._under_way = 0
        self._condition = threading.Condition()

    def open_until(self, when: float) -> None:
        """Admit writes that end before `when`, by the clock; no effect once the fence is shut."""
        with self._condition:
            self._until = when

    def seconds_left(self) -> float:
        """Return for how long writes are admitted; 0 if none are."""
        with self._condition:
            return 0.0 if self._shut or self._until is None else max(self._until - self._clock(), 0.0)

    @contextmanager
    def admit(self) -> Iterator[float]:
        """Admit one write; yields the seconds within which it must end.

        Raises: ApiError if this process does not lead, or will not for long enough.
        """
        with self._condition:
            left = self.seconds_left()
            if left < SHORTEST_SECONDS:
                raise ApiError(0, "NotLeading", "this process does not hold the Lease")
            self._under_way += 1
        try:
            yield left
        finally:
            with self._condition:
                self._under_way -= 1
                self._condition.notify_all()

    def shut(self, seconds: float = 0.0) -> bool:
        """Admit nothing any more; return whether the writes in progress ended within `seconds`."""
        with self._condition:
            self._shut = True
            return self._condition.wait_for(lambda: not self._under_way, seconds)


LINE_BYTES = 16 << 20
SEGMENT_BYTES = 64 << 10
TOO_LARGE = "TooLarge"
"""Reason of the error for a reply that exceeds a limit."""
Timeout = tuple[float, float]
"""Seconds to connect, and seconds of silence."""
RequestHook = Callable[[str, str, int], None]
"""Gets method, host and status (0: no reply) of every request, on its thread."""
ERROR_BYTES = 1 << 20
# Minimum interval between reloads, for a credential that is rejected every time.
RELOAD_SECONDS = 10.0
__all__ = ["ApiError", "Client", "Page", "Response", "User", "connect"]
Objects = list[dict[str, Any]]
Query = Iterable[tuple[str, str | int]]
DEFAULT_TIMEOUT: Timeout = (5, 30)
PAGE_ITEMS = 500
PAGE_BYTES = 8 << 20
"""Size of a page, which takes several times as much memory when read. Where objects are larger, pages have fewer."""
REPLY_BYTES = 64 << 20
"""Size of any other reply."""
RELIST_SECONDS = 36_000.0


@dataclass(frozen=True, slots=True)
class Response:
    """A reply with 2xx, or 304 to a conditional request."""

    status: int
    value: Any
    """The body; None if it is empty."""
    warnings: tuple[str, ...]
    headers: Mapping[str, str]


def read_whole(reply: urllib3.BaseHTTPResponse, max_bytes: int) -> Response:
    """Read a reply to its end, and release its connection.

    Raises: ApiError, with reason TOO_LARGE after `max_bytes`.
    """
    try:
        data = reply.read(max_bytes + 1)
        if len(data) > max_bytes:
            reply.close()  # do not wait for the rest
            raise ApiError(0, TOO_LARGE, f"the reply is larger than {describe_bytes(max_bytes)}")
    except (urllib3.exceptions.HTTPError, OSError) as error:
        reply.close()
        raise unanswered(error) from error
    finally:
        reply.release_conn()
    try:
        value = decode(data) if data else None
    except ValueError:
        raise ApiError(0, "NotUnderstood", "the reply of the API server is not JSON") from None
    return Response(reply.status, value, parse_warnings(reply.headers.getlist("Warning")), reply.headers)


class LineStream:
    """The lines of one reply. One thread iterates; any may call `close`.

    Args:
        silence: seconds without a byte after which the peer counts as lost.
    """

    def __init__(self, reply: urllib3.BaseHTTPResponse, silence: float, line_bytes: int = LINE_BYTES) -> None:
        self._reply = reply
        self._line_bytes = line_bytes
        self._closed = False
        self._socket: socket.socket | None = getattr(reply.connection, "sock", None)
        self.set_silence(silence)

    def set_silence(self, seconds: float) -> None:
        """Set the seconds without a byte after which the peer counts as lost."""
        if self._socket is not None:
            with contextlib.suppress(OSError):  # closed meanwhile: the reader notices
                self._socket.settimeout(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
        self.release()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines that are not empty until the reply ends or is closed.

        Raises: ApiError if the connection is lost, or a line exceeds the limit.
        """
        rest = bytearray()
        for segment in self.segments():
            rest += segment
            if b"\n" not in segment:
                self._check(rest)
                continue
            *lines, last = rest.split(b"\n")
            rest = last
            for line in lines:
                self._check(line)
                if line and not self._closed:
                    yield bytes(line)

    def segments(self) -> Iterator[bytes]:
        """Yield the reply as it arrives, instead of its lines, which may then have any length.

        Raises: ApiError if the connection is lost.
        """
        try:
            yield from self._reply.stream(SEGMENT_BYTES, decode_content=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if not self._closed:
                raise unanswered(error) from error

    def _check(self, line: bytearray) -> None:
        if len(line) > self._line_bytes:
            raise ApiError(0, TOO_LARGE, f"an event is larger than {describe_bytes(self._line_bytes)}")

    def close(self) -> None:
        """End the stream, also for a waiting reader; returns immediately."""
        self._closed = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def release(self) -> None:
        """Give up the connection, once nobody iterates any more."""
        self._reply.close()  # unread data makes the connection unusable
        self._reply.release_conn()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it is sent."""

    method: str
    path: str
    query: tuple[tuple[str, str | int], ...]
    headers: tuple[tuple[str, str], ...]
    body: bytes | None = None
    timeout: Timeout
    seconds: float | None = None
    """For connecting and the reply together; None: as long as the timeouts allow."""


@dataclass(frozen=True, slots=True)
class _Server:
    """The API server, as one configuration reaches it."""

    authorize: Callable[[], str]
    """Returns the header Authorization; raises ConfigurationError."""
    host: str
    """Name and port."""
    pool: urllib3.HTTPConnectionPool | urllib3.PoolManager
    """Looked up once: for each request it would take a tenth of its time."""
    base: str
    """Prefix of each path."""


class Transport:
    """Thread-safe.

    Args:
        load: reads the configuration: now, and again after a 401.
        user_agent: of every request.
        fence: admits writes; None for no fence.

    Raises: ConfigurationError.
    """

    def __init__(
        self,
        load: Callable[[], Configuration],
        *,
        user_agent: str = "rukpak",
        fence: Fence | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_request: RequestHook | None = None
        """Called for every request."""
        self._fence = fence
        self._load = load
        self._user_agent = user_agent
        self._clock = clock
        self._reloading = threading.Lock()
        self._reloaded = -RELOAD_SECONDS
        # It would be printed for each connection, and errors of certificates name the clock.
        urllib3.disable_warnings(urllib3.exceptions.SystemTimeWarning)
        self._server = _reach(self._load())

    @property
    def host(self) -> str:
        """Name and port of the API server."""
        return self._server.host

    def send(self, request: Request) -> urllib3.BaseHTTPResponse:
        """Return an open reply with 2xx or 304; the caller must read and release it.

        Raises: ApiError.
        """
        server = self._server
        reply = self._exchange(server, request)
        if reply.status == HTTPStatus.UNAUTHORIZED and (fresh := self._reload(server)):
            _discard(reply)
            reply = self._exchange(fresh, request)
        if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES or reply.status == HTTPStatus.NOT_MODIFIED:
            return reply
        raise _read_error(reply)

    def _exchange(self, server: _Server, request: Request) -> urllib3.BaseHTTPResponse:
        status, fence = 0, None if request.method == "GET" else self._fence
        with fence.admit() if fence else contextlib.nullcontext() as seconds:
            try:
                reply = self._call(server, request, seconds)
                status = reply.status
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise unanswered(error) from error
            except ConfigurationError as error:
                raise ApiError(0, "NoCredential", "the credential for the API server cannot be read") from error
            finally:
                if self.on_request is not None:
                    self.on_request(request.method, self.host, status)
        return reply

    def _call(self, server: _Server, request: Request, seconds: float | None) -> urllib3.BaseHTTPResponse:
        headers = urllib3.HTTPHeaderDict({"User-Agent": self._user_agent})
        if authorization := server.authorize():
            headers["Authorization"] = authorization
        for name, value in request.headers:
            headers.add(name, value)
        query = f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""
        return server.pool.urlopen(
            request.method,
            f"{server.base}{request.path}{query}",
            body=request.body,
            headers=headers,
            preload_content=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(
                total=request.seconds if seconds is None else seconds,
                connect=request.timeout[0],
                read=request.timeout[1],
            ),
        )

    def _reload(self, refused: _Server) -> _Server | None:
        with self._reloading:
            if self._server is not refused:
                return self._server
            if self._clock() - self._reloaded < RELOAD_SECONDS:
                return None
            self._reloaded = self._clock()
            try:
                self._server = _reach(self._load())
            except ConfigurationError:
                return None
            return self._server


def _reach(configuration: Configuration) -> _Server:
    host = configuration.host
    if not host.startswith(("https://", "http://")):
        raise ConfigurationError(f'API server address "{host}": the scheme is missing; start it with https://')
    options: dict[str, Any] = {"maxsize": configuration.pool, "socket_options": _KEEP_ALIVE}
    if host.startswith("https:"):
        options |= {"ssl_context": _make_context(configuration)}
        options |= {"server_hostname": configuration.server_name} if configuration.server_name else {}
    try:
        parts, proxy = urlsplit(host), configuration.proxy
        manager = urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)
        # Requests over plain http to a proxy contain the full URL, which only the manager sends.
        is_whole = bool(proxy) and host.startswith("http:")
        pool = manager if is_whole else manager.connection_from_url(host)
    except (urllib3.exceptions.HTTPError, ValueError):
        raise ConfigurationError(f'API server address "{host}": not a URL; correct it') from None
    return _Server(configuration.authorize, parts.netloc, pool, host if is_whole else parts.path)


def _make_context(configuration: Configuration) -> ssl.SSLContext:
    """Return the TLS settings, which all connections share: otherwise each would read the certificates again."""
    context = create_urllib3_context()
    try:
        if not configuration.is_verified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif configuration.authorities:
            context.load_verify_locations(cadata=configuration.authorities)
        else:
            context.load_default_certs()
        if configuration.certificate:
            with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:  # OpenSSL reads keys only from files
                file.write(configuration.certificate)
                file.flush()
                context.load_cert_chain(file.name, password=lambda: "")
    except (OSError, ValueError):
        problem = "the certificates to trust, or that of the user, cannot be read; correct the kubeconfig"
        raise ConfigurationError(f'API server address "{configuration.host}": {problem}') from None
    return context


def _discard(reply: urllib3.BaseHTTPResponse) -> None:
    reply.drain_conn()
    reply.release_conn()


def _read_error(reply: urllib3.BaseHTTPResponse) -> ApiError:
    try:
        body = reply.read(ERROR_BYTES)
    except (urllib3.exceptions.HTTPError, OSError):
        body = b""  # the status says enough
    _discard(reply)
    return reply_error(reply.status, reply.headers, body)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a collection."""

    items: Objects
    resource_version: str
    """Version of the whole list."""
    more: bool
    restarted: bool = False
    """Whether the list expired, so that this page contains all objects again."""


class Client:
    """Talks to one API server.

    Args:
        transport: the connections, which the clients that act as users share.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._impersonation: tuple[tuple[str, str], ...] = ()
        """Headers that name the user to act as."""
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
        client._impersonation = tuple(user.headers())  # noqa: SLF001 - of this class
        return client

    @property
    def host(self) -> str:
        """Name and port of the API server."""
        return self.transport.host

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
        seconds: float | None = None,
        if_none_match: str = "",
        max_bytes: int = REPLY_BYTES,
    ) -> Response:
        """Send one request and read the whole reply.

        `timeout` is for connecting and for silence; `seconds`, if given, for both together instead.

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
        if seconds is not None:
            timeout = (seconds, seconds)
        request = Request(
            method=method,
            path=path,
            query=tuple(query),
            headers=(*headers, *self._impersonation),
            body=data,
            timeout=timeout,
            seconds=seconds,
        )
        return read_whole(self.transport.send(request), max_bytes)

    def stream(
        self,
        path: str,
        *,
        query: Query = (),
        accept: str = JSON,
        silence: float = 300,
    ) -> LineStream:
        """Open a GET whose reply is read line by line; the caller must close it.

        Once the headers have arrived, `silence` seconds without a byte mean that the connection is lost.

        Raises: ApiError, also while iterating.
        """
        headers = (("Accept", accept), *self._impersonation)
        request = Request(method="GET", path=path, query=tuple(query), headers=headers, timeout=DEFAULT_TIMEOUT)
        return LineStream(self.transport.send(request), silence)

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
            most = max_bytes or (REPLY_BYTES if restarted else PAGE_BYTES)
            try:
                value = self.request("GET", path, query=[*query, *paging], accept=accept, max_bytes=most).value
            except ApiError as error:
                if error.reason == TOO_LARGE and not (max_bytes or restarted) and limit > 1:
                    limit = max(1, limit // 8)
                    continue
                if error.status != HTTPStatus.GONE or not token or restarted:
                    raise
                restarted = True
                continue
            about = value["metadata"]
            token = "" if restarted else about.get("continue") or ""
            yield Page(value.get("items") or [], about.get("resourceVersion", ""), bool(token), restarted)
            if not token:
                return

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

    def json_patch(
        self, path: str, operations: Sequence[Mapping[str, Any]], *, manager: str = "", dry_run: bool = False
    ) -> Response:
        """Change an object by operations (RFC 6902): all of them, or none; with `dry_run`, only find out what comes.

        Raises: ApiError; 422 if a `test` fails.
        """
        query = [("dryRun", "All")] if dry_run else []
        return self._write("PATCH", path, operations, manager, metadata=False, query=query, content_type=JSON_PATCH)

    def create(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        manager: str = "",
        metadata: bool = False,
        dry_run: bool = False,
    ) -> Response:
        """Create an object in the collection at `path`; with `dry_run`, only find out whether that would succeed.

        Raises: ApiError; 409 with reason `AlreadyExists`.
        """
        query = [("dryRun", "All")] if dry_run else []
        return self._write("POST", path, body, manager, metadata=metadata, query=query)

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
    return Client(Transport(find_loader(kubeconfig, context, pool), user_agent=user_agent, fence=fence))
