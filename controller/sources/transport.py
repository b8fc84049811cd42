"""HTTP to sources: the one place where requests is used, and where its errors and those of urllib3 end.

Invariants: every call has connect and read timeouts, and none outlives `Access.deadline`, however slowly the peer
sends; nothing is read beyond its cap, nothing is decoded; nothing comes from the environment (no netrc, no proxy);
`Authorization` goes to the host that it is for.

Not here: which addresses may be talked to (connections.py), what the answers mean (registry.py), tokens (tokens.py).
Name resolution has the resolver's own timeout. Messages name host and status, never a URL.
"""

from __future__ import annotations

import email.utils
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Self
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
import requests.utils
import tenacity
import urllib3
import urllib3.util.ssl_match_hostname
from requests.adapters import HTTPAdapter

from api.errors import BundleError
from api.plugins import Access
from api.v1alpha2.conditions import Reason
from controller.content.limits import describe_bytes, quote
from controller.sources.connections import Guard, GuardedPools
from controller.sources.deadline import check_deadline

_CHUNK = 64 * 1024
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 15.0
_ATTEMPTS = 3
_LONGEST_WAIT = 5.0  # seconds; what takes longer is the work queue's to wait for
_REDIRECTS = 5
_HEADER_BYTES = 32 * 1024
_DISCARDED_BYTES = 64 * 1024  # of a body that nobody wants, read so that the connection can be used again

_REDIRECT_STATUS = (301, 302, 303, 307, 308)
_TRANSIENT_STATUS = (408, 429)

LIBRARY_ERRORS = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    urllib3.exceptions.ProxySchemeUnsupported,
    http.client.HTTPException,
    OSError,
)
"""All that requests and what is below it raise."""

_UNUSABLE = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
    requests.exceptions.URLRequired,
    urllib3.exceptions.LocationValueError,
)
_NOT_VERIFIED = (ssl.SSLCertVerificationError, urllib3.util.ssl_match_hostname.CertificateError)
_NO_TLS = "it does not speak TLS as it should"
_PLAIN_ANSWERS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # OpenSSL 3.0, and from 3.5 on
_PROBLEMS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((urllib3.exceptions.NameResolutionError, socket.gaierror), "its name cannot be resolved"),
    ((ConnectionRefusedError,), "it refuses the connection"),
    ((ssl.SSLError, requests.exceptions.SSLError, urllib3.exceptions.SSLError), _NO_TLS),
    ((TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.TimeoutError), "it does not answer in time"),
)


class PlainServerError(BundleError):
    """A server was spoken to in TLS and answers in plain http."""


