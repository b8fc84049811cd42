"""The page of `rukpak ui` in a real Chromium, on an API server in memory that can fail on demand."""

from __future__ import annotations

import argparse
import json
import re
import threading
import webbrowser
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from typing import Any, ClassVar

import pytest
from playwright.sync_api import Browser, Page, expect

from rukpak.api.names import LEASE, WAVE
from rukpak.controller.playground.processes import wait_for
from tests.support.browser import find_violations, launch, opened
from tests.support.fake_api import Fault
from tests.support.inside import LINE_BYTES, RevisionStore, announce, secret_name, watching
from tests.support.objects import make
from tests.support.pages import (
    BOARD,
    CONFIG_MAPS,
    DIGEST,
    EVENTS,
    LEASES,
    NEXT,
    OLDER,
    PODS,
    STORE,
    WORKLOADS,
    Served,
    Shop,
    ago,
    condition,
    deployment,
    drifted,
    make_revision,
    not_ready,
    pin,
    ready,
    serve,
    waiting,
)

pytestmark = pytest.mark.long

SECONDS = 30.0
"""Deadline for what takes less than a second on an idle machine."""
expect.set_options(timeout=SECONDS * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as found:
        yield found


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


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    with opened(browser, served.url) as found:
        yield found


@pytest.mark.parametrize("no_browser", [True, False])
def test_the_address_opens_the_page_also_from_the_file_that_leads_to_it(
    browser: Browser, served: Served, monkeypatch: pytest.MonkeyPatch, *, no_browser: bool
) -> None:
    addresses = [served.url]
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", addresses.append)
    with announce(served.url, argparse.Namespace(no_browser=no_browser)), opened(browser, addresses[-1]) as page:
        expect(page.locator("tbody tr")).to_have_count(5)
        assert page.url.startswith(f"{served.origin}/")
        assert "token" not in page.url


class _Other(BaseHTTPRequestHandler):
    """The server of another user of this machine, which keeps what browsers tell it."""

    received: ClassVar[list[dict[str, str]]] = []

    def do_GET(self) -> None:
        self.received.append({name.lower(): text for name, text in self.headers.items()})
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


def test_a_click_on_an_address_of_another_server_of_this_machine_hands_over_nothing(page: Page, served: Served) -> None:
    """Cookies do not tell ports apart (RFC 6265, section 8.5), so the name of the page must be its own."""
    expect(page.locator("tbody tr")).to_have_count(5)
    assert [each["name"] for each in page.context.cookies()] == [served.guard.cookie]
    add = """address => {
      const link = Object.assign(document.createElement("a"), {href: address, id: "link", textContent: "other"});
      document.body.prepend(link);
    }"""
    _Other.received.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Other) as other:
        threading.Thread(target=other.serve_forever).start()
        try:
            for host in ("127.0.0.1", "localhost", "other.localhost"):
                page.evaluate(add, f"http://{host}:{other.server_port}/{host}")
                page.click("#link")
                page.wait_for_url(f"http://{host}:*/{host}")
                page.go_back()
                expect(page.locator("tbody tr")).to_have_count(5)
        finally:
            other.shutdown()
    assert [each["cookie"] for each in _Other.received if "cookie" in each] == []
    clicks = [each for each in _Other.received if each["sec-fetch-dest"] == "document"]
    assert [each.get("referer", "") for each in clicks] == ["", "", ""], "nor the name, to which a cookie would go"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_page_is_not_at_names_that_others_share(browser: Browser, served: Served, host: str) -> None:
    """A cookie for them would go to any server of this machine."""
    context = browser.new_context()
    try:
        page = context.new_page()
        reply = page.goto(f"http://{host}:{served.guard.port}/?token={served.guard.token}")
        assert reply
        assert reply.status == 421
        assert context.cookies() == []
    finally:
        context.close()


