"""What is left over is found: objects with the marks of a BundleDeployment that none of its revisions names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, World, config_map, image, new_name
from tests.support.controller import Rukpak, command
from tests.support.objects import claim, read, secret
from tests.support.tampering import delete_revisions

pytestmark = pytest.mark.long


@pytest.fixture
def rukpak(world: World) -> Rukpak:
    return command(world.cluster.kubeconfig)


def make_ours(world: World, deployed: Deployed, plural: str, manifest: Manifest, *, reference: bool = True) -> str:
    """Apply an object as a controller does that is behind; return its path."""
    uid = deployed.read()["metadata"]["uid"]
    owner = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "name": deployed.name, "uid": uid}
    metadata: dict[str, Any] = {
        "name": manifest["metadata"]["name"],
        "namespace": deployed.namespace,
        "labels": {names.OWNER_LABEL: deployed.name},
        "annotations": {names.OWNER_UID: uid},
        **({"ownerReferences": [{**owner, "controller": True}]} if reference else {}),
    }
    path = f"/api/v1/namespaces/{deployed.namespace}/{plural}/{metadata['name']}"
    body = {**manifest, "metadata": metadata}
    world.client.apply(path, body, manager=names.field_manager(deployed.name), force=True)
    return path


def upgrade(world: World, deployed: Deployed, *objects: Manifest, tag: str = "v2") -> None:
    deployed.change(sources=[image(world.push(deployed.name, *objects, tag=tag))])
    deployed.wait_ready()


def strays(deployed: Deployed) -> list[str]:
    return [each["name"] for each in deployed.status().get("strays", [])]


def drifted(deployed: Deployed) -> Mapping[str, Any]:
    found: Mapping[str, Any] = deployed.conditions().get("Drifted", {})
    return found


def test_what_an_earlier_revision_named_is_pruned_and_anything_else_is_shown(world: World) -> None:
    deployed = world.deploy(config_map("a"), config_map("old"))
    deployed.wait_ready()
    upgrade(world, deployed, config_map("a"))
    old = make_ours(world, deployed, "configmaps", config_map("old"))
    other = make_ours(world, deployed, "configmaps", config_map("other"))

    world.wait(lambda: not read(world.client, old), "pruned")
    world.wait(lambda: strays(deployed) == ["other"], "named")

    assert read(world.client, other)
    assert deployed.status()["objects"]["strays"] == 1
    assert drifted(deployed)["reason"] == "Strays"
    assert f"ConfigMap {deployed.namespace}/other" in drifted(deployed)["message"]
    assert deployed.conditions()["Ready"]["status"] == "True"

    world.client.delete(other)
    world.wait(lambda: "Drifted" not in deployed.conditions(), "nothing left over")
    assert (strays(deployed), deployed.status()["objects"]["strays"]) == ([], 0)


def test_after_a_restart_the_names_of_earlier_revisions_are_known(world: World) -> None:
    deployed = world.deploy(config_map("a"), config_map("old"), revisionHistoryLimit=0)
    deployed.wait_ready()
    upgrade(world, deployed, config_map("a"))
    world.controller.stop()
    old = make_ours(world, deployed, "configmaps", config_map("old"))
    world.controller.start()
    world.wait(lambda: not read(world.client, old), "pruned")
    world.wait_until_looked_at()
    assert set(deployed.conditions()) == {"Unpacked", "Installed", "Healthy", "Ready"}


def test_prune_shows_and_asks_and_deletes(world: World, rukpak: Rukpak) -> None:
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    paths = [make_ours(world, deployed, "configmaps", config_map(name)) for name in ("b", "c")]
    unwatched = make_ours(world, deployed, "secrets", secret("s", key="value"))  # of a kind that the bundle lacks
    data = make_ours(world, deployed, "persistentvolumeclaims", claim("data"), reference=False)
    world.wait(lambda: set(strays(deployed)) >= {"b", "c"}, "named")
    prefix, every = f"ConfigMap {deployed.namespace}/", [*paths, unwatched, data]

    assert f"  {prefix}b\n" in rukpak("status", deployed.name).stdout
    tree = {each["name"]: each for each in json.loads(rukpak("tree", deployed.name, "-o", "json").stdout)["children"]}
    assert {name: each["drift"] for name, each in tree.items() if name in "abc"} == {
        "a": "",
        "b": "part of no revision",
        "c": "part of no revision",
    }

    tried = rukpak("prune", deployed.name, "--dry-run", status=1)
    assert sorted(tried.stdout.splitlines()) == [
        *(f"{prefix}{name} deleted (dry run)" for name in ("b", "c")),
        f"Secret {deployed.namespace}/s deleted (dry run)",
    ]
    assert f"PersistentVolumeClaim {deployed.namespace}/data: not deleted: " in tried.stderr
    asked = rukpak("prune", deployed.name, status=2)
    assert "pass --yes" in asked.stderr
    assert all(read(world.client, path) for path in every)

    done = rukpak("prune", deployed.name, "--yes", status=1)  # the claim remains
    assert sorted(done.stdout.splitlines()) == [
        line.removesuffix(" (dry run)") for line in sorted(tried.stdout.splitlines())
    ]
    assert [bool(read(world.client, path)) for path in every] == [False, False, False, True]
    assert read(world.client, deployed.path_of("a"))
    world.client.delete(data)
    world.wait(lambda: strays(deployed) == [], "nothing left over")
    assert rukpak("prune", deployed.name, "--yes").stderr == f"{deployed.name}: no strays\n"


def test_prune_deletes_with_the_rights_of_the_user(world: World, rukpak: Rukpak) -> None:
    """One that may not read the revision store, list ConfigMaps in all namespaces, or delete Secrets."""
    deployed = world.deploy(config_map("a"), secret("kept", key="value"))
    deployed.wait_ready()
    allowed = make_ours(world, deployed, "configmaps", config_map("b"))
    denied = make_ours(world, deployed, "secrets", secret("s", key="value"))
    world.wait(lambda: len(strays(deployed)) == 2, "named")
    user, kubectl = new_name(), world.cluster.kubectl
    kubectl("create", "clusterrole", user, "--verb=get,list", f"--resource={names.PLURAL}.{names.GROUP}")
    kubectl("create", "clusterrolebinding", user, f"--clusterrole={user}", f"--user={user}")
    inside = f"--namespace={deployed.namespace}"
    kubectl("create", "role", user, "--verb=get,delete", "--resource=configmaps", inside)
    kubectl("create", "rolebinding", user, f"--role={user}", f"--user={user}", inside)

    done = rukpak("prune", deployed.name, "--yes", f"--as={user}", status=None)

    assert done.stdout == f"ConfigMap {deployed.namespace}/b deleted\n"
    assert "not searched, since you may not list them: " in done.stderr
    assert not read(world.client, allowed)
    assert read(world.client, denied)
    assert read(world.client, deployed.path_of("a"))


def test_prune_of_one_that_does_not_exist(rukpak: Rukpak) -> None:
    done = rukpak("prune", "missing", status=1)
    assert done.stderr == 'rukpak prune: BundleDeployment "missing" not found\n'


def test_prune_deletes_nothing_if_it_cannot_know_what_the_revisions_name(world: World, rukpak: Rukpak) -> None:
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    world.controller.stop()
    delete_revisions(deployed)
    done = rukpak("prune", deployed.name, "--yes", status=1)
    world.controller.start()
    assert done.stderr.startswith(f"rukpak prune: {deployed.name}: a stored revision is missing or damaged")
    assert read(world.client, deployed.path_of("a"))
