"""HTTP to sources: the only user of requests.

Invariants: no call outlives `Access.deadline`, or continues with a server that is silent or too slow in any phase;
nothing is read beyond its limit, and only documents are decoded, never files; nothing is taken from the environment (no
netrc; proxies are those of `Network`); `Authorization` and client certificates are sent only to the origins that they
are for, and the credentials of a proxy only to it. Messages name host, proxy and status, never a URL, and nothing
about the target of a redirect. The texts of requests and the libraries below it are never used: they contain URLs,
ports and object addresses.

A name is resolved once, and only its allowed addresses are connected to: neither a redirect nor a changing name can
bypass that, and nothing is sent to other addresses, not even to probe them. Connecting to all addresses of a name takes
a bounded time. Name resolution has the resolver's own timeout.

Not here: which addresses are allowed, and what a proxy is asked for (routes.py), TLS contexts (trust.py), which
redirects are followed, and what is told of where they lead (hosts.py), how slow is too slow (pace.py), the meaning of
responses (image/registry.py), tokens (image/login.py).
"""

from __future__ import annotations

import http
import http.client
import logging
import math
import socket
import ssl
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self, TypeAlias
from urllib.parse import quote as quote_url
from urllib.parse import urlsplit

import requests
import requests.utils
import tenacity
import urllib3
import urllib3.util.ssl_match_hostname
from requests.adapters import HTTPAdapter
from requests.utils import urldefragauth
from urllib3.util.connection import create_connection

from rukpak.api.bounds import read_count, read_retry_after
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Network
from rukpak.api.proxies import Proxies, Proxy
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.certificates import find_causes, find_date_problem
from rukpak.controller.content.disk import disk_errors_reported
from rukpak.controller.content.limits import describe_bytes, quote
from rukpak.controller.sources.hosts import (
    PRINTABLE,
    Detour,
    Location,
    Origin,
    Place,
    follow,
    host_of,
    origin_of,
    place_of,
)
from rukpak.controller.sources.pace import TIMED_OUT, Pace, check_deadline
from rukpak.controller.sources.routes import NOT_RESOLVED, Route, find_route, of_proxy
from rukpak.controller.sources.trust import DEFAULT_TLS, TLSSettings, name_remedy

