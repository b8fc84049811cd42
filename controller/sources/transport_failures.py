"""Translates the errors of requests and the libraries below it.

Their texts are never used: they contain URLs, ports and object addresses. Not here: what messages may reveal about the
target of a redirect (redirects.py).
"""

from __future__ import annotations

import http.client
import socket
import ssl

import requests
import urllib3
import urllib3.util.ssl_match_hostname

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.certificates import find_causes, find_date_problem
from controller.content.limits import quote
from controller.sources.pace import TIMED_OUT

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
NOT_RESOLVED = "its name cannot be resolved"
REFUSED = "it refuses the connection"
NO_TLS = "the TLS handshake failed"
CUT = "the connection was closed"
_PLAIN_ANSWERS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # OpenSSL 3.0, and since 3.5
_PROBLEMS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((urllib3.exceptions.NameResolutionError, socket.gaierror), NOT_RESOLVED),
    ((ConnectionRefusedError,), REFUSED),
    ((ssl.SSLError, requests.exceptions.SSLError, urllib3.exceptions.SSLError), NO_TLS),
    ((TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.TimeoutError), TIMED_OUT),
)


class PlainServerError(BundleError):
    """A server responds to TLS in plain http."""


class StatusError(BundleError):
    """A server answers with an error of its own, or asks to wait."""

    def __init__(self, unreachable: BundleError, status: int) -> None:
        super().__init__(unreachable.reason, unreachable.message, retry_after=unreachable.retry_after)
        self.status = status


def translate(error: BaseException, subject: str, host: str) -> BundleError:
    """Return the error for one of `LIBRARY_ERRORS`.

    Args:
        error: its text is never used.
        subject: field path that starts the message.
        host: of the request.
    """
    causes = tuple(find_causes(error))
    if problem := find_date_problem(error):
        message = f"{subject}: the certificate of {quote(host)} {problem}"
        return BundleError(Reason.TLS_VERIFICATION_FAILED, message)
    for cause in causes:
        if isinstance(cause, _NOT_VERIFIED):
            why = getattr(cause, "verify_message", "") or "it is for another name"
            message = f"{subject}: cannot verify the certificate of {quote(host)}: {why}; check certificateData"
            return BundleError(Reason.TLS_VERIFICATION_FAILED, message)
        if isinstance(cause, ssl.SSLError) and getattr(cause, "reason", "") in _PLAIN_ANSWERS:
            return PlainServerError(Reason.UNREACHABLE, unreachable(subject, host, NO_TLS).message)
    if isinstance(error, _UNUSABLE):
        return BundleError(Reason.INVALID_REFERENCE, f"{subject}: the URL of {quote(host)} is invalid; correct it")
    matching = (text for kinds, text in _PROBLEMS if any(isinstance(cause, kinds) for cause in causes))
    return unreachable(subject, host, next(matching, CUT))


def unreachable(subject: str, host: str, problem: str, retry_after: float | None = None) -> BundleError:
    """Return the error for a host that cannot be reached, or that fails."""
    message = f"{subject}: cannot read from {quote(host)}: {problem}; check the address and the network"
    return BundleError(Reason.UNREACHABLE, message, retry_after=retry_after)
