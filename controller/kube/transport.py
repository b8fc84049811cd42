"""One exchange with the API server, over the TLS, credentials and connection pool of `kubernetes.client.ApiClient`.

Requests bypass its `call_api`, which cannot send JSON as bytes, repeat a header, or tell a JSON patch from a strategic
one. Errors of the libraries become ApiErrors. After a 401 the credentials are read again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException

from controller.kube.errors import ApiError, ConfigurationError, reply_error, unanswered
from controller.kube.fence import READING, Fence

Timeout = tuple[float, float]
"""Seconds to connect, and seconds of silence."""

RequestHook = Callable[[str, str, int], None]
"""Gets method, host and status (0: no reply) of every request, on its thread."""

ERROR_BYTES = 1 << 20
# Minimum interval between reloads, for a credential that is rejected every time.
RELOAD_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it is sent."""

    method: str
    path: str
    query: tuple[tuple[str, str | int], ...]
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    timeout: Timeout


@dataclass(frozen=True, slots=True)
class _Server:
    """The API server, as one configuration reaches it."""

    api: ApiClient
    pool: urllib3.HTTPConnectionPool | urllib3.PoolManager
    """Looked up once: for each request it would take a tenth of its time."""
    base: str
    """Prefix of each path."""


class Transport:
    """Thread-safe.

    Args:
        load: reads the configuration: now, and again after a 401.
        fence: admits writes; None for no fence.

    Raises: ConfigurationError.
    """

    def __init__(
        self,
        load: Callable[[], Configuration],
        *,
        user_agent: str,
        on_request: RequestHook | None = None,
        fence: Fence | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_request = on_request
        self._fence = fence
        self._load = load
        self._user_agent = user_agent
        self._clock = clock
        self._reloading = threading.Lock()
        self._reloaded = -RELOAD_SECONDS
        # It would be printed for each connection, and errors of certificates name the clock.
        urllib3.disable_warnings(urllib3.exceptions.SystemTimeWarning)
        self._server = self._connect()

    def _connect(self) -> _Server:
        api = ApiClient(self._load())
        api.user_agent = self._user_agent
        return _reach(api)

    @property
    def host(self) -> str:
        """Name and port of the API server."""
        return str(urlsplit(self._server.api.configuration.host).netloc)

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
        if self._fence is None or request.method in READING:
            return self._exchange_within(None, server, request)
        with self._fence.admit() as seconds:
            return self._exchange_within(seconds, server, request)

    def _exchange_within(self, seconds: float | None, server: _Server, request: Request) -> urllib3.BaseHTTPResponse:
        """Send a request and return its open reply; it takes at most so many seconds until the headers."""
        status = 0
        try:
            reply = _call(server, request, seconds)
            status = reply.status
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise unanswered(error) from error
        except ConfigException as error:
            raise ApiError(0, "NoCredential", "the credential for the API server cannot be read") from error
        finally:
            if self.on_request is not None:
                self.on_request(request.method, self.host, status)
        return reply

    def _reload(self, refused: _Server) -> _Server | None:
        """Read the credentials again, unless that was just done; None if they cannot have changed."""
        with self._reloading:
            if self._server is not refused:
                return self._server
            if self._clock() - self._reloaded < RELOAD_SECONDS:
                return None
            self._reloaded = self._clock()
            try:
                self._server = self._connect()
            except ConfigurationError:
                return None
            return self._server


def _reach(api: ApiClient) -> _Server:
    host, manager = api.configuration.host, api.rest_client.pool_manager
    if not host.startswith(("https://", "http://")):
        raise ConfigurationError(f'API server address "{host}": the scheme is missing; start it with https://')
    if isinstance(manager, urllib3.ProxyManager) and host.startswith("http:"):
        return _Server(
            api, manager, host
        )  # requests to such a proxy contain the full URL, which only the manager sends
    try:
        return _Server(api, manager.connection_from_url(host), urlsplit(host).path)
    except urllib3.exceptions.HTTPError:
        raise ConfigurationError(f'API server address "{host}": not a URL; correct it') from None


def _call(server: _Server, request: Request, seconds: float | None) -> urllib3.BaseHTTPResponse:
    headers = urllib3.HTTPHeaderDict(server.api.default_headers)
    # Without this the request would be anonymous. It also renews a token that is due.
    server.api.update_params_for_auth(headers, None, ["BearerToken"], request.path, request.method, None)
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
        timeout=urllib3.Timeout(total=seconds, connect=request.timeout[0], read=request.timeout[1]),
    )


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
