"""What requests, and what is below it, complain of, and the error of ours for it.

Their texts are never used: they hold URLs, ports and object addresses. Not here: what may be told of a place to which a
redirect led (redirects.py).
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator

import requests
import urllib3
import urllib3.util.ssl_match_hostname

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote

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
            return PlainServerError(Reason.UNREACHABLE, unreachable(subject, host, _NO_TLS).message)
    if isinstance(error, _UNUSABLE):
        return BundleError(Reason.INVALID_REFERENCE, f"{subject}: {quote(host)} leads to an unusable URL; correct it")
    problem = next(
        (text for kinds, text in _PROBLEMS if any(isinstance(cause, kinds) for cause in causes)),
        "the connection was cut",
    )
    return unreachable(subject, host, problem)


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


def unreachable(subject: str, host: str, problem: str, retry_after: float | None = None) -> BundleError:
    """Return the error for a host that does not do what it should."""
    message = f"{subject}: {quote(host)} cannot be used: {problem}; check address and network"
    return BundleError(Reason.UNREACHABLE, message, retry_after=retry_after)


def unverified(path: str) -> BundleError:
    """Return the error for credentials that a server would get whose certificate is not verified."""
    message = (
        f"{path}.auth: credentials must not go over a connection that insecureSkipTLSVerify leaves unverified; use "
        "https and certificateData"
    )
    return BundleError(Reason.INSECURE_REFUSED, message)