_LEAST_SECONDS = 0.001
_CONNECTING_SECONDS = 15.0  # for all addresses of a name; each also has the timeout of the connection
Peer: TypeAlias = tuple[str | None, int | None]
"""Host and port of a connection."""
LIBRARY_ERRORS = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    urllib3.exceptions.ProxySchemeUnsupported,
    http.client.HTTPException,
    OSError,
)
"""Everything that requests and the libraries below it raise."""
_UNUSABLE = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
    requests.exceptions.URLRequired,
    urllib3.exceptions.LocationValueError,
)
_NOT_VERIFIED = (ssl.SSLCertVerificationError, urllib3.util.ssl_match_hostname.CertificateError)
_OTHER_NAME = "it is for another name"
_NAME_REMEDY = "use a name that the certificate has"
# X509_V_ERR_HOSTNAME_MISMATCH, EMAIL_MISMATCH and IP_ADDRESS_MISMATCH of OpenSSL.
_MISMATCHES = frozenset({62, 63, 64})
REFUSED = "it refuses the connection"
NO_TLS = "the TLS handshake failed"
CUT = "the connection was closed"
_PLAIN_ANSWERS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # OpenSSL 3.0, and since 3.5
NO_CLIENT_CERTIFICATE = (
    "requires a client certificate; add tls.crt and tls.key to the Secret of auth, or name one with these keys"
)
MAY_WANT_CERTIFICATE = f"{NO_TLS}; it may demand a client certificate, in tls.crt and tls.key of the Secret of auth"
BAD_CLIENT_CERTIFICATE = "does not accept the client certificate; check tls.crt in the Secret of auth"
_ALERTS = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": NO_CLIENT_CERTIFICATE,
    **dict.fromkeys(
        (
            "SSLV3_ALERT_BAD_CERTIFICATE",
            "SSLV3_ALERT_CERTIFICATE_EXPIRED",
            "SSLV3_ALERT_CERTIFICATE_REVOKED",
            "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
            "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
            "TLSV1_ALERT_ACCESS_DENIED",
            "TLSV1_ALERT_DECRYPT_ERROR",
            "TLSV1_ALERT_UNKNOWN_CA",
        ),
        BAD_CLIENT_CERTIFICATE,
    ),
}
"""What a server says of the certificate of a client (RFC 8446, section 6.2), by OpenSSL's name of the alert."""
_HANDSHAKE_FAILURE = "SSLV3_ALERT_HANDSHAKE_FAILURE"
_PROBLEMS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((urllib3.exceptions.NameResolutionError, socket.gaierror), NOT_RESOLVED),
    ((ConnectionRefusedError,), REFUSED),
    ((ssl.SSLError, requests.exceptions.SSLError, urllib3.exceptions.SSLError), NO_TLS),
    ((TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.TimeoutError), TIMED_OUT),
)
log = logging.getLogger(__name__)
_CHUNK = 64 * 1024
_MEMORY_BYTES = 256 * 1024  # of a document that arrives; more of it waits on the disk, for a server may take minutes
_GZIP, _GZIPPED = ("gzip", "x-gzip"), (".tgz", ".tar.gz")
_ENCODINGS = frozenset((*_GZIP, "compress", "x-compress", "deflate", "br", "zstd", "dcb", "dcz"))
"""Content encodings that change a body (https://www.iana.org/assignments/http-parameters); storage services send others
that do not, such as aws-chunked and utf-8, or none."""
_GZIP_WINDOW = 31  # zlib's: a gzip header, and any window
_HEADERS = {"User-Agent": "rukpak", "Accept-Encoding": "identity"}
"""Of every request."""
_CONNECT_SECONDS = 5.0
_TUNNEL_SECONDS = 15.0  # for a proxy to connect to a server
_TICK = 0.1  # seconds between two checks of the deadline, the cancel token and the pace
_ATTEMPTS = 3
_LONGEST_WAIT = 5.0  # seconds; the work queue waits for longer
_REDIRECTS = 5
_HEADER_BYTES = 32 * 1024
_DISCARDED_BYTES = 64 * 1024  # of an unused body, read so that the connection can be reused
_REDIRECT_STATUS = (301, 302, 303, 307, 308)
_TRANSIENT_STATUS = (408, 429)
_BACKOFF: Callable[[tenacity.RetryCallState], float] = tenacity.wait_exponential_jitter(
    multiplier=0.2, max=2, jitter=0.2
)


