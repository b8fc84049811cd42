"""What a bundle leaves to others, drift that is only told, and who fights (controller/apply/README.md, Drift)."""

from __future__ import annotations

import json

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, World, config_map
from tests.support.objects import deployment, labelled, make, read

APPS = "/apis/apps/v1"
BACKOFF_SECONDS = 2.0
"""Between the first two repairs of what another client keeps modifying (controller/apply/README.md, Drift)."""
REPLICAS = {"group": "apps", "kind": "Deployment", "paths": ["spec.replicas"]}


def path_of(deployed: Deployed, name: str = "web") -> str:
    return deployed.path_of(name, "deployments", APPS)


def replicas(world: World, deployed: Deployed) -> int:
    found = read(world.client, path_of(deployed))
    assert found
    number: int = found["spec"]["replicas"]
    return number


def image_of(world: World, deployed: Deployed) -> str:
    found = read(world.client, path_of(deployed))
    assert found
    name: str = found["spec"]["template"]["spec"]["containers"][0]["image"]
    return name


def managers(value: Manifest | None) -> set[str]:
    assert value
    return {entry["manager"] for entry in value["metadata"]["managedFields"]}


def scale(world: World, deployed: Deployed, number: int, manager: str = "kubectl") -> None:
    body = {"spec": {"replicas": number}}
    world.client.merge_patch(f"{path_of(deployed)}/scale", body, manager=manager)


def upgrade(world: World, deployed: Deployed, *manifests: Manifest) -> Manifest:
    before = deployed.status()["installedRevision"]
    world.push(deployed.name, *manifests)
    deployed.request_reconcile(before)
    return deployed.wait_installed(before)


# fields that are set at creation and then left alone


def test_an_ignored_field_is_set_at_creation_and_then_left_to_whoever_changes_it(world: World) -> None:
    manifest = deployment("web", 3)
    manifest["spec"]["paused"] = True
    marked = labelled(manifest, annotations={names.IGNORE_FIELDS: "spec.replicas"})
    by_rule = world.deploy(manifest, drift={"ignore": [REPLICAS]})
    by_annotation = world.deploy(marked)
    for each in (by_rule, by_annotation):
        each.wait_for("Installed")
        assert replicas(world, each) == 3
    assert names.initial_field_manager(by_rule.name) in managers(read(world.client, path_of(by_rule)))
    position = world.position()

    for each in (by_rule, by_annotation):
        scale(world, each, 5)
    world.wait_until_looked_at()
    world.restart()
    world.wait_until_looked_at()

    for each in (by_rule, by_annotation):
        assert replicas(world, each) == 5
        assert [request for request in world.writes(position) if f"/namespaces/{each.namespace}/" in request] == []

    # An upgrade leaves it, too, and puts other fields right.
    manifest["spec"]["replicas"] = 7
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/main:2"
    world.push(by_rule.name, manifest)
    by_rule.request_reconcile("again")
    by_rule.wait(lambda: image_of(world, by_rule) == "example.com/main:2", "upgraded")
    image = [{"name": "main", "image": "example.com/theirs:1"}]
    body = {"spec": {"template": {"spec": {"containers": image}}}}
    world.client.merge_patch(path_of(by_rule), body, manager="x")
    by_rule.wait(lambda: image_of(world, by_rule) == "example.com/main:2", "repaired")
    assert replicas(world, by_rule) == 5


def test_a_field_that_is_ignored_later_stays_as_it_is_and_one_that_is_not_any_more_is_taken_back(world: World) -> None:
    deployed = world.deploy({**deployment("web", 0)})
    deployed.wait_ready()

    deployed.change(drift={"ignore": [REPLICAS]})
    deployed.wait_ready()
    assert replicas(world, deployed) == 0
    scale(world, deployed, 4)
    world.wait_until_looked_at()
    assert replicas(world, deployed) == 4

    deployed.change(drift=None)
    deployed.wait(lambda: replicas(world, deployed) == 0, "taken back")
    deployed.wait_ready()
    assert names.initial_field_manager(deployed.name) not in managers(read(world.client, path_of(deployed)))


