"""Rule 5: ownership lives on the objects: who carries which mark, and what is done with what lacks one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rukpak.api import names
from tests.support.bundles import DEPLOYMENTS, Deployed, Manifest, World, config_map, definition, exists, new_name
from tests.support.inside import Client
from tests.support.objects import claim, is_owned, is_released, labelled, make, namespace, read, secret, service

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COLLECTOR_SECONDS = 90.0
"""The garbage collector needs up to a minute for a kind that it has just learnt."""


def references(value: Manifest | None) -> list[Manifest]:
    assert value is not None
    found: list[Manifest] = value["metadata"].get("ownerReferences") or []
    return found


def force_gone(world: World, deployed: Deployed, **options: Any) -> None:
    """Delete a BundleDeployment by the API, and take its finalizer off by hand, while no controller looks."""
    world.controller.kill()
    world.client.delete(deployed.path, **options)
    world.client.merge_patch(deployed.path, {"metadata": {"finalizers": None}})


# Who carries a reference


def test_what_the_garbage_collector_must_not_take_carries_no_owner_reference(world: World) -> None:
    group, brought = f"{new_name()}.example.com", new_name()
    kept = labelled(config_map("kept"), annotations={"helm.sh/resource-policy": "keep"})
    marked = labelled(config_map("marked"), annotations={names.PRUNE: "false"})
    foo = definition(group, "Foo")
    deployed = world.deploy(config_map("plain"), kept, marked, claim("data"), foo, namespace(brought))
    deployed.wait_for("Installed")

    [reference] = references(deployed.get("plain"))
    assert reference["controller"] is True
    assert "blockOwnerDeletion" not in reference
    assert reference["uid"] == deployed.read()["metadata"]["uid"]
    assert references(deployed.get("kept")) == references(deployed.get("marked")) == []
    assert references(deployed.get("data", "persistentvolumeclaims")) == []
    assert references(read(world.client, f"{CRDS}/foos.{group}")) == []
    assert references(read(world.client, f"/api/v1/namespaces/{brought}")) == []
    assert references(read(world.client, f"/api/v1/namespaces/{deployed.namespace}")) == []


def test_under_orphan_nothing_carries_an_owner_reference(world: World) -> None:
    deployed = world.deploy(config_map("a"), deletionPolicy="Orphan")
    deployed.wait_ready()
    assert references(deployed.get("a")) == []
    deployed.change(deletionPolicy="Delete")
    deployed.wait(lambda: references(deployed.get("a")), "the reference")
    deployed.wait_ready()


# The four cases of a forced deletion


def test_a_foreground_deletion_costs_no_data(world: World) -> None:
    deployed = world.deploy(config_map("a"), claim("data"))
    deployed.wait_for("Installed")
    world.client.delete(deployed.path, propagation="Foreground")
    world.wait(lambda: not exists(world.client, deployed.path), "gone", seconds=COLLECTOR_SECONDS)
    assert deployed.get("a") is None
    found = deployed.get("data", "persistentvolumeclaims")
    assert found
    assert "deletionTimestamp" not in found["metadata"]
    assert is_released(found, deployed.name)


def test_an_orphaning_deletion_leaves_everything_and_says_whose_it_was(world: World) -> None:
    deployed = world.deploy(config_map("a"), claim("data"))
    deployed.wait_for("Installed")
    world.client.delete(deployed.path, propagation="Orphan")
    deployed.wait_gone()
    for found in (deployed.get("a"), deployed.get("data", "persistentvolumeclaims")):
        assert found
        assert is_released(found, deployed.name)


def test_with_the_finalizer_taken_off_by_hand_data_stays_and_the_next_one_of_that_name_has_it(world: World) -> None:
    group = f"{new_name()}.example.com"
    bundle = [config_map("a"), claim("data"), definition(group, "Foo")]
    deployed = world.deploy(*bundle)
    deployed.wait_for("Installed")
    claimed = deployed.get("data", "persistentvolumeclaims")
    defined = read(world.client, f"{CRDS}/foos.{group}")
    force_gone(world, deployed)
    world.cluster.kubectl("wait", "--for=delete", f"--namespace={deployed.namespace}", "configmap/a", "--timeout=60s")

    world.controller.start()
    again = world.deploy(*bundle, name=deployed.name)
    again.wait_for("Installed")

    for before, path in (
        (claimed, again.path_of("data", "persistentvolumeclaims")),
        (defined, f"{CRDS}/foos.{group}"),
    ):
        after = read(world.client, path)
        assert before
        assert after
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"]["annotations"][names.OWNER_UID] == again.read()["metadata"]["uid"]


def test_objects_restored_with_the_marks_of_the_old_one_are_taken_back(world: World) -> None:
    """Backup tools strip owner references; what is left are our label, and a UID that nobody has any more."""
    deployed = world.deploy(config_map("a", color="blue"), config_map("b"))
    deployed.wait_ready()
    force_gone(world, deployed, propagation="Orphan")
    world.cluster.kubectl("wait", "--for=delete", f"bd/{deployed.name}", "--timeout=20s")
    before = deployed.get("a")
    assert before
    assert is_owned(before, deployed.name)

    world.controller.start()
    again = world.deploy(config_map("a", color="red"), config_map("b"), name=deployed.name)
    again.wait_ready()

    after = again.get("a")
    assert after
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["data"] == {"color": "red"}
    assert [reference["uid"] for reference in references(after)] == [again.read()["metadata"]["uid"]]


# Two that want one object


def two(world: World, **spec: Any) -> tuple[Deployed, Deployed]:
    """Deploy two bundles that bring one ConfigMap into one namespace; the first has it."""
    shared = new_name()
    first = world.deploy(config_map("shared", of="first"), name=shared)
    first.wait_ready()
    second = world.deploy(config_map("shared", of="second"), config_map("own"), installNamespace=shared, **spec)
    return first, second


def test_of_two_that_want_one_object_the_first_has_it_and_the_second_says_so(world: World) -> None:
    first, second = two(world)
    message = second.wait_for("Installed", "False", "Collision")["message"]
    assert (
        f'ConfigMap {first.namespace}/shared: already exists and belongs to BundleDeployment "{first.name}"' in message
    )
    assert first.data("shared") == {"of": "first"}
    assert first.get("own") is not None
    assert first.wait_ready()["objects"]["total"] == 1

    first.delete()

    second.wait_ready()
    assert first.data("shared") == {"of": "second"}


@pytest.mark.parametrize(
    ("protection", "status", "data"),
    [("Prevent", "False", {"of": "first"}), ("IfNoController", "True", {"of": "second"})],
)
def test_what_the_first_released_is_dealt_with_as_collision_protection_says(
    world: World, protection: str, status: str, data: Manifest
) -> None:
    first, second = two(world, collisionProtection=protection)
    second.wait_for("Installed", "False", "Collision")
    first.change(deletionPolicy="Orphan")
    first.wait_ready()
    first.delete()
    first.wait_gone()
    second.wait_for(
        "Installed", status, saying="" if status == "True" else "already exists; set spec.collisionProtection"
    )
    assert first.data("shared") == data


def test_two_may_share_a_namespace_that_one_of_them_brings(world: World) -> None:
    shared = new_name()
    first = world.deploy(namespace(shared), config_map("a"), name=shared)
    first.wait_ready()
    second = world.deploy(namespace(shared), config_map("b"), installNamespace=shared)
    assert second.wait_ready()["objects"]["total"] == 1
    second.delete()
    second.wait_gone()
    assert first.get("a")
    first.delete()
    first.wait_gone()
    world.wait(lambda: not exists(world.client, f"/api/v1/namespaces/{shared}"), "the namespace gone")


@pytest.mark.parametrize("where", ["the install namespace", "another namespace"])
def test_a_namespace_that_was_there_before_is_made_anew_once_it_is_deleted(world: World, where: str) -> None:
    name = new_name()
    world.client.create("/api/v1/namespaces", namespace(name))
    inside = make("v1", "ConfigMap", "a") | {"metadata": {"name": "a", "namespace": name}}
    deployed = world.deploy(namespace(name), inside, **({"name": name} if where == "the install namespace" else {}))
    assert deployed.wait_ready()["objects"]["total"] == 1
    world.client.delete(f"/api/v1/namespaces/{name}")
    world.wait(
        lambda: deployed.status()["objects"]["total"] == 2, "the Namespace made anew"
    )  # Ready may not be seen False
    deployed.wait_ready()
    assert is_owned(world.client.get(f"/api/v1/namespaces/{name}").value, deployed.name)


def test_labels_that_a_namespace_of_somebody_else_lacks_are_told_and_not_set(world: World) -> None:
    name = new_name()
    world.client.create("/api/v1/namespaces", labelled(namespace(name), labels={"team": "a"}))
    wanted = labelled(namespace(name), labels={"team": "b", "tier": "web"})
    deployed = world.deploy(wanted, config_map("a"), name=name)
    [warning] = deployed.wait_ready()["warnings"]
    lacks = 'not managed by this bundle, and lacks the labels "team=b", "tier=web"'
    assert warning.startswith(f"Namespace {name}: {lacks}")
    assert world.client.get(f"/api/v1/namespaces/{name}").value["metadata"]["labels"]["team"] == "a"


def test_labels_that_a_namespace_lacks_are_told_also_if_nothing_is_applied(world: World) -> None:
    name = new_name()
    world.client.create("/api/v1/namespaces", namespace(name))
    strict = {"pod-security.kubernetes.io/enforce": "restricted"}
    deployed = world.deploy(labelled(namespace(name), labels=strict))
    [warning] = deployed.wait_ready()["warnings"]
    assert 'lacks the labels "pod-security.kubernetes.io/enforce=restricted"' in warning
    world.wait_until_looked_at()
    assert deployed.status()["warnings"] == [warning]
    world.client.delete(f"/api/v1/namespaces/{name}")


# Objects of another owner


def controlled_by(client: Client, name: str) -> list[Manifest]:
    """Make a ConfigMap outside, and return a controller reference to it."""
    owner = client.create(f"/api/v1/namespaces/{name}/configmaps", config_map("controller")).value["metadata"]
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": "controller", "uid": owner["uid"], "controller": True}]


FOREIGN: dict[str, tuple[Callable[[Client, str], Manifest], str]] = {
    "a Helm release": (
        lambda *_: {"annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "x"}},
        'Helm release "web"',
    ),
    "a Flux Kustomization": (
        lambda *_: {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}},
        'Flux Kustomization "apps"',
    ),
    "another controller": (
        lambda client, name: {"ownerReferences": controlled_by(client, name)},
        'ConfigMap "controller"',
    ),
}


@pytest.mark.parametrize("about", FOREIGN.values(), ids=FOREIGN)
def test_an_object_is_refused_and_its_owner_named_unless_the_user_opted_in(
    world: World, about: tuple[Callable[[Client, str], Manifest], str]
) -> None:
    metadata, owner = about
    name = new_name()
    world.client.create("/api/v1/namespaces", namespace(name))
    foreign = labelled(config_map("a", color="theirs"), **metadata(world.client, name))
    world.client.create(f"/api/v1/namespaces/{name}/configmaps", foreign, manager="helm")
    deployed = world.deploy(config_map("a", color="ours"), name=name, collisionProtection="IfNoController")
    message = deployed.wait_for("Installed", "False", "Collision")["message"]
    assert f"belongs to {owner}" in message
    assert deployed.data("a") == {"color": "theirs"}

    deployed.change(collisionProtection="None")

    deployed.wait_ready()
    found = deployed.get("a")
    assert found
    assert found["data"] == {"color": "ours"}
    assert [reference["kind"] for reference in references(found)] == [names.KIND]


def test_an_object_that_nobody_of_us_has_is_taken_as_soon_as_it_is_gone(world: World) -> None:
    """It carries no label of ours, so that no watch of managed objects says anything about it."""
    name = new_name()
    world.client.create("/api/v1/namespaces", namespace(name))
    world.client.create(f"/api/v1/namespaces/{name}/configmaps", config_map("a", color="theirs"))
    deployed = world.deploy(config_map("a", color="ours"), name=name)
    deployed.wait_for("Installed", "False", "Collision")

    deployed.edit("a", color="still theirs")
    world.wait_until_looked_at()
    assert deployed.conditions()["Installed"]["reason"] == "Collision"
    deployed.remove("a")

    deployed.wait_ready()
    assert deployed.data("a") == {"color": "ours"}


def test_what_kubectl_applied_is_adopted_so_that_fields_dropped_later_go(world: World) -> None:
    name = new_name()
    world.client.create("/api/v1/namespaces", namespace(name))
    world.cluster.kubectl(
        "apply",
        f"--namespace={name}",
        "-f",
        "-",
        input='{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"one":"1","two":"2"}}',
    )
    deployed = world.deploy(config_map("a", one="1", two="2"), name=name)
    deployed.wait_for("Installed", "False", "Collision", saying="already exists; set spec.collisionProtection")
    deployed.change(collisionProtection="IfNoController")
    first = deployed.wait_ready()
    found = deployed.get("a")
    assert found
    assert {entry["manager"] for entry in found["metadata"]["managedFields"]} == {names.field_manager(name)}
    assert "kubectl.kubernetes.io/last-applied-configuration" not in found["metadata"]["annotations"]

    world.push(name, config_map("a", one="1"))
    deployed.request_reconcile("again")

    deployed.wait_installed(first["installedRevision"])
    assert deployed.data("a") == {"one": "1"}


# Marks


def test_copies_of_our_label_are_neither_pruned_nor_counted(world: World) -> None:
    deployed = world.deploy(config_map("a"), config_map("old"))
    first = deployed.wait_ready()
    original = deployed.get("old")
    assert original
    annotations = {key: value for key, value in original["metadata"]["annotations"].items() if key != names.OWNER_UID}
    copy = labelled(config_map("copy"), labels=original["metadata"]["labels"], annotations=annotations)
    uid = deployed.read()["metadata"]["uid"]
    all_but_reference = labelled(
        config_map("child"), labels=original["metadata"]["labels"], annotations={names.OWNER_UID: uid}
    )
    for manifest in (copy, all_but_reference):
        world.client.create(f"/api/v1/namespaces/{deployed.namespace}/configmaps", manifest)
    world.push(deployed.name, config_map("a", color="red"))
    deployed.request_reconcile("upgrade")

    assert deployed.wait_installed(first["installedRevision"])["objects"]["total"] == 1
    deployed.wait(lambda: deployed.get("old") is None, "pruned")
    assert deployed.get("copy")
    assert deployed.get("child")


MARKS: dict[str, Manifest] = {
    "label": {"labels": {names.OWNER_LABEL: None}},
    "owner-uid annotation": {"annotations": {names.OWNER_UID: None}},
    "applied-digest annotation": {"annotations": {names.APPLIED_DIGEST: None}},
    "owner reference": {"ownerReferences": None},
    "label and annotations": {
        "labels": {names.OWNER_LABEL: None},
        "annotations": {names.OWNER_UID: None, names.APPLIED_DIGEST: None},
    },
    "label of another name": {"labels": {names.OWNER_LABEL: "nobody"}},
}


@pytest.mark.parametrize("lost", MARKS.values(), ids=MARKS)
def test_an_object_that_lost_a_mark_is_taken_back(world: World, lost: Manifest) -> None:
    deployed = world.deploy(config_map("a"), service("web"), secret("s", key="value"))
    deployed.wait_ready()
    before = deployed.get("a")
    assert before
    world.client.merge_patch(deployed.path_of("a"), {"metadata": lost}, manager="somebody")

    def is_back() -> bool:
        found = deployed.get("a")
        return bool(found and is_owned(found, deployed.name) and references(found) == references(before))

    deployed.wait(is_back, "taken back")
    assert deployed.wait_ready()["objects"]["total"] == 3


def test_a_released_object_is_taken_back_under_every_collision_protection(world: World) -> None:
    deployed = world.deploy(config_map("a"), claim("data"))
    first = deployed.wait_for("Installed") and deployed.status()
    world.push(deployed.name, config_map("a"))
    deployed.request_reconcile("without")
    deployed.wait_installed(first["installedRevision"])
    path = deployed.path_of("data", "persistentvolumeclaims")
    deployed.wait(lambda: (found := read(world.client, path)) and is_released(found, deployed.name), "released")

    world.push(deployed.name, config_map("a"), claim("data"))
    deployed.request_reconcile("with")

    def is_back() -> bool:
        now = deployed.get("data", "persistentvolumeclaims")
        return bool(now and is_owned(now, deployed.name) and names.RELEASED_FROM not in now["metadata"]["annotations"])

    deployed.wait(is_back, "taken back")
    assert exists(world.client, f"{DEPLOYMENTS}/{deployed.name}")
