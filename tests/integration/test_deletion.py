"""Deletion: in order, behind one finalizer, and what is kept (controller/apply/README.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import (
    STORE,
    Deployed,
    Manifest,
    World,
    config_map,
    definition,
    exists,
    image,
    new_name,
    new_world,
    refused_config_map,
)
from tests.support.controller import Controller
from tests.support.hurried import hurry
from tests.support.inside import AGAIN_SECONDS, BLOCKED_AFTER_SECONDS, TROUBLED_SECONDS
from tests.support.objects import (
    claim,
    custom,
    deployment,
    is_released,
    labelled,
    namespace,
    read,
    remove,
    service,
    webhook,
)
from tests.support.registry import LocalRegistry

pytestmark = pytest.mark.long

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BLOCKED_SECONDS = 60.0
TIMERS = {
    BLOCKED_AFTER_SECONDS: 8.0,  # a minute, for users
    TROUBLED_SECONDS: 3.0,
    AGAIN_SECONDS: 5.0,
}
NAMESPACE_SECONDS = 90.0
"""The namespace controller tries again with growing pauses while its discovery is behind a definition that has gone."""


@pytest.fixture(scope="module")
def shared_world(cluster: Cluster, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """That of integration/conftest.py, but for how long a deletion takes before it is looked into."""
    hurried = partial(Controller, program=hurry(TIMERS))
    with new_world(cluster, registry, settings.running, "--workers=1", make=hurried) as world:
        yield world


def deletions(world: World, deployed: Deployed, position: int) -> list[str]:
    """Return the names of what the controller deleted since then, in the order of the first requests; no revisions.

    What has changed meanwhile, as the state of a Namespace does, is not deleted by a request (409), but by the next.
    """
    asked = [request for request in world.requests(position) if request.startswith("delete ")]
    return list(dict.fromkeys(request.rpartition("/")[2] for request in asked if "/secrets/revision." not in request))


def released(world: World, deployed: Deployed, path: str) -> bool:
    found = read(world.client, path)
    return bool(found and is_released(found, deployed.name) and "deletionTimestamp" not in found["metadata"])


# Order


def test_objects_go_in_reverse_order_custom_resources_before_everything_that_serves_them(world: World) -> None:
    group, hook, brought = f"{new_name()}.example.com", new_name(), new_name()
    bundle = [namespace(brought), definition(group, "Foo"), config_map("a"), deployment("operator"), webhook(hook)]
    deployed = world.deploy(*bundle, custom(group, "Foo", "foo"))
    deployed.wait_ready()
    position = world.position()
    deployed.delete()
    world.wait(lambda: not exists(world.client, deployed.path), "gone", seconds=NAMESPACE_SECONDS)
    order = deletions(world, deployed, position)
    assert order == ["foo", hook, "operator", "a", f"foos.{group}", brought]
    assert exists(world.client, f"/api/v1/namespaces/{deployed.namespace}")
    assert deployed.revisions() == []


def test_a_custom_resource_that_is_held_is_named_and_its_operator_stays_until_it_is_gone(world: World) -> None:
    group = f"{new_name()}.example.com"
    held = labelled(custom(group, "Foo", "foo"), finalizers=["example.com/held"])
    deployed = world.deploy(definition(group, "Foo"), held, deployment("operator"))
    deployed.wait_ready()
    deployed.delete()

    def is_named() -> bool:
        found = deployed.conditions().get("Ready", {})
        return found.get("reason") == "DeletionBlocked" and "example.com/held" in found["message"]

    world.wait(is_named, "DeletionBlocked", seconds=BLOCKED_SECONDS)
    message = deployed.conditions()["Ready"]["message"]
    assert message.startswith(f"waiting for Foo {deployed.namespace}/foo (finalizer example.com/held); ")
    path = deployed.path_of("foo", "foos", f"/apis/{group}/v1")
    found = read(world.client, path)
    assert found
    assert "deletionTimestamp" in found["metadata"]
    operator = read(world.client, deployed.path_of("operator", "deployments", "/apis/apps/v1"))
    assert operator
    assert "deletionTimestamp" not in operator["metadata"]
    world.client.merge_patch(path, {"metadata": {"finalizers": None}})
    deployed.wait_gone()
    assert not exists(world.client, f"{CRDS}/foos.{group}")
    assert deployed.revisions() == []


def test_what_is_deleted_is_told_in_events_and_in_the_log(world: World) -> None:
    group, since = f"{new_name()}.example.com", len(world.controller.log)
    deployed = world.deploy(definition(group, "Foo"), custom(group, "Foo", "foo"), claim("data"), config_map("old"))
    before = deployed.wait_for("Installed") and deployed.status()["installedRevision"]
    world.push(deployed.name, definition(group, "Foo"), custom(group, "Foo", "foo"), claim("data"))
    deployed.change(prune="AfterApply", metadata={"annotations": {names.RECONCILE_REQUESTED_AT: "now"}})
    deployed.wait(lambda: deployed.status()["installedRevision"] != before, "upgrade")
    told = deployed.wait(lambda: deployed.events().get("Pruned"), "an Event")
    revision = deployed.status()["display"]["revision"]
    namespace = deployed.namespace
    assert told == f"ConfigMap {namespace}/old: deleted because revision {revision} does not contain it"

    deployed.delete()
    deployed.wait_gone()
    gone = [f"Foo {namespace}/foo", f"CustomResourceDefinition foos.{group}"]
    expected = {f"{each}: deleted with the BundleDeployment" for each in gone}
    deployed.wait(lambda: deployed.all_events("Deleted") == expected, "an Event for each pass that deletes")
    lines = [json.loads(line) for line in world.controller.log[since:].splitlines() if f'"{deployed.name}"' in line]
    deletions = {(line["object"], line["cause"]) for line in lines if line["msg"] == "object deleted"}
    assert deletions == {(f"ConfigMap {namespace}/old", "prune"), *((each, "teardown") for each in gone)}
    released = [line["object"] for line in lines if line["msg"] == "object released"]
    assert released == [f"PersistentVolumeClaim {namespace}/data"]


@pytest.mark.thorough
def test_a_slow_deletion_names_what_it_waits_for_and_what_is_left_in_a_namespace(world: World) -> None:
    brought = new_name()
    deployed = world.deploy(namespace(brought), labelled(config_map("a"), finalizers=["example.com/held"]))
    deployed.wait_ready()
    theirs = labelled(config_map("theirs"), namespace=brought, finalizers=["example.com/theirs"])
    theirs["metadata"]["ownerReferences"] = [owner_reference(deployed)]
    world.client.create(f"/api/v1/namespaces/{brought}/configmaps", theirs)
    deployed.delete()
    held = f"waiting for ConfigMap {deployed.namespace}/a (finalizer example.com/held)"
    deployed.wait_for("Ready", "False", "Deleting", saying=f"2 objects left to delete; {held}")
    world.client.merge_patch(deployed.path_of("a"), {"metadata": {"finalizers": None}})
    world.wait(
        lambda: "example.com/theirs" in deployed.conditions()["Ready"]["message"],
        "the finalizer in the Namespace is named",
        seconds=BLOCKED_SECONDS,
    )
    path = f"/api/v1/namespaces/{brought}/configmaps/theirs"
    world.client.merge_patch(path, {"metadata": {"finalizers": None}})
    world.wait(lambda: not exists(world.client, deployed.path), "gone", seconds=NAMESPACE_SECONDS)


def owner_reference(deployed: Deployed) -> Manifest:
    """Return a reference that lets a Namespace go although an object is left in it."""
    about = deployed.read()
    names_of = {"apiVersion": about["apiVersion"], "kind": about["kind"], "name": deployed.name}
    return {**names_of, "uid": about["metadata"]["uid"]}


# What is kept


def test_what_others_use_is_kept_and_released_and_so_is_data_unless_it_is_annotated(world: World) -> None:
    group = f"{new_name()}.example.com"
    empty, full, stored = new_name(), new_name(), new_name()
    deployed = world.deploy(
        *map(namespace, (empty, full, stored)),
        *(labelled(config_map("ours"), namespace=name) for name in (empty, full)),
        labelled(claim("data"), namespace=stored),
        claim("data"),
        labelled(claim("cache"), annotations={names.PRUNE: "true"}),
        definition(group, "Foo"),
        custom(group, "Foo", "ours"),
    )
    deployed.wait_for("Installed")
    theirs = f"/apis/{group}/v1/namespaces/{deployed.namespace}/foos"
    world.client.create(theirs, custom(group, "Foo", "theirs"))
    world.client.create(f"/api/v1/namespaces/{full}/configmaps", config_map("theirs"))
    deployed.delete()
    world.wait(lambda: not exists(world.client, deployed.path), "gone", seconds=NAMESPACE_SECONDS)

    kept = [f"{CRDS}/foos.{group}", *(f"/api/v1/namespaces/{name}" for name in (full, stored))]
    kept += [f"/api/v1/namespaces/{name}/persistentvolumeclaims/data" for name in (stored, deployed.namespace)]
    assert [path for path in kept if not released(world, deployed, path)] == []
    assert [value["metadata"]["name"] for value in world.client.list(theirs)] == ["theirs"]
    assert not exists(world.client, f"/api/v1/namespaces/{empty}")
    assert exists(world.client, f"/api/v1/namespaces/{full}/configmaps/theirs")
    assert not exists(world.client, f"/api/v1/namespaces/{full}/configmaps/ours")
    world.wait(lambda: deployed.get("cache", "persistentvolumeclaims") is None, "the other claim is gone")
    assert "Retained" in deployed.events()
    world.client.delete(f"{CRDS}/foos.{group}")


def test_under_orphan_everything_stays_and_says_whose_it_was(world: World) -> None:
    group = f"{new_name()}.example.com"
    bundle = [config_map("a"), service("web"), definition(group, "Foo"), custom(group, "Foo", "foo")]
    deployed = world.deploy(*bundle, deletionPolicy="Orphan")
    deployed.wait_ready()
    deployed.delete()
    deployed.wait_gone()
    paths = [deployed.path_of("a"), deployed.path_of("web", "services"), f"{CRDS}/foos.{group}"]
    paths.append(deployed.path_of("foo", "foos", f"/apis/{group}/v1"))
    assert all(released(world, deployed, path) for path in paths)
    assert deployed.revisions() == []
    world.client.delete(f"{CRDS}/foos.{group}")


@pytest.mark.parametrize(("propagation", "stays"), [("Foreground", False), ("Orphan", True)])
def test_a_deletion_that_asks_for(world: World, propagation: str, stays: bool) -> None:
    """What `kubectl delete --cascade` asks for; the others here ask for nothing, as it does by default."""
    deployed = world.deploy(config_map("a"), claim("data"))
    deployed.wait_for("Installed")
    world.client.delete(deployed.path, propagation=propagation)
    deployed.wait_gone()
    assert (deployed.get("a") is not None) is stays
    assert released(world, deployed, deployed.path_of("data", "persistentvolumeclaims"))
    assert deployed.revisions() == []


# Whatever it is doing


def pause(world: World) -> Deployed:
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    deployed.change(paused=True)
    deployed.wait_for("Paused")
    return deployed


def fail(world: World) -> Deployed:
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    deployed.change(sources=[image(f"{deployed.ref}-missing")])
    deployed.wait_for("Unpacked", "False")
    return deployed


def fetch(world: World) -> Deployed:
    """Fetch from where nobody answers: an address of documentation (RFC 5737)."""
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    deployed.change(sources=[image("192.0.2.1:5000/nothing:v1")])
    deployed.wait(lambda: deployed.conditions().get("Installed", {}).get("status") == "False", "fetching")
    return deployed


def apply_in_part(world: World) -> Deployed:
    deployed = world.deploy(config_map("a"), refused_config_map("bad"))
    deployed.wait_for("Installed", "False", "Refused")
    return deployed


def upgrade_in_part(world: World) -> Deployed:
    deployed = world.deploy(config_map("a"), config_map("old"))
    deployed.wait_ready()
    world.push(deployed.name, config_map("a", v="2"), refused_config_map("bad"))
    deployed.request_reconcile("upgrade")
    deployed.wait_for("Installed", "False", "Refused")
    return deployed


def never_begin(world: World) -> Deployed:
    deployed = world.deploy(ref=f"{world.registry.host}/{new_name()}:missing")
    deployed.wait_for("Unpacked", "False")
    return deployed


STATES: dict[str, Callable[[World], Deployed]] = {
    "paused": pause,
    "failing": fail,
    "fetching": fetch,
    "half applied": apply_in_part,
    "half upgraded": upgrade_in_part,
    "failing from the start": never_begin,
}


def test_deletion_in_any_state(world: World) -> None:
    deployed = {state: begin(world) for state, begin in STATES.items()}
    for each in deployed.values():
        each.delete()
    for state, each in deployed.items():
        each.wait_gone()
        world.wait(lambda: each.get("a") is None and each.get("old") is None, f"everything is gone: {state}")  # noqa: B023
        assert each.revisions() == [], state


def test_deletion_after_a_kind_is_gone(world: World) -> None:
    group = f"{new_name()}.example.com"
    world.client.create(CRDS, definition(group, "Foo"))
    deployed = world.deploy(config_map("a"), custom(group, "Foo", "foo"))
    deployed.wait_ready()
    world.client.delete(f"{CRDS}/foos.{group}")
    world.wait(lambda: not exists(world.client, f"{CRDS}/foos.{group}"), "the kind is gone")
    deployed.delete()
    deployed.wait_gone()
    assert deployed.get("a") is None


def test_deletion_repairs_nothing_goes_on_after_a_kill_and_deletes_nothing_by_marks_alone(world: World) -> None:
    deployed = world.deploy(labelled(config_map("a"), finalizers=["example.com/held"]), claim("data"), config_map("b"))
    lost = world.deploy(config_map("a"), labelled(claim("data"), annotations={names.PRUNE: "true"}))
    for each in (deployed, lost):
        each.wait_for("Installed")
    deployed.delete()
    world.wait(lambda: deployed.get("b") is None, "begun")
    deployed.edit("a", color="red")
    world.wait_until_looked_at()
    assert deployed.data("a") == {"color": "red"}

    world.controller.kill()
    for secret in lost.revisions():
        world.client.delete(f"{STORE}/{secret['metadata']['name']}")
    lost.delete()
    world.controller.start()

    remove(world.client, deployed.path_of("a"))
    deployed.wait_gone()
    assert released(world, deployed, deployed.path_of("data", "persistentvolumeclaims"))
    assert deployed.revisions() == []

    lost.wait_gone()
    world.wait(lambda: lost.get("a") is None, "the garbage collector has it")
    found = lost.get("data", "persistentvolumeclaims")
    assert found
    assert "deletionTimestamp" not in found["metadata"]
    told = world.wait(lambda: lost.events().get("RevisionLost"), "an Event")
    assert f"PersistentVolumeClaim {lost.namespace}/data: not deleted" in told