def test_a_part_of_what_is_replaced_as_a_whole_cannot_be_ignored(world: World) -> None:
    manifest = deployment("web")
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"a": "1", "b": "2"}
    path = "spec.template.spec.nodeSelector.a"
    deployed = world.deploy(manifest, drift={"ignore": [{**REPLICAS, "paths": [path]}]})
    message = deployed.wait_for("Installed", "False", "InvalidConfig")["message"]
    assert f"{path} cannot be ignored, since spec.template.spec.nodeSelector is atomic" in message
    deployed.change(drift={"ignore": [{**REPLICAS, "paths": ["spec.template.spec.nodeSelector"]}]})
    deployed.wait_ready()


def test_replicas_are_left_to_an_autoscaler_of_the_bundle_with_a_warning(world: World) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": 3}
    autoscaler = make("autoscaling/v2", "HorizontalPodAutoscaler", "auto", spec=spec)
    deployed = world.deploy(deployment("web", 1), autoscaler)
    deployed.wait_for("Installed")
    [warning] = deployed.status()["warnings"]
    assert f"Deployment {deployed.namespace}/web: spec.replicas is ignored, since HorizontalPodAutoscaler" in warning
    deployed.wait(lambda: "is ignored, since" in deployed.events().get("Warnings", ""), "an Event")
    scale(world, deployed, 2)
    world.wait_until_looked_at()
    assert replicas(world, deployed) == 2


def test_replicas_that_the_next_revision_does_not_set_are_told(world: World) -> None:
    deployed = world.deploy(deployment("web", 0))
    deployed.wait_ready()
    without = deployment("web")
    del without["spec"]["replicas"]
    before = deployed.status()["installedRevision"]
    world.push(deployed.name, {**without, "spec": {**without["spec"], "paused": True}})
    deployed.request_reconcile("again")
    deployed.wait(lambda: deployed.status()["installedRevision"] != before, "installed")
    assert replicas(world, deployed) == 1
    assert "spec.replicas is no longer set" in deployed.status()["warnings"][0]


# who scales


def test_what_a_person_scales_is_put_right_and_told_and_what_an_autoscaler_scales_is_no_drift(world: World) -> None:
    deployed = world.deploy(deployment("web", 0), config_map("a"))
    deployed.wait_ready()
    scale(world, deployed, 2)
    deployed.wait(lambda: replicas(world, deployed) == 0, "repaired")
    deployed.wait(lambda: f"Deployment {deployed.namespace}/web" in deployed.events().get("Repaired", ""), "an Event")

    world.wait_until_looked_at()
    before = deployed.wait_ready()
    position = world.position()
    scale(world, deployed, 2, manager="kube-controller-manager")
    deployed.wait(lambda: deployed.status()["managedState"] not in ("", before["managedState"]), "accepted")
    world.wait_until_looked_at()
    assert replicas(world, deployed) == 2
    assert [request for request in world.writes(position) if "/deployments/web" in request] == []

    changed = deployment("web", 0)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/main:2"
    world.push(deployed.name, changed, config_map("a"))
    deployed.request_reconcile("again")
    deployed.wait(lambda: image_of(world, deployed) == "example.com/main:2", "upgraded")
    assert replicas(world, deployed) == 2


# drift that is accepted, or only told


