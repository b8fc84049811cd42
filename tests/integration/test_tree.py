"""`rukpak tree`: objects, what workloads own, health and drift, on a real control plane."""

from __future__ import annotations

import json

import pytest

from rukpak.api import names
from tests.support.bundles import World, config_map, image, new_name
from tests.support.controller import Rukpak, command
from tests.support.objects import deployment, make


@pytest.fixture
def rukpak(world: World) -> Rukpak:
    return command(world.cluster.kubeconfig)


def test_pods_are_shown_below_their_workload(world: World, rukpak: Rukpak) -> None:
    deployed = world.deploy(config_map("a"), deployment("web", replicas=1))
    deployed.wait_for("Installed")

    def find() -> dict[str, object] | None:
        root = json.loads(rukpak("tree", deployed.name, "-o", "json").stdout)
        owned = [child for each in root["children"] if each["name"] == "web" for child in each["children"]]
        return root if owned and owned[0]["children"] else None

    root = world.wait(find, "a Pod in the tree")
    assert (root["kind"], root["name"]) == ("BundleDeployment", deployed.name)
    lines = rukpak("tree", deployed.name).stdout.splitlines()
    names = [line.split()[0:2] for line in lines[1:]]
    assert names[0] == ["BundleDeployment", deployed.name]
    assert any(f"─ ConfigMap {deployed.namespace}/a   " in line for line in lines)
    web = next(index for index, line in enumerate(lines) if f"─ Deployment {deployed.namespace}/web" in line)
    assert f"└─ ReplicaSet {deployed.namespace}/web-" in lines[web + 1]
    assert f"   └─ Pod {deployed.namespace}/web-" in lines[web + 2]


def test_the_objects_of_a_bundle_deployment_in_a_bundle_are_shown_below_it(world: World, rukpak: Rukpak) -> None:
    name = new_name()
    spec = {
        "format": "plain",
        "sources": [image(world.push(name, config_map("inner")))],
        "installNamespace": name,
        "deletionPolicy": "Delete",
    }
    parent = world.deploy(make(f"{names.GROUP}/v1alpha2", names.KIND, name, spec=spec))
    parent.wait_ready()
    lines = rukpak("tree", parent.name).stdout.splitlines()
    assert [line.partition("   ")[0] for line in lines[1:3]] == [
        f"BundleDeployment {parent.name}",
        f"└─ BundleDeployment {name}",
    ]
    assert lines[3].split() == ["└─", "ConfigMap", f"{name}/inner", "Healthy"]


@pytest.mark.thorough
def test_drift_is_named_with_the_field_and_who_has_it(world: World, rukpak: Rukpak) -> None:
    deployed = world.deploy(config_map("a", color="blue"), config_map("b"))
    deployed.wait_ready()
    rukpak("pause", deployed.name, "--wait")
    deployed.edit("a", color="red")
    deployed.wait_for("Drifted")
    drift = {
        each["name"]: each["drift"]
        for each in json.loads(rukpak("tree", deployed.name, "-o", "json").stdout)["children"]
    }
    assert drift["a"].startswith("data.color, owned by ")
    assert drift["b"] == ""

    # Who may not read the revision store sees the condition.
    viewer = new_name()
    role = ["--verb=get,list", "--resource=bundledeployments.core.rukpak.io,configmaps"]
    world.cluster.kubectl("create", "clusterrole", viewer, *role)
    world.cluster.kubectl("create", "clusterrolebinding", viewer, f"--clusterrole={viewer}", f"--user={viewer}")
    root = json.loads(rukpak("tree", deployed.name, "-o", "json", f"--as={viewer}").stdout)
    assert [each["drift"] for each in root["children"]] == ["", ""]
    assert root["drift"] == "1 drifted"
    assert f"ConfigMap {deployed.namespace}/a" in root["message"]


def test_one_that_does_not_exist_is_said(rukpak: Rukpak) -> None:
    done = rukpak("tree", "missing", status=1)
    assert done.stderr == 'rukpak tree: BundleDeployment "missing" not found\n'