HIDE = """hidden => {
  Object.defineProperty(document, "hidden", {configurable: true, value: hidden});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def names(page: Page) -> list[str]:
    return page.locator("tbody tr td.name").all_inner_texts()


def show(page: Page, view: str) -> None:
    page.evaluate("hash => { location.hash = hash }", view)


def open_tab(page: Page, name: str) -> None:
    """Open a tab of the panel, which may have to open first; the page behind it has some of the same names."""
    page.locator(".drawer").get_by_role("link", name=name, exact=True).click()


# overview


def test_all_are_listed_the_worst_first_with_their_state_as_a_word(page: Page) -> None:
    expect(page.locator("tbody tr")).to_have_count(5)
    assert names(page) == ["ads", "metrics", "billing", "shop", "search"]
    assert page.locator("tbody .word").all_inner_texts() == ["stalled", "progressing", "waiting", "paused", "ready"]
    assert "image registry.example.com/ads/bundle:v9 does not exist" in page.locator("tbody tr").first.inner_text()
    shapes = page.locator("tbody .sign").evaluate_all("signs => signs.map(sign => sign.innerHTML)")
    assert len(set(shapes)) == 5


def test_a_message_has_the_width_of_its_column(page: Page, shop: Shop) -> None:
    text = "Job shop/migrate: pre-install hook has failed: BackoffLimitExceeded, 3 retries"
    shop.put("ads", deployment(**not_ready("InstallFailed", text, condition("Stalled", "True", "InstallFailed", text))))
    page.set_viewport_size({"width": 1280, "height": 800})
    message = page.locator("tr[data-name=ads] .message")
    expect(message).to_have_text(text)
    shown = message.evaluate("each => each.clientWidth / each.scrollWidth")
    assert shown * len(text) > 60
    row, cell = page.locator("tr[data-name=ads]").bounding_box(), message.bounding_box()
    assert row
    assert cell
    assert cell["y"] + cell["height"] <= row["y"] + row["height"], "it is not cut below"


def test_a_state_a_text_and_each_choice_narrow_the_list(page: Page, shop: Shop) -> None:
    kept = shop.api.objects[BOARD]["ads"]
    shop.put("ads", {key: kept[key] for key in ("spec", "status", "apiVersion", "kind")}, labels={"team": "ads"})
    found = ready(installedSources=[pin("v9")], installNamespace="search")
    shop.put(
        "search",
        deployment({"format": "plain", "installNamespace": "search", "dependsOn": [{"name": "shop"}]}, **found),
    )
    page.get_by_role("button", name=re.compile("1 waiting")).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert names(page) == ["billing"]
    page.get_by_role("button", name=re.compile("1 waiting")).click()
    page.get_by_label("Filter by format").select_option("registry-v1")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Filter by format").select_option("")
    page.get_by_label("Filter by namespace").select_option("search")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Filter by namespace").select_option("")
    page.get_by_label("Filter by label").select_option("team=ads")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Filter by label").select_option("")
    page.get_by_label("Filter by version").select_option("v9")
    expect(page.locator("tbody tr td.name")).to_have_text(["search"])
    page.get_by_label("Filter by version").select_option("")
    page.keyboard.press("/")
    page.keyboard.type("does not exist")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert names(page) == ["ads"]
    page.keyboard.press("Escape")
    expect(page.locator("tbody tr")).to_have_count(5)
    show(page, "#/bd/search")
    expect(page.get_by_role("link", name="shop", exact=True)).to_have_attribute("href", "#/bd/shop")
    show(page, "#/bd/shop")
    expect(page.get_by_role("link", name="search", exact=True)).to_have_attribute("href", "#/bd/search")


def test_the_keyboard_leads_to_one_and_back(page: Page) -> None:
    expect(page.locator("tbody tr")).to_have_count(5)
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("metrics")
    page.keyboard.press("u")
    expect(page.locator("tbody tr")).to_have_count(5)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()


def test_changes_new_ones_and_deletions_are_seen_without_a_reload(page: Page, shop: Shop) -> None:
    expect(page.locator("tbody tr")).to_have_count(5)
    page.evaluate("window.stays = true")
    broken = condition("Stalled", "True", "Failed", "x")
    shop.put(
        "search", deployment(**ready(conditions=[condition("Ready", "False", "Failed", "Job a/b has failed"), broken]))
    )
    row = page.locator("tr[data-name=search]")
    expect(row).to_contain_text("Job a/b has failed")
    expect(row).to_have_attribute("data-changed", re.compile("."))
    expect(page.locator("tr[data-name=shop][data-changed]")).to_have_count(0)
    shop.put("new", deployment(**ready()))
    expect(page.locator("tr[data-name=new]")).to_have_count(1)
    shop.api.delete(BOARD, "new")
    expect(page.locator("tr[data-name=new]")).to_have_count(0)
    assert page.evaluate("window.stays")


def test_two_thousand_are_there_and_only_those_on_the_screen_are_elements(page: Page, shop: Shop) -> None:
    for index in range(2000):
        shop.put(f"app-{index:04}", deployment(**ready()))
    expect(page.locator(".count")).to_have_text("2005 BundleDeployments")
    assert page.locator("tbody tr").count() < 100
    page.keyboard.press("End")
    expect(page.locator("tr[data-name=search]")).to_be_visible()
    assert page.locator("tbody tr").count() < 100


# one of them


def test_the_pipeline_the_tree_and_the_history_of_one_are_shown(page: Page) -> None:
    show(page, "#/bd/shop")
    steps = page.locator(".steps > ol > li h2")
    expect(steps).to_have_text(["Sources", "Content", "Revision", "Objects", "Health"])
    expect(page.locator(".tree > li > ul > li > ul > li .node")).to_have_count(2)
    assert "web: ImagePullBackOff (3 restarts)" in page.locator(".tree").nth(1).inner_text()
    folded = page.locator("details", has_text="ConfigMap")
    assert folded.get_attribute("open") is None
    assert folded.locator("li").count() == 0
    folded.locator("summary").click()
    expect(folded.locator("li")).to_have_count(15)
    expect(page.locator(".history code")).to_have_text(["1f2e3d4c5b6a", "9a8b7c6d5e4f"])
    expect(page.locator(".moments")).to_contain_text("ConfigMap shop/settings was changed by kubectl-edit")


def test_a_change_of_an_object_is_marked_and_what_is_unfolded_stays_so(page: Page, shop: Shop) -> None:
    show(page, "#/bd/shop")
    folded = page.locator("details", has_text="ConfigMap")
    folded.locator("summary").click()
    expect(folded.locator("li")).to_have_count(15)
    for name in ("web-6d4cf56db6-8zq2x", "web-6d4cf56db6-vt9mb", "database"):
        expect(page.locator(".node", has_text=name)).to_be_visible()
    page.wait_for_timeout(2100)  # what is found at first is no change
    page.evaluate("document.querySelectorAll('[data-changed]').forEach((each) => delete each.dataset.changed)")
    shop.put_pod("vt9mb", is_ready=True)
    changed = page.locator(".node[data-changed]")
    expect(changed).to_have_count(1)
    expect(changed).to_contain_text("web-6d4cf56db6-vt9mb")
    expect(folded.locator("li")).to_have_count(15)


def test_objects_that_need_attention_come_first(page: Page, shop: Shop) -> None:
    stray = {"kind": "ConfigMap", "namespace": "shop", "name": "settings"}
    shop.put("shop", deployment(**ready(strays=[stray])))
    show(page, "#/bd/shop")
    expect(page.locator("details", has_text="ConfigMap").locator(".node").first).to_contain_text("part of no revision")


def test_a_stray_is_not_said_to_be_changed_by_others(page: Page, shop: Shop) -> None:
    stray = {"kind": "ConfigMap", "namespace": "shop", "name": "settings"}
    shop.put("shop", deployment({"paused": True}, **ready(strays=[stray])))
    show(page, "#/bd/shop")
    expect(page.locator(".node span.drift")).to_have_text("part of no revision")
    page.get_by_role("button", name="Resume", exact=True).click()
    asked = page.locator("#ask-text")
    expect(asked).to_contain_text("Part of no revision, and left as they are:ConfigMap shop/settings")
    expect(asked).not_to_contain_text("Changed by others")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="settings").click()
    expect(page.locator(".panel")).to_contain_text("neither changed nor deleted")
    expect(page.locator(".panel")).not_to_contain_text("Changed by others")


def test_the_yaml_of_a_secret_has_no_value(page: Page) -> None:
    show(page, "#/bd/shop")
    page.get_by_role("link", name="database").click()
    open_tab(page, "YAML")
    text = page.locator("pre")
    expect(text).to_contain_text("kind: Secret")
    expect(page.get_by_role("dialog", name="Secret shop/database")).to_be_visible()
    assert "aHVudGVyMg" not in text.inner_text()
    assert "7 bytes, hash" in text.inner_text()
    page.keyboard.press("Escape")
    expect(text).to_be_hidden()
    expect(page).to_have_url(re.compile("#/bd/shop$"))


def test_an_address_can_be_shared(browser: Browser, served: Served, page: Page) -> None:
    show(page, "#/bd/shop")
    page.get_by_role("link", name="database").click()
    open_tab(page, "YAML")
    expect(page.locator("pre")).to_contain_text("kind: Secret")
    address = page.url
    with page.context.expect_page() as opening:
        page.evaluate("address => window.open(address)", address)
    expect(opening.value.locator("pre")).to_contain_text("kind: Secret")


# the panel of an object

POD = "web-6d4cf56db6-vt9mb"
LOG = f"/api/v1/namespaces/shop/pods/{POD}/log"


def follow_link(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).last.click()


def test_an_outage_is_read_in_one_panel(page: Page, shop: Shop) -> None:
    pod = shop.put_pod("vt9mb", is_ready=False)
    shop.put_event(pod["metadata"]["uid"], "Back-off restarting failed container web")
    shop.api.texts[LOG] = b"starting\nno DATABASE_URL"
    show(page, "#/bd/shop")
    follow_link(page, "web")
    panel = page.get_by_role("dialog", name="Deployment shop/web")
    expect(panel.locator(".verdict")).to_contain_text("progressing")
    expect(panel.locator(".pod", has_text=POD)).to_contain_text("OOMKilled (exit code 137)")
    expect(panel.locator(".pod", has_text=POD).locator("td").nth(3)).to_have_text("3")
    open_tab(page, "Events")
    expect(panel.locator(".line-of-time")).to_contain_text("Warning (x4)")
    expect(panel.locator(".line-of-time")).to_contain_text("Back-off restarting failed container web")
    open_tab(page, "Logs")
    expect(panel.get_by_label("Pod", exact=True).locator("option")).to_have_text([POD, "web-6d4cf56db6-8zq2x"])
    expect(panel.locator(".log")).to_have_text("starting\nno DATABASE_URL")
    expect(page).to_have_url(re.compile("/object/uid-[0-9]+/logs$"))
    open_tab(page, "Summary")
    panel.get_by_role("link", name=POD).click()
    expect(page.get_by_role("dialog", name=f"Pod shop/{POD}")).to_contain_text(
        "BundleDeployment shop → Deployment shop/web → ReplicaSet shop/web-6d4cf56db6"
    )


def test_what_is_desired_stands_beside_what_is_and_who_has_changed_it(
    page: Page, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    desired = make("v1", "ConfigMap", "settings", data={"color": "green", "size": "1"})
    secret = make("v1", "Secret", "database", data={"password": "b3RoZXI="}, type="Opaque")
    revision = make_revision(DIGEST, desired, secret)
    monkeypatch.setattr(watching, "read_revisions", lambda *_: {DIGEST: revision})
    shop.put_object(CONFIG_MAPS, "ConfigMap", "settings", data={"color": "blue", "size": "1", "extra": "x"})
    show(page, "#/bd/shop")
    page.locator("details", has_text="ConfigMap").locator("summary").click()
    follow_link(page, "settings")
    open_tab(page, "Difference")
    expect(page.locator(".differs td")).to_have_text(["  color: green (differs)", "  color: blue (differs)"])
    page.keyboard.press("Escape")
    follow_link(page, "database")
    open_tab(page, "Difference")
    expect(page.locator(".differs td")).to_have_count(2)
    expect(page.locator(".differs td").first).to_contain_text("5 bytes, hash")
    assert "b3RoZXI" not in page.content()


HOSTILE_LOG = b"\x1b[31mred\x1b[0m\n<script>window.hit=1</script>\n" + b"x" * (1 << 20) + b"\n\x1b]0;title\x07end"


def test_a_hostile_log_is_text_and_is_searched(page: Page, shop: Shop) -> None:
    pod = shop.put_pod("vt9mb", is_ready=False)
    shop.api.texts[LOG] = HOSTILE_LOG
    show(page, f"#/bd/shop/object/{pod['metadata']['uid']}/logs")
    log = page.locator(".log")
    expect(log).to_contain_text("end")
    lines = (log.text_content() or "").split("\n")
    assert [lines[0], lines[1], lines[3]] == ["red", "<script>window.hit=1</script>", "end"]
    assert lines[2].endswith(f"x… [{(1 << 20) - LINE_BYTES} more bytes]")
    page.get_by_label("Search the log").fill("RED")
    expect(log).to_have_text("red")
    assert page.evaluate("window.hit") is None
    [asked, *_] = [each for each in shop.api.received if each.path == LOG]
    assert (asked.query["container"], asked.query["follow"]) == ("web", "true")
    page.get_by_label("Previous container").check()
    expect(page.locator(".panel [role=status]")).to_have_text("The log ends here.")
    assert [each.query.get("previous") for each in shop.api.received if each.path == LOG][-1] == "true"


def test_the_log_of_each_of_fifty_pods_can_be_chosen(page: Page, shop: Shop) -> None:
    for index in range(50):
        shop.put_pod(f"p{index:02}", is_ready=True)
        shop.api.texts[f"/api/v1/namespaces/shop/pods/web-6d4cf56db6-p{index:02}/log"] = f"I am {index}".encode()
    show(page, "#/bd/shop")
    follow_link(page, "web")
    open_tab(page, "Logs")
    page.get_by_label("Pod", exact=True).select_option("web-6d4cf56db6-p49")
    expect(page.locator(".log")).to_have_text("I am 49")


def test_the_log_of_a_container_that_starts_again_or_only_now_is_read_without_a_click(page: Page, shop: Shop) -> None:
    pod = shop.put_pod("vt9mb", is_ready=False)
    shop.api.refused[LOG] = Fault(400)
    show(page, f"#/bd/shop/object/{pod['metadata']['uid']}/logs")
    expect(page.locator(".panel [role=status]")).to_contain_text("injected 400")
    shop.api.refused.pop(LOG)
    shop.api.texts[LOG] = b"first"
    shop.put_pod("vt9mb", is_ready=True)
    expect(page.locator(".log")).to_have_text("first")
    shop.api.texts[LOG] = b"second"
    shop.put_pod("vt9mb", is_ready=False)
    expect(page.locator(".log")).to_have_text("second")


GONE = "this object does not exist any more"


def note_requests(page: Page) -> list[str]:
    """Return what the page asks for from now on, about objects."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "uid=" in request.url else None)
    return asked


