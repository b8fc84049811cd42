"""Rule 6: modified objects are repaired immediately, and a revision is the target from its first write on."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, World, config_map, definition, image, new_name, refused_config_map
from tests.support.objects import custom, deployment, is_owned, labelled, make, read, secret, service, template

APPS, BATCH, RBAC = "/apis/apps/v1", "/apis/batch/v1", "/apis/rbac.authorization.k8s.io/v1"
NETWORKING, POLICY = "/apis/networking.k8s.io/v1", "/apis/policy/v1"
BACKOFF_SECONDS = 2.0
"""Between the first two repairs of what another client keeps modifying (controller/apply/README.md, Drift)."""
REPAIR_SECONDS = 1.0
"""A promise; where the machine is busy it may take longer, which a test of behaviour does not punish."""


def role() -> Manifest:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    return make("rbac.authorization.k8s.io/v1", "Role", "a", rules=rules)


def cron_job() -> Manifest:
    pod = {"spec": {**template("a")["spec"], "restartPolicy": "Never"}}
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": pod}}}
    return make("batch/v1", "CronJob", "a", spec=spec)


def network_policy() -> Manifest:
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}]}
    return make("networking.k8s.io/v1", "NetworkPolicy", "a", spec=spec)


def disruption_budget() -> Manifest:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    return make("policy/v1", "PodDisruptionBudget", "a", spec=spec)


EDITS: dict[str, tuple[Manifest, str, str, Manifest]] = {
    "a value of a ConfigMap": (config_map("a"), "/api/v1", "configmaps", {"data": {"color": "red"}}),
    "a removed key of a ConfigMap": (config_map("a"), "/api/v1", "configmaps", {"data": {"color": None}}),
    "a Secret given as stringData": (secret("a", key="x"), "/api/v1", "secrets", {"data": {"key": "eQ=="}}),
    "a selector of a Service": (service("a"), "/api/v1", "services", {"spec": {"selector": {"app": "b"}}}),
    "replicas of a Deployment": (deployment("a"), APPS, "deployments", {"spec": {"replicas": 2}}),
    "rules of a Role": (role(), RBAC, "roles", {"rules": []}),
    "a schedule of a CronJob": (cron_job(), BATCH, "cronjobs", {"spec": {"schedule": "1 1 1 1 *"}}),
    "rules of a NetworkPolicy": (network_policy(), NETWORKING, "networkpolicies", {"spec": {"ingress": []}}),
    "a PodDisruptionBudget": (disruption_budget(), POLICY, "poddisruptionbudgets", {"spec": {"minAvailable": 2}}),
}


def wait_for_data(deployed: Deployed, name: str, **data: str) -> None:
    deployed.wait(lambda: deployed.data(name) == data, f"{name} with {data}")


def _contains(live: Any, patch: Any) -> bool:
    """Whether an object is as a merge patch leaves it; the server stores nothing for what is empty."""
    if isinstance(patch, dict):
        return all(_contains((live or {}).get(key), value) for key, value in patch.items())
    return (live or None) == (patch or None)


def test_edits_of_each_kind_are_put_right_by_one_write_each(world: World) -> None:
    bundle = [labelled(manifest, name=f"a{index}") for index, (manifest, *_) in enumerate(EDITS.values())]
    deployed = world.deploy(*bundle)
    deployed.wait_for("Installed")
    position = world.position()
    edited = {}
    for index, (case, (_, prefix, plural, patch)) in enumerate(EDITS.items()):
        path = deployed.path_of(f"a{index}", plural, prefix)
        assert _contains(world.client.merge_patch(path, patch, manager="somebody").value, patch)
        edited[case] = path

    def left() -> list[str]:
        return [case for case, path in edited.items() if _contains(read(world.client, path), EDITS[case][3])]

    deployed.wait(lambda: not left(), "repaired")
    deployed.wait_for("Installed")
    writes = world.writes(position)
    assert {case: sum(f"{path}?" in each for each in writes) for case, path in edited.items()} == dict.fromkeys(
        EDITS, 1
    )


def test_an_edit_is_put_right_within_a_second(world: World) -> None:
    deployed = world.deploy(*(config_map(name) for name in "abcde"))
    deployed.wait_ready()
    took = []
    for name in "abcde":
        started = time.monotonic()
        deployed.edit(name, color="red")
        wait_for_data(deployed, name, color="blue")
        took.append(time.monotonic() - started)
    assert min(took) < REPAIR_SECONDS


def test_fields_that_others_add_are_left_alone(world: World) -> None:
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    deployed.edit("a", extra="theirs")
    position = world.position()
    world.wait_until_looked_at()
    assert deployed.data("a") == {"color": "blue", "extra": "theirs"}
    assert not world.requests_about(deployed.name, position)


def test_a_deleted_object_is_made_again(world: World) -> None:
    deployed = world.deploy(config_map("a"), deployment("web"))
    deployed.wait_ready()
    deployed.remove("a")
    world.client.delete(deployed.path_of("web", "deployments", APPS))
    deployed.wait(lambda: deployed.data("a"), "the ConfigMap")
    deployed.wait(lambda: read(world.client, deployed.path_of("web", "deployments", APPS)), "the Deployment")
    deployed.wait_ready()


def test_a_deleted_namespace_is_made_again_with_all_that_was_in_it(world: World) -> None:
    deployed = world.deploy(config_map("a"), config_map("b"))
    deployed.wait_ready()
    path = f"/api/v1/namespaces/{deployed.namespace}"
    uid = world.client.get(path).value["metadata"]["uid"]
    world.client.delete(path)

    def is_back() -> bool:
        found = read(world.client, path)
        made = found is not None and found["metadata"]["uid"] != uid
        return made and {"a", "b"} <= deployed.objects().keys()

    world.wait(is_back, "made again", seconds=60)
    deployed.wait_ready()


# List items that others left


def test_a_renamed_port_of_a_service_is_put_right(world: World) -> None:
    """Its old number is gone, and ours beside it would be a duplicate name: 422 for ever (Flux is stuck there)."""
    deployed = world.deploy(service("web", 80))
    deployed.wait_ready()
    path = deployed.path_of("web", "services")
    change = [{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]
    world.client.json_patch(path, change, manager="x")

    deployed.wait(lambda: [port["port"] for port in world.client.get(path).value["spec"]["ports"]] == [80], "repaired")
    deployed.wait_ready()


def test_a_renamed_port_is_put_right_also_where_all_entries_were_wiped(world: World) -> None:
    deployed = world.deploy(service("web", 80))
    deployed.wait_ready()
    path = deployed.path_of("web", "services")
    wiped = {"metadata": {"managedFields": [{}]}, "spec": {"ports": [{"name": "p0", "port": 81}]}}
    world.client.merge_patch(path, wiped, manager="x")

    deployed.wait(lambda: [port["port"] for port in world.client.get(path).value["spec"]["ports"]] == [80], "repaired")
    deployed.wait_ready()


def test_a_renamed_container_is_put_right_and_does_not_run_beside_ours(world: World) -> None:
    deployed = world.deploy(deployment("web"))
    deployed.wait_ready()
    path = deployed.path_of("web", "deployments", APPS)
    generation = world.client.get(path).value["metadata"]["generation"]
    change = [{"op": "replace", "path": "/spec/template/spec/containers/0/name", "value": "theirs"}]
    world.client.json_patch(path, change, manager="x")

    def containers() -> list[str]:
        found = world.client.get(path).value["spec"]["template"]["spec"]["containers"]
        return [container["name"] for container in found]

    deployed.wait(lambda: containers() == ["main"], "repaired")
    assert world.client.get(path).value["metadata"]["generation"] == generation + 2
    deployed.wait_ready()


def test_a_container_that_others_added_stays_when_ours_is_repaired(world: World) -> None:
    deployed = world.deploy(deployment("web"))
    deployed.wait_ready()
    path = deployed.path_of("web", "deployments", APPS)
    sidecar = {"name": "sidecar", "image": "example.com/sidecar:1"}
    changes: list[dict[str, Any]] = [
        {"op": "add", "path": "/spec/template/spec/containers/-", "value": sidecar},
        {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example.com/other:1"},
    ]
    world.client.json_patch(path, changes, manager="x")

    def images() -> list[str]:
        found = world.client.get(path).value["spec"]["template"]["spec"]["containers"]
        return [container["image"] for container in found]

    deployed.wait(lambda: images() == ["example.com/main:1", "example.com/sidecar:1"], "repaired")


# managedFields and marks


def test_wiped_managed_fields_are_no_drift(world: World) -> None:
    deployed = world.deploy(config_map("a"), config_map("b"))
    deployed.wait_ready()
    position = world.position()
    world.client.merge_patch(deployed.path_of("a"), {"metadata": {"managedFields": [{}]}})
    world.wait_until_looked_at()
    assert not [request for request in world.writes(position) if f"/{deployed.namespace}/configmaps/a" in request]
    assert deployed.wait_ready()["objects"]["total"] == 2


def test_an_operator_that_writes_status_at_another_version_and_so_wipes_all_entries_is_no_drift(world: World) -> None:
    """kubernetes#133704: that version has a default which ours does not declare."""
    group = f"{new_name()}.example.com"
    text = {"type": "string"}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    def version(name: str, *, storage: bool, **fields: Manifest) -> Manifest:
        properties = {"spec": {"type": "object", "properties": {"color": text, **fields}}, "status": status}
        schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
        return {"name": name, "served": True, "storage": storage, "schema": schema, "subresources": {"status": {}}}

    defined = definition(group, "Foo")
    defined["spec"]["versions"] = [
        version("v1", storage=True),
        version("v2", storage=False, size={**text, "default": "big"}),
    ]
    deployed = world.deploy(custom(group, "Foo", "foo", spec={"color": "blue"}), defined)
    deployed.wait_ready()
    path = deployed.path_of("foo", "foos", f"/apis/{group}/v2")
    position = world.position()
    for number in range(3):
        wiped = world.client.merge_patch(f"{path}/status", {"status": {"n": number}}, manager="operator").value
        assert [entry["manager"] for entry in wiped["metadata"].get("managedFields", ())] != [f"rukpak/{deployed.name}"]
    world.wait_until_looked_at()
    assert not [request for request in world.writes(position) if "/foos/foo" in request]

    world.client.merge_patch(path, {"spec": {"color": "red"}}, manager="x")

    deployed.wait(lambda: world.client.get(path).value["spec"]["color"] == "blue", "repaired")
    deployed.wait_ready()


