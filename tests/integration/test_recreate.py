"""`core.rukpak.io/recreate`: an immutable field is changed by deleting the object and creating it again."""

from __future__ import annotations

from typing import Any

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, World, config_map, new_name
from tests.support.objects import claim, deployment, labelled, make, service, template
from tests.support.tenants import CONFIG_MAPS, deploy, tenant

APPS = "/apis/apps/v1"
HELD = "example.com/held"


def recreatable(manifest: Manifest) -> Manifest:
    return labelled(manifest, annotations={names.RECREATE: "true"})


def fixed(color: str) -> Manifest:
    return recreatable({**config_map("fixed", color=color), "immutable": True})


def stateful_set(service_name: str) -> Manifest:
    selector = {"matchLabels": {"app": "db"}}
    spec = {"replicas": 1, "serviceName": service_name, "selector": selector, "template": template("db")}
    return recreatable(make("apps/v1", "StatefulSet", "db", spec=spec))


def upgrade(world: World, deployed: Deployed, *manifests: Manifest) -> None:
    """Push another bundle under the tag of a BundleDeployment, and ask for it."""
    world.push(deployed.name, *manifests)
    deployed.request_reconcile("upgrade")


def uid_of(found: Manifest | None) -> str:
    return str(found["metadata"]["uid"]) if found else ""


def pods(deployed: Deployed) -> list[tuple[str, Any]]:
    """Return UID and owner of each pod."""
    found = deployed.client.list(f"/api/v1/namespaces/{deployed.namespace}/pods")
    return [(uid_of(each), [owner["uid"] for owner in each["metadata"].get("ownerReferences", [])]) for each in found]


def hold(deployed: Deployed, finalizers: list[str] | None) -> None:
    """Put a finalizer on the object that is to be recreated, or take it off."""
    deployed.client.merge_patch(deployed.path_of("fixed"), {"metadata": {"finalizers": finalizers}}, manager="tests")


def is_deleting(deployed: Deployed) -> bool:
    return "deletionTimestamp" in (deployed.get("fixed") or {"metadata": {}})["metadata"]


def test_objects_are_recreated_and_events_say_so(world: World) -> None:
    port = recreatable(service("port"))
    headless = recreatable({**service("port"), "spec": {**service("port")["spec"], "clusterIP": "None"}})
    selector = {"matchLabels": {"app": "web", "tier": "front"}}
    web = recreatable(deployment("web"))
    labels = {"labels": selector["matchLabels"]}
    moved = {**web, "spec": {**web["spec"], "selector": selector, "template": {**template("web"), "metadata": labels}}}
    deployed = world.deploy(fixed("blue"), port, web)
    before = deployed.wait_ready()["installedRevision"]
    old = uid_of(deployed.get("fixed"))
    upgrade(world, deployed, fixed("red"), headless, moved)
    deployed.wait_installed(before)
    assert deployed.data("fixed") == {"color": "red"}
    assert uid_of(deployed.get("fixed")) not in ("", old)
    address, live = deployed.get("port", "services"), deployed.get("web", "deployments", APPS)
    assert address
    assert live
    assert (address["spec"]["clusterIP"], live["spec"]["selector"]) == ("None", selector)
    assert "deleted because an immutable field changed" in deployed.events()["Recreating"]


def test_a_stateful_set_is_recreated_and_its_pods_stay(world: World) -> None:
    deployed = world.deploy(stateful_set("a"))
    deployed.wait(lambda: pods(deployed), "a pod")
    (before,) = pods(deployed)
    old = uid_of(deployed.get("db", "statefulsets", APPS))
    upgrade(world, deployed, stateful_set("b"))
    new = deployed.wait(lambda: {uid_of(deployed.get("db", "statefulsets", APPS))} - {"", old}, "recreated")
    deployed.wait(lambda: pods(deployed) == [(before[0], list(new))], "the pod is adopted")


@pytest.mark.repeats
@pytest.mark.parametrize("drift", [{}, {"mode": "Report"}], ids=["Repair", "Report"])
def test_a_controller_that_is_killed_between_deletion_and_creation_creates_it(world: World, drift: Manifest) -> None:
    deployed = world.deploy(fixed("blue"), config_map("a"), drift=drift)
    before = deployed.wait_ready()["installedRevision"]
    hold(deployed, [HELD])
    upgrade(world, deployed, fixed("red"), config_map("a"))
    deployed.wait(lambda: is_deleting(deployed), "deleted")
    deployed.wait_for("Installed", "False", "Applying", saying="/fixed: being deleted")
    world.controller.kill()
    hold(deployed, None)
    assert deployed.get("fixed") is None
    world.controller.start()
    deployed.wait_installed(before)
    assert deployed.data("fixed") == {"color": "red"}
    assert "Drifted" not in deployed.conditions()


