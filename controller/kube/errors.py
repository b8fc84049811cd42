"""What goes wrong between this program and the API server: one error for replies, one for configuration.

A reply to an apply may quote the object that was sent, Secrets included (a 422 holds the refused value). So `str()` of
an error is made of what cannot: it is safe in a log, and `message` is for those who pick from it (apply/).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import urllib3

from api.bounds import clamp, clamp_retry_after, read_retry_after
from controller.kube.encoding import decode

MESSAGE_CHARACTERS = 64 << 10

UNREACHABLE = "Unreachable"
"""Reason of an error without an answer."""

LONGEST_RETRY_AFTER = 60.0
"""Seconds: an API server asks for one; a proxy before it, or a webhook behind it, is not to stop us for hours."""
_LARGEST_STATUS = 999

TRANSIENT = frozenset({0, 408, 429, 500, 502, 503, 504})
# What the server answers with 5xx although it can never succeed: an apply with an unknown field, a wrong type, a key
# twice or a value that cannot be read; an object above etcd's 1.5 MiB, or above what its client sends (2 MiB); a
# webhook that says no with a status of its own choice.
TERMINAL = re.compile(
    r"failed to create typed patch object|failed to convert new object .* to proper version"
    r"|field not declared in schema|etcdserver: request is too large"
    r"|ResourceExhausted .*trying to send message larger than max"
    r'|admission webhook ".*" denied the request',
    re.DOTALL,
)
# These judge what was sent, and quote it.
QUOTING = frozenset({400, 422, 500})


class ConfigurationError(Exception):
    """The program cannot know which API server to talk to, or as whom; the message is one line."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One of `details.causes` of a Status."""

    reason: str = ""
    field: str = ""
    message: str = ""


class ApiError(Exception):
    """The API server said no, or did not answer.

    Attributes:
        status: HTTP status; 0 if there was no answer, or none that could be understood.
        reason: of the Status, such as `NotFound`; "" where the answer was no Status (a plain 404: not served).
        message: of the Status, up to 64 Ki characters. It may quote what was sent: pick from it, do not publish it.
        details: of the Status.
        retry_after: seconds that the server asked for, at most LONGEST_RETRY_AFTER.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message[:MESSAGE_CHARACTERS]
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after

    def __str__(self) -> str:
        """Return one line without anything that was sent."""
        said = f" {self.reason}" if self.reason else ""
        if self.status in QUOTING:
            fields = ", ".join(sorted({cause.field for cause in self.causes if cause.field}))
            return f"{self.status}{said}" + (f": {fields[:256]}" if fields else "")
        return f"{self.status}{said}: {' '.join(self.message.split())[:256]}"

    __repr__ = __str__

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes in `details`: fields that were refused, managers that conflict."""
        return tuple(
            Cause(*(str(cause.get(key) or "") for key in ("reason", "field", "message")))
            for cause in _list(self.details.get("causes"))
            if isinstance(cause, dict)
        )

    @property
    def transient(self) -> bool:
        """Whether the same request can succeed later without anybody doing anything."""
        return self.status in TRANSIENT and not TERMINAL.search(self.message)


def unanswered(error: Exception) -> ApiError:
    """Translate what urllib3 and the operating system raise. Their texts hold addresses: only the type is kept."""
    if isinstance(error, urllib3.exceptions.MaxRetryError) and error.reason is not None:
        error = error.reason
    return ApiError(0, UNREACHABLE, f"the API server did not answer ({type(error).__name__})")


def reply_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error that a reply other than 2xx stands for. A body that is no Status is a proxy's: not shown."""
    value = _parse_status(body)
    details = _mapping(value.get("details"))
    after = read_retry_after(headers.get("Retry-After", ""), time.time(), LONGEST_RETRY_AFTER)
    return ApiError(
        status,
        str(value.get("reason") or ""),
        str(value.get("message") or f"HTTP {status} without a Status"),
        details=details,
        retry_after=after if after is not None else _asked_for(details),
    )


def status_error(value: Mapping[str, Any]) -> ApiError:
    """Return the error that an object of kind Status stands for, as an ERROR event of a watch brings it."""
    details = _mapping(value.get("details"))
    return ApiError(
        int(clamp(value.get("code"), 0, _LARGEST_STATUS) or 0),
        str(value.get("reason") or ""),
        str(value.get("message") or ""),
        details=details,
        retry_after=_asked_for(details),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a value that has to be an object: proxies and extension servers send what they like."""
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _parse_status(body: bytes) -> Mapping[str, Any]:
    try:
        value = decode(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) and value.get("kind") == "Status" else {}


def _asked_for(details: Mapping[str, Any]) -> float | None:
    return clamp_retry_after(details.get("retryAfterSeconds"), LONGEST_RETRY_AFTER)