class Guard:
    """Checks the addresses of every connection before it is opened, and can cut them all.

    Args:
        subject: field path that starts messages.
        network: which addresses the administrator allows.
        plain: whether plain http is allowed to more than loopback addresses.
    """

    def __init__(self, subject: str, network: Network, *, plain: bool = False) -> None:
        self._subject, self._network, self._plain = subject, network, plain
        self._opening: socket.socket | None = None
        self._open: list[tuple[urllib3.connection.HTTPConnection, socket.socket]] = []
        self.until = math.inf
        """When the next connection must be established, in monotonic seconds, if that is sooner than usual."""

    def connect(self, connection: urllib3.connection.HTTPConnection, host: str, *, plain: bool) -> socket.socket:
        """Return a socket connected to the first address of a host that accepts the connection, or through a proxy.

        Raises: BundleError (InsecureRefused if no address is allowed, Unreachable for a proxy); what urllib3 and
            sockets raise.
        """
        server = Location(scheme="http" if plain else "https", host=host.strip("[]").lower(), port=connection.port)
        try:
            route = find_route(self._subject, server, self._network, plain=plain and not self._plain)
        except UnicodeError:
            raise urllib3.exceptions.LocationParseError(host) from None
        try:
            peer = _connect_first(route, connection, self.until)
        except OSError as error:
            if route.proxy is None:
                raise
            place = Place(subject=self._subject, host=server.authority, proxy=route.proxy.authority)
            raise place.unreachable(of_proxy(_problem_of(tuple(find_causes(error))))) from None
        self._close_opening()
        # During the TLS handshake the socket cannot be reached, but its duplicate can.
        self._opening = peer.dup()
        if route.proxy and not plain:
            until = min(time.monotonic() + _TUNNEL_SECONDS, self.until)
            peer.settimeout(max(until - time.monotonic(), _LEAST_SECONDS))
            _open_tunnel(peer, server, route.proxy, self._subject)
            peer.settimeout(connection.timeout)
        return peer

    def keep(self, connection: urllib3.connection.HTTPConnection) -> None:
        """Register a connection that is ready for requests."""
        self._close_opening()
        if isinstance(connection.sock, socket.socket):
            self._open.append((connection, connection.sock))  # it may outlive connection.sock while a response is read

    def cut(self, spared: Peer | None = None) -> None:
        """Shut all connections down, but for those to one host: reading from them ends immediately."""
        others = (opened for connection, opened in self._open if (connection.host, connection.port) != spared)
        for opened in (self._opening, *others):
            if opened:
                with suppress(OSError):  # closed meanwhile
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all connections, including those of responses that were not read to the end."""
        self._close_opening()
        for connection, opened in self._open:
            connection.close()
            # Of a response that urllib3 refuses, such as one with two lengths, nobody closes the socket.
            with suppress(OSError):  # closed already
                socket.close(opened.detach())

    def _close_opening(self) -> None:
        opening, self._opening = self._opening, None
        if opening:
            opening.close()


def _connect_first(route: Route, connection: urllib3.connection.HTTPConnection, latest: float) -> socket.socket:
    until = min(time.monotonic() + _CONNECTING_SECONDS, latest)
    failure = OSError("no address")
    for address in route.addresses:
        try:
            timeout = min(connection.timeout or math.inf, max(until - time.monotonic(), _LEAST_SECONDS))
            return create_connection((address, route.port), timeout, socket_options=connection.socket_options)
        except OSError as error:
            failure = error
        if time.monotonic() >= until:
            break
    raise failure


class StatusError(BundleError):
    """A server answers with an error of its own, other than the demand to send fewer requests."""


class ProxyRefusalError(BundleError):
    """A proxy does not connect to a server, and would not if it were asked again at once."""


class PlainServerError(BundleError):
    """A server responds to TLS in plain http."""


def _open_tunnel(peer: socket.socket, server: Location, proxy: Proxy, subject: str) -> None:
    """Have a proxy connect a socket to a server (RFC 9110, section 9.3.6).

    Raises: BundleError (Unreachable); ProxyRefusalError.
    """
    place = Place(subject=subject, host=server.authority, proxy=proxy.authority)
    host = f"[{server.host}]" if ":" in server.host else server.host
    authority = f"{host}:{server.port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", "User-Agent: rukpak"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    failure: BundleError | None = None
    answer = http.client.HTTPResponse(peer, method="CONNECT")
    try:
        peer.sendall("\r\n".join((*lines, "", "")).encode("ascii"))
        answer.begin()
        if answer.status // 100 != http.HTTPStatus.OK // 100:
            failure = _refused_by_proxy(place, answer.status)
    except (OSError, http.client.HTTPException) as error:
        failure = place.unreachable(f"the proxy does not answer: {_problem_of((error,))}")
    answer.close()  # not the socket
    if failure:
        peer.close()
        raise failure


def _refused_by_proxy(place: Place, status: int) -> BundleError:
    is_final = status < http.HTTPStatus.INTERNAL_SERVER_ERROR
    return place.unreachable(describe_refusal(status), kind=ProxyRefusalError if is_final else BundleError)


def describe_refusal(status: int) -> str:
    """Return what it means that a proxy answers with a status instead of the server."""
    if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.PROXY_AUTHENTICATION_REQUIRED):  # tinyproxy says 401
        return f"the proxy does not accept the user and password of the controller (status {status})"
    if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"the proxy cannot connect to it (status {status})"
    return f"the proxy does not allow it (status {status})"


class _Connection(urllib3.connection.HTTPConnection):
    guard: Guard

    def _new_conn(self) -> socket.socket:
        return self.guard.connect(self, self._dns_host, plain=not isinstance(self, _SecureConnection))

    def connect(self) -> None:
        """Connect, and register with the guard."""
        super().connect()
        self.guard.keep(self)


class _SecureConnection(_Connection, urllib3.connection.HTTPSConnection):
    pass


class _SecurePool(urllib3.HTTPSConnectionPool):
    def _validate_conn(self, conn: Any) -> None:
        if conn.is_closed:
            conn.connect()


def _guarded(pool: type, connection: type, guard: Guard) -> type:
    return type(pool.__name__, (pool,), {"ConnectionCls": type(connection.__name__, (connection,), {"guard": guard})})


def translate(error: BaseException, place: Place, *, has_authority: bool = False) -> BundleError:
    """Return the error for one of `LIBRARY_ERRORS`.

    Args:
        error: its text is never used.
        place: of the request.
        has_authority: whether the certificates to trust are given.
    """
    causes, where, subject = tuple(find_causes(error)), place.described, place.subject
    if problem := find_date_problem(error):
        problem = f"the certificate of {where} {problem}"
        return BundleError(Reason.TLS_VERIFICATION_FAILED, problem, place=subject)
    for cause in causes:
        if isinstance(cause, _NOT_VERIFIED):
            why = getattr(cause, "verify_message", "") or _OTHER_NAME
            is_other = why == _OTHER_NAME or getattr(cause, "verify_code", 0) in _MISMATCHES
            remedy = _NAME_REMEDY if is_other else name_remedy(is_given=has_authority)
            problem = f"cannot verify the certificate of {where}: {why}; {remedy}"
            return BundleError(Reason.TLS_VERIFICATION_FAILED, problem, place=subject)
        alert = getattr(cause, "reason", "") if isinstance(cause, ssl.SSLError) else ""
        if alert in _PLAIN_ANSWERS:
            return place.unreachable(NO_TLS, kind=PlainServerError)
        if alert in _ALERTS:
            return BundleError(Reason.UNAUTHORIZED, f"{where} {_ALERTS[alert]}", place=subject)
    if isinstance(error, _UNUSABLE):
        problem = f"the URL of {quote(place.host)} is invalid; correct it"
        return BundleError(Reason.INVALID_REFERENCE, problem, place=subject)
    return place.unreachable(_problem_of(causes))


def _problem_of(causes: Sequence[BaseException]) -> str:
    if any(getattr(cause, "reason", "") == _HANDSHAKE_FAILURE for cause in causes):
        return MAY_WANT_CERTIFICATE  # so that servers without TLS 1.3 say it
    matching = (text for kinds, text in _PROBLEMS if any(isinstance(cause, kinds) for cause in causes))
    return next(matching, CUT)


class Transport:
    """The connections of one call of a source; not shared between threads.

    Args:
        access: deadline, cancel token, and the field path that starts messages.
        tls: whom the connections trust, and with which certificate they introduce themselves.
        loopback: whether loopback addresses are allowed, as far as `access.network` allows them. Only for a source that
            names one: then no redirect or name of another source leads there.
        detour: if the spec does not name any host of this call. Otherwise one begins at a redirect to another host.
    """

    def __init__(
        self,
        access: Access,
        *,
        tls: TLSSettings = DEFAULT_TLS,
        loopback: bool = False,
        detour: Detour | None = None,
    ) -> None:
        self._access = access
        network = replace(access.network, allow_loopback=access.network.allow_loopback and loopback)
        self._guard = Guard(access.path, network, plain=not tls.verify)
        self._tls = tls
        self.scratch = access.scratch
        # Not a session of requests: it would merge settings, keep cookies, and read the whole body of a redirect.
        self._adapter = _Adapter(self._guard, network.proxies, self._make_context)
        self._own_pace = self._pace = Pace(access.network)
        self._whole_detour, self._detour = detour, detour
        self._spared: Peer | None = None
        """Who has redirected, and must not see that what it has redirected to is given up."""
        self._responses: list[Response] = []
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="transport", daemon=True)

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, *__: object) -> None:
        """Close all connections; raise what users may see of an error at another host instead of it."""
        shown = self.conceal(error) if isinstance(error, BundleError) else None
        self._done.set()
        self._watcher.join()
        for response in self._responses:  # including those not read to the end
            response.close()
        self._adapter.close()
        self._guard.close()
        if shown is not None and shown is not error:
            raise shown from None

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        *,
        body: bytes | None = None,
        named: str = "",
        leaves: bool = True,
        named_by: str = "",
    ) -> Response:
        """Send a request and return the response, with its body still unread.

        Redirects are followed according to hosts.py, except with a body, which no other server may see; transient
        failures are retried for a few seconds, without asking a server again that has redirected.

        Args:
            method: of the request.
            url: of the request.
            headers: of the request.
            body: of a POST.
            named: URL that the user named, if it is another one: messages reveal nothing about other origins.
            leaves: whether a redirect to another origin than the named one is followed, and not returned.
            named_by: what is told of another origin than the named one if `url` is there.

        Raises: BundleError (Unreachable, with the delay of Retry-After; TLSVerificationFailed; InsecureRefused;
            InvalidReference; Unreachable, without a reason, for any failure at an origin that was not named).
        """
        named, first = named or url, origin_of(url)
        place = place_of(self._access.path, named, url, self._access.network, named_by)
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(self._is_worth_retrying),
            wait=_wait,
            stop=self._gives_up,
            sleep=tenacity.sleep_using_event(self._access.cancelled),
            reraise=True,
        )
        away, self._spared = self._whole_detour, None
        self._hurry(away)
        for _ in range(_REDIRECTS + 1):
            if place.is_elsewhere and away is None:
                away = self._detour = Detour(shown=place.unusable())
                self._spared = first[1:]
                self._hurry(away)
            request = requests.Request(method, url, headers={**_HEADERS, **headers}, data=body)
            response = retrying(self._send_once, request, place)
            if not response.is_redirect or body is not None:
                return response
            target = response.follow()
            if target and not leaves and origin_of(target) != origin_of(named):
                return response
            response.discard()
            if not target:
                raise place.not_followed()
            if origin_of(target) != origin_of(url):
                headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            url, place = target, place_of(self._access.path, named, target, self._access.network, named_by)
        problem = f"it redirects more than {_REDIRECTS} times"
        raise place.show(place.unreachable(problem))

    def _make_context(self, origin: Origin) -> ssl.SSLContext:
        return self._tls.make_context(origin, requests.utils.DEFAULT_CA_BUNDLE_PATH)

    def identify_to(self, origin: Origin) -> None:
        """Present the client certificate to another server, too, if there is one."""
        if keys := self._tls.keys:
            self._tls = replace(self._tls, keys=replace(keys, origins=keys.origins | {origin}))

    def settle(self) -> None:
        """Note that what another host has sent is what was looked for: failures may be told from now on."""
        self._detour = self._whole_detour

    def conceal(self, error: BundleError) -> BundleError:
        """Return the error that users may see: for one at another host the one for all, when all of them are told."""
        detour, self._detour = self._detour, None
        return detour.end(error, self._access) if detour else error

    def _is_worth_retrying(self, error: BaseException) -> bool:
        return (
            isinstance(error, BundleError)
            and error.reason is Reason.UNREACHABLE
            and not isinstance(error, PlainServerError | ProxyRefusalError)
            and not self._access.cancelled.is_set()
            and not self._pace.problem()
        )

    def _gives_up(self, state: tenacity.RetryCallState) -> bool:
        time_to_wait = min(_LONGEST_WAIT, self._guard.until - time.monotonic())
        return state.attempt_number >= _ATTEMPTS or state.upcoming_sleep > time_to_wait

    def _hurry(self, detour: Detour | None) -> None:
        self._guard.until = detour.until if detour else self._access.deadline
        self._pace = Pace(self._access.network, until=detour.until) if detour else self._own_pace

    def _send_once(self, request: requests.Request, place: Place) -> Response:
        self.check(place)
        self._pace.ask()
        try:
            now = time.monotonic()
            left, connecting = (max(end - now, _LEAST_SECONDS) for end in (self._access.deadline, self._guard.until))
            raw = self._adapter.send(
                request.prepare(),
                stream=True,
                timeout=(min(_CONNECT_SECONDS, connecting), min(self._access.network.idle_seconds, left)),
            )
            response = Response(raw, self, place)
            self._responses.append(response)
            if problem := _find_problem(response):
                response.discard()
                raise problem
        except LIBRARY_ERRORS as error:
            self.check(place)
            raise _shown(self._translate(error, replace(place, host=host_of(str(request.url)))), place) from None
        except BundleError as error:
            self.check(place)
            raise _shown(error, place) from None
        except AttributeError:
            self.check(place)  # urllib3 has no socket any more if it was cut between request and response
            raise
        finally:
            self._pace.answered()
        return response

    def read(self, raw: requests.Response, size: int, place: Place) -> bytes:
        """Return the next bytes of a body, as soon as there are some; nothing at the end.

        Raises: BundleError (Unreachable), also if the body is shorter than its Content-Length.
        """
        self.check(place)
        data: bytes | None = b""
        self._pace.begin_read()
        try:
            # Not read, which waits for all `size` bytes at any pace.
            data = raw.raw.read1(size, decode_content=False)
        except LIBRARY_ERRORS as error:
            self.check(place)
            raise place.show(self._translate(error, place)) from None
        finally:
            self._pace.end_read(len(data or b""))
        if not data:
            self.check(place)  # a connection that was cut looks like the end of the body
        return data or b""

    def _translate(self, error: BaseException, place: Place) -> BundleError:
        return translate(error, place, has_authority=bool(self._tls.certificate_data))

    # the watcher

    def _watch(self) -> None:
        while not self._done.wait(_TICK):
            if self._access.cancelled.is_set() or time.monotonic() >= self._access.deadline:
                self._guard.cut()
            elif self._pace.problem():
                self._guard.cut(self._spared)

    def check(self, place: Place) -> None:
        """Check that the call may continue.

        Raises: BundleError (Unreachable).
        """
        check_deadline(self._access)
        if problem := self._pace.problem():
            raise place.show(place.unreachable(problem))


def _shown(error: BundleError, place: Place) -> BundleError:
    if place.is_elsewhere:
        log.debug("redirected request failed", extra={"host": place.host, "problem": error.message})
    return place.show(error)


def _find_problem(response: Response) -> BundleError | None:
    place, status, headers = response.place, response.status, response.headers
    is_plain = urlsplit(response.url).scheme == "http"
    if place.proxy and is_plain and status == http.HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return _refused_by_proxy(place, status)
    if status in _TRANSIENT_STATUS or status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        wait = read_retry_after(headers.get("Retry-After", ""), time.time())
        kind = BundleError if status == http.HTTPStatus.TOO_MANY_REQUESTS else StatusError
        return place.unreachable(f"it returned status {status}", wait, kind=kind)
    if sum(len(name) + len(value) for name, value in headers.items()) > _HEADER_BYTES:
        return place.unreachable(f"its response header exceeds the limit of {describe_bytes(_HEADER_BYTES)}")
    return None


class Response:
    """A response: `status`, `headers` (any case), its `place` and `url`, and the body to read."""

    def __init__(self, raw: requests.Response, transport: Transport, place: Place) -> None:
        self.status = raw.status_code
        self.headers: Mapping[str, str] = raw.headers
        self.place = place
        self.url: str = raw.url
        names = (name.strip().lower() for name in raw.headers.get("Content-Encoding", "").split(","))
        self._encoding = ",".join(name for name in names if name in _ENCODINGS)
        """The content encoding that changes a body; several as one text."""
        self._is_head = raw.request.method == "HEAD"
        self._raw, self._transport = raw, transport

    @property
    def is_unchanged(self) -> bool:
        """Whether the file still matches the validator that was sent; then there is no body."""
        return self.status == http.HTTPStatus.NOT_MODIFIED

    @property
    def is_redirect(self) -> bool:
        """Whether it redirects, and was not followed."""
        return self.status in _REDIRECT_STATUS

    def follow(self) -> str:
        """Return the URL that it redirects to, by the bytes that were sent; '' if it must not be followed."""
        location = self.headers.get("Location", "").encode("latin-1", "replace")  # as the library has read them
        return follow(self.url, quote_url(location, safe=PRINTABLE))

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, as soon as there are some; nothing at the end.

        Raises: BundleError (Unreachable), also if the body is shorter than its Content-Length; UnsupportedContent for
            an encoded body.
        """
        # Some servers take the compression of the archive itself for one of the response (Apache's AddEncoding,
        # Bitbucket).
        is_archive = self._encoding in _GZIP and urlsplit(self.url).path.lower().endswith(_GZIPPED)
        if self._encoding and not is_archive:
            raise self._encoded()
        return self._read(size)

    def _read(self, size: int) -> bytes:
        return self._transport.read(self._raw, size, self.place)

    def read_all(self, limit: int, see: Callable[[bytes], None] = lambda _piece: None) -> bytes:
        """Return the whole body, a document; decode gzip, as clients do that proxies have been built for.

        Args:
            limit: in bytes, as sent and decoded.
            see: is called with each piece; what it raises ends the reading.

        Raises: BundleError (Unreachable; ContentRejected over the limit; UnsupportedContent for any other encoding;
            StorageFull); what `see` raises.
        """
        decoder = zlib.decompressobj(_GZIP_WINDOW) if self._encoding in _GZIP else None
        read, count, scratch = self._read if decoder else self.read, 0, str(self._transport.scratch)
        with (
            disk_errors_reported(self.place.subject),
            tempfile.SpooledTemporaryFile(_MEMORY_BYTES, dir=scratch) as body,
        ):
            while data := read(_CHUNK):
                count += len(data)
                piece = self._decode(decoder, data, limit + 1 - body.tell()) if decoder else data
                see(piece)
                body.write(piece)
                if max(count, body.tell()) > limit:
                    problem = f"a response of {quote(self.place.host)} exceeds the limit of {describe_bytes(limit)}"
                    problem += "; check that server"
                    raise BundleError(Reason.CONTENT_REJECTED, problem, place=self.place.subject)
            if decoder and not decoder.eof:
                raise self._encoded()
            self.close()
            body.seek(0)
            return body.read()

    def settle(self) -> None:
        """Note that the body is what was looked for, wherever it came from: what is wrong with it may be told."""
        self._transport.settle()

    def _decode(self, decoder: zlib._Decompress, data: bytes, size: int) -> bytes:
        try:
            return decoder.decompress(data, size)
        except zlib.error:
            raise self._encoded() from None

    def _encoded(self) -> BundleError:
        problem = f"{quote(self.place.host)} uses a content encoding that was not requested; turn it off on that server"
        return self.place.show(BundleError(Reason.UNSUPPORTED_CONTENT, problem, place=self.place.subject))

    def discard(self) -> None:
        """Close a response without using its body; keep the connection for reuse if that is cheap."""
        length = read_count(self.headers.get("Content-Length", ""), _DISCARDED_BYTES + 1)
        if length is not None and (self._is_head or length <= _DISCARDED_BYTES):
            with suppress(BundleError):
                while self.read(_CHUNK):
                    pass
        self.close()

    def close(self) -> None:
        """Release the connection."""
        self._raw.close()


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, BundleError) else None
    return asked if asked is not None else _BACKOFF(state)


