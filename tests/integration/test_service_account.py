"""`serviceAccountName`: what it may not do is not done, and nothing is done for it by the controller's own rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from api import names
from controller.kube.client import User
from hack.control_plane.cluster import ControlPlane
from hack.control_plane.settings import Settings
from tests.support.bundles import Deployed, Manifest, World, config_map, exists, new_name, new_world
from tests.support.registry import LocalRegistry

ACCOUNT = "tenant"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]}


@pytest.fixture(scope="module")
def world(cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    with new_world(cluster, registry, settings.running, "--workers=1") as made:
        yield made


# what an administrator does


def make(world: World, path: str, value: Manifest) -> None:
    world.client.apply(path, value, manager="tests", force=True)


def make_namespace(world: World, name: str) -> None:
    make(world, f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def make_account(world: World, namespace: str, name: str = ACCOUNT, **fields: Any) -> None:
    value = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}, **fields}
    make(world, f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}", value)


def grant(world: World, namespace: str, *rules: Manifest, account: str = ACCOUNT, name: str = "tenant") -> None:
    """Let an account do in its namespace what these rules say."""
    about = {"name": name, "namespace": namespace}
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": about, "rules": list(rules)}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": about,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    make(world, f"{RBAC}/namespaces/{namespace}/roles/{name}", role)
    make(world, f"{RBAC}/namespaces/{namespace}/rolebindings/{name}", binding)


def tenant(world: World, *rules: Manifest) -> str:
    """Make a namespace with an account in it that has these rights there; return its name."""
    name = new_name()
    make_namespace(world, name)
    make_account(world, name)
    if rules:
        grant(world, name, *rules)
    return name


def deploy(world: World, name: str, *manifests: Manifest, **spec: Any) -> Deployed:
    return world.deploy(*manifests, name=name, serviceAccountName=ACCOUNT, **spec)


def written_as(world: World, since: int, name: str) -> set[str]:
    """Return as whom the controller wrote what is in a namespace."""
    events = world._control_plane().audit_requests(since)
    return {
        (event.get("impersonatedUser") or {}).get("username", "itself")
        for event in events
        if event.get("userAgent", "").startswith("rukpak/")
        and event["verb"] in ("create", "update", "patch", "delete")
        and (event.get("objectRef") or {}).get("namespace") == name
    }


# installing


def test_everything_in_its_namespace_is_done_as_the_account(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    since = world.position()
    deployed = deploy(world, name, config_map("settings"), config_map("old"))
    deployed.wait_ready()
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")
    world.push(name, config_map("settings"), tag="v2")
    deployed.change(sources=[{"kind": "image", "image": {"ref": deployed.ref.replace(":v1", ":v2")}}])
    deployed.wait(lambda: not deployed.get("old"), "prune")
    deployed.delete()
    deployed.wait_gone()
    assert not deployed.objects()
    assert written_as(world, since, name) == {User.service_account(name, ACCOUNT).name}


def test_another_namespace_is_out_of_reach(world: World) -> None:
    name, other = tenant(world, EVERYTHING), tenant(world)
    stray = config_map("stray")
    stray["metadata"]["namespace"] = other
    deployed = deploy(world, name, config_map("settings"), stray)
    found = deployed.wait_for("Installed", "False", "Forbidden")
    assert f'"{User.service_account(name, ACCOUNT).name}"' in found["message"]
    assert deployed.data("settings")
    assert not exists(world.client, f"/api/v1/namespaces/{other}/configmaps/stray")


# the account, and where it is


def test_an_account_that_comes_later_is_noticed_at_once(world: World) -> None:
    name = new_name()
    deployed = deploy(world, name, config_map("settings"))
    deployed.wait_for("Ready", "False", "NamespaceNotFound", saying=f'namespace "{name}" does not exist')
    deployed.wait_for("Reconciling")
    make_namespace(world, name)
    deployed.wait_for("Ready", "False", "ServiceAccountNotFound", saying=f'ServiceAccount "{name}/{ACCOUNT}"')
    assert not deployed.objects()
    grant(world, name, CONFIG_MAPS)
    make_account(world, name)
    deployed.wait_ready()


def test_rights_of_a_name_are_of_no_use_without_the_account(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    deployed = deploy(world, name, config_map("settings"))
    deployed.wait_ready()
    world.client.delete(f"/api/v1/namespaces/{name}/serviceaccounts/{ACCOUNT}")
    deployed.edit("settings", color="red")
    deployed.wait_for("Installed", "False", "ServiceAccountNotFound")
    assert deployed.data("settings") == {"color": "red"}
    make_account(world, name)
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")
    deployed.wait_ready()


def test_another_account_counts_from_then_on_also_after_a_restart(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    make_account(world, name, "other")
    grant(world, name, CONFIG_MAPS, account="other", name="other")
    deployed = deploy(world, name, config_map("settings"))
    before = deployed.wait_ready()
    deployed.change(serviceAccountName="other")
    after = deployed.wait_ready()
    assert after["installedRevision"] == before["installedRevision"]
    world.restart()
    since = world.position()
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")
    assert written_as(world, since, name) == {User.service_account(name, "other").name}


# deletion


def test_without_its_account_a_bundle_goes_all_the_same(world: World) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "annotations": {names.PRUNE: "true"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    name = tenant(world, EVERYTHING)
    deployed = deploy(world, name, config_map("settings"), claim)
    deployed.wait_for("Installed")
    world.client.delete(f"/api/v1/namespaces/{name}/serviceaccounts/{ACCOUNT}")
    deployed.delete()
    deployed.wait_gone()
    deployed.wait(lambda: not deployed.get("settings"), "the garbage collector")
    deployed.wait(lambda: _is_going(deployed.get("data", "persistentvolumeclaims")), "the claim deleted")
    deployed.wait(lambda: "ServiceAccountNotFound" in deployed.events(), "an Event")
    assert not deployed.revisions()


def _is_going(found: Manifest | None) -> bool:
    return found is None or "deletionTimestamp" in found["metadata"]


def test_without_the_right_to_delete_a_bundle_goes_and_what_nobody_takes_is_released(world: World) -> None:
    applies = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "create", "patch"]}
    kept = config_map("kept")
    kept["metadata"]["annotations"] = {names.PRUNE: "false"}
    name = tenant(world, applies)
    deployed = deploy(world, name, config_map("settings"), kept)
    deployed.wait_ready()
    deployed.delete()
    deployed.wait_gone()
    deployed.wait(lambda: not deployed.get("settings"), "the garbage collector")
    assert "Forbidden" in deployed.events()
    released = deployed.get("kept")
    assert released
    assert released["metadata"]["annotations"] == {names.RELEASED_FROM: name, names.PRUNE: "false"}


def test_without_its_namespace_a_bundle_goes(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    deployed = deploy(world, name, config_map("settings"))
    deployed.wait_ready()
    world.client.delete(f"/api/v1/namespaces/{name}")
    deployed.delete()
    deployed.wait_gone()
