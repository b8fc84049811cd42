"""A bug of the controller is shown in status, with the place of its traceback in the log, until a pass succeeds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.programs import Settings
from tests.support.buggy import PASS, PROGRAM, RENDERING
from tests.support.bundles import Manifest, World, config_map, image, new_world
from tests.support.controller import Controller
from tests.support.registry import LocalRegistry


@pytest.fixture
def world(cluster: Cluster, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    make = partial(Controller, program=PROGRAM)
    with new_world(cluster, registry, settings.running, make=make) as started:
        yield started
        print(started.controller.log)  # noqa: T201 -- pytest shows it where the test has failed


@pytest.fixture
def switch(world: World) -> Iterator[Path]:
    file = world.store / "bug"
    yield file
    file.unlink(missing_ok=True)


def errors(world: World) -> list[Manifest]:
    lines = [line for line in world.controller.log.splitlines() if line.startswith("{")]
    return [each for line in lines if (each := json.loads(line))["level"] == "error"]


def test_a_bug_in_a_pass_is_shown_until_a_pass_succeeds(world: World, switch: Path) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    before = deployed.conditions()["Ready"]
    switch.write_text(PASS)
    deployed.edit("settings", color="red")

    ready = deployed.wait_for("Ready", "False", "InternalError", saying="ZeroDivisionError")
    (identity,) = re.findall("^reconcileID ([0-9a-f]{12}):", ready["message"])
    (found,) = [each for each in errors(world) if each.get("reconcileID") == identity]
    assert (found["msg"], found["BundleDeployment"]) == ("Reconciler error", deployed.name)
    assert "ZeroDivisionError: of a secret" in found["error"]
    conditions = deployed.conditions()
    assert conditions["Reconciling"]["reason"] == "InternalError"
    assert conditions["Installed"]["status"] == "True"
    assert "secret" not in json.dumps(deployed.status())
    world.wait(lambda: len(errors(world)) > 2, "it is retried")
    assert deployed.conditions()["Ready"] == ready
    world.wait(lambda: deployed.events().get("InternalError") == ready["message"], "an Event")

    switch.unlink()
    deployed.wait_ready()
    assert deployed.conditions()["Ready"]["message"] == before["message"]
    assert "Reconciling" not in deployed.conditions()
    world.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")


@pytest.mark.thorough
def test_a_bug_in_a_rendering_is_shown_and_retried_with_backoff_while_the_installed_revision_is_repaired(
    world: World, switch: Path
) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    switch.write_text(RENDERING)
    deployed.change(sources=[image(world.push(f"{deployed.name}-next", config_map("settings", color="green")))])

    ready = deployed.wait_for("Ready", "False", "InternalError", saying="ZeroDivisionError")
    (identity,) = re.findall("^reconcileID ([0-9a-f]{12}):", ready["message"])
    (found,) = [each for each in errors(world) if each.get("reconcileID") == identity]
    assert "ZeroDivisionError: of a secret" in found["error"]
    deployed.edit("settings", color="red")
    world.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")
    world.wait(lambda: len(errors(world)) > 2, "it is retried")
    assert deployed.conditions()["Ready"] == ready
    assert len(errors(world)) < 6  # 1, 2 and 4 s after each other

    switch.unlink()
    deployed.wait_ready()
    assert deployed.data("settings") == {"color": "green"}
