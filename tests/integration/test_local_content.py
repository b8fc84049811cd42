"""Sources of kind configMap: content in the cluster, read as the account, and `rukpak push`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rukpak.api import names
from tests.support.bundles import WRITES, Deployed, Manifest, World, config_map
from tests.support.controller import command
from tests.support.tenants import ACCOUNT, CONFIG_MAPS, grant, tenant

pytestmark = pytest.mark.own_cluster

WATCHES = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
LOCAL: Manifest = {"kind": "configMap", "configMap": {"name": "content"}}


def manifest_of(name: str, **data: str) -> str:
    return json.dumps(config_map(name, **data))


def put(world: World, namespace: str, name: str = "content", **files: str) -> None:
    found = {**config_map(name), "data": {key.replace("_", "."): text for key, text in files.items()}}
    world.client.apply(f"/api/v1/namespaces/{namespace}/configmaps/{name}", found, manager="tests", force=True)


def deploy(world: World, name: str, source: Manifest = LOCAL, **spec: object) -> Deployed:
    return world.deploy(name=name, ref="unused", serviceAccountName=ACCOUNT, sources=[source], **spec)


def test_a_change_of_local_content_is_installed_at_once(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, WATCHES)
    put(world, name, a_yaml=manifest_of("a", color="blue"), b_yaml=manifest_of("b"))
    deployed = deploy(world, name)
    before = deployed.wait_ready()
    assert before["sources"][0]["resolved"] == f"content@{before['sources'][0]['digest']}"

    put(world, name, a_yaml=manifest_of("a", color="red"))
    after = deployed.wait_installed(before["installedRevision"])
    assert deployed.data("a") == {"color": "red"}
    assert after["sources"][0]["digest"] != before["sources"][0]["digest"]

    since = world.position()
    world.restart()
    world.wait_until_looked_at()
    assert [each for each in world.requests_about(name, since) if each.partition(" ")[0] in WRITES] == []
    put(world, name, a_yaml=manifest_of("a", color="green"))
    deployed.wait_installed(after["installedRevision"])
    assert deployed.data("a") == {"color": "green"}


def test_what_is_missing_is_waited_for_and_if_it_is_lost_what_is_installed_stays(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, WATCHES)
    deployed = deploy(world, name)
    deployed.wait_for("Unpacked", "False", "NotFound", saying=f'"{name}/content" does not exist')
    put(world, name, a_yaml=manifest_of("a"))
    deployed.wait_ready()

    world.client.delete(f"/api/v1/namespaces/{name}/configmaps/content")
    deployed.wait_for("Unpacked", "False", "NotFound")
    assert deployed.conditions()["Ready"]["status"] == "True"
    deployed.remove("a")
    world.wait(lambda: deployed.get("a"), "the repair")

    put(world, name, a_yaml=manifest_of("a", color="red"))
    world.wait(lambda: deployed.data("a") == {"color": "red"}, "the new content")
    deployed.wait_for("Unpacked")


def test_it_is_read_as_the_account(world: World) -> None:
    name = tenant(world)
    put(world, name, a_yaml=manifest_of("a"))
    deployed = deploy(world, name)
    deployed.wait_for("Unpacked", "False", "SecretForbidden", saying=f'"system:serviceaccount:{name}:{ACCOUNT}"')
    grant(world, name, CONFIG_MAPS, WATCHES)
    deployed.wait_ready()


def make_bundle(folder: Path, color: str, noise: int = 0) -> Path:
    (folder / "manifests").mkdir(parents=True, exist_ok=True)
    (folder / "manifests/a.yaml").write_text(manifest_of("a", color=color))
    if noise:
        (folder / "noise").write_bytes(os.urandom(noise))
    return folder


def parts_of(world: World, name: str) -> dict[str, Manifest]:
    found = world.client.list(
        f"/api/v1/namespaces/{name}/configmaps", label_selector=f"{names.CONTENT_LABEL}={name}", metadata=True
    )
    return {each["metadata"]["name"]: each for each in found}


@pytest.mark.thorough
def test_a_folder_is_pushed_in_parts_and_pushed_again(world: World, tmp_path: Path) -> None:
    name = tenant(world, CONFIG_MAPS, WATCHES)
    put(world, name, a_yaml=manifest_of("a", color="first"))
    deployed = deploy(world, name)
    deployed.wait_ready()
    rukpak = command(world.cluster.kubeconfig)

    folder = make_bundle(tmp_path / "bundle", "blue", noise=2_000_000)
    rukpak("push", str(folder), name, "--wait")
    assert deployed.data("a") == {"color": "blue"}
    first = parts_of(world, name)
    assert len(first) == 3
    assert set(deployed.read()["spec"]["sources"][0]["configMap"]["names"]) == first.keys()

    generation = deployed.read()["metadata"]["generation"]
    rukpak("push", str(folder), name, "--wait")  # nothing has changed
    assert deployed.read()["metadata"]["generation"] == generation
    assert parts_of(world, name).keys() == first.keys()

    rukpak("push", str(make_bundle(tmp_path / "other", "red")), name, "--wait")
    assert deployed.data("a") == {"color": "red"}
    [part] = parts_of(world, name).values()
    assert part["metadata"]["ownerReferences"][0]["uid"] == deployed.read()["metadata"]["uid"]

    refused = rukpak("push", str(folder), "missing", status=1)
    assert f'BundleDeployment "missing" not found; "rukpak install missing {folder}" creates it' in refused.stderr


def test_a_part_that_is_missing_is_content_that_is_rejected(world: World, tmp_path: Path) -> None:
    name = tenant(world, CONFIG_MAPS, WATCHES)
    put(world, name, a_yaml=manifest_of("a"))
    deployed = deploy(world, name)
    deployed.wait_ready()
    rukpak = command(world.cluster.kubeconfig)
    rukpak("push", str(make_bundle(tmp_path / "bundle", "blue", noise=1_000_000)), name, "--wait")

    first = min(parts_of(world, name))
    deployed.change(sources=[{"kind": "configMap", "configMap": {"name": first}}])
    deployed.wait_for("Unpacked", "False", "ContentRejected", saying="1 of 2 parts are named, missing: 2")
    assert deployed.data("a") == {"color": "blue"}
