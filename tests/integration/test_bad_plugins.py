"""Plug-ins of other packages that misbehave: the condition names them, and other BundleDeployments go on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, World, config_map, new_world
from tests.support.controller import Controller
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.timeout(600), pytest.mark.long, pytest.mark.thorough]
FOLDER = ROOT / "tests" / "data" / "plugins"
ENVIRONMENT = {"PYTHONPATH": str(FOLDER)}
REMEDY = "; see the log of the controller, then upgrade the package or report it to its authors"
NAMED = "of acme-plugins 1.2"
SECONDS = 3
"""For a rendering, and for a fetch."""


class _Controller(Controller):
    """A controller beside which the plug-ins are installed."""

    def __init__(self, *arguments: Any, environment: dict[str, str]) -> None:
        super().__init__(*arguments, environment={**environment, **ENVIRONMENT})


@pytest.fixture(scope="module")
def world(cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    options = [f"--render-timeout={SECONDS}", f"--fetch-timeout={SECONDS}"]
    with new_world(cluster, registry, settings.running, *options, make=_Controller) as world:
        yield world


def of_format(act: str) -> dict[str, Any]:
    return {"format": "acme.example/format", "config": {"act": act}}


def of_source(**parameters: str) -> dict[str, Any]:
    return {"sources": [{"kind": "acme.example/source", "parameters": parameters}]}


def of_processor(act: str) -> dict[str, Any]:
    return {"processors": [{"kind": "acme.example/processor", "parameters": {"act": act}}]}


class Case(NamedTuple):
    spec: dict[str, Any]
    place: str
    problem: str
    condition: str = "Installed"
    reason: str = "PluginFailed"


FORMAT = f'spec.format: plug-in "acme.example/format" {NAMED} '
SOURCE = f'spec.sources[0].parameters: plug-in "acme.example/source" {NAMED} '
PROCESSOR = f'spec.processors[0].parameters: plug-in "acme.example/processor" {NAMED} '
BROKEN = "does not keep its contract: render returns "
CASES = {
    "a format ends the program": Case(of_format("leave"), FORMAT, "failed: render raised SystemExit at plugins/acme_"),
    "a format raises": Case(
        of_format("fail"), FORMAT, "failed: render raised RuntimeError at plugins/acme_plugins.py:"
    ),
    "a format hangs": Case(of_format("hang"), FORMAT, ""),
    "a format makes no JSON": Case(of_format("no JSON"), FORMAT, f"{BROKEN}objects[0].data.act that is a bytes"),
    "a format never ends": Case(of_format("endless"), FORMAT, f"{BROKEN}objects that are a generator, not a list"),
    "a format makes too much": Case(
        of_format("huge"),
        "spec.format: ",
        "render returns more than 32 MiB of text",
        reason="RenderLimitExceeded",
    ),
    "a format changes the tree": Case(
        of_format("change the tree"), FORMAT, "failed: render raised PermissionError at "
    ),
    "a format refuses": Case(of_format("refuse"), "a.yaml:1: ", "wrong; correct it", reason="InvalidBundle"),
    "a format fails to judge its config": Case(
        {"format": "acme.example/format", "config": {"validate": "fail"}},
        FORMAT,
        "failed: validate raised RuntimeError",
    ),
    "a format cannot be imported": Case(
        {"format": "acme.example/missing"},
        f'spec.format: plug-in "acme.example/missing" {NAMED} ',
        "failed: loading raised ModuleNotFoundError",
    ),
    "a format of a later contract": Case(
        {"format": "late.example/format"},
        'spec.format: plug-in "late.example/format" of late-plugins 0.1 ',
        "was written for version 2 of the contract, and this RukPak has 1",
    ),
    "a source raises": Case(of_source(resolve="fail"), SOURCE, "failed: resolve raised RuntimeError", "Unpacked"),
    "a source ends the program": Case(of_source(fetch="leave"), SOURCE, "failed: fetch raised SystemExit", "Unpacked"),
    "a source hangs": Case(of_source(resolve="hang"), SOURCE, "", "Unpacked"),
    "a source hangs while it is read": Case(of_source(fetch="hang"), SOURCE, "", "Unpacked"),
    "a source never ends": Case(
        of_source(fetch="endless"), "spec.sources[0]", "", "Unpacked", reason="ContentRejected"
    ),
    "a processor raises": Case(of_processor("fail"), PROCESSOR, "failed: process raised RuntimeError"),
    "a processor hangs": Case(of_processor("hang"), PROCESSOR, ""),
    "a processor makes objects without a name": Case(
        of_processor("no name"), "spec.processors[0]: ", "makes an invalid object: objects[0]: ", reason="InvalidConfig"
    ),
}


def scrape(world: World) -> str:
    """Return the metrics."""
    with urlopen(f"{world.controller.address('--metrics-address')}/metrics") as reply:
        text: str = reply.read().decode()
    return text


def test_each_is_named_and_nobody_else_notices(world: World) -> None:
    good = world.deploy(config_map("good", color="blue"))
    good.wait_ready()
    hang = {case for case in CASES if "hangs" in case}
    # First the others: a plug-in of which eight calls hang is not called any more.
    _wait_until_named(world, CASES.keys() - hang)
    after = world.deploy(config_map("good"), **of_processor(""))
    _wait_until_named(world, hang)
    after.wait_ready()
    found = after.get("good")
    assert found
    assert found["metadata"]["labels"]["acme"] == "here"
    good.remove("good")
    world.wait(lambda: good.data("good") == {"color": "blue"}, "it is repaired")

    assert "Hunter2" not in world.controller.log
    assert '"plug-in refused"' in world.controller.log
    assert '"plug-in found"' in world.controller.log
    shown = scrape(world)
    assert (
        'rukpak_plugin_info{api="1",name="acme.example/format",package="acme-plugins",type="format",version="1.2"} 1'
        in shown
    )
    assert 'rukpak_plugin_failures_total{name="acme.example/processor",type="processor"}' in shown
    assert 'rukpak_plugin_abandoned_calls{name="acme.example/source",type="source"} 0' not in shown


def _wait_until_named(world: World, cases: Collection[str]) -> None:
    bad = {case: world.deploy(config_map("a"), **CASES[case].spec) for case in sorted(cases)}
    unseen = {*cases}

    def is_each_named() -> bool:
        for case in sorted(unseen):
            each = CASES[case]
            condition = bad[case].conditions().get(each.condition, {})
            message = condition.get("message", "")
            if (condition.get("status"), condition.get("reason")) == ("False", each.reason) and each.problem in message:
                assert message.startswith(each.place), (case, condition)
                assert "Hunter2" not in message
                if "hangs" in case:
                    assert "hangs: " in message or "is not called any more: 8 calls" in message
                unseen.remove(case)
        return not unseen

    world.wait(is_each_named, "each named")


def test_the_command_line_names_them(world: World) -> None:
    line = [sys.executable, "-m", "rukpak", "plugins"]
    done = subprocess.run(line, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = {line.split()[1]: " ".join(line.split()) for line in done.stdout.splitlines()}
    assert lines["acme.example/format"] == "format acme.example/format acme-plugins 1.2 1 ok"
    assert "failed: loading raised ModuleNotFoundError" in lines["acme.example/missing"]
    assert "was written for version 2 of the contract" in lines["late.example/format"]