def test_while_paused_it_is_neither_deleted_nor_created(world: World) -> None:
    deployed = world.deploy(fixed("blue"))
    before = deployed.wait_ready()["installedRevision"]
    deployed.change(paused=True)
    deployed.wait_for("Paused")
    upgrade(world, deployed, fixed("red"))
    deployed.wait_for("Installed", "False", "PausedWithChanges")
    assert deployed.data("fixed") == {"color": "blue"}
    hold(deployed, [HELD])
    deployed.change(paused=False)
    deployed.wait(lambda: is_deleting(deployed), "deleted")
    deployed.change(paused=True)
    deployed.wait_for("Paused")
    hold(deployed, None)
    world.wait_until_looked_at()
    assert deployed.get("fixed") is None
    deployed.change(paused=False)
    deployed.wait_installed(before)


def test_data_is_never_deleted(world: World) -> None:
    deployed = world.deploy(recreatable(claim("data")))
    deployed.wait(lambda: deployed.get("data", "persistentvolumeclaims"), "the claim")
    deployed.wait_for("Installed")
    before = uid_of(deployed.get("data", "persistentvolumeclaims"))
    changed = recreatable(claim("data"))
    changed["spec"]["accessModes"] = ["ReadOnlyMany"]
    upgrade(world, deployed, changed)
    deployed.wait_for("Installed", "False", "Immutable", saying="; revert the change, or delete the object")
    live = deployed.get("data", "persistentvolumeclaims")
    assert live
    assert uid_of(live) == before
    assert "deletionTimestamp" not in live["metadata"]


def test_an_account_that_may_not_delete_is_named_and_nothing_is_deleted(world: World) -> None:
    name = tenant(world, {**CONFIG_MAPS, "verbs": ["get", "create", "patch"]})
    deployed = deploy(world, name, fixed("blue"))
    deployed.wait_for("Installed")
    upgrade(world, deployed, fixed("red"))
    message = deployed.wait_for("Installed", "False", "Forbidden")["message"]
    assert f"system:serviceaccount:{name}:tenant" in message
    assert "delete" in message
    assert deployed.data("fixed") == {"color": "blue"}


def sized(name: str, size: str, *, ignored: bool = False) -> list[Manifest]:
    """Return a claim, its volume and its class, so that it is bound."""
    field, modes = "spec.resources.requests.storage", ["ReadWriteOnce"]
    storage = {"provisioner": "example.com/none", "allowVolumeExpansion": True}
    source = {"hostPath": {"path": "/none"}, "persistentVolumeReclaimPolicy": "Retain"}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": modes, "storageClassName": name, **source}
    spec = {"accessModes": modes, "storageClassName": name, "volumeName": name}
    made = make("v1", "PersistentVolumeClaim", "data", spec={**spec, "resources": {"requests": {"storage": size}}})
    return [
        make("storage.k8s.io/v1", "StorageClass", name, **storage),
        make("v1", "PersistentVolume", name, spec=volume),
        labelled(made, annotations={names.IGNORE_FIELDS: field}) if ignored else made,
    ]


@pytest.mark.parametrize("way", ["raised", "left alone"])
def test_a_claim_that_somebody_has_grown_says_what_to_do_and_that_works(world: World, way: str) -> None:
    name = new_name()
    deployed = world.deploy(*sized(name, "1Gi"), config_map("a", color="blue"))
    deployed.wait_ready()
    path = deployed.path_of("data", "persistentvolumeclaims")
    deployed.client.merge_patch(path, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, manager="somebody")
    upgrade(world, deployed, *sized(name, "1Gi"), config_map("a", color="red"))
    says = "a claim cannot shrink: raise the size in the bundle, or leave it to others with the annotation "
    says += f"{names.IGNORE_FIELDS}: spec.resources.requests.storage"
    deployed.wait(lambda: deployed.data("a") == {"color": "red"}, "all other objects are upgraded")
    deployed.wait_for("Installed", "False", "Refused", saying=says)
    mended = sized(name, "2Gi") if way == "raised" else sized(name, "1Gi", ignored=True)
    world.push(deployed.name, *mended, config_map("a", color="red"))
    deployed.request_reconcile("mended")
    deployed.wait_for("Installed")
    # The claim would be kept, and the volume wait for it.
    deployed.delete()
    deployed.client.delete(path)
    deployed.wait_gone()