def test_a_repair_is_told_with_field_and_manager_and_an_object_whose_drift_is_ignored_stays(world: World) -> None:
    marked = {names.DRIFT: "ignore"}
    deployed = world.deploy(labelled(config_map("ignored"), annotations=marked), config_map("a"), config_map("b"))
    deployed.wait_ready()
    namespace = deployed.namespace
    expected = {
        f'ConfigMap {namespace}/a (data.color, owned by "somebody"): modified by another client; repaired',
        f"ConfigMap {namespace}/b: deleted by another client; created again",
    }
    deployed.edit("ignored", color="red")
    deployed.edit("a", color="red")
    deployed.wait(lambda: deployed.data("a") == {"color": "blue"}, "repair")
    deployed.remove("b")
    deployed.wait(lambda: deployed.all_events("Repaired") == expected, "an Event for each repair")
    lines = [json.loads(line) for line in world.controller.log.splitlines() if f'"{namespace}"' in line]
    [repair] = [line for line in lines if line.get("action") == "repair"]
    assert (repair["object"], repair["field"], repair["fieldManager"]) == (
        f"ConfigMap {namespace}/a",
        "data.color",
        "somebody",
    )
    assert [line["object"] for line in lines if line.get("drift") == "deleted"] == [f"ConfigMap {namespace}/b"]

    world.wait_until_looked_at()
    assert deployed.data("ignored") == {"color": "red"}
    assert "Drifted" not in deployed.conditions()
    upgraded = [labelled(config_map("ignored", color="green"), annotations=marked), config_map("a"), config_map("b")]
    upgrade(world, deployed, *upgraded)
    assert deployed.data("ignored") == {"color": "green"}


def test_in_report_mode_drift_is_told_with_field_and_manager_and_nothing_is_written_until_repair_is_asked_for(
    world: World,
) -> None:
    deployed = world.deploy(config_map("a"), config_map("b"), config_map("c"), drift={"mode": "Report"})
    deployed.wait_ready()
    position = world.position()
    deployed.edit("a", color="red")
    message = deployed.wait_for("Drifted", "True", "ReportOnly", saying="data.color")["message"]
    assert message == (
        f'ConfigMap {deployed.namespace}/a (data.color, owned by "somebody"): modified; not repaired '
        "(spec.drift.mode is Report)"
    )
    # What was changed back is seen in the next pass: nothing of ours changes with that, so that no event says it.
    deployed.edit("a", color="blue")
    deployed.edit("b", color="red")
    message = deployed.wait_for("Drifted", "True", "ReportOnly", saying="/b")["message"]
    assert "/a" not in message
    assert deployed.status()["objects"]["drifted"] == 1

    deployed.remove("c")
    deployed.wait_for("Drifted", "True", saying=f"ConfigMap {deployed.namespace}/c (deleted)")
    assert deployed.status()["objects"]["drifted"] == 2
    assert deployed.conditions()["Healthy"]["message"] == (
        f"ConfigMap {deployed.namespace}/c: Missing: not found on the cluster"
    )
    assert deployed.conditions()["Installed"]["status"] == "True"
    deployed.wait(lambda: "ReportOnly" in deployed.events().get("Drifted", ""), "an Event")
    world.restart()
    world.wait_until_looked_at()
    assert deployed.data("b") == {"color": "red"}
    assert "Drifted" in deployed.conditions()
    assert [request for request in world.writes(position) if f"/namespaces/{deployed.namespace}/" in request] == []

    world.push(deployed.name, config_map("a", color="green"), config_map("b"), config_map("c"))
    deployed.request_reconcile("again")
    deployed.wait(lambda: deployed.data("a") == {"color": "green"}, "upgraded")
    deployed.wait_for("Installed")
    assert deployed.data("b") == {"color": "red"}

    deployed.change(drift={"mode": "Repair"})
    deployed.wait(lambda: deployed.data("b") == {"color": "blue"}, "repaired")
    deployed.wait(lambda: "Drifted" not in deployed.conditions(), "no drift")
    deployed.wait_ready()


# who fights


@pytest.mark.thorough
def test_a_fight_is_told_with_field_and_manager_and_ends_when_the_other_gives_up(world: World) -> None:
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    for _ in range(3):
        deployed.edit("a", color="red")
        world.wait(lambda: deployed.data("a") == {"color": "blue"}, "repaired", seconds=BACKOFF_SECONDS * 3 + 20)
    message = deployed.wait_for("Drifted", "True", "DriftConflict")["message"]
    about = f'ConfigMap {deployed.namespace}/a (data.color, owned by "somebody")'
    assert (about in message, "it is repaired" in message) == (True, True)
    assert deployed.status()["objects"]["drifted"] == 0
    world.wait(lambda: "Drifted" not in deployed.conditions(), "given up", seconds=BACKOFF_SECONDS * 9 + 20)
