"""The server of the page over HTTP, on an API server in memory; what a browser makes of it is in integration/."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from starlette.types import Message

from rukpak.api import names
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.revisions.store import RevisionStore
from rukpak.controller.ui import watching
from rukpak.controller.ui.guard import HEADERS
from rukpak.controller.ui.server import RIGHT_SECONDS, LogResponse, Rights
from rukpak.controller.ui.watching import Board, View
from tests.support.fake_api import Fault
from tests.support.objects import make
from tests.support.pages import (
    BOARD,
    CONFIG_MAPS,
    DIGEST,
    EVENTS,
    LEASES,
    NEXT,
    PODS,
    STORE,
    WORKLOADS,
    Served,
    Shop,
    deployment,
    make_revision,
    serve,
    waiting,
)


@pytest.fixture
def shop() -> Iterator[Shop]:
    found = Shop()
    with found.api:
        found.fill()
        yield found


@pytest.fixture
def served(shop: Shop) -> Iterator[Served]:
    with serve(shop.api.client()) as found:
        yield found


# who is answered


def test_the_address_with_the_token_gives_a_cookie_and_leads_to_the_page(served: Served) -> None:
    reply = served.ask(f"/?token={served.guard.token}", Cookie="")
    assert (reply.status, reply.headers["refresh"], reply.text) == (200, "0; url=/", "")
    cookie = f"{served.guard.cookie}={served.guard.session}; Path=/; HttpOnly; SameSite=Strict"
    assert reply.headers["set-cookie"] == cookie


def test_with_a_certificate_it_serves_https_and_a_cookie_for_that_alone(shop: Shop, tmp_path: Path) -> None:
    authority, path = trustme.CA(), tmp_path / "certificate.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with serve(shop.api.client(), certificate=str(path)) as served:
        address = ("127.0.0.1", served.guard.port)
        connection = http.client.HTTPSConnection(*address, timeout=60, context=context)
        with contextlib.closing(connection):
            connection.request("GET", f"/?token={served.guard.token}")
            with connection.getresponse() as reply:
                assert reply.status == 200
                assert reply.headers["set-cookie"].endswith("; SameSite=Strict; Secure")


PATHS = ["/", "/?token=wrong", "/static/page.js", "/api/stream", "/api/deployments/shop/yaml", "/missing"]


@pytest.mark.parametrize("path", PATHS)
def test_nobody_else_is_answered_and_told_what_there_is(path: str, served: Served) -> None:
    reply = served.ask(path, Cookie="")
    assert reply.status == 401
    assert "open the address" in reply.text


@pytest.mark.parametrize("path", ["/", "/static/page.css", "/missing", "/api/deployments/shop/yaml"])
@pytest.mark.parametrize("cookie", [True, False])
def test_every_reply_has_the_headers(path: str, served: Served, *, cookie: bool) -> None:
    reply = served.ask(path) if cookie else served.ask(path, Cookie="")
    headers = reply.headers
    assert {name: headers.get(name.lower()) for name in HEADERS} == dict(HEADERS)
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "/static/"]
)
def test_nothing_but_the_parts_of_the_page_is_a_file(path: str, served: Served) -> None:
    assert served.ask(path).status == 404


def test_the_page_has_no_script_and_no_style_of_its_own(served: Served) -> None:
    text = served.ask("/").text
    assert text.count("<script") == 1
    assert '<script type="module" src="/static/page.js"></script>' in text
    assert "<style" not in text
    assert " style=" not in text
    assert served.guard.session not in text
    assert served.guard.token not in text


# streams


def test_rows_are_sent_once_and_then_what_has_changed(served: Served, shop: Shop) -> None:
    contact, first = served.follow("/api/stream", "contact", "rows")
    assert contact["state"] in ("live", "connecting")
    assert first["first"] is True
    assert sorted(row["name"] for row in first["rows"]) == ["ads", "billing", "metrics", "search", "shop"]


def test_pages_share_the_watches(served: Served, shop: Shop) -> None:
    served.follow("/api/stream", "rows")
    wait_for(lambda: served.board.contact() and count_leases(shop) == 1, 30, "the Lease is read")
    before = len(shop.api.received)
    for _ in range(5):
        served.follow("/api/stream", "rows")
    assert len(shop.api.received) == before


def count_leases(shop: Shop) -> int:
    """Return how often a Lease was read."""
    return sum(each.path.startswith(LEASES) for each in shop.api.received)


NOBODY = (
    'no controller is active in namespace "rukpak-system"; "rukpak check" says what is missing, and --namespace names '
    "another one"
)
BLUE = 'no controller serves the shard "blue"; start one with "--shard blue", or change the label core.rukpak.io/shard'


def test_a_shard_that_no_controller_serves_is_told_where_it_is_shown(shop: Shop) -> None:
    shop.put("search", deployment(), labels={names.SHARD: "blue"})
    with serve(shop.api.client()) as served:
        served.follow("/api/stream", "rows")
        wait_for(lambda: served.board.contact()["state"] == "unserved", 30, "told")
        assert served.board.contact()["message"] == f"search: {BLUE}"
        assert served.board.contact("search")["message"] == f"search: {BLUE}"
        assert served.board.contact("shop")["state"] == "live"


def test_without_any_controller_all_are_named(shop: Shop) -> None:
    shop.api.delete(LEASES, names.LEASE)
    with serve(shop.api.client()) as served:
        served.follow("/api/stream", "rows")
        wait_for(lambda: served.board.contact()["state"] == "unserved", 30, "told")
        assert served.board.contact()["message"] == f"ads, billing, metrics, search, shop: {NOBODY}"


@pytest.mark.parametrize("status", [403, 500])
def test_who_cannot_read_leases_is_told_nothing(status: int, shop: Shop) -> None:
    shop.api.refused[f"{LEASES}/{names.LEASE}"] = Fault(status)
    with serve(shop.api.client()) as served:
        served.follow("/api/stream", "rows")
        wait_for(lambda: served.board.contact() and count_leases(shop) > 0, 30, "the Lease is read")
        assert served.board.contact()["state"] == "live"


def test_leases_are_read_only_while_a_page_is_open(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "CONTROLLER_SECONDS", 0.1)
    with serve(shop.api.client()) as served:
        time.sleep(0.5)
        assert count_leases(shop) == 0
        served.follow("/api/stream", "rows")
        wait_for(lambda: served.board.contact() and count_leases(shop) > 0, 30, "the Lease is read")
        wait_for(lambda: is_quiet(shop), 30, "the Lease is not read any more")


def is_quiet(shop: Shop) -> bool:
    """Return whether no Lease was read for a while."""
    before = count_leases(shop)
    time.sleep(0.5)
    return count_leases(shop) == before


def test_watches_of_one_end_with_the_last_page_that_shows_it(served: Served, shop: Shop) -> None:
    [news] = served.follow("/api/stream?name=shop", "detail")
    assert news["offers"] is True
    assert shop.api.lists(EVENTS) == 1
    for _ in range(300):
        if served.board.view("shop") is None:
            break
        time.sleep(0.1)
    assert served.board.view("shop") is None


def test_that_something_may_have_come_and_gone_between_two_details_is_told(served: Served, shop: Shop) -> None:
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(served.follow, "/api/stream?name=shop", "detail", "unchanged")
        while not told.done():
            name = shop.put_pod("vt9mb", is_ready=True)["metadata"]["name"]
            shop.api.delete(PODS, name)
            time.sleep(0.05)
    assert told.result()[1] == {}


@pytest.mark.parametrize("name", ["a,b", "../x", "A"])
def test_a_name_that_nothing_can_have_is_not_watched(name: str, served: Served) -> None:
    assert served.ask(f"/api/stream?name={name}").status == 404


# acts


class Case(NamedTuple):
    name: str
    path: str
    given: Mapping[str, str]
    change: Mapping[str, object]


RESUMED = {"spec": {"paused": False}}
ACTS = [
    Case("pause", "search/acts/pause", {}, {"spec": {"paused": True}}),
    Case("resume", "shop/acts/resume", {}, RESUMED),
    Case("roll back", "search/acts/rollback", {"revision": DIGEST}, {"spec": {"pinnedRevision": DIGEST}}),
    Case("undo that", "search/acts/undo", {}, {"spec": {"pinnedRevision": None}}),
]


@pytest.mark.parametrize("case", ACTS, ids=attrgetter("name"))
def test_an_act_is_the_request_of_the_verb(case: Case, served: Served, shop: Shop) -> None:
    status, text, _ = served.ask(f"/api/deployments/{case.path}", "POST", json.dumps(case.given).encode())
    assert (status, text) == (200, "{}")
    [sent] = [each for each in shop.api.received if each.method == "PATCH"]
    body = json.loads(sent.body)
    assert sent.query["fieldManager"] == "kubectl-rukpak"
    assert body["spec"] == case.change["spec"]


def test_a_request_to_reconcile_is_an_annotation(served: Served, shop: Shop) -> None:
    assert served.ask("/api/deployments/search/acts/reconcile", "POST", b"").status == 200
    [sent] = [json.loads(each.body) for each in shop.api.received if each.method == "PATCH"]
    assert list(sent["metadata"]["annotations"]) == ["core.rukpak.io/reconcile-requested-at"]


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_nothing_is_decided_that_was_not_shown(verb: str, served: Served, shop: Shop) -> None:
    [news] = served.follow("/api/stream?name=billing", "detail")
    pending = news["detail"]["pending"]
    changed = waiting()
    changed["pending"]["permissions"]["added"].append("everything")
    shop.put("billing", deployment(**changed))
    given = json.dumps({"revision": NEXT, "shown": pending["shown"]}).encode()
    status, text, _ = served.ask(f"/api/deployments/billing/acts/{verb}", "POST", given)
    assert status == 409
    assert "has changed meanwhile" in text
    assert not [each for each in shop.api.received if each.method == "PATCH"]


REFUSED = [
    ("another site", {"Origin": "https://evil.example.com"}, 403),
    ("no token of the page", {"X-CSRF-Token": ""}, 403),
    ("no cookie", {"Cookie": ""}, 401),
    ("another name of this machine", {"Host": "rebind.example.com"}, 421),
]


@pytest.mark.parametrize(("name", "headers", "expected"), REFUSED, ids=[each[0] for each in REFUSED])
def test_an_act_is_refused(name: str, headers: Mapping[str, str], expected: int, served: Served, shop: Shop) -> None:
    given = {key.replace("-", "_"): text for key, text in headers.items()}
    assert served.ask("/api/deployments/search/acts/pause", "POST", b"{}", **given).status == expected
    assert not [each for each in shop.api.received if each.method == "PATCH"]


BODIES = [b"[]", b"nonsense", b"1", b'{"revision": ' + b"1" * 70000 + b"}"]


@pytest.mark.parametrize("body", BODIES, ids=["a list", "no JSON", "a number", "too large"])
def test_a_body_that_says_nothing_is_refused(body: bytes, served: Served, shop: Shop) -> None:
    status = served.ask("/api/deployments/search/acts/rollback", "POST", body).status
    assert status == 409
    assert not [each for each in shop.api.received if each.method == "PATCH"]


def test_read_only_refuses_what_the_page_does_not_offer(shop: Shop) -> None:
    with serve(shop.api.client(), is_read_only=True) as served:
        assert served.ask("/api/deployments/search/acts/pause", "POST", b"{}").status == 403
        [news] = served.follow("/api/stream?name=shop", "detail")
    assert news["offers"] is False
    assert not [each for each in shop.api.received if each.method == "PATCH"]


def test_what_the_api_server_refuses_is_told(served: Served, shop: Shop) -> None:
    served.follow("/api/stream", "rows")
    shop.api.refused[f"{BOARD}/search"] = Fault(403)
    status, text, _ = served.ask("/api/deployments/search/acts/pause", "POST", b"{}")
    assert status == 403
    assert "403" in text


def test_rights_are_asked_for_again_after_a_while(shop: Shop) -> None:
    now = 100.0
    rights = Rights(shop.api.client(), lambda: now)
    assert rights.may_change("shop")
    shop.allow(False)
    assert rights.may_change("shop")
    now += RIGHT_SECONDS + 1
    assert not rights.may_change("shop")


# what is asked for


def test_who_may_not_read_revisions_is_told_instead_of_a_difference(served: Served, shop: Shop) -> None:
    del shop.api.objects[STORE]
    status, text, _ = served.ask(f"/api/deployments/shop/diff?revision={DIGEST}")
    assert status in (409, 502)
    assert "message" in json.loads(text)


@pytest.mark.parametrize(
    ("count", "said"), [(500, "compared with the cluster"), (501, '"rukpak diff shop --to 77aa88bb99cc"')]
)
def test_at_most_five_hundred_objects_are_compared_with_the_cluster(
    count: int, said: str, served: Served, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = make_revision(NEXT, *(make("v1", "ConfigMap", f"many-{index}") for index in range(count)))
    monkeypatch.setattr(RevisionStore, "read", lambda _store, _name, _digest: revision)
    before = len(shop.api.received)
    reply = served.ask(f"/api/deployments/shop/diff?revision={NEXT}")
    assert said in reply.text.replace("\\", "")
    dry_runs = [each for each in shop.api.received[before:] if each.query.get("dryRun") == "All"]
    assert len(dry_runs) == (count if count <= 500 else 0)


def is_gone(served: Served, path: str) -> bool:
    return served.ask(path).status == 404


def test_an_object_that_is_not_one_of_it_is_not_shown(served: Served) -> None:
    wait_for(functools.partial(is_gone, served, "/api/deployments/missing/yaml"), 30, "all are listed")
    for what in ("yaml", "object"):
        path = f"/api/deployments/shop/{what}?uid=unknown"
        assert served.ask(path).status == 503, "no page shows what it is one of"
        with served.board.viewing("shop"):
            wait_for(functools.partial(is_gone, served, path), 30, "all objects are known")


def test_an_object_is_not_known_before_those_that_may_own_it(served: Served, shop: Shop) -> None:
    uid = shop.put_pod("vt9mb", is_ready=False)["metadata"]["uid"]
    found: list[int] = []
    for _ in range(5):
        with served.board.viewing("shop"):
            while not found or found[-1] == 503:
                found.append(served.ask(f"/api/deployments/shop/object?uid={uid}").status)
        assert found.pop() == 200
    assert set(found) <= {503}


def test_one_that_is_listed_meanwhile_is_not_said_to_be_gone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(shop.api.client(), names.DEFAULT_NAMESPACE)  # not started: nothing else says what is listed

    def find(_board: Board, _name: str) -> None:
        board.is_listed = True

    monkeypatch.setattr(Board, "find", find)
    with board.viewing("shop") as view:
        assert not view.is_complete()
        assert view.is_complete(), "now it was not found after all had been listed"


def test_an_object_is_shown_as_soon_as_a_watch_has_it(
    served: Served, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = shop.put_pod("vt9mb", is_ready=False)["metadata"]["uid"]
    with shown(served, uid), served.board.viewing("shop") as view:
        view.read()
        monkeypatch.setattr(View, "note", lambda _view: None)
        other = shop.put_pod("xk2lp", is_ready=False)["metadata"]["uid"]
        wait_for(lambda: view.find(other), 30, "the watch has it")
        assert view.make_panel(other, b"key")


def test_objects_of_kinds_that_may_not_be_listed_are_not_waited_for(served: Served, shop: Shop) -> None:
    shop.api.refused[CONFIG_MAPS] = Fault(403)
    with served.board.viewing("shop"):
        path = "/api/deployments/shop/object?uid=unknown"
        wait_for(lambda: is_gone(served, path), 30, "all others are known")


LOG = "/api/v1/namespaces/shop/pods/web-6d4cf56db6-vt9mb/log"


@contextlib.contextmanager
def shown(served: Served, uid: str) -> Iterator[None]:
    """Show the BundleDeployment of an object until it is known."""
    with served.board.viewing("shop") as view:
        for _ in range(300):
            view.read()
            if view.find(uid):
                break
            time.sleep(0.1)
        yield


REFUSALS = [("forbidden", 403, 403), ("the container has no previous one", 400, 409), ("the kubelet is away", 500, 409)]


@pytest.mark.parametrize(("name", "status", "expected"), REFUSALS, ids=[each[0] for each in REFUSALS])
def test_why_a_log_cannot_be_read_is_told(name: str, status: int, expected: int, served: Served, shop: Shop) -> None:
    uid = shop.put_pod("vt9mb", is_ready=False)["metadata"]["uid"]
    shop.api.refused[LOG] = Fault(status)
    with shown(served, uid):
        reply = served.ask(f"/api/deployments/shop/log?uid={uid}&container=web")
    assert reply.status == expected
    assert f"injected {status}" in json.loads(reply.text)["message"]


def test_only_logs_of_pods_of_the_bundle_deployment_are_read(served: Served, shop: Shop) -> None:
    [web] = [each["metadata"]["uid"] for each in shop.api.objects[WORKLOADS].values()]
    with shown(served, web):
        for uid in (web, "unknown", ""):
            assert served.ask(f"/api/deployments/shop/log?uid={uid}").status == 404
    assert not [each for each in shop.api.received if each.path.endswith("/log")]


def test_a_log_that_is_followed_ends_with_its_page(served: Served, shop: Shop) -> None:
    uid = shop.put_pod("vt9mb", is_ready=False)["metadata"]["uid"]
    ended = shop.api.follow(LOG, b"first\n")
    with shown(served, uid):
        first = served.read_line(f"/api/deployments/shop/log?uid={uid}&follow=true")
    assert json.loads(first) == "first"
    assert ended.wait(30), "the connection to the API server is still open"


async def answer_until(response: LogResponse, last: str) -> None:
    """Send a response to a page that goes as soon as a message of a type was sent; empty: at once."""
    is_over = asyncio.Event()

    async def receive() -> Message:
        await is_over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == last:
            is_over.set()
        await asyncio.sleep(0)

    if not last:
        is_over.set()
    await response({"type": "http"}, receive, send)


@pytest.mark.parametrize(
    ("begin", "last"),
    [
        pytest.param(b"first\n", "", id="before anything is sent"),
        pytest.param(b"no line yet", "http.response.start", id="before the first line"),
        pytest.param(b"first\n", "http.response.body", id="between two lines"),
    ],
)
def test_whenever_the_page_goes_the_socket_of_its_log_is_closed(begin: bytes, last: str, shop: Shop) -> None:
    shop.api.follow(LOG, begin)
    stream = shop.api.client().stream(LOG)
    connection = stream._socket
    assert connection
    asyncio.run(answer_until(LogResponse(stream), last))
    wait_for(lambda: connection.fileno() == -1, 30, "the socket is closed")  # perhaps by the thread that reads


def test_a_log_whose_socket_cannot_be_ended_is_closed_by_the_thread_that_reads_it(shop: Shop) -> None:
    shop.api.follow(LOG, b"no line yet")
    stream = shop.api.client().stream(LOG)
    connection, stream._socket = stream._socket, None  # as after a reply with "Connection: close"
    assert connection
    response = LogResponse(stream)
    reading = threading.Thread(target=response._read)
    reading.start()
    wait_for(response._reading.locked, 30, "it is read")
    asyncio.run(answer_until(response, ""))
    assert connection.fileno() != -1, "the page waits for nobody"
    connection.shutdown(socket.SHUT_RDWR)
    reading.join(30)
    assert connection.fileno() == -1


def test_an_object_that_is_waited_for_keeps_no_page_waiting(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, found = threading.Event(), threading.Event()

    def _find(_view: View, _uid: str) -> None:
        asked.set()
        found.wait(60)

    monkeypatch.setattr(View, "find", _find)
    asking = threading.Thread(target=served.ask, args=("/api/deployments/shop/yaml?uid=slow",))
    with served.board.viewing("shop"):
        asking.start()
        try:
            assert asked.wait(60)
            assert served.ask("/").status == 200
        finally:
            found.set()
            asking.join()
