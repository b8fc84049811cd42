"""Rule 1: a source is resolved once; from then on nothing goes out to the network for it until somebody asks."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests.support.bundles import Deployed, World, config_map, image
from tests.support.registry import LocalRegistry


def requests_to(registry: LocalRegistry, repository: str) -> list[str]:
    """Return what was asked of a repository: the lines of the registry's log that name it."""
    return [line for line in registry.log.splitlines() if f"/v2/{repository}/" in line]


def wait_for_drift_repair(deployed: Deployed) -> None:
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")


def pause_and_resume(deployed: Deployed) -> None:
    deployed.change(paused=True)
    deployed.wait_for("Paused")
    deployed.change(paused=False)
    deployed.wait_ready()


def change_the_config(deployed: Deployed) -> None:
    deployed.change(config={"color": "red"})
    deployed.wait_for("Installed", "False", "InvalidConfig")
    deployed.change(config=None)
    deployed.wait_ready()


def render_anew(deployed: Deployed) -> None:
    deployed.change(sources=[image(deployed.ref, destination="elsewhere")])
    deployed.wait_ready()


def look_again(deployed: Deployed) -> None:
    deployed.change(metadata={"finalizers": ["core.rukpak.io/teardown", "example.com/held"]})
    deployed.change(metadata={"finalizers": ["core.rukpak.io/teardown"]})


CASES: dict[str, Callable[[Deployed], None]] = {
    "a look at what has not changed": look_again,
    "drift": wait_for_drift_repair,
    "a pause": pause_and_resume,
    "a change of config": change_the_config,
    "another destination": render_anew,
}


@pytest.mark.parametrize("happens", CASES.values(), ids=CASES)
def test_nothing_goes_out_after_the_first_resolution_for(
    world: World, registry: LocalRegistry, happens: Callable[[Deployed], None]
) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    pins = deployed.wait_ready()["sources"]
    before = requests_to(registry, deployed.name)
    assert before

    happens(deployed)
    world.wait_until_looked_at()

    assert requests_to(registry, deployed.name) == before
    found = deployed.status()["sources"]
    assert [pin["resolved"] for pin in found] == [pin["resolved"] for pin in pins]
    assert [pin["resolvedAt"] for pin in found] == [pin["resolvedAt"] for pin in pins]


def test_nothing_goes_out_after_a_restart(world: World, registry: LocalRegistry) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    before = requests_to(registry, deployed.name)

    world.restart()
    wait_for_drift_repair(deployed)

    assert requests_to(registry, deployed.name) == before


def test_content_that_was_lost_is_fetched_by_its_digest(world: World, registry: LocalRegistry) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    digest = deployed.wait_ready()["sources"][0]["digest"]
    world.push(deployed.name, config_map("settings", color="red"))
    before = len(requests_to(registry, deployed.name))
    world.controller.kill()
    shutil.rmtree(world.store)
    world.controller.start()

    render_anew(deployed)

    asked = requests_to(registry, deployed.name)[before:]
    assert any(f"/manifests/{digest}" in line for line in asked)
    assert not any("/manifests/v1" in line for line in asked)
    assert deployed.data("settings") == {"color": "blue"}


def test_a_tag_that_moves_changes_nothing_until_somebody_asks(world: World, registry: LocalRegistry) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    first = deployed.wait_ready()
    world.push(deployed.name, config_map("settings", color="red"))
    deployed.change(paused=True)
    pause_and_resume(deployed)
    assert deployed.data("settings") == {"color": "blue"}

    deployed.request_reconcile("now")

    second = deployed.wait_installed(first["installedRevision"])
    assert second["lastHandledReconcileAt"] == "now"
    assert second["sources"][0]["digest"] != first["sources"][0]["digest"]
    assert deployed.data("settings") == {"color": "red"}


def test_to_take_the_annotation_off_asks_for_nothing(world: World, registry: LocalRegistry) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    deployed.request_reconcile("once")
    deployed.wait(lambda: deployed.status().get("lastHandledReconcileAt") == "once", "the request obeyed")
    deployed.wait_ready()
    before = requests_to(registry, deployed.name)

    deployed.change(metadata={"annotations": None})
    world.wait_until_looked_at()

    assert requests_to(registry, deployed.name) == before


def test_a_source_that_comes_back_is_resolved_anew(world: World, registry: LocalRegistry) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    other = world.push(f"{deployed.name}-other", config_map("extra"))
    deployed.change(sources=[image(deployed.ref, "a"), image(other, "b")])
    deployed.wait_ready()
    deployed.change(sources=[image(deployed.ref, "a")])
    deployed.wait_ready()
    assert [pin["destination"] for pin in deployed.status()["sources"]] == ["a"]
    world.push(f"{deployed.name}-other", config_map("extra", color="red"))

    deployed.change(sources=[image(deployed.ref, "a"), image(other, "b")])

    deployed.wait_ready()
    assert deployed.data("extra") == {"color": "red"}
