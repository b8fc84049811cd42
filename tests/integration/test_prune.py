"""What happens to an object that the wanted revision lacks: when it goes, and what stays."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from rukpak.api import names
from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import (
    Deployed,
    Manifest,
    World,
    config_map,
    definition,
    exists,
    image,
    new_name,
    refused_config_map,
)
from tests.support.inside import ApiError
from tests.support.objects import claim, custom, deployment, is_released, labelled, namespace, read

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPS = "/apis/apps/v1"
SECONDS = 60.0


def upgrade(world: World, deployed: Deployed, *manifests: Manifest) -> None:
    """Push another bundle under the tag of a BundleDeployment, and ask for it."""
    world.push(deployed.name, *manifests)
    deployed.request_reconcile(new_name())


def upgrade_to_unhealthy(world: World, prune: str) -> Deployed:
    """Upgrade to a revision whose pods never run, without the ConfigMap `old`."""
    deployed = world.deploy(config_map("old"), deployment("web"), prune=prune)
    deployed.wait_ready()
    upgrade(world, deployed, deployment("web", replicas=1))
    deployed.wait(lambda: replicas(world, deployed) == 1, "upgraded")
    return deployed


def replicas(world: World, deployed: Deployed) -> int:
    found = read(world.client, deployed.path_of("web", "deployments", APPS))
    assert found
    count: int = found["spec"]["replicas"]
    return count


def wait_released(world: World, deployed: Deployed, path: str) -> None:
    def is_there_and_released() -> bool:
        found = read(world.client, path)
        return found is not None and is_released(found, deployed.name)

    deployed.wait(is_there_and_released, f"{path} released")


def test_after_healthy_waits_until_the_new_revision_is_healthy_and_repairs_what_waits(world: World) -> None:
    deployed = upgrade_to_unhealthy(world, "AfterHealthy")
    deployed.wait_for("Installed")
    deployed.wait_for("Healthy", "False", "Progressing")
    assert deployed.status()["objects"]["total"] == 1
    deployed.edit("old", color="red")
    deployed.wait(lambda: deployed.data("old") == {"color": "blue"}, "a leftover is repaired until it is pruned")

    upgrade(world, deployed, deployment("web"))

    deployed.wait(lambda: deployed.get("old") is None, "pruned")
    deployed.wait_ready()


def test_after_apply_does_not_wait_for_health(world: World) -> None:
    deployed = upgrade_to_unhealthy(world, "AfterHealthy")
    deployed.wait_for("Installed")
    assert deployed.get("old")
    deployed.change(prune="AfterApply")
    deployed.wait(lambda: deployed.get("old") is None, "pruned")
    deployed.wait_for("Healthy", "False", "Progressing")


def test_never_leaves_objects_until_that_is_changed(world: World) -> None:
    deployed = world.deploy(config_map("old"), config_map("a"), prune="Never")
    first = deployed.wait_ready()
    upgrade(world, deployed, config_map("a"))
    deployed.wait(lambda: deployed.status()["installedRevision"] != first["installedRevision"], "upgraded")
    deployed.wait_ready()
    world.wait_until_looked_at()
    assert deployed.get("old")
    deployed.change(prune="AfterApply")
    deployed.wait(lambda: deployed.get("old") is None, "pruned")
    deployed.wait_ready()


def test_nothing_is_pruned_while_an_object_is_refused(world: World) -> None:
    deployed = world.deploy(config_map("old"), config_map("a"), prune="AfterApply")
    deployed.wait_ready()
    refused = refused_config_map("bad")
    upgrade(world, deployed, config_map("a", color="red"), refused)
    deployed.wait_for("Installed", "False", "Refused")
    assert deployed.data("a") == {"color": "red"}
    assert deployed.get("old")


def test_a_bundle_that_became_empty_prunes_nothing(world: World) -> None:
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    world.registry.push_image(deployed.name, "v1", [{"README.md": b"nothing"}])
    deployed.request_reconcile(new_name())
    deployed.wait_for("Installed", "False", "NoContent")
    assert deployed.get("a")


def test_definitions_and_claims_are_kept_and_released_unless_so_annotated(world: World) -> None:
    one, two = (f"{new_name()}.example.com" for _ in range(2))
    goes = {"annotations": {names.PRUNE: "true"}}
    bundle = [claim("data"), labelled(claim("cache"), **goes), definition(one, "Foo")]
    deployed = world.deploy(config_map("a"), *bundle, labelled(definition(two, "Foo"), **goes))
    deployed.wait_for("Installed")
    upgrade(world, deployed, config_map("a"))

    deployed.wait(lambda: not exists(world.client, f"{CRDS}/foos.{two}"), "definition pruned")
    deployed.wait(lambda: deployed.get("cache", "persistentvolumeclaims") is None, "claim pruned")
    deployed.wait_ready()
    wait_released(world, deployed, deployed.path_of("data", "persistentvolumeclaims"))
    wait_released(world, deployed, f"{CRDS}/foos.{one}")
    deployed.wait(lambda: "Retained" in deployed.events(), "an Event names what is kept")
    world.client.delete(f"{CRDS}/foos.{one}")


def test_an_annotation_keeps_an_object_that_would_go(world: World) -> None:
    kept = labelled(config_map("kept"), annotations={names.PRUNE: "false"})
    by_helm = labelled(config_map("by-helm"), annotations={"helm.sh/resource-policy": "keep"})
    deployed = world.deploy(config_map("a"), config_map("old"), kept, by_helm)
    deployed.wait_ready()
    upgrade(world, deployed, config_map("a"))
    deployed.wait(lambda: deployed.get("old") is None, "pruned")
    deployed.wait_ready()
    wait_released(world, deployed, deployed.path_of("kept"))
    wait_released(world, deployed, deployed.path_of("by-helm"))


def test_a_namespace_is_pruned_when_it_is_empty_and_kept_when_it_is_not(world: World) -> None:
    empty, full = new_name(), new_name()
    deployed = world.deploy(config_map("a"), namespace(empty), namespace(full))
    deployed.wait_ready()
    world.client.create(f"/api/v1/namespaces/{full}/configmaps", config_map("theirs"))
    upgrade(world, deployed, config_map("a"))

    deployed.wait(lambda: not exists(world.client, f"/api/v1/namespaces/{empty}"), "the empty one is gone")
    wait_released(world, deployed, f"/api/v1/namespaces/{full}")


def test_custom_resources_are_pruned_before_what_serves_them(world: World) -> None:
    group = f"{new_name()}.example.com"
    held = labelled(custom(group, "Foo", "foo"), finalizers=["example.com/held"])
    deployed = world.deploy(config_map("a"), deployment("operator"), definition(group, "Foo"), held)
    deployed.wait_ready()
    position = world.position()
    upgrade(world, deployed, config_map("a"))

    def deleted() -> list[str]:
        asked = [request for request in world.requests_about(deployed.name, position) if request.startswith("delete ")]
        return [request.rpartition("/")[2] for request in asked]

    deployed.wait(lambda: len(deleted()) == 2, "both are deleted")
    assert deleted() == ["foo", "operator"]
    world.client.merge_patch(deployed.path_of("foo", "foos", f"/apis/{group}/v1"), {"metadata": {"finalizers": None}})
    world.client.delete(f"{CRDS}/foos.{group}")


# What hangs on a finalizer


@pytest.mark.repeats
@pytest.mark.parametrize("prune", ["AfterHealthy", "AfterApply"])
def test_a_pruned_object_that_a_finalizer_holds_is_told_and_waited_for(world: World, prune: str) -> None:
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    deployed = world.deploy(held, config_map("a"), prune=prune)
    before = deployed.wait_ready()
    deployed.change(sources=[image(world.push(deployed.name, config_map("a"), tag="v2"))])
    deployed.wait_for("Reconciling", "True", "PrunePending", saying="(finalizer example.com/hold): pruned, but")
    status = deployed.status()
    assert (status["objects"]["retained"], status["installedRevision"] != before["installedRevision"]) == (1, True)
    world.restart()
    deployed.wait_for("Reconciling", "True", "PrunePending", saying="finalizer example.com/hold")
    position = world.position()
    deployed.delete()
    deployed.wait_for("Ready", "False", "Deleting", saying="finalizer example.com/hold")
    assert not [each for each in world.requests(position) if each.startswith("delete ") and "/held" in each]
    world.client.merge_patch(deployed.path_of("held"), {"metadata": {"finalizers": None}})
    deployed.wait_gone()


def test_a_pruned_object_that_is_released_in_the_end_is_forgotten(world: World) -> None:
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    deployed = world.deploy(held, config_map("a"))
    deployed.wait_ready()
    deployed.change(sources=[image(world.push(deployed.name, config_map("a"), tag="v2"))])
    deployed.wait_for("Reconciling", "True", "PrunePending", saying="finalizer example.com/hold")
    world.client.merge_patch(deployed.path_of("held"), {"metadata": {"finalizers": None}})
    deployed.wait(lambda: "Reconciling" not in deployed.conditions(), "nothing is left to do")
    assert "retained" not in deployed.status()["objects"] or deployed.status()["objects"]["retained"] == 0


# What is not served any more


@pytest.mark.repeats
@pytest.mark.parametrize("prune", ["AfterHealthy", "AfterApply", "Never"])
@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
def test_an_upgrade_that_drops_what_is_not_served_any_more_is_complete(
    world: World, prune: str, *, is_down: bool
) -> None:
    group = f"{new_name()}.example.com"
    world.client.create(CRDS, definition(group, "Foo"))
    deployed = world.deploy(custom(group, "Foo", "foo"), config_map("a"), prune=prune)
    before = deployed.wait_ready()
    if is_down:
        world.controller.stop()
    world.client.delete(f"{CRDS}/foos.{group}")
    wait_for(lambda: not exists(world.client, f"{CRDS}/foos.{group}"), SECONDS, "its definition is gone")
    deployed.change(sources=[image(world.push(deployed.name, config_map("a"), config_map("b"), tag="v2"))])
    if is_down:
        world.controller.start()
    deployed.wait_installed(before["installedRevision"])
    assert deployed.status()["objects"].get("retained", 0) == 0
    deployed.delete()
    deployed.wait_gone()


def test_a_version_that_is_not_served_any_more_is_told_although_nothing_is_to_be_applied(world: World) -> None:
    group = f"{new_name()}.example.com"
    made = definition(group, "Foo")
    (first,) = made["spec"]["versions"]
    versions = [first, {**first, "name": "v2", "storage": False}]
    world.client.create(CRDS, {**made, "spec": {**made["spec"], "versions": versions}})
    deployed = world.deploy(custom(group, "Foo", "foo"), config_map("a"))
    deployed.wait_ready()
    path = f"{CRDS}/foos.{group}"
    turned = [{**first, "served": False, "storage": False}, {**first, "name": "v2"}]
    world.client.merge_patch(path, {"spec": {"versions": turned}})
    deployed.wait_for("Ready", "False", "KindNotServed", saying=f"does not serve {group}/v1/Foo any more")
    world.client.merge_patch(path, {"spec": {"versions": versions}})
    deployed.wait_for("Ready")
    deployed.delete()
    deployed.wait_gone()
    world.client.delete(path)


@pytest.mark.repeats
@pytest.mark.parametrize("stored", ["v1", "v2"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
def test_what_is_served_at_another_version_only_is_deleted_at_that(
    world: World, stored: str, *, is_restarted: bool
) -> None:
    group = f"{new_name()}.example.com"
    made = definition(group, "Foo")
    (first,) = made["spec"]["versions"]
    versions = [{**first, "name": name, "storage": name == stored} for name in ("v1", "v2")]
    world.client.create(CRDS, {**made, "spec": {**made["spec"], "versions": versions}})
    deployed = world.deploy(custom(group, "Foo", "foo"), config_map("a"))
    deployed.wait_ready()
    spec = {"versions": [{**versions[0], "served": False}, versions[1]]}
    world.client.merge_patch(f"{CRDS}/foos.{group}", {"spec": spec})
    v1 = deployed.path_of("foo", "foos", f"/apis/{group}/v1")
    wait_for(lambda: not is_served(world, v1), SECONDS, "the first version is not served any more")
    if is_restarted:
        world.restart()
    position = world.position()
    deployed.delete()
    deployed.wait_gone()
    asked = [request for request in world.requests_about(deployed.name, position) if request.startswith("delete ")]
    assert [request for request in asked if f"/apis/{group}/v2/" in request]
    world.client.delete(f"{CRDS}/foos.{group}")


def is_served(world: World, path: str) -> bool:
    try:
        world.client.get(path)
    except ApiError as error:
        return error.status != HTTPStatus.NOT_FOUND
    return True
