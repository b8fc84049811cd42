from __future__ import annotations

import json
from http import HTTPStatus
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.kube.client import Client
from controller.manager.reviews import ACCESS_REVIEWS, KEPT, TOKEN_REVIEWS, Reviewer
from tests.support.fake_api import FakeApi, Fault

USER = {"username": "system:serviceaccount:monitoring:prometheus", "uid": "1", "groups": ["system:authenticated"]}


def serve(api: FakeApi, *, authenticated: bool, allowed: bool) -> None:
    api.documents[TOKEN_REVIEWS] = ({"status": {"authenticated": authenticated, "user": USER}}, "")
    api.documents[ACCESS_REVIEWS] = ({"status": {"allowed": allowed}}, "")


class Case(NamedTuple):
    name: str
    authenticated: bool
    allowed: bool
    expect: HTTPStatus


CASES = [
    Case("whoever may", True, True, HTTPStatus.OK),
    Case("whoever may not", True, False, HTTPStatus.FORBIDDEN),
    Case("nobody that the API server knows", False, True, HTTPStatus.UNAUTHORIZED),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_who_may_see_it(case: Case) -> None:
    with FakeApi() as api:
        serve(api, authenticated=case.authenticated, allowed=case.allowed)
        assert Reviewer(api.client()).review("token", "/metrics") is case.expect


def test_what_is_asked_for() -> None:
    with FakeApi() as api:
        serve(api, authenticated=True, allowed=True)
        Reviewer(api.client()).review("token", "/metrics")
        who, may = [json.loads(each.body)["spec"] for each in api.received]
    assert who == {"token": "token"}
    assert may == {
        "user": USER["username"],
        "uid": "1",
        "groups": USER["groups"],
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


def test_an_answer_is_kept_for_a_while() -> None:
    now = [0.0]
    with FakeApi() as api:
        serve(api, authenticated=True, allowed=True)
        reviewer = Reviewer(api.client(), lambda: now[0])
        for _ in range(3):
            reviewer.review("token", "/metrics")
        assert len(api.received) == 2
        now[0] = 61
        serve(api, authenticated=True, allowed=False)
        assert reviewer.review("token", "/metrics") is HTTPStatus.FORBIDDEN


def test_without_a_token_nobody_is_asked() -> None:
    with FakeApi() as api:
        assert Reviewer(api.client()).review("", "/metrics") is HTTPStatus.UNAUTHORIZED
        assert not api.received


def test_when_nobody_can_tell_nothing_is_shown_and_nothing_is_kept() -> None:
    with FakeApi() as api:
        serve(api, authenticated=True, allowed=True)
        api.faults.append(Fault(403))
        reviewer = Reviewer(api.client())
        assert reviewer.review("token", "/metrics") is HTTPStatus.SERVICE_UNAVAILABLE
        assert reviewer.review("token", "/metrics") is HTTPStatus.OK


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def request(*_args: Any, **_options: Any) -> Any:
        return type("Response", (), {"value": {"status": {}}})

    monkeypatch.setattr(Client, "request", request)
    with FakeApi() as api:
        reviewer = Reviewer(api.client())
        for number in range(KEPT + 10):
            reviewer.review(str(number), "/metrics")
        assert len(reviewer._known) == KEPT
