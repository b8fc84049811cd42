"""The page of `rukpak ui` beside a real kubelet: the logs of containers that run, and of those that have ended."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import launch, opened, serving_page
from tests.support.bundles import World
from tests.support.running import deployment_of

pytestmark = pytest.mark.long
SECONDS = 120.0
"""Deadline for the third end of a container, which a kubelet starts again after 10 s."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as found:
        expect.set_options(timeout=SECONDS * 1000)
        yield found


@pytest.fixture
def page(browser: Browser, node_world: World) -> Iterator[Page]:
    with serving_page(node_world.cluster.kubeconfig) as (_, url), opened(browser, url) as found:
        yield found


def open_log(page: Page, name: str) -> None:
    """Go from the graph of a BundleDeployment to the log of its Pod."""
    page.evaluate("name => { location.hash = `#/bd/${name}/graph` }", name)
    page.get_by_role("link", name=re.compile(": Pod")).click()
    page.get_by_role("link", name="Logs", exact=True).click()


def test_why_a_container_crashes_is_read_in_its_log(page: Page, node_world: World) -> None:
    deployed = node_world.deploy(deployment_of("say", "cannot open database", "exit", "3"))
    page.evaluate("name => { location.hash = `#/bd/${name}` }", deployed.name)
    expect(page.locator(".verdict")).to_contain_text("stalled")
    page.evaluate("name => { location.hash = `#/bd/${name}/graph` }", deployed.name)
    expect(page.get_by_role("link", name=re.compile("failed: Deployment"))).to_contain_text("CrashLoopBackOff")
    open_log(page, deployed.name)
    expect(page.locator(".log")).to_contain_text("cannot open database")
    page.get_by_role("link", name="Events", exact=True).click()
    expect(page.locator(".panel .line-of-time")).to_contain_text("Back-off restarting failed container")


def test_what_a_container_adds_to_its_log_is_followed_and_why_the_previous_one_has_ended(
    page: Page, node_world: World
) -> None:
    steps = ("once", "/scratch/a", "say", "first", "sleep", "20s", "say", "second", "serve")
    deployed = node_world.deploy(deployment_of(*steps))
    open_log(page, deployed.name)
    expect(page.locator(".log")).to_have_text("first")
    expect(page.locator(".log")).to_have_text("first\nsecond")
    page.get_by_label("Previous container").check()
    expect(page.locator(".log")).to_have_text("the first time")
