from __future__ import annotations

import json
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import pytest
import urllib3

from rukpak.controller.content.limits import shorten
from rukpak.controller.kube.errors import (
    STATUS_CHARACTERS,
    USER_CHARACTERS,
    ApiError,
    Cause,
    reply_error,
    status_error,
    unanswered,
)


@dataclass(frozen=True)
class Case:
    name: str
    status: int
    message: str
    transient: bool


TRANSIENT = [
    Case("no answer can succeed later", 0, "", True),
    Case("too many requests can succeed later", 429, "", True),
    Case("a server that shuts down can succeed later", 503, "apiserver is shutting down", True),
    Case("an internal error can succeed later", 500, "etcdserver: leader changed", True),
    Case("a conflict does not resolve automatically", 409, "", False),
    Case("a refusal does not resolve automatically", 403, "", False),
    Case("a wrong type is final, though 500", 500, "failed to create typed patch object (a/b): .x: expected", False),
    Case("an unknown field is final, though 500", 500, ".spec.x: field not declared in schema", False),
    Case("an object above etcd's limit is final, though 500", 500, "etcdserver: request is too large", False),
    Case(
        "a webhook that says no is final, whatever its status", 503, 'admission webhook "x" denied the request', False
    ),
]


@pytest.mark.parametrize("case", TRANSIENT, ids=attrgetter("name"))
def test_what_can_succeed_later(case: Case) -> None:
    assert ApiError(case.status, "", case.message).transient is case.transient


@dataclass(frozen=True)
class Reply:
    name: str
    body: bytes
    reason: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)
    retry_after: float | None = None


NO_STATUS = "HTTP 503 without a Status"
PAST = "Fri, 01 Jan 2021 00:00:00 GMT"
LAST = "Fri, 31 Dec 9999 23:59:59 GMT"


def status(**content: Any) -> bytes:
    return json.dumps({"kind": "Status", **content}).encode()


REPLIES = [
    Reply("a Status is read", status(reason="NotFound", message="gone"), "NotFound", "gone"),
    Reply("what a proxy says is not shown", b"<html>token</html>", "", NO_STATUS),
    Reply("JSON that is no Status is not shown", b'{"message": "token"}', "", NO_STATUS),
    Reply("a list is no Status", b"[]", "", NO_STATUS),
    Reply("nulls of a Status count as absent", status(reason=None, details=None), "", NO_STATUS),
    Reply("Retry-After in seconds", b"", "", NO_STATUS, {"Retry-After": "7"}, 7),
    Reply("Retry-After in the past is now", b"", "", NO_STATUS, {"Retry-After": PAST}, 0),
    Reply("Retry-After that is none is ignored", b"", "", NO_STATUS, {"Retry-After": "soon"}),
    Reply(
        "the details may ask for a pause, too", status(message="x", details={"retryAfterSeconds": 3}), "", "x", {}, 3
    ),
    Reply("Retry-After of an age is a minute", b"", "", NO_STATUS, {"Retry-After": "99999999999"}, 60),
    Reply("Retry-After that Python does not read is a minute", b"", "", NO_STATUS, {"Retry-After": "9" * 5000}, 60),
    Reply("Retry-After in the last year is a minute", b"", "", NO_STATUS, {"Retry-After": LAST}, 60),
    Reply("an age in the details is a minute", status(details={"retryAfterSeconds": 10**300}), "", NO_STATUS, {}, 60),
    Reply("a text in the details is ignored", status(details={"retryAfterSeconds": "3"}), "", NO_STATUS),
    Reply("details that are none are ignored", status(details=["x"]), "", NO_STATUS),
]


@pytest.mark.parametrize("case", REPLIES, ids=attrgetter("name"))
def test_what_a_reply_says(case: Reply) -> None:
    error = reply_error(503, case.headers, case.body)
    assert (error.reason, error.message, error.retry_after) == (case.reason, case.message, case.retry_after)


def test_causes_are_read_and_may_lack_parts() -> None:
    error = ApiError(422, "Invalid", "", details={"causes": [{"reason": "R", "field": "f", "message": "m"}, {}]})
    assert error.causes == (Cause("R", "f", "m"), Cause())


@pytest.mark.parametrize("code", [400, 422, 500])
def test_what_judges_an_object_is_not_quoted_in_the_text(code: int) -> None:
    details = {"causes": [{"field": "data.password", "message": 'Invalid value: "hunter2"'}]}
    error = ApiError(code, "Invalid", 'Invalid value: "hunter2"', details=details)
    assert str(error) == repr(error) == f"{code} Invalid: data.password"


