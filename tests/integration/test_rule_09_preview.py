"""Rule 9: equal inputs make an equal revision, and the cluster alone makes none. The preview itself: test_cli.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.bundles import World, config_map, definition, new_name

pytestmark = pytest.mark.own_cluster

GROUP = "down.example.com"


@pytest.fixture
def group() -> str:
    """An API group that no other test uses."""
    return f"{new_name()}.example.com"


@contextmanager
def failing_group(world: World) -> Iterator[None]:
    """An API group whose own server is not there."""
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": "v1",
            "service": {"namespace": "default", "name": "nobody"},
            "groupPriorityMinimum": 1,
            "versionPriority": 1,
        },
    }
    world.cluster.kubectl("apply", "-f", "-", input=json.dumps(service))
    try:
        world.wait(lambda: GROUP in world.cluster.kubectl("get", "--raw", "/apis"), "the group listed")
        yield
    finally:
        world.cluster.kubectl("delete", "apiservice", f"v1.{GROUP}")


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


def test_nothing_is_rendered_while_an_api_group_fails_discovery(world: World) -> None:
    installed = world.deploy(config_map("settings", color="blue"))
    installed.wait_ready()
    with failing_group(world):
        deployed = world.deploy(config_map("settings"))
        deployed.wait_for("Installed", "False", "APIUnavailable", saying=f'API group "{GROUP}"')
        deployed.wait_for("Reconciling", "True", "APIUnavailable")
        assert deployed.revisions() == []
        installed.remove("settings")
        installed.wait(lambda: installed.data("settings") == {"color": "blue"}, "repair of what was rendered before")

    deployed.wait_ready()
