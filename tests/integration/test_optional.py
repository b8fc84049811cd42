"""Optional objects: skipped while the cluster does not serve their kind, applied when it does (rule 9)."""

from __future__ import annotations

from rukpak.api import names
from tests.support.bundles import Deployed, World, config_map, definition, new_name
from tests.support.objects import custom, labelled, read

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def wait_skipped(deployed: Deployed, *kinds: str) -> None:
    """Wait until it is Ready, these kinds aside."""
    deployed.wait_ready()
    deployed.wait(lambda: deployed.status().get("skippedKinds", []) == list(kinds), f"skips {kinds}")


def test_an_optional_object_is_applied_when_its_definition_appears_and_skipped_when_that_goes(world: World) -> None:
    group = f"{new_name()}.example.com"
    foo = labelled(custom(group, "Foo", "foo"), annotations={names.OPTIONAL: "true"})
    deployed = world.deploy(foo, config_map("a"))
    path, kind = deployed.path_of("foo", "foos", f"/apis/{group}/v1"), f"{group}/v1/Foo"
    wait_skipped(deployed, kind)
    assert deployed.wait_for("Installed")["message"].endswith(f"does not serve: {kind}")
    revision = deployed.status()["revision"]

    world.client.create(CRDS, definition(group, "Foo"))

    deployed.wait(lambda: read(world.client, path), "applied")
    wait_skipped(deployed)
    world.client.delete(f"{CRDS}/foos.{group}")
    wait_skipped(deployed, kind)
    assert deployed.status()["revision"] == revision


def test_a_definition_that_appears_while_nobody_looks_is_noticed_at_start_and_nothing_is_fetched(world: World) -> None:
    group = f"{new_name()}.example.com"
    deployed = world.deploy(
        custom(group, "Foo", "foo"),
        config_map("a"),
        optional=[{"group": group, "kind": "Foo"}],
    )
    path = deployed.path_of("foo", "foos", f"/apis/{group}/v1")
    wait_skipped(deployed, f"{group}/v1/Foo")

    world.wait_until_looked_at()
    position = world.position()
    world.restart()
    world.wait_until_looked_at()
    assert world.requests_about(deployed.name, position) == [], "a restart with something skipped writes nothing"

    world.controller.kill()
    world.registry.delete_manifest(deployed.name, deployed.status()["sources"][0]["digest"])
    world.client.create(CRDS, definition(group, "Foo"))
    world.controller.start()
    deployed.wait(lambda: read(world.client, path), "applied")
    wait_skipped(deployed)
    deployed.delete()
    deployed.wait_gone()
    assert read(world.client, path) is None
    world.client.delete(f"{CRDS}/foos.{group}")
