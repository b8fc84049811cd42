"""What happens to an object that the wanted revision lacks: when it goes, and what stays."""

from __future__ import annotations

from api import names
from tests.support.bundles import Deployed, Manifest, World, config_map, definition, exists, new_name
from tests.support.objects import claim, custom, deployment, is_released, labelled, namespace, read

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPS = "/apis/apps/v1"


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


def test_while_only_prune_waits_the_option_that_ends_the_wait_is_named(world: World) -> None:
    deployed = upgrade_to_unhealthy(world, "AfterHealthy")
    deployed.wait_for("Installed")
    assert deployed.get("old")
    deployed.change(prune="AfterApply")
    deployed.wait(lambda: deployed.get("old") is None, "pruned")


def test_after_apply_does_not_wait_for_health(world: World) -> None:
    deployed = upgrade_to_unhealthy(world, "AfterApply")
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
    refused = {**config_map("bad"), "immutable": "yes"}
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
