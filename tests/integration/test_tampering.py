"""What other clients do to the controller's own records is noticed by watches: its status and its revision Secrets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import StartController
from tests.support.bundles import Deployed, World, bundle_of, config_map, image, new_name
from tests.support.registry import LocalRegistry
from tests.support.tampering import corrupt_revisions, delete_revisions, garble_status, wipe_status

Tamper = Callable[[Deployed], None]


GARBLED = [wipe_status, garble_status]


def settled(deployed: Deployed) -> Any:
    deployed.wait_ready()
    return deployed.wait(lambda: deployed.status().get("managedState") and deployed.status(), "nothing left to do")


@pytest.mark.parametrize("garble", GARBLED)
def test_a_status_is_written_again_at_once(world: World, garble: Tamper) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    before, objects = settled(deployed), deployed.versions()
    garble(deployed)
    wait_found_out(world, deployed, before)
    assert deployed.versions() == objects


def wait_found_out(world: World, deployed: Deployed, before: Any) -> None:
    """Wait until status has what it had, except for when that was."""
    fields = ("revision", "installedRevision", "managedState", "managedKinds", "sources")
    wanted = {field: before[field] for field in fields}
    world.wait(lambda: {field: deployed.status().get(field) for field in fields} == wanted, "the same status")


@pytest.mark.parametrize("garble", GARBLED)
def test_a_status_is_found_out_again_after_a_restart(world: World, garble: Tamper) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    before, objects = settled(deployed), deployed.versions()
    world.controller.kill()
    garble(deployed)
    world.controller.start()
    wait_found_out(world, deployed, before)
    assert deployed.versions() == objects


def test_two_controllers_by_mistake_write_a_status_again_and_then_rest(
    world: World, controller: StartController
) -> None:
    controller(world.cluster.kubeconfig, "--leader-elect=no")
    deployed = world.deploy(config_map("settings", color="blue"))
    before = settled(deployed)
    for _ in range(3):
        wipe_status(deployed)
        wait_found_out(world, deployed, before)
    wait_unchanged(world, deployed)


def wait_unchanged(world: World, deployed: Deployed) -> None:
    """Wait until both controllers have looked at the latest BundleDeployment, and it is the same afterwards."""

    def is_unchanged() -> bool:
        version = deployed.read()["metadata"]["resourceVersion"]
        for _ in range(3):
            world.wait_until_looked_at()
        return bool(deployed.read()["metadata"]["resourceVersion"] == version)

    world.wait(is_unchanged, "no more writes of either")


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


@pytest.mark.repeats
@pytest.mark.parametrize("garble", GARBLED)
def test_a_deletion_leaves_no_definition_or_namespace_behind_when_status_does_not_name_it(
    world: World, garble: Tamper
) -> None:
    name = new_name()
    more = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{name}-more"}}
    deployed = world.deploy(config_map("settings", color="blue"), definition(name), more, name=name)
    settled(deployed)
    world.controller.kill()
    garble(deployed)
    deployed.delete()
    world.controller.start()
    deployed.wait_gone()
    assert name not in world.cluster.kubectl("get", "crd", "-o", "name")
    assert f"{name}-more" not in world.cluster.kubectl("get", "namespaces", "-o", "name")
    assert deployed.revisions() == []


DAMAGES = [delete_revisions, corrupt_revisions]


@pytest.mark.repeats
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
def test_a_damaged_revision_is_stored_again(world: World, damage: Tamper, *, is_down: bool) -> None:
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
    world.controller.stop()
    shutil.rmtree(world.store)
    world.controller.start()
    delete_revisions(deployed)

    deployed.wait_for("Unpacked", "False", "Unreachable", saying="until it is stored again, no object can be repaired")
    deployed.wait_for("Ready", "True", "Ready")
    fresh_registry.start()
    world.wait(lambda: len(deployed.revisions()) == 1, "the revision stored again", seconds=90)
    deployed.wait_ready()


def test_health_is_unknown_while_what_is_installed_is_not_known(world: World, fresh_registry: LocalRegistry) -> None:
    name = new_name()
    bundle = bundle_of(config_map("settings", color=name), config_map("more"))
    fresh_registry.push_image(name, "v1", [bundle])
    deployed = world.deploy(name=name, ref=f"{fresh_registry.host}/{name}:v1")
    settled(deployed)
    fresh_registry.stop()
    world.controller.stop()
    shutil.rmtree(world.store)
    delete_revisions(deployed)
    world.client.delete(deployed.path_of("more"))
    world.controller.start()

    deployed.wait_for("Healthy", "Unknown", "RevisionLost", saying="is not stored any more")
    deployed.wait_for("Ready", "False", "Unreachable")
    fresh_registry.start()
    deployed.wait_ready()
    assert deployed.get("more")


def test_a_superseded_revision_that_cannot_be_read_goes(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    first = settled(deployed)
    world.controller.kill()
    corrupt_revisions(deployed)
    deployed.change(sources=[image(world.push(deployed.name, config_map("settings", color="red"), tag="v2"))])
    world.controller.start()
    second = deployed.wait_installed(first["installedRevision"])
    kept = {secret["metadata"]["annotations"]["core.rukpak.io/revision"] for secret in deployed.revisions()}
    assert kept == {second["installedRevision"]}, json.dumps(sorted(kept))