VAP = "ValidatingAdmissionPolicy 'images' with binding 'all' denied request: "
REASONS = "Images of other registries are not scanned. " * 200
ASK = "Ask #platform for a mirror; https://docs.example.com/mirrors says how"


class Text(NamedTuple):
    name: str
    error: ApiError
    line: str
    told: str
    """To the user whose request it was."""


TEXTS = [
    Text("one line", ApiError(403, "Forbidden", "no\nrights"), "403 Forbidden: no rights", "403 Forbidden: no rights"),
    Text("no text", ApiError(503, "", ""), "503", "503"),
    Text(
        "a policy with a code of its own",
        ApiError(403, "Forbidden", f"{VAP}{ASK}"),
        f"403 Forbidden: {VAP}{ASK}",
        f"403 Forbidden: {VAP}{ASK}",
    ),
    Text(
        "a policy with the code of most",
        ApiError(422, "Invalid", f"{VAP}{ASK}"),
        "422 Invalid",
        f"422 Invalid: {VAP}{ASK}",
    ),
    Text(
        "a webhook with a code that may quote",
        ApiError(400, "BadRequest", f'admission webhook "a.example.com" denied the request: {ASK}'),
        "400 BadRequest",
        f'400 BadRequest: admission webhook "a.example.com" denied the request: {ASK}',
    ),
    Text("a value", ApiError(422, "Invalid", 'Invalid value: "hunter2"'), "422 Invalid", "422 Invalid"),
    Text(
        "a value that says it is a policy",
        ApiError(422, "Invalid", f'spec.a: Invalid value: "{VAP}hunter2"'),
        "422 Invalid",
        "422 Invalid",
    ),
]


@pytest.mark.parametrize("case", TEXTS, ids=attrgetter("name"))
def test_the_text_is_one_line_and_a_policy_is_told_to_the_user(case: Text) -> None:
    assert (str(case.error), case.error.tell_user()) == (case.line, case.told)


@pytest.mark.parametrize("repeated", [1, 10, 30, 150, 200])
def test_the_remedy_of_a_policy_is_not_cut(repeated: int) -> None:
    said = f"{VAP}{REASONS[: 44 * repeated]}{ASK}"
    error = ApiError(403, "Forbidden", said)
    assert str(error).endswith(ASK)
    assert len(str(error)) <= STATUS_CHARACTERS + 20
    assert error.tell_user().endswith(ASK)
    assert (said in error.tell_user()) is (len(said) <= USER_CHARACTERS)
    assert (said in str(error)) is (len(said) <= STATUS_CHARACTERS)


CUTS = [
    ("short", 20, "short"),
    ("one two three. four five six; do it", 30, "one two three. four … do it"),
    ("aaa bbb ccc ddd eee fff ggg hhh; do this and then all that", 40, "aaa bbb ccc … do this and then all that"),
    ("aaaa bbbb cccc dddd eeee ffff gggg hhhh", 20, "aaaa bbbb … hhhh"),
    ("x" * 50, 20, f"{'x' * 9} … {'x' * 8}"),
]


@pytest.mark.parametrize(("text", "most", "expect"), CUTS)
def test_a_long_text_is_cut_in_the_middle(text: str, most: int, expect: str) -> None:
    assert shorten(text, most) == expect
    assert len(expect) <= most


def test_a_long_message_is_kept_for_those_who_pick_from_it() -> None:
    assert ApiError(422, "", "x" * 5000 + "field is immutable").message.endswith("field is immutable")


def test_an_error_event_is_a_status() -> None:
    error = status_error({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
    assert (error.status, error.reason, error.message) == (410, "Expired", "too old")


@pytest.mark.parametrize(
    "error",
    [
        urllib3.exceptions.ProtocolError("10.0.0.1:12345"),
        urllib3.exceptions.MaxRetryError(None, "/x", ConnectionResetError("10.0.0.1:12345")),  # type: ignore[arg-type]
        ConnectionRefusedError("10.0.0.1:12345"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_address_or_port_is_told(error: Exception) -> None:
    translated = unanswered(error)
    assert translated.status == 0
    assert "12345" not in str(translated)


@pytest.mark.parametrize("code", ["many", None, -1, [410], True, 10**400])
def test_an_error_event_may_hold_any_code(code: Any) -> None:
    assert 0 <= status_error({"kind": "Status", "code": code, "details": {"retryAfterSeconds": code}}).status <= 999
