"""Rule 9: equal inputs make an equal revision, and the cluster alone makes none. The preview itself: test_cli.py;
an API that is down: test_broken_api.py.
"""

from __future__ import annotations

import json

import pytest

from tests.support.bundles import World, config_map, definition, new_name

pytestmark = pytest.mark.own_cluster


@pytest.fixture
def group() -> str:
    """An API group that no other test uses."""
    return f"{new_name()}.example.com"


def test_to_render_again_makes_the_same_revision_and_no_write(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue"), config_map("others"))
    first, objects = deployed.wait_ready(), deployed.versions()

    deployed.request_reconcile("now")

    deployed.wait(lambda: deployed.status().get("lastHandledReconcileAt") == "now", "the request obeyed")
    world.wait_until_looked_at()
    second = deployed.wait_ready()
    assert (second["revision"], second["managedState"]) == (first["revision"], first["managedState"])
    assert deployed.versions() == objects


def test_equal_inputs_make_an_equal_revision_under_another_name(world: World) -> None:
    first = world.deploy(config_map("settings", color="blue"))
    revision = first.wait_ready()["revision"]
    first.delete()
    first.wait_gone()

    second = world.deploy(ref=first.ref, installNamespace=first.namespace)

    assert second.wait_ready()["revision"] == revision


def test_an_equal_bundle_from_another_place_makes_an_equal_revision(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    first, objects = deployed.wait_ready(), deployed.versions()
    other = world.push(f"{deployed.name}-copy", config_map("settings", color="blue"))

    deployed.change(sources=[{"kind": "image", "image": {"ref": other}, "destination": "a/b"}])

    second = deployed.wait_ready()
    assert second["sources"][0]["resolved"].startswith(other.removesuffix(":v1"))
    assert second["revision"] == first["revision"]
    assert deployed.versions() == objects


def test_a_change_of_discovery_alone_makes_no_new_revision(world: World, group: str) -> None:
    deployed = world.deploy(config_map("settings"))
    before = deployed.wait_ready()
    world.wait_until_looked_at()
    since = world.position()

    crd = definition(group, "Thing")
    world.cluster.kubectl("apply", "-f", "-", input=json.dumps(crd))
    world.wait_until_looked_at()
    world.restart()
    world.wait_until_looked_at()

    assert deployed.status() == before
    assert world.requests_about(deployed.name, since) == []
    world.cluster.kubectl("delete", "crd", crd["metadata"]["name"])