def test_an_edit_that_wiped_managed_fields_is_put_right_and_what_is_dropped_later_goes(world: World) -> None:
    deployed = world.deploy(config_map("a", one="1", two="2"))
    first = deployed.wait_ready()
    wiped = {"metadata": {"managedFields": [{}]}, "data": {"one": "9"}}
    world.client.merge_patch(deployed.path_of("a"), wiped, manager="x")
    deployed.wait(lambda: deployed.data("a") == {"one": "1", "two": "2"}, "repaired")

    world.push(deployed.name, config_map("a", one="1"))
    deployed.request_reconcile("again")

    deployed.wait_installed(first["installedRevision"])
    assert deployed.data("a") == {"one": "1"}


def test_a_removed_label_is_put_right(world: World) -> None:
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    world.client.merge_patch(deployed.path_of("a"), {"metadata": {"labels": None}}, manager="x")
    deployed.wait(lambda: (found := deployed.get("a")) and is_owned(found, deployed.name), "repaired")
    deployed.wait_ready()


def test_who_edits_again_and_again_is_named_in_drift_conflict(world: World) -> None:
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    for _ in range(3):
        deployed.edit("a", color="red")
        world.wait(lambda: deployed.data("a") == {"color": "blue"}, "repaired", seconds=BACKOFF_SECONDS * 3 + 20)
    assert "it is repaired" in deployed.wait_for("Drifted", "True", "DriftConflict")["message"]
    deployed.edit("a", color="red")
    keeps_changing = lambda: "keeps changing it" in deployed.conditions()["Drifted"]["message"]  # noqa: E731
    deployed.wait(keeps_changing, "the repair that waits is told")
    assert deployed.status()["objects"]["drifted"] == 1