@pytest.mark.parametrize("tab", ["summary", "logs", "yaml"])
def test_that_an_object_is_gone_is_said_at_once_and_it_is_not_asked_for_again(tab: str, page: Page, shop: Shop) -> None:
    uid = shop.put_pod("vt9mb", is_ready=False)["metadata"]["uid"]
    shop.api.texts[LOG] = b"why it ended"
    show(page, f"#/bd/shop/object/{uid}/{tab}")
    panel = page.locator(".panel")
    expect(panel).to_contain_text({"summary": "ImagePullBackOff", "logs": "why it ended", "yaml": "kind: Pod"}[tab])
    asked = note_requests(page)
    shop.api.delete(PODS, POD)
    expect(panel.get_by_role("status")).to_have_text(GONE)
    if tab == "logs":
        expect(panel.locator(".log")).to_have_text("why it ended")
    before = len(asked)
    shop.put_pod("8zq2x", is_ready=False)  # other changes
    open_tab(page, "Events")
    expect(panel).to_have_text(GONE)
    page.wait_for_timeout(1500)
    assert len(asked) == before


def test_that_an_object_is_gone_is_said_at_once_to_who_comes_later(page: Page, shop: Shop) -> None:
    asked = note_requests(page)
    show(page, "#/bd/shop/object/uid-gone/logs")
    expect(page.locator(".panel")).to_have_text(GONE)
    before = len(asked)
    page.wait_for_timeout(1500)
    assert len(asked) == before