def translate(error: BaseException, subject: str, host: str) -> BundleError:
    """Return the error of ours for one of `LIBRARY_ERRORS`.

    Args:
        error: the text of it is never used: it holds URLs, ports and object addresses.
        subject: field path that the message begins with.
        host: the one that was talked to.
    """
    causes = tuple(_causes(error))
    for cause in causes:
        if isinstance(cause, _NOT_VERIFIED):
            why = getattr(cause, "verify_message", "") or "it is for another name"
            message = f"{subject}: the certificate of {quote(host)} cannot be verified: {why}; see to certificateData"
            return BundleError(Reason.TLS_VERIFICATION_FAILED, message)
        if isinstance(cause, ssl.SSLError) and getattr(cause, "reason", "") in _PLAIN_ANSWERS:
            return PlainServerError(Reason.UNREACHABLE, _unreachable(subject, host, _NO_TLS).message)
    if isinstance(error, _UNUSABLE):
        return BundleError(Reason.INVALID_REFERENCE, f"{subject}: {quote(host)} leads to an unusable URL; correct it")
    problem = next(
        (text for kinds, text in _PROBLEMS if any(isinstance(cause, kinds) for cause in causes)),
        "the connection was cut",
    )
    return _unreachable(subject, host, problem)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that it was made from, by whichever way it keeps them."""
    waiting, seen = [error], set[int]()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        below = (current.__cause__, current.__context__, getattr(current, "reason", None), *current.args)
        waiting.extend(item for item in below if isinstance(item, BaseException))


def _unreachable(subject: str, host: str, problem: str, retry_after: float | None = None) -> BundleError:
    message = f"{subject}: {quote(host)} cannot be used: {problem}; check address and network"
    return BundleError(Reason.UNREACHABLE, message, retry_after=retry_after)


def is_certificate_data(pem: str) -> bool:
    """Return whether text is a bundle of PEM certificates, or '' for the usual ones."""
    if not pem:
        return True
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)  # a default one would load its own
    except (ssl.SSLError, ValueError):
        return False
    return True


class Transport:
    """The connections of one call of a source; not shared between threads.

    Args:
        access: deadline, cancel token, and the field path that messages begin with.
        certificate_data: PEM bundle to trust instead of the system's and certifi's; '' for those.
        verify: whether certificates are verified at all; if not, then plain http may be spoken to any address.
        loopback: whether loopback addresses may be talked to, as far as `access.network` admits them. To be given for a
            source that names one: then no redirect or name of another leads there.
    """

    def __init__(
        self, access: Access, *, certificate_data: str = "", verify: bool = True, loopback: bool = False
    ) -> None:
        self._access = access
        network = replace(access.network, allow_loopback=access.network.allow_loopback and loopback)
        self._guard = Guard(access.path, network, plain=not verify)
        self._session = _Session()
        self._session.trust_env = False
        self._session.headers.clear()
        self._session.headers.update({"User-Agent": "rukpak", "Accept-Encoding": "identity"})
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        adapter = _Adapter(self._guard, _context(certificate_data, verify=verify))
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, adapter)
        self._timer = threading.Timer(max(access.deadline - time.monotonic(), 0), self._guard.cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._session.close()
        self._guard.close()

    def send(self, method: str, url: str, headers: Mapping[str, str], *, body: bytes | None = None) -> Response:
        """Send a request and return the answer, its body not read yet.

        Redirects are followed, from https to https only, unless there is a body, which nobody else is to see; transient
        failures are tried again for a few seconds.

        Raises: BundleError (Unreachable, with what Retry-After asked for; TLSVerificationFailed; InsecureRefused;
            InvalidReference; UnsupportedContent for an encoded body).
        """
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(self._is_worth_retrying),
            wait=_wait,
            stop=self._gives_up,
            sleep=tenacity.sleep_using_event(self._access.cancelled),
            reraise=True,
        )
        return retrying(self._follow, method, url, headers, body)

    def _is_worth_retrying(self, error: BaseException) -> bool:
        return (
            isinstance(error, BundleError)
            and error.reason is Reason.UNREACHABLE
            and not isinstance(error, PlainServerError)
            and not self._access.cancelled.is_set()
        )

    def _gives_up(self, state: tenacity.RetryCallState) -> bool:
        time_to_wait = min(_LONGEST_WAIT, self._access.deadline - time.monotonic())
        return state.attempt_number >= _ATTEMPTS or state.upcoming_sleep > time_to_wait

    def _follow(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        origin = _origin(urlsplit(url))
        for _ in range(_REDIRECTS + 1):
            parts = urlsplit(url)
            own = _origin(parts) == origin
            sent = {name: value for name, value in headers.items() if own or name.lower() != "authorization"}
            response = self._send_once(method, url, sent, body)
            if response.status not in _REDIRECT_STATUS or body is not None:
                return response
            response.discard()
            url = self._redirected(parts, url, response)
        raise _unreachable(self._access.path, _host(urlsplit(url)), f"it redirects more than {_REDIRECTS} times")

    def _redirected(self, parts: SplitResult, url: str, response: Response) -> str:
        try:
            target = urljoin(url, response.headers.get("Location", ""))
            there = urlsplit(target)
            usable = there.scheme in ("https", parts.scheme) and there.hostname and "@" not in there.netloc
        except ValueError:
            usable = None
        if not usable:
            raise BundleError(
                Reason.INSECURE_REFUSED,
                f"{self._access.path}: {quote(_host(parts))} redirects to an address that is not plainly https; "
                "correct it there",
            )
        return target

    def _send_once(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        self.check()
        host = _host(urlsplit(url))
        left = max(self._access.deadline - time.monotonic(), 0.001)
        timeout = (min(_CONNECT_SECONDS, left), min(_READ_SECONDS, left))
        try:
            raw = self._session.request(
                method, url, headers=dict(headers), data=body, stream=True, timeout=timeout, allow_redirects=False
            )
        except LIBRARY_ERRORS as error:
            self.check()
            raise translate(error, self._access.path, host) from error
        response = Response(raw, self, self._access.path, host)
        try:
            self._judge(raw, host)
        except BundleError:
            response.discard()
            raise
        return response

    def _judge(self, raw: requests.Response, host: str) -> None:
        if raw.status_code in _TRANSIENT_STATUS or raw.status_code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
            wait = read_retry_after(raw.headers.get("Retry-After", ""), time.time())
            raise _unreachable(self._access.path, host, f"it answers with status {raw.status_code}", wait)
        if sum(len(name) + len(value) for name, value in raw.headers.items()) > _HEADER_BYTES:
            problem = f"the header of its answer is over {describe_bytes(_HEADER_BYTES)}"
            raise _unreachable(self._access.path, host, problem)
        if raw.headers.get("Content-Encoding", "identity").lower() != "identity":
            message = f"{self._access.path}: {quote(host)} encodes what was asked for as it is; correct it there"
            raise BundleError(Reason.UNSUPPORTED_CONTENT, message)

    def check(self) -> None:
        """Raise BundleError (Unreachable) once the deadline has passed, or nobody waits any more."""
        check_deadline(self._access)


class Response:
    """An answer. `status`, `headers` (any spelling of case), `host` that gave it in the end, and the body to read."""

    def __init__(self, raw: requests.Response, transport: Transport, subject: str, host: str) -> None:
        self.status = raw.status_code
        self.headers: Mapping[str, str] = raw.headers
        self.host = host
        self._is_head = raw.request.method == "HEAD"
        self._raw, self._transport, self._subject = raw, transport, subject

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes as soon as there are some; nothing at the end.

        Raises: BundleError (Unreachable), also if the body ends before its Content-Length.
        """
        self._transport.check()
        try:
            # read1, for read waits until all `size` bytes have come, at whatever pace
            data: bytes | None = self._raw.raw.read1(size, decode_content=False)
        except LIBRARY_ERRORS as error:
            self._transport.check()
            raise translate(error, self._subject, self.host) from error
        return data or b""

    def read_all(self, limit: int) -> bytes:
        """Return the whole body.

        Raises: BundleError (Unreachable; ContentRejected over `limit` bytes).
        """
        body = bytearray()
        while data := self.read(_CHUNK):
            body += data
            if len(body) > limit:
                message = f"{self._subject}: an answer of {quote(self.host)} is over {describe_bytes(limit)}"
                raise BundleError(Reason.CONTENT_REJECTED, message)
        self.close()
        return bytes(body)

    def discard(self) -> None:
        """Be done with a body that is not wanted, so that its connection serves again if that is cheap."""
        length = self.headers.get("Content-Length", "")
        if length.isdigit() and (self._is_head or int(length) <= _DISCARDED_BYTES):
            with suppress(BundleError):
                while self.read(_CHUNK):
                    pass
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._raw.close()


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, BundleError) else None
    return asked if asked is not None else _BACKOFF(state)