# Half-applied revisions


def upgrade(world: World, deployed: Deployed, *manifests: Manifest) -> None:
    world.push(deployed.name, *manifests)
    deployed.request_reconcile(new_name())


def test_a_revision_of_which_one_object_is_refused_is_the_target_of_all_others(world: World) -> None:
    deployed = world.deploy(config_map("a", v="1"), config_map("b", v="1"))
    first = deployed.wait_ready()
    immutable = refused_config_map("b", v="2")
    upgrade(world, deployed, config_map("a", v="2"), immutable, config_map("c", v="2"))
    deployed.wait_for("Installed", "False", "Refused")
    assert deployed.status()["installedRevision"] == first["installedRevision"]

    for name in ("a", "c"):
        deployed.edit(name, v="9")
        wait_for_data(deployed, name, v="2")
    assert deployed.data("b") == {"v": "1"}


def test_an_object_of_the_old_revision_only_is_repaired_from_it(world: World) -> None:
    deployed = world.deploy(config_map("a", v="1"), config_map("old", v="1"))
    deployed.wait_ready()
    upgrade(world, deployed, config_map("a", v="2"), refused_config_map("bad"))
    deployed.wait_for("Installed", "False", "Refused")
    deployed.edit("old", v="9")
    deployed.wait(lambda: deployed.data("old") == {"v": "1"}, "repaired")


