"""What other clients do to the controller's own records is noticed by watches: its status and its revision Secrets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from tests.support.bundles import STORE, Deployed, World, bundle_of, config_map, image, new_name
from tests.support.registry import LocalRegistry


class Garbled(NamedTuple):
    name: str
    change: list[dict[str, Any]]


GARBLED = [
    Garbled("wiped", [{"op": "remove", "path": "/status"}]),
    Garbled("with kinds and revisions that are none", [
        {"op": "add", "path": "/status/managedKinds", "value": ["nonsense", "a/b/c/d"]},
        {"op": "add", "path": "/status/revision", "value": "../../x"},
        {"op": "add", "path": "/status/installedRevision", "value": "a/b"},
        {"op": "add", "path": "/status/managedState", "value": "great"}]),
]  # fmt: skip


def garble(deployed: Deployed, case: Garbled) -> None:
    deployed.client.json_patch(f"{deployed.path}/status", case.change)


def settled(deployed: Deployed) -> Any:
    deployed.wait_ready()
    return deployed.wait(lambda: deployed.status().get("managedState") and deployed.status(), "nothing left to do")


@pytest.mark.parametrize("case", GARBLED, ids=attrgetter("name"))
def test_a_status_is_written_again_at_once(world: World, case: Garbled) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    before, objects = settled(deployed), deployed.versions()
    garble(deployed, case)
    world.wait(lambda: deployed.status() == before, "the status as it was")
    assert deployed.versions() == objects


@pytest.mark.parametrize("case", GARBLED, ids=attrgetter("name"))
def test_a_status_is_found_out_again_after_a_restart(world: World, case: Garbled) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    before, objects = settled(deployed), deployed.versions()
    world.controller.kill()
    garble(deployed, case)
    world.controller.start()
    names = ("revision", "installedRevision", "managedState", "managedKinds")
    wanted = {name: before[name] for name in names}
    world.wait(lambda: {name: deployed.status().get(name) for name in names} == wanted, "the same status")
    assert deployed.versions() == objects


def definition(name: str) -> Any:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{name}.example.com"},
        "spec": {
            "group": f"{name}.example.com",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.mark.parametrize("case", GARBLED, ids=attrgetter("name"))
def test_a_deletion_leaves_no_definition_behind_when_status_does_not_name_it(world: World, case: Garbled) -> None:
    name = new_name()
    deployed = world.deploy(config_map("settings", color="blue"), definition(name), name=name)
    settled(deployed)
    world.controller.kill()
    garble(deployed, case)
    deployed.delete()
    world.controller.start()
    deployed.wait_gone()
    assert name not in world.cluster.kubectl("get", "crd", "-o", "name")
    assert deployed.revisions() == []


def remove(deployed: Deployed) -> None:
    for secret in deployed.revisions():
        deployed.client.delete(f"{STORE}/{secret['metadata']['name']}")


def corrupt(deployed: Deployed) -> None:
    for secret in deployed.revisions():
        path = f"{STORE}/{secret['metadata']['name']}"
        deployed.client.merge_patch(path, {"data": {"objects": "AAAA"}}, manager="somebody")


DAMAGES: list[Callable[[Deployed], None]] = [remove, corrupt]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
def test_a_damaged_revision_is_stored_again(world: World, damage: Callable[[Deployed], None], *, is_down: bool) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    settled(deployed)
    kept, objects = [secret["data"] for secret in deployed.revisions()], deployed.versions()
    if is_down:
        world.controller.kill()
    damage(deployed)
    if is_down:
        world.controller.start()
    world.wait(lambda: [secret["data"] for secret in deployed.revisions()] == kept, "the revision as it was")
    deployed.wait_ready()
    assert deployed.versions() == objects


def test_status_says_that_nothing_can_be_repaired_while_source_and_revision_are_lost(
    world: World, fresh_registry: LocalRegistry
) -> None:
    name = new_name()
    fresh_registry.push_image(name, "v1", [bundle_of(config_map("settings", color=name))])
    deployed = world.deploy(name=name, ref=f"{fresh_registry.host}/{name}:v1")
    settled(deployed)
    fresh_registry.stop()
    world.controller.kill()
    shutil.rmtree(world.store)
    world.controller.start()
    remove(deployed)

    deployed.wait_for("Unpacked", "False", "Unreachable", saying="until it is stored again, no object can be repaired")
    deployed.wait_for("Ready", "True", "Ready")
    fresh_registry.start()
    world.wait(lambda: len(deployed.revisions()) == 1, "the revision stored again", seconds=90)
    deployed.wait_ready()


def test_a_superseded_revision_that_cannot_be_read_goes(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    first = settled(deployed)
    world.controller.kill()
    corrupt(deployed)
    deployed.change(sources=[image(world.push(deployed.name, config_map("settings", color="red"), tag="v2"))])
    world.controller.start()
    second = deployed.wait_installed(first["installedRevision"])
    kept = {secret["metadata"]["annotations"]["core.rukpak.io/revision"] for secret in deployed.revisions()}
    assert kept == {second["installedRevision"]}, json.dumps(sorted(kept))