_BACKOFF: Callable[[tenacity.RetryCallState], float] = tenacity.wait_exponential_jitter(
    multiplier=0.2, max=2, jitter=0.2
)


def read_retry_after(retry_after: str, now: float) -> float | None:
    """Read either form of Retry-After (RFC 9110, section 10.2.3); `now` in seconds since the epoch."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


# TLS


def _context(certificate_data: str, *, verify: bool) -> ssl.SSLContext:
    if verify and not certificate_data:
        return _default_context()
    context = ssl.create_default_context(cadata=certificate_data or None)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@cache
def _default_context() -> ssl.SSLContext:
    context = ssl.create_default_context()  # the system's, where an administrator adds his own
    context.load_verify_locations(requests.utils.DEFAULT_CA_BUNDLE_PATH)  # slim images have none
    return context


class _Session(requests.Session):
    """A session that leaves redirects alone: told not to follow one, requests still reads all of its body."""

    def resolve_redirects(self, *_: Any, **__: Any) -> Iterator[requests.Response]:
        """Yield nothing."""
        return iter(())


class _Adapter(HTTPAdapter):
    """requests' adapter with our pools and TLS context, and nothing of requests' own certificates."""

    def __init__(self, guard: Guard, context: ssl.SSLContext) -> None:
        self._guard, self._context = guard, context
        super().__init__(max_retries=0)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **_: Any) -> None:
        self.poolmanager = GuardedPools(
            self._guard, num_pools=connections, maxsize=maxsize, block=block, ssl_context=self._context
        )

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:  # noqa: ARG002
        parts = urlsplit(request.url)
        return {"scheme": parts.scheme, "host": parts.hostname, "port": parts.port}, {}

    def cert_verify(self, *_: Any) -> None:
        """Do nothing: the context says it all."""