def test_a_spec_that_is_reverted_half_way_brings_everything_back(world: World) -> None:
    deployed = world.deploy(config_map("a", v="1"), config_map("old", v="1"))
    first = deployed.wait_ready()
    other = world.push(
        f"{deployed.name}-other", config_map("a", v="2"), config_map("new", v="2"), refused_config_map("bad")
    )
    deployed.change(sources=[image(other)])
    deployed.wait_for("Installed", "False", "Refused")
    assert deployed.data("a") == {"v": "2"}

    deployed.change(sources=[image(deployed.ref)])

    deployed.wait_ready()
    assert deployed.data("a") == {"v": "1"}
    assert deployed.status()["installedRevision"] == first["installedRevision"]
    deployed.wait(lambda: deployed.get("new") is None, "what only the other revision had is pruned")


# Restarts


def _after_restart(world: World, deployed: Deployed, change: Callable[[], object]) -> list[str]:
    """Change something while no controller runs; return what it writes about that after its start."""
    world.controller.kill()
    change()
    position = world.position()
    world.controller.start()
    world.wait(lambda: world.requests(position), "the first requests")
    world.wait_until_looked_at()
    return [request for request in world.writes(position) if f"/namespaces/{deployed.namespace}/" in request]


@pytest.mark.repeats
@pytest.mark.parametrize("state", ["", "v9:sha256:0"], ids=["emptied", "of an unknown version"])
def test_a_restart_applies_nothing_whose_managed_state_is(world: World, state: str) -> None:
    deployed = world.deploy(*(config_map(f"a{index}") for index in range(8)), deployment("web"), service("web"))
    before = deployed.wait_ready()
    status = {"status": {"managedState": state}}
    writes = _after_restart(world, deployed, lambda: world.client.merge_patch(f"{deployed.path}/status", status))
    assert writes == []
    deployed.wait(lambda: deployed.status().get("managedState") == before["managedState"], "the same state again")


def test_after_a_restart_only_what_was_changed_is_applied(world: World) -> None:
    deployed = world.deploy(*(config_map(f"a{index}") for index in range(8)))
    deployed.wait_ready()
    writes = _after_restart(world, deployed, lambda: deployed.edit("a3", color="red"))
    assert [request.partition("?")[0].rpartition("/")[2] for request in writes] == ["a3"]
    assert deployed.data("a3") == {"color": "blue"}


@pytest.mark.thorough
def test_what_was_released_or_unwanted_meanwhile_keeps_its_marks(world: World) -> None:
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    before = copy.deepcopy(deployed.get("a"))
    assert before
    assert _after_restart(world, deployed, lambda: None) == []
    assert deployed.get("a") == before
    assert before["metadata"]["labels"][names.OWNER_LABEL] == deployed.name
