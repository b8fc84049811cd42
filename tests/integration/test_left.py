"""Nothing stays on an object that the revision lacks and nobody owns, or `status.warnings` says what."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, World, image, new_name
from tests.support.controller import command
from tests.support.objects import make

APPS = "/apis/apps/v1"


def wait_changed(deployed: Deployed, before: str) -> str:
    def find() -> str | None:
        revision: str = deployed.status().get("installedRevision", "")
        return revision if revision != before else None

    found: str = deployed.wait(find, f"another revision than {before}")
    return found


# adopting

ENV = [{"name": "X", "value": "2"}]
CONTAINER = {"name": "a", "image": "example.com/a:1", "env": ENV}
LIVE = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"old": "label"}},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"gone": "soon"}},
            "spec": {
                "containers": [
                    {**CONTAINER, "env": [*ENV, {"name": "W", "value": "w"}]},
                    {"name": "side", "image": "example.com/side:1"},
                ]
            },
        },
    },
}
BUNDLE = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}},
    },
}


def prepared(world: World) -> str:
    name = new_name()
    world.cluster.kubectl("create", "namespace", name)
    return name


def kubectl(world: World, name: str, *words: str, value: Mapping[str, Any] | None = None) -> None:
    given = json.dumps(value) if value else None
    world.cluster.kubectl(*words, "--namespace", name, *(("-f", "-") if value else ()), input=given)


@pytest.mark.parametrize("words", [("apply",), ("create",), ("apply", "--server-side")], ids=" ".join)
def test_what_kubectl_has_set_and_the_bundle_lacks_goes_with_the_adoption(world: World, words: tuple[str, ...]) -> None:
    name = prepared(world)
    kubectl(world, name, *words, value=LIVE)
    kubectl(world, name, "set", "env", "deployment/web", "EXTRA=1")
    kubectl(world, name, "label", "deployment/web", "more=labels")
    deployed = world.deploy(BUNDLE, name=name, collisionProtection="IfNoController", installNamespace=name)
    wait_changed(deployed, "")
    live = deployed.get("web", "deployments", APPS)
    assert live
    assert not {"old", "more"}.intersection(live["metadata"]["labels"])
    assert "annotations" not in live["spec"]["template"]["metadata"]
    [container] = live["spec"]["template"]["spec"]["containers"]
    assert container["env"] == ENV
    assert not [text for text in deployed.status().get("warnings", []) if "set by nobody" in text]
    managers = {each["manager"] for each in live["metadata"]["managedFields"] if not each.get("subresource")}
    assert managers == {names.field_manager(name)}


def test_the_preview_of_an_adoption_shows_what_goes(world: World, tmp_path: Path) -> None:
    name = prepared(world)
    kubectl(world, name, "apply", value=LIVE)
    ref = world.push(name, BUNDLE)
    spec = {
        "format": "plain",
        "installNamespace": name,
        "sources": [image(ref)],
        "collisionProtection": "IfNoController",
    }
    (tmp_path / "bundle.yaml").write_text(json.dumps(make(f"{names.GROUP}/v1alpha2", names.KIND, name, spec=spec)))
    rukpak = command(world.cluster.kubeconfig)
    shown = rukpak(
        "adopt", name, "-f", str(tmp_path / "bundle.yaml"), "--from", "kubectl", "--dry-run", "--diff"
    ).stderr
    for text in ("gone: soon", "name: side", "old: label", "name: W"):
        assert f"-{text}" in shown.replace(" ", "").replace("gone:soon", "gone: soon") or text in shown


# what admission and the server have set under the name of kubectl


def test_what_admission_wrote_under_the_name_of_kubectl_stays(world: World) -> None:
    """A policy that injects a container at creation, as webhooks do, and none of what it needs is in the bundle."""
    name = prepared(world)
    claim = make(
        "v1",
        "PersistentVolumeClaim",
        "data",
        spec={"accessModes": ["ReadWriteOnce"], "storageClassName": "x", "resources": {"requests": {"storage": "1Gi"}}},
    )
    job = make(
        "batch/v1",
        "Job",
        "job",
        spec={
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{**CONTAINER, "env": [*ENV, {"name": "W", "value": "w"}]}],
                }
            }
        },
    )
    kubectl(world, name, "apply", value=claim)
    kubectl(world, name, "create", value={**job, "metadata": {"name": "job", "labels": {"old": "label"}}})
    asked = copy.deepcopy(claim)
    asked["spec"].pop("storageClassName")
    changed = copy.deepcopy(job)
    changed["spec"]["template"]["spec"]["containers"][0]["env"] = ENV
    deployed = world.deploy(asked, changed, name=name, collisionProtection="IfNoController")
    wait_changed(deployed, "")
    found = deployed.get("data", "persistentvolumeclaims")
    assert found
    assert found["spec"]["storageClassName"] == "x"
    assert "kubernetes.io/pvc-protection" in found["metadata"]["finalizers"]
    kept = deployed.get("job", "jobs", "/apis/batch/v1")
    assert kept
    assert "old" not in kept["metadata"]["labels"]
    warnings = deployed.status()["warnings"]
    assert [text for text in warnings if "Job" in text and "W" in text], warnings
    assert [text for text in warnings if "spec.storageClassName: x" in text], warnings


# the type of a list changes

SLOTS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "port": {"type": "integer", "default": 1},
            "value": {"type": "string"},
        },
    },
}
TAGS = {"type": "array", "items": {"type": "string"}}
OPTIONS = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
ATOMIC, SET = {"x-kubernetes-list-type": "atomic"}, {"x-kubernetes-list-type": "set"}
BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
BY_BOTH = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]}
A, B, C = {"name": "a", "value": "1"}, {"name": "b", "value": "1"}, {"name": "c", "value": "2"}


def rack(name: str, schema: Manifest) -> Manifest:
    group = f"{name}.example.com"
    spec = {"type": "object", "properties": {"of": schema, "note": {"type": "string"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    made = make(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"racks.{group}",
        spec={
            "group": group,
            "scope": "Namespaced",
            "versions": [version],
            "names": {"kind": "Rack", "listKind": "RackList", "plural": "racks", "singular": "rack"},
        },
    )
    made["metadata"]["annotations"] = {"core.rukpak.io/safe-crd-upgrade-validation": "false"}
    return made


BOTH, ONE = {"a": "1", "b": "1"}, {"b": "2"}
LISTS: dict[str, tuple[Manifest, Manifest, Any, Any]] = {
    "atomic to map": ({**SLOTS, **ATOMIC}, {**SLOTS, **BY_NAME}, [A, B], [B, C]),
    "atomic to map, all are dropped": ({**SLOTS, **ATOMIC}, {**SLOTS, **BY_NAME}, [A, B], None),
    "map to atomic": ({**SLOTS, **BY_NAME}, {**SLOTS, **ATOMIC}, [A, B], [B, C]),
    "other keys": ({**SLOTS, **BY_NAME}, {**SLOTS, **BY_BOTH}, [A, B], [B, C]),
    "atomic to set": ({**TAGS, **ATOMIC}, {**TAGS, **SET}, ["a", "b"], ["b", "c"]),
    "set to atomic": ({**TAGS, **SET}, {**TAGS, **ATOMIC}, ["a", "b"], ["b", "c"]),
    "a map that was atomic": ({**OPTIONS, "x-kubernetes-map-type": "atomic"}, OPTIONS, BOTH, ONE),
    "a map that is atomic": (OPTIONS, {**OPTIONS, "x-kubernetes-map-type": "atomic"}, BOTH, ONE),
}  # fmt: skip


@pytest.mark.parametrize("case", LISTS.values(), ids=LISTS)
def test_an_item_that_is_dropped_goes_although_the_type_of_its_list_has_changed(
    world: World, case: tuple[Manifest, Manifest, Any, Any]
) -> None:
    old, new, first, second = case
    name = new_name()
    group, prefix = f"{name}.example.com", f"/apis/{name}.example.com/v1"

    def custom(value: Any) -> Manifest:
        return make(f"{group}/v1", "Rack", "r", spec={"note": "x", **({} if value is None else {"of": value})})

    deployed = world.deploy(rack(name, old), custom(first), name=name)
    before = wait_changed(deployed, "")
    deployed.change(sources=[image(world.push(name, rack(name, new), custom(second), tag="v2"))])
    wait_changed(deployed, before)
    found = deployed.get("r", "racks", prefix)
    assert found
    got = found["spec"].get("of")
    kept = [{k: v for k, v in each.items() if k != "port"} if isinstance(each, dict) else each for each in got or []]
    assert (kept if isinstance(second, list) else got) == second
    assert not [text for text in deployed.status().get("warnings", []) if "set by nobody" in text]


# what the API server allocates and keeps

PORT = {"name": "gossip", "port": 7946}
KEPT: dict[str, tuple[Manifest, Manifest, str]] = {
    "no cluster IP": ({"clusterIP": "None", "ports": [PORT]}, {"ports": [PORT]}, "spec.clusterIP: None"),
    "a node port": (
        {"type": "NodePort", "ports": [{**PORT, "nodePort": 30977}]}, {"type": "NodePort", "ports": [PORT]},
        "nodePort: 30977",
    ),
    "a port of the health check": (
        {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30978, "ports": [PORT]},
        {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [PORT]}, "spec.healthCheckNodePort: 30978",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT)
def test_what_the_server_keeps_is_named_until_it_is_gone(world: World, case: tuple[Manifest, Manifest, str]) -> None:
    first, second, said = case
    deployed = world.deploy(make("v1", "Service", "peers", spec={"selector": {"app": "peers"}, **first}))
    before = wait_changed(deployed, "")
    change = make("v1", "Service", "peers", spec={"selector": {"app": "peers"}, **second})
    deployed.change(sources=[image(world.push(deployed.name, change, tag="v2"))])
    before = wait_changed(deployed, before)
    assert [text for text in deployed.status()["warnings"] if said in text], deployed.status()["warnings"]
    again = {**change, "metadata": {"name": "peers", "labels": {"more": "labels"}}}
    deployed.change(sources=[image(world.push(deployed.name, again, tag="v3"))])
    before = wait_changed(deployed, before)
    assert [text for text in deployed.status()["warnings"] if said in text]
    world.client.delete(deployed.path_of("peers", "services"))
    deployed.wait(lambda: not deployed.status().get("warnings"), "no warning")


def test_a_default_that_is_not_set_any_more_is_no_warning(world: World) -> None:
    spec = {
        "selector": {"app": "a"},
        "ports": [{**PORT, "protocol": "TCP"}],
        "type": "ClusterIP",
        "sessionAffinity": "None",
    }
    deployed = world.deploy(make("v1", "Service", "a", spec=spec))
    before = wait_changed(deployed, "")
    bare = make("v1", "Service", "a", spec={"selector": {"app": "a"}, "ports": [PORT]})
    deployed.change(sources=[image(world.push(deployed.name, bare, tag="v2"))])
    wait_changed(deployed, before)
    assert not deployed.status().get("warnings")