def test_only_what_may_have_pods_has_a_tab_for_logs(page: Page, shop: Shop) -> None:
    tabs = page.get_by_role("navigation", name="About this object").locator("a")
    show(page, "#/bd/shop")
    follow_link(page, "database")
    expect(page.locator(".panel .verdict")).to_be_visible()
    expect(tabs).to_have_text(["Summary", "Events", "Difference", "YAML"])
    page.keyboard.press("Escape")
    shop.api.delete(PODS, POD)
    shop.api.delete(PODS, "web-6d4cf56db6-8zq2x")
    follow_link(page, "web")
    expect(tabs).to_have_text(["Summary", "Logs", "Events", "Difference", "YAML"])


def test_a_long_title_in_the_timeline_leaves_the_times_alone(page: Page, shop: Shop) -> None:
    text = "Deployment search/api: 1 of 2 replicas are available"
    stalled = condition("Stalled", "True", "ProgressDeadlineExceeded", text)
    shop.put("search", deployment(**not_ready("ProgressDeadlineExceeded", text, stalled)))
    page.set_viewport_size({"width": 1280, "height": 800})
    show(page, "#/bd/search")
    line = page.locator(".line-of-time li", has_text="Stalled is True").first
    time, title, reason = (line.locator(each).bounding_box() for each in ("time", "strong", ".reason"))
    assert time
    assert title
    assert reason
    assert abs(title["y"] - time["y"]) < 4, "side by side"
    assert min(title["x"], reason["x"]) >= time["x"] + time["width"]


