from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

import pytest

from rukpak.controller.sources.hosts import is_loopback
from rukpak.controller.ui.guard import Guard

GUARD = Guard(hosts=frozenset({"127.0.0.1", "::1", "localhost"}), port=8000, token="t", session="s", csrf="c")
OWN = {"host": "127.0.0.1:8000", "cookie": "rukpak-ui-8000=s", "sec-fetch-site": "same-origin"}
ACT = {**OWN, "origin": "http://127.0.0.1:8000", "x-csrf-token": "c"}


class Case(NamedTuple):
    name: str
    headers: Mapping[str, str]
    status: int = 0
    method: str = "GET"
    is_entry: bool = False


CASES = [
    Case("the page itself", OWN),
    Case("by name", {**OWN, "host": "localhost:8000"}),
    Case("by its address of version 6", {**OWN, "host": "[::1]:8000"}),
    Case("a browser that tells nothing of the site", {key: OWN[key] for key in ("host", "cookie")}),
    Case("an act of the page", ACT, method="POST"),
    Case(
        "the address with the token, from anywhere",
        {"host": OWN["host"], "sec-fetch-site": "cross-site"},
        is_entry=True,
    ),
    Case("a name that resolves to this machine", {**OWN, "host": "rebind.example.com:8000"}, 421),
    Case("such a name with the token", {"host": "rebind.example.com:8000"}, 421, is_entry=True),
    Case("another port of this machine", {**OWN, "host": "127.0.0.1:8001"}, 421),
    Case("no port", {**OWN, "host": "127.0.0.1"}, 421),
    Case("no host", {"cookie": OWN["cookie"]}, 421),
    Case("no cookie", {"host": OWN["host"]}, 401),
    Case("the cookie of another run", {**OWN, "cookie": "rukpak-ui-8000=other"}, 401),
    Case("the cookie of another port", {**OWN, "cookie": "rukpak-ui-8001=s"}, 401),
    Case("a cookie that is none", {**OWN, "cookie": "a=b;;\x00="}, 401),
    Case("a cookie that is not ASCII", {**OWN, "cookie": "rukpak-ui-8000=\xe9"}, 401),
    Case("a script of another site", {**OWN, "origin": "https://evil.example.com"}, 403),
    Case("a page without an origin of its own", {**OWN, "origin": "null"}, 403),
    Case("an image on another site", {**OWN, "sec-fetch-site": "cross-site"}, 403),
    Case("another port of the same host", {**OWN, "sec-fetch-site": "same-site"}, 403),
    Case("an act of another site", {**ACT, "origin": "https://evil.example.com"}, 403, "POST"),
    Case("an act without an origin", {key: text for key, text in ACT.items() if key != "origin"}, 403, "POST"),
    Case("an act without the token of the page", {**ACT, "x-csrf-token": ""}, 403, "POST"),
    Case("an act with the token of the address", {**ACT, "x-csrf-token": "t"}, 403, "POST"),
    Case("an act on the address with the token", {"host": OWN["host"]}, 401, "POST", is_entry=True),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_who_may_ask(case: Case) -> None:
    refused = GUARD.refuse(case.method, case.headers, is_entry=case.is_entry)
    assert (refused[0] if refused else 0) == case.status


def test_a_default_port_need_not_be_named() -> None:
    guard = Guard(hosts=frozenset({"ui.example.com"}), port=443, is_secure=True, session="s")
    headers = {"host": "UI.example.com", "cookie": "rukpak-ui-443=s"}
    assert guard.refuse("GET", headers, is_entry=False) is None
    assert "; Secure" in guard.set_cookie()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("ui.corp", True),
        ("UI.corp", True),
        ("a.ui.corp", False),
        ("corp", False),
        (".corp", False),
        ("ui.corp.example.com", False),
        ("ui.other", False),
        ("10.0.0.1", False),
    ],
)
def test_a_wildcard_is_one_label_as_in_certificates(host: str, *, expected: bool) -> None:
    guard = Guard(hosts=frozenset({"127.0.0.1", "*.corp"}), port=443, is_secure=True, session="s")
    refused = guard.refuse("GET", {"host": host, "cookie": "rukpak-ui-443=s"}, is_entry=False)
    assert (refused is None) == expected


def test_each_run_has_secrets_of_its_own() -> None:
    one, other = (Guard(hosts=frozenset(), port=1) for _ in range(2))
    found = {one.token, one.session, one.csrf, other.token, other.session, other.csrf}
    assert len(found) == 6
    assert min(map(len, found)) >= 43


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("localhost.example.com", False),
    ],
)
def test_which_addresses_are_of_this_machine_alone(address: str, *, expected: bool) -> None:
    assert is_loopback(address) is expected
