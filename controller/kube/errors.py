"""Errors of the API server: ApiError for replies, ConfigurationError for the configuration.

A reply to an apply may quote the object that was sent, Secrets included (a 422 contains the rejected value). So `str()`
of an error leaves out such messages and is safe to log; `message` is for code that extracts safe parts of it (apply/).
`tell_user` is for the one whose request it was, who also reads what a policy says about it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Any, TypeVar

import urllib3

from rukpak.api.bounds import clamp, clamp_retry_after, read_retry_after
from rukpak.controller.certificates import find_date_problem
from rukpak.controller.content.limits import shorten
from rukpak.controller.untrusted import decode, mapping, mappings

MESSAGE_CHARACTERS = 64 << 10
STATUS_CHARACTERS, USER_CHARACTERS = 1000, 8 << 10
"""Characters of a text in status and in logs, and of one for the user whose request was refused."""
MOST_CAUSES, CAUSE_CHARACTERS = 1000, 4096
"""Causes of a Status that are read, and characters of each of their texts: webhooks write them, too."""

UNREACHABLE = "Unreachable"
"""Reason of an error without a reply."""

LONGEST_RETRY_AFTER = 60.0
"""Seconds. API servers ask for one; a proxy in front or a webhook behind must not stop the controller for hours."""
_LARGEST_STATUS = 999

TRANSIENT = frozenset({0, 408, 429, 500, 502, 503, 504})
# Requests that get a 5xx but can never succeed: an apply with an unknown field, a wrong type, a duplicate key or an
# unreadable value; an object above the limit of etcd (1.5 MiB) or of its client (2 MiB); a webhook that denies with a
# status of its choice.
_TERMINAL = re.compile(
    "failed to create typed patch object|field not declared in schema|etcdserver: request is too large"
)
# A beginning and what follows it, at any distance: a pattern for both would look for the end after each beginning.
_TERMINAL_PAIRS = (
    ("failed to convert new object ", " to proper version"),
    ("ResourceExhausted ", "trying to send message larger than max"),
    ('admission webhook "', '" denied the request'),
)
_WEBHOOK_DENIAL = re.compile(
    r'admission webhook "([^"]*)" denied the request(?:: (.*)| without explanation)', re.DOTALL
)
_POLICY_DENIAL = re.compile(
    r"(?:\S+ \"[^\"]*\" is forbidden: )?"
    r"(?:ValidatingAdmissionPolicy|MutatingAdmissionPolicy|policy) '([^']*)' with binding '[^']*' denied request: (.*)",
    re.DOTALL,
)
Reply = TypeVar("Reply")
# Replies that may quote the request.
QUOTING = frozenset({400, 422, 500})


class ConfigurationError(Exception):
    """The API server, or the credentials for it, cannot be determined; the message is one line."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One of `details.causes` of a Status."""

    reason: str = ""
    field: str = ""
    message: str = ""


class ApiError(Exception):
    """The API server refused a request, or did not answer.

    Attributes:
        status: HTTP status; 0 if there was no reply, or none that could be read.
        reason: of the Status, such as `NotFound`; empty if the reply was no Status (a plain 404 means not served).
        message: of the Status, up to 64 Ki characters. It may quote the request: never publish all of it.
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
        """Return one line without any part of the request."""
        if self.status not in QUOTING:
            return self._with_code(self.message, STATUS_CHARACTERS)
        fields = ", ".join(sorted({cause.field for cause in self.causes if cause.field}))
        return self._with_code(fields, STATUS_CHARACTERS)

    __repr__ = __str__

    def tell_user(self) -> str:
        """Return one line for the user who sent the request: with the whole text of a policy, whatever its code is."""
        if self.status in QUOTING and find_denial(self.message) is None:
            return str(self)
        return self._with_code(self.message, USER_CHARACTERS)

    def _with_code(self, text: str, most: int) -> str:
        code = f"{self.status} {self.reason}".rstrip()
        said = shorten(" ".join(text.split()), most)
        return f"{code}: {said}" if said else code

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes in `details`: rejected fields, conflicting managers."""
        return tuple(
            Cause(*(str(cause.get(key) or "")[:CAUSE_CHARACTERS] for key in ("reason", "field", "message")))
            for cause in islice(mappings(self.details, "causes"), MOST_CAUSES)
        )

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later without a change by anyone."""
        return self.status in TRANSIENT and not _is_terminal(self.message)


def attempt(request: Callable[[], Reply], *accepted: HTTPStatus) -> Reply | None:
    """Return what a request returns; None if the API server answers with one of these statuses.

    Raises: ApiError for any other.
    """
    try:
        return request()
    except ApiError as error:
        if error.status not in accepted:
            raise
        return None


def find_denial(message: str) -> tuple[str, str] | None:
    """Return which webhook or policy denied a request, and its text; None for any other message."""
    for kind, pattern in (("admission webhook", _WEBHOOK_DENIAL), ("admission policy", _POLICY_DENIAL)):
        if match := pattern.match(message):
            return f'{kind} "{match[1]}"', match[2] or ""
    return None


def _is_terminal(message: str) -> bool:
    if _TERMINAL.search(message):
        return True
    found = ((message.find(beginning), len(beginning), message.rfind(end)) for beginning, end in _TERMINAL_PAIRS)
    return any(start >= 0 and start + length <= end for start, length, end in found)


def unanswered(error: Exception) -> ApiError:
    """Translate an error of urllib3 or the operating system. Its text contains addresses: only its type is kept."""
    if problem := find_date_problem(error):
        return ApiError(0, UNREACHABLE, f"the certificate of the API server {problem}")
    if isinstance(error, urllib3.exceptions.MaxRetryError) and error.reason is not None:
        error = error.reason
    return ApiError(0, UNREACHABLE, f"the API server did not answer ({type(error).__name__})")


def reply_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error for a reply other than 2xx. A body that is no Status comes from a proxy and is not shown."""
    value = _parse_status(body)
    message = value.get("message") or f"HTTP {status} without a Status"
    error = status_error({**value, "code": status, "message": message})
    after = read_retry_after(headers.get("Retry-After", ""), time.time(), LONGEST_RETRY_AFTER)
    error.retry_after = error.retry_after if after is None else after
    return error


def status_error(value: Mapping[str, Any]) -> ApiError:
    """Return the error for an object of kind Status, such as in the ERROR event of a watch."""
    details = mapping(value, "details")
    return ApiError(
        int(clamp(value.get("code"), 0, _LARGEST_STATUS) or 0),
        str(value.get("reason") or ""),
        str(value.get("message") or ""),
        details=details,
        retry_after=clamp_retry_after(details.get("retryAfterSeconds"), LONGEST_RETRY_AFTER),
    )


def _parse_status(body: bytes) -> Mapping[str, Any]:
    try:
        value = decode(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) and value.get("kind") == "Status" else {}