def test_an_object_is_gone_with_its_bundle_deployment(page: Page, shop: Shop) -> None:
    uid = shop.put_pod("vt9mb", is_ready=False)["metadata"]["uid"]
    show(page, f"#/bd/shop/object/{uid}")
    expect(page.locator(".panel")).to_contain_text("ImagePullBackOff")
    shop.api.delete(BOARD, "shop")
    expect(page.locator(".panel")).to_have_text(GONE)


def test_who_may_not_read_a_log_is_told(page: Page, shop: Shop) -> None:
    pod = shop.put_pod("vt9mb", is_ready=False)
    show(page, f"#/bd/shop/object/{pod['metadata']['uid']}/events")
    expect(page.locator(".panel")).to_contain_text("No Events")
    shop.api.refused[LOG] = Fault(403)
    open_tab(page, "Logs")
    expect(page.locator(".panel")).to_contain_text("403 Forbidden")


def put_waves(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first of two waves be applied, and the second one wait."""
    later = make("v1", "ConfigMap", "later")
    later["metadata"]["annotations"] = {WAVE: "2"}
    monkeypatch.setattr(watching, "read_revisions", lambda *_: {DIGEST: make_revision(DIGEST, later)})
    wave = {"revision": DIGEST, "number": 0, "since": ago(minutes=2)}
    shop.put("shop", deployment(**{**drifted(), "wave": wave}))


def test_objects_stand_in_their_waves_and_later_ones_wait(
    page: Page, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_waves(shop, monkeypatch)
    show(page, "#/bd/shop")
    present, next_one = page.get_by_role("region", name="Wave 0"), page.get_by_role("region", name="Wave 2")
    expect(present).to_contain_text("waits for Deployment shop/web")
    expect(next_one.locator(".node")).to_contain_text("waiting: later")
    expect(page.locator(".objects .sign.missing")).to_have_count(0)


# the graph


def test_the_graph_shows_who_owns_whom_the_unhealthy_first(page: Page, shop: Shop) -> None:
    show(page, "#/bd/shop")
    page.get_by_role("link", name="Graph", exact=True).click()
    expect(page).to_have_url(re.compile("#/bd/shop/graph$"))
    graph = page.get_by_role("group", name="Graph of the objects")
    level = "> ul > li"
    expect(graph.locator(f"{level} > .box")).to_contain_text("BundleDeployment")
    expect(graph.locator(f"{level} {level} > .box")).to_have_count(17)
    expect(graph.locator(f"{level} {level} > .box").first).to_contain_text("Deployment")
    pods = graph.locator(f"{level} {level} {level} {level} > .box")
    expect(pods).to_have_text([re.compile("vt9mb.*3 restarts"), re.compile("8zq2x")])
    shop.put_pod("vt9mb", is_ready=True)
    expect(pods.filter(has_text="restarts")).to_have_count(0)


def test_a_graph_can_be_sent_and_is_walked_with_the_keyboard(browser: Browser, served: Served) -> None:
    with opened(browser, served.url, viewport={"width": 400, "height": 800}) as page:
        show(page, "#/bd/shop/graph")
        page.reload()
        graph = page.get_by_role("group", name="Graph of the objects")
        expect(graph.locator(".box")).to_have_count(21)
        graph.focus()
        for _ in range(3):
            page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_contain_text(POD)
        assert graph.evaluate("graph => graph.scrollLeft") > 0, "the third level is not on a narrow screen"
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("#/bd/shop/object/uid-[0-9]+$"))
        expect(page.get_by_role("dialog", name=f"Pod shop/{POD}")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page).to_have_url(re.compile("#/bd/shop/graph$"))
        page.keyboard.press("g")
        expect(page.locator("details").first).to_be_visible()
        expect(page).to_have_url(re.compile("#/bd/shop$"))


def test_a_graph_has_at_most_a_few_hundred_nodes_and_all_that_need_attention(page: Page, shop: Shop) -> None:
    for index in range(1000):
        shop.put_object(CONFIG_MAPS, "ConfigMap", f"many-{index:04}", data={})
    stray = {"kind": "ConfigMap", "namespace": "shop", "name": "many-0999"}
    shop.put("shop", deployment(**ready(strays=[stray])))
    show(page, "#/bd/shop/graph")
    graph = page.get_by_role("group", name="Graph of the objects")
    rest = graph.get_by_role("link", name=re.compile("more$"))
    expect(rest).to_have_text(["… and 1 more", "… and 720 more"])
    assert graph.locator(".box").count() == 302
    for text in (POD, "many-0999"):
        expect(graph.locator(".box", has_text=text)).to_have_count(1)
    rest.last.click()
    expect(page.locator("details", has_text="ConfigMap")).to_be_visible()


def test_the_graph_has_waves_between_a_bundle_deployment_and_its_objects(
    page: Page, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_waves(shop, monkeypatch)
    show(page, "#/bd/shop/graph")
    waves = page.locator(".graph > ul > li > ul > li")
    expect(waves.locator("> .box")).to_have_text(
        [re.compile("Wave 0waits for Deployment shop/web"), re.compile("Wave 2waiting")]
    )
    expect(waves.nth(1).locator("li .box")).to_contain_text("later")


def test_one_that_does_not_exist_is_said_and_appears_when_it_does(page: Page, shop: Shop) -> None:
    show(page, "#/bd/later")
    expect(page.locator("main")).to_contain_text('BundleDeployment "later" does not exist')
    shop.put("later", deployment(**ready()))
    expect(page.locator(".verdict")).to_contain_text("ready")


# hostile texts

ATTACKS = [
    "<img src=x onerror=window.hit=1>",
    "<script>window.hit=1</script>",
    '"><svg onload=window.hit=1>',
    "javascript:window.hit=1//",
    "{{7*7}}",
    "</script><b>",
]


def put_hostile(shop: Shop, attack: str) -> None:
    """Let all that a cluster has to say be this text."""
    status = waiting()
    status["pending"]["permissions"]["added"] = [attack]
    status["pending"]["problems"] = [attack]
    status["conditions"] = [
        condition(kind, "False", "Failed", attack) for kind in ("Unpacked", "Installed", "Healthy", "Ready")
    ]
    status["warnings"] = [attack]
    status["history"][0] |= {"message": attack, "bundle": attack}
    status["display"]["revision"] = attack
    shop.put("shop", deployment({"format": attack}, **status), annotations={"a": attack})
    shop.put_object(CONFIG_MAPS, "ConfigMap", attack, data={attack: attack})
    shop.api.put(
        EVENTS, "evil", about={"namespace": "default"}, eventTime=attack, type=attack, reason=attack, note=attack
    )


def test_hostile_texts_stay_text(page: Page, shop: Shop) -> None:
    for attack in ATTACKS:
        put_hostile(shop, attack)
        show(page, "#/")
        expect(page.locator("tr[data-name=shop]")).to_contain_text(attack)
        show(page, "#/bd/shop")
        expect(page.locator(".pending")).to_contain_text(attack)
        expect(page.locator(".moments")).to_contain_text(attack)
        page.locator("details", has_text="ConfigMap").locator("summary").click()
        page.get_by_role("link", name=attack, exact=True).click()
        expect(page.locator("#drawer-title")).to_contain_text(attack)
        open_tab(page, "YAML")
        expect(page.locator("pre")).to_contain_text(attack)
        assert page.evaluate("window.hit") is None, attack
        assert page.locator("main img, main script, main b:not(.chip b)").count() == 0, attack
        assert page.locator("a[href^='javascript']").count() == 0, attack


# contact


def test_a_cluster_that_is_away_is_said_with_the_age_of_what_is_shown_and_comes_back(page: Page, shop: Shop) -> None:
    expect(page.locator("tbody tr")).to_have_count(5)
    shop.api.faults = [Fault(503)] * 1000
    shop.api.cut_watches = True
    banner = page.get_by_role("alert")
    expect(banner).to_contain_text("The cluster does not answer")
    expect(banner).to_contain_text(re.compile(r"What is shown is \d+ s old"))
    expect(page.locator("tbody tr")).to_have_count(5)
    page.evaluate("window.stays = true")
    shop.api.cut_watches = False
    shop.api.faults = []
    expect(banner).to_be_hidden()
    expect(page.locator("#live")).to_have_text("live")
    assert page.evaluate("window.stays")


@pytest.mark.parametrize("view", ["#/", "#/bd/search"])
def test_that_no_controller_runs_is_said_and_until_when(
    view: str, page: Page, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "CONTROLLER_SECONDS", 0.2)
    shop.api.delete(LEASES, LEASE)
    show(page, view)
    banner = page.get_by_role("alert")
    names = "search" if view != "#/" else "ads, billing, metrics, search, shop"
    expect(banner).to_have_text(
        f'{names}: no controller is active in namespace "rukpak-system"; "rukpak check" says what is missing, and '
        "--namespace names another one.",
        timeout=40_000,  # the first answer may be ten seconds old
    )
    expect(page.locator("#live")).to_have_text("no controller")
    shop.run_controller()
    expect(banner).to_be_hidden()
    expect(page.locator("#live")).to_have_text("live")


def test_a_page_that_nobody_looks_at_follows_nothing_until_somebody_does(
    page: Page, served: Served, shop: Shop
) -> None:
    show(page, "#/bd/search")
    expect(page.locator(".verdict")).to_contain_text("ready")
    page.evaluate(HIDE, True)
    wait_for(lambda: served.board.view("search") is None, SECONDS, "the end of the stream")
    shop.put("search", deployment({"paused": True}, **ready()))
    page.evaluate(HIDE, False)
    expect(page.locator(".verdict")).to_contain_text("paused")


def test_who_may_not_list_them_is_told(browser: Browser, shop: Shop) -> None:
    del shop.api.objects[BOARD]
    with serve(shop.api.client()) as served, opened(browser, served.url) as page:
        expect(page.get_by_role("alert")).to_contain_text("BundleDeployments cannot be listed")


# acts


@pytest.fixture
def stored(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three revisions in the store, which give a ConfigMap other colors."""
    made = {
        digest: make_revision(digest, make("v1", "ConfigMap", "settings", data={"color": color}))
        for digest, color in ((OLDER, "white"), (DIGEST, "green"), (NEXT, "red"))
    }
    monkeypatch.setattr(RevisionStore, "read", lambda _store, _name, digest: made[digest])
    monkeypatch.setattr(watching, "read_revisions", lambda *_: made)
    monkeypatch.setattr(watching, "describe_drift", lambda *_, **_options: "data.color, owned by kubectl-edit")


ASKED = [
    ("billing", "Approve", "red"),
    ("billing", "Roll back", "white"),
    ("shop", "Resume", "red"),
]


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(("name", "verb", "color"), ASKED, ids=[verb for _, verb, _ in ASKED])
def test_what_would_change_is_shown_before_it_is_asked_for(
    name: str, verb: str, color: str, page: Page, shop: Shop
) -> None:
    shop.put("shop", deployment({"paused": True}, **{**drifted(), "revision": NEXT}))
    shop.put_object(CONFIG_MAPS, "ConfigMap", "settings", owner=name, data={"color": "blue"})
    show(page, f"#/bd/{name}")
    expect(page.locator(".node span.drift")).to_have_count(1)
    page.get_by_role("button", name=verb).click()
    dialog = page.get_by_role("dialog", name=f"{verb}: {name}")
    expect(dialog.locator(".removed")).to_have_text("-  color: green")
    expect(dialog.locator(".added")).to_have_text(f"+  color: {color}")
    expect(dialog.locator("li", has_text="ConfigMap shop/settings: data.color, owned by kubectl-edit")).to_be_visible()
    assert not [each for each in shop.api.received if each.query.get("dryRun")], "only on request"
    dialog.get_by_role("button", name="Compare with the cluster").click()
    expect(dialog.locator(".preview")).to_contain_text("compared with the cluster")
    assert [each for each in shop.api.received if each.query.get("dryRun")]
    dialog.get_by_role("button", name="Cancel").click()
    assert not [each for each in shop.api.received if each.method == "PATCH" and not each.query.get("dryRun")]


def test_what_the_controller_has_yet_to_do_is_requested(page: Page) -> None:
    show(page, "#/bd/search")
    page.get_by_role("button", name="Reconcile").click()
    page.get_by_role("dialog", name="Reconcile: search").get_by_role("button", name="Reconcile").click()
    expect(page.locator("#said")).to_have_text("Reconcile: search: requested")


def test_history_names_charts_and_their_versions(page: Page, shop: Shop) -> None:
    entries = [{"revision": DIGEST, "bundle": "shop 1.4.2", "sources": "chart:1.4.2@1f2e3d4c5b6a"}]
    shop.put("search", deployment(**ready(history=entries)))
    show(page, "#/bd/search")
    expect(page.locator(".history")).to_contain_text("shop 1.4.2 · chart:1.4.2")
    expect(page.locator(".history")).not_to_contain_text("@1f2e3d4c5b6a")


def test_who_may_not_read_revisions_is_told_before_approving(page: Page, shop: Shop) -> None:
    shop.api.refused |= {f"{STORE}/{secret_name('billing', digest, 0)}": Fault(403) for digest in (DIGEST, NEXT)}
    show(page, "#/bd/billing")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".preview")).to_contain_text("you may not read stored revisions")