# TLS


class _Adapter(HTTPAdapter):
    """An adapter with our TLS contexts, without requests' own certificates and proxies.

    Args:
        guard: through which every connection is opened.
        proxies: that requests in plain http are sent to.
        context: returns the TLS context for an origin; called only for the first connection to it over https.
    """

    def __init__(self, guard: Guard, proxies: Proxies, context: Callable[[Origin], ssl.SSLContext]) -> None:
        super().__init__(max_retries=0)
        self._proxies, self._context = proxies, lru_cache(maxsize=None)(context)
        self.poolmanager.pool_classes_by_scheme = {
            "http": _guarded(urllib3.HTTPConnectionPool, _Connection, guard),
            "https": _guarded(_SecurePool, _SecureConnection, guard),
        }

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:  # noqa: ARG002
        """Return what selects a pool: scheme, host and port, and none of requests' TLS options."""
        scheme, host, port = origin = origin_of(request.url)
        options = {"ssl_context": self._context(origin)} if scheme == "https" else {}
        return {"scheme": scheme, "host": host, "port": port}, options

    def request_url(self, request: Any, proxies: Any) -> str:  # noqa: ARG002
        """Return what the first line of a request contains: all of the URL for a proxy, which sends it on."""
        return str(urldefragauth(request.url) if self._forwarder(request.url) else request.path_url)

    def add_headers(self, request: Any, **_: Any) -> None:
        """Add the credentials of the proxy that gets this request; over https it gets only one to connect."""
        proxy = self._forwarder(request.url)
        if proxy and proxy.authorization:
            request.headers["Proxy-Authorization"] = proxy.authorization

    def _forwarder(self, url: str) -> Proxy | None:
        scheme, host, port = origin_of(url)
        return self._proxies.find(scheme, host or "", port or 0) if scheme == "http" else None

    def cert_verify(self, *_: Any) -> None:
        """Do nothing: the TLS context decides."""
