from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.kube.client import Client
from rukpak.controller.manager.serving import (
    CONCURRENT_REVIEWS,
    IN_TOTAL,
    KEPT_VERDICTS,
    PER_PEER,
    Reviewer,
)
from rukpak.controller.playground.processes import wait_for
from tests.support.clock import Clock
from tests.support.fake_api import FakeApi, Fault

PEER = "10.0.0.1"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
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
        assert Reviewer(api.client()).review("token", "/metrics", PEER) is case.expect


def test_what_is_asked_for() -> None:
    with FakeApi() as api:
        serve(api, authenticated=True, allowed=True)
        Reviewer(api.client()).review("token", "/metrics", PEER)
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
            reviewer.review("token", "/metrics", PEER)
        assert len(api.received) == 2
        now[0] = 61
        serve(api, authenticated=True, allowed=False)
        assert reviewer.review("token", "/metrics", PEER) is HTTPStatus.FORBIDDEN


def test_without_a_token_nobody_is_asked() -> None:
    with FakeApi() as api:
        assert Reviewer(api.client()).review("", "/metrics", PEER) is HTTPStatus.UNAUTHORIZED
        assert not api.received


def test_when_nobody_can_tell_nothing_is_shown_and_nothing_is_kept() -> None:
    with FakeApi() as api:
        serve(api, authenticated=True, allowed=True)
        api.faults.append(Fault(403))
        reviewer = Reviewer(api.client())
        assert reviewer.review("token", "/metrics", PEER) is HTTPStatus.SERVICE_UNAVAILABLE
        assert reviewer.review("token", "/metrics", PEER) is HTTPStatus.OK


class World:
    """An API server that knows one token, and counts what it is asked; the clock stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, api: FakeApi) -> None:
        self.clock, self.asked = Clock(), 0
        monkeypatch.setattr(Client, "request", self._answer)
        self.reviewer = Reviewer(api.client(), self.clock)

    def _answer(self, _method: str, _path: str, *, body: Any, timeout: Any) -> Any:
        self.asked += 1
        is_good = body["spec"].get("token", "good") == "good"
        status = {"authenticated": is_good, "allowed": is_good, "user": USER}
        return type("Response", (), {"value": {"status": status}})

    def flood(self, count: int, peer: Callable[[int], str] = lambda _: "10.0.0.66") -> list[HTTPStatus]:
        return [self.reviewer.review(f"forged-{number}", "/metrics", peer(number)) for number in range(count)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with FakeApi() as api:
        yield World(monkeypatch, api)


def test_one_peer_cannot_load_the_api_server(world: World) -> None:
    assert world.flood(1000).count(HTTPStatus.TOO_MANY_REQUESTS) == 1000 - PER_PEER[1]
    assert world.asked == PER_PEER[1]


def test_many_peers_cannot_load_the_api_server(world: World) -> None:
    world.flood(1000, lambda number: f"10.0.{number % 4}.{number // 4}")
    assert world.asked == IN_TOTAL[1]


def test_a_flood_shuts_out_nobody_else(world: World) -> None:
    world.flood(1000)
    assert world.reviewer.review("good", "/metrics", PEER) is HTTPStatus.OK


def test_who_was_admitted_before_is_admitted_again_in_any_flood(world: World) -> None:
    world.reviewer.review("good", "/metrics", PEER)
    for _ in range(100):
        world.clock.now += 61
        world.flood(100, lambda number: f"10.0.0.{number}")
        assert world.reviewer.review("good", "/metrics", PEER) is HTTPStatus.OK


def test_who_asks_seldom_is_asked_about_again(world: World) -> None:
    for number in range(20):
        assert world.reviewer.review(f"forged-{number}", "/metrics", PEER) is HTTPStatus.UNAUTHORIZED
        world.clock.now += 1


def test_a_token_that_is_none_is_not_asked_about(world: World) -> None:
    assert world.reviewer.review("x" * 20_000, "/metrics", PEER) is HTTPStatus.UNAUTHORIZED
    assert world.asked == 0


def test_slow_answers_for_strangers_hold_up_a_few_threads_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def answer(*_args: Any, body: Any, **_options: Any) -> Any:
        if body["spec"].get("token", "good") != "good":
            go_on.wait(60)
        return type("Response", (), {"value": {"status": {"authenticated": True, "allowed": True}}})

    monkeypatch.setattr(Client, "request", answer)
    with FakeApi() as api, ThreadPoolExecutor(CONCURRENT_REVIEWS + 1) as pool:
        reviewer = Reviewer(api.client())
        slow = [
            pool.submit(reviewer.review, f"slow-{number}", "/metrics", PEER) for number in range(CONCURRENT_REVIEWS)
        ]
        wait_for(lambda: not reviewer._slots[False]._value, 60, "all places are taken")
        assert reviewer.review("another", "/metrics", "10.0.0.2") is HTTPStatus.TOO_MANY_REQUESTS
        go_on.set()
        assert [each.result() for each in slow] == [HTTPStatus.OK] * CONCURRENT_REVIEWS


def test_what_is_kept_is_bounded(world: World) -> None:
    for number in range(KEPT_VERDICTS + 10):
        world.clock.now += 1
        world.reviewer.review(str(number), "/metrics", f"10.0.{number % 4}.{number // 4}")
    kept = (world.reviewer._refused, world.reviewer._per_peer._left)
    assert [len(each) for each in kept] == [KEPT_VERDICTS, KEPT_VERDICTS]