def test_acts_ask_before_they_are_sent_and_carry_what_was_shown(page: Page, shop: Shop) -> None:
    show(page, "#/bd/billing")
    page.get_by_role("button", name="Approve").click()
    dialog = page.get_by_role("dialog", name="Approve: billing")
    expect(dialog).to_contain_text("run privileged pods")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert not [each for each in shop.api.received if each.method == "PATCH"]
    page.get_by_role("button", name="Approve").click()
    dialog.get_by_role("button", name="Approve").click()
    expect(page.locator("#said")).to_have_text("Approve: billing: done")
    [sent] = [json.loads(each.body) for each in shop.api.received if each.method == "PATCH"]
    assert sent["spec"]["approvedRevision"] == waiting()["pending"]["revision"]
    assert sent["metadata"]["resourceVersion"]


@pytest.mark.parametrize("options", [{"is_read_only": True}, {}], ids=["read-only", "without the right"])
def test_what_may_not_be_done_is_not_offered(options: dict[str, Any], browser: Browser, shop: Shop) -> None:
    shop.allow(bool(options))
    with serve(shop.api.client(), **options) as served, opened(browser, served.url) as page:
        show(page, "#/bd/billing")
        expect(page.locator(".pending")).to_contain_text("awaits approval")
        assert page.get_by_role("button", name=re.compile("Approve|Deny|Pause|Reconcile|Roll back")).count() == 0


