"""`rukpak ui` in a real Chromium: what happens on a cluster is seen at once, and acts have the rights of the user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import launch, opened, serving_page
from tests.support.bundles import World, config_map, image, new_name
from tests.support.objects import deployment, make

pytestmark = pytest.mark.long
SECONDS = 60.0
"""Deadline for what takes less than a second on an idle machine."""


HOOK = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "migrate", "annotations": {"helm.sh/hook": "pre-install"}},
    "spec": {
        "activeDeadlineSeconds": 2,
        "template": {
            "metadata": {"annotations": {"example.com/waits": ""}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/main:1"}]},
        },
    },
}
"""Its pod never runs on the fake node."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as found:
        expect.set_options(timeout=SECONDS * 1000)
        yield found


@pytest.fixture
def page(browser: Browser, kwok_world: World) -> Iterator[Page]:
    with serving_page(kwok_world.cluster.kubeconfig) as (_, url), opened(browser, url) as found:
        yield found
        assert found.evaluate("window.stays"), "the page was loaded again"


def look_at(page: Page, name: str) -> None:
    """Go to the page of a BundleDeployment, which is not loaded again from then on."""
    page.evaluate("name => { window.stays = true; location.hash = `#/bd/${name}` }", name)


def do(page: Page, title: str) -> None:
    """Press a button and confirm."""
    page.get_by_role("button", name=title, exact=True).first.click()
    page.locator("#ask-yes").click()
    expect(page.locator("#said")).to_contain_text("done")


def test_a_bundle_is_installed_drifts_and_is_paused_and_resumed_before_the_eyes_of_its_user(
    page: Page, kwok_world: World
) -> None:
    page.evaluate("window.stays = true")
    deployed = kwok_world.deploy(config_map("a", color="blue"), deployment("web", replicas=2))
    row = page.locator(f"tr[data-name={deployed.name}]")
    expect(row.locator(".word")).to_have_text("ready")
    expect(row).to_contain_text("/")
    look_at(page, deployed.name)
    expect(page.locator(".steps > ol > li.done")).to_have_count(5)
    expect(page.locator(".tree .node", has_text=re.compile("^healthy: Podweb-"))).to_have_count(2)
    do(page, "Pause")
    expect(page.locator(".verdict")).to_contain_text("paused")
    deployed.edit("a", color="red")
    expect(page.locator(".node span.drift")).to_contain_text('data.color, owned by "somebody"')
    box = page.locator(".node span.drift").bounding_box()
    assert box
    assert box["width"] > box["height"]
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator("#ask-text")).to_contain_text('/a: data.color, owned by "somebody"')
    page.keyboard.press("Escape")
    do(page, "Resume")
    expect(page.locator(".node span.drift")).to_have_count(0)
    expect(page.locator(".verdict")).to_contain_text("ready")
    assert deployed.data("a") == {"color": "blue"}


def test_an_upgrade_that_waits_is_looked_at_and_approved(page: Page, kwok_world: World) -> None:
    deployed = kwok_world.deploy(config_map("a", color="blue"))
    deployed.wait_ready()
    deployed.change(approval="Manual")
    deployed.wait_ready()
    look_at(page, deployed.name)
    expect(page.locator(".verdict")).to_contain_text("ready")
    ref = kwok_world.push(new_name(), config_map("a", color="red"), config_map("b"))
    deployed.change(sources=[image(ref)])
    expect(page.locator(".pending")).to_contain_text("awaits approval")
    page.get_by_role("link", name="Show changes").click()
    expect(page.locator("pre .removed", has_text="blue")).to_have_count(1)
    expect(page.locator("pre .added", has_text="red")).to_have_count(1)
    page.keyboard.press("Escape")
    do(page, "Approve")
    expect(page.locator(".pending")).to_be_hidden()
    expect(page.locator(".history .flag.installed")).to_have_count(1)
    expect(page.locator(".history code")).to_have_count(2)
    page.get_by_role("link", name="changes").click()
    shown = page.get_by_role("dialog", name=re.compile("Changes from .* to"))  # not what was shown before
    expect(shown.locator("pre")).to_contain_text(f"created ConfigMap {deployed.namespace}/b")
    page.keyboard.press("Escape")
    do(page, "Roll back")
    expect(page.get_by_role("button", name="Undo rollback")).to_be_visible()
    kwok_world.wait(lambda: deployed.data("a") == {"color": "blue"}, "rolled back")


def test_a_hook_that_fails_is_seen(page: Page, kwok_world: World) -> None:
    files = {"Chart.yaml": b"apiVersion: v2\nname: shop\nversion: 1.0.0\n"}
    files |= {"templates/hook.yaml": json.dumps(HOOK).encode()}
    deployed = kwok_world.deploy(files, format="helm")
    look_at(page, deployed.name)
    hook = page.locator(".node", has_text="migrate").first
    expect(hook).to_contain_text("pre-install hook")
    failed = page.locator(".steps > ol > li.failed")
    expect(failed.locator(".reason")).to_have_text("HookFailed")
    expect(failed).to_contain_text("DeadlineExceeded")
    expect(hook).to_contain_text("failed")


def test_a_failure_and_a_deletion_are_seen(page: Page, kwok_world: World) -> None:
    page.evaluate("window.stays = true")
    broken = make("v1", "ConfigMap", "b", data={"a": 1})
    deployed = kwok_world.deploy(config_map("a"), broken)
    expect(page.locator(f"tr[data-name={deployed.name}] .word")).to_have_text("stalled")
    look_at(page, deployed.name)
    expect(page.locator(".steps > ol > li.failed .reason")).to_be_visible()
    expect(page.locator(".steps > ol > li.failed h2")).to_have_text(re.compile("Objects|Revision"))
    deployed.delete()
    expect(page.locator("main")).to_contain_text("does not exist")
    page.keyboard.press("u")
    expect(page.locator(f"tr[data-name={deployed.name}]")).to_have_count(0)


def test_who_may_only_look_is_offered_nothing_and_refused_by_the_api_server(
    browser: Browser, kwok_world: World
) -> None:
    deployed = kwok_world.deploy(config_map("a"))
    deployed.wait_ready()
    viewer = new_name()
    kubectl = kwok_world.cluster.kubectl
    kubectl("create", "clusterrole", viewer, "--verb=get,list,watch", "--resource=bundledeployments.core.rukpak.io")
    kubectl("create", "clusterrolebinding", viewer, f"--clusterrole={viewer}", f"--user={viewer}")
    with serving_page(kwok_world.cluster.kubeconfig, f"--as={viewer}") as (_, url), opened(browser, url) as page:
        look_at(page, deployed.name)
        expect(page.locator(".notes")).to_contain_text("ConfigMap: ")
        expect(page.locator(".verdict")).to_contain_text("ready")
        assert page.get_by_role("button", name="Pause").count() == 0
        send = """async name => {
          const csrf = document.querySelector('meta[name="csrf"]').content;
          const headers = {"X-CSRF-Token": csrf};
          return (await fetch(`/api/deployments/${name}/acts/pause`, {method: "POST", headers, body: "{}"})).status;
        }"""
        assert page.evaluate(send, deployed.name) == 403
    assert deployed.read()["spec"]["paused"] is False