# accessibility

VIEWS = ["#/", "#/bd/shop", "#/bd/shop/graph", "#/bd/billing", "#/bd/ads", "#/bd/missing", "#/bd/shop/yaml"]


def list_views(shop: Shop) -> list[str]:
    """Return the addresses of all views, with each tab of the panel of a Deployment."""
    [web] = shop.api.objects[WORKLOADS].values()
    panel = f"#/bd/shop/object/{web['metadata']['uid']}"
    return [*VIEWS, *(f"{panel}/{tab}" for tab in ("summary", "logs", "events", "difference", "yaml"))]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(scheme: str, browser: Browser, served: Served, shop: Shop) -> None:
    with opened(browser, served.url, color_scheme=scheme, bypass_csp=True) as page:
        for view in list_views(shop):
            show(page, view)
            expect(page.locator("main h1")).to_have_count(1)
            page.wait_for_timeout(600)
            assert find_violations(page) == [], view
        show(page, "#/bd/billing")
        page.get_by_role("button", name="Approve").click()
        assert find_violations(page) == []
        page.keyboard.press("Escape")
        show(page, "#/")
        page.keyboard.press("?")
        assert find_violations(page) == []


def test_nothing_is_wider_than_the_screen(page: Page, shop: Shop) -> None:
    for width, view in product((360, 1280), list_views(shop)):
        page.set_viewport_size({"width": width, "height": 800})
        show(page, view)
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{view} at {width}"
