"""Nothing stays on an object that the revision lacks and nobody owns, or `status.warnings` says what."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import KubectlError
from tests.support.bundles import Deployed, Manifest, World, image, new_name
from tests.support.charts import files_of
from tests.support.controller import command
from tests.support.objects import labelled, make, namespace

pytestmark = pytest.mark.long

APPS = "/apis/apps/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


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
    world.client.create("/api/v1/namespaces", namespace(name))
    return name


def kubectl(world: World, name: str, *words: str, value: Mapping[str, Any] | None = None) -> None:
    given = json.dumps(value) if value else None
    world.cluster.kubectl(*words, "--namespace", name, *(("-f", "-") if value else ()), input=given)


def list_of(*objects: Manifest) -> Manifest:
    """Return what kubectl takes for several objects at once."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


WAYS = [("apply",), ("create",), ("apply", "--server-side")]


@pytest.mark.parametrize("words", WAYS, ids=" ".join)
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


def test_an_edit_and_an_entry_that_is_there_twice_go_with_the_adoption(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = prepared(world)
    twice: Any = copy.deepcopy(BUNDLE)
    twice["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "X", "value": "1"}, *ENV]
    kubectl(world, name, "create", value=twice)
    monkeypatch.setenv("KUBE_EDITOR", "sed -i 's/^spec:/spec:\\n  minReadySeconds: 7/'")
    kubectl(world, name, "edit", "deployment/web")
    path = f"{APPS}/namespaces/{name}/deployments/web"
    assert world.client.get(path).value["spec"]["minReadySeconds"] == 7
    deployed = world.deploy(BUNDLE, name=name, collisionProtection="IfNoController", installNamespace=name)
    wait_changed(deployed, "")
    spec = world.client.get(path).value["spec"]
    assert "minReadySeconds" not in spec
    assert spec["template"]["spec"]["containers"][0]["env"] == ENV


def test_replicas_that_somebody_scales_and_the_bundle_leaves_open_stay(world: World) -> None:
    name = prepared(world)
    kubectl(world, name, "apply", value=LIVE)
    kubectl(world, name, "scale", "--replicas=3", "deployment/web")
    asked: Any = copy.deepcopy(BUNDLE)
    asked["spec"].pop("replicas")
    deployed = world.deploy(asked, name=name, collisionProtection="IfNoController", installNamespace=name)
    wait_changed(deployed, "")
    live = deployed.get("web", "deployments", APPS)
    assert live
    assert live["spec"]["replicas"] == 3
    assert len(live["spec"]["template"]["spec"]["containers"]) == 1


def test_an_adoption_that_was_killed_after_its_first_write_goes_on(world: World) -> None:
    protections = {prepared(world): protection for protection in ("Prevent", "IfNoController", "None")}
    for name in protections:
        kubectl(world, name, "apply", value=LIVE)
    world.controller.kill()
    found = {}
    for name, protection in protections.items():
        path = f"{APPS}/namespaces/{name}/deployments/web"
        live = world.client.get(path).value["metadata"]
        entries = [
            {**each, "manager": names.field_manager(name), "operation": "Apply"}
            for each in live["managedFields"]
            if each["manager"] == "kubectl-client-side-apply"
        ]
        marked = {"annotations": {names.RELEASED_FROM: name}, "managedFields": entries}
        world.client.merge_patch(path, {"metadata": marked})
        found[path] = world.deploy(BUNDLE, name=name, collisionProtection=protection, installNamespace=name)
    world.controller.start()
    for path, deployed in found.items():
        wait_changed(deployed, "")
        after = world.client.get(path).value
        assert names.RELEASED_FROM not in after["metadata"]["annotations"]
        assert [each["name"] for each in after["spec"]["template"]["spec"]["containers"]] == ["a"]
        assert "old" not in after["metadata"]["labels"]


SECRET_DATA = {"old": "b", "kept": "b"}
AUTOSCALER = {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}}


@pytest.mark.parametrize("words", WAYS, ids=" ".join)
def test_what_was_set_under_another_name_than_the_field_has_now_goes_with_the_adoption(
    world: World, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """In another version of the kind, and as stringData."""
    name = prepared(world)
    old = {**AUTOSCALER, "minReplicas": 2, "targetCPUUtilizationPercentage": 33}
    scaler_before = make("autoscaling/v1", "HorizontalPodAutoscaler", "a", spec=old)
    kubectl(world, name, *words, value=list_of(scaler_before, make("v1", "Secret", "a", stringData=SECRET_DATA)))
    bundle = [
        make("autoscaling/v2", "HorizontalPodAutoscaler", "a", spec=AUTOSCALER),
        make("v1", "Secret", "a", stringData={"kept": "b"}),
    ]
    spec = {"sources": [image(world.push(name, *bundle))], "collisionProtection": "IfNoController"}
    if words == ("apply",):
        shown = preview(world, tmp_path, name, **spec)
        assert "averageUtilization: 33" in shown, shown
    deployed = world.deploy(*bundle, name=name, collisionProtection="IfNoController")
    wait_changed(deployed, "")
    scaler = deployed.get("a", "horizontalpodautoscalers", "/apis/autoscaling/v2")
    assert scaler
    assert [each["resource"]["target"]["averageUtilization"] for each in scaler["spec"]["metrics"]] == [80]
    assert scaler["spec"]["minReplicas"] == 1
    secret = deployed.get("a", "secrets")
    assert secret
    assert secret["data"].keys() == {"kept"}
    assert not left_in(deployed)


# what admission and the server have set under the name of kubectl


def test_what_admission_wrote_under_the_name_of_kubectl_stays(world: World) -> None:
    """Of a claim, whose class cannot be changed, and of a Job, whose template cannot."""
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


INJECTED: dict[tuple[str, str, str], dict[str, Any]] = {
    ("", "v1", "serviceaccounts"): {"/imagePullSecrets": [{"name": "injected"}]},
    ("", "v1", "persistentvolumeclaims"): {"/spec/storageClassName": "injected"},
    ("batch", "v1", "jobs"): {"/spec/template/spec/imagePullSecrets": [{"name": "injected"}]},
    ("apps", "v1", "deployments"): {
        "/spec/template/spec/containers/-": {"name": "injected", "image": "example.com/injected:1"},
        "/spec/template/metadata/annotations": {"injected": "true"},
        "/spec/template/spec/imagePullSecrets": [{"name": "injected"}],
        "/metadata/labels": {"injected": "true"},
    },
    ("{name}.example.com", "v1", "racks"): {"/spec/of": {"a": "injected"}},
}
"""What a policy adds to objects of a resource when they are created, by its JSON pointer."""


def inject(world: World, name: str) -> None:
    """Have the API server add `INJECTED` to what is created in namespaces with a label of this name."""
    version = "admissionregistration.k8s.io/v1"
    for (group, api, plural), added in INJECTED.items():
        own = f"{name}-{plural}"
        rule = {"apiGroups": [group.format(name=name)], "apiVersions": [api], "operations": ["CREATE"]}
        patches = [
            f'JSONPatch{{op: "add", path: "{path}", value: {json.dumps(value)}}}' for path, value in added.items()
        ]
        policy = {
            "matchConstraints": {
                "resourceRules": [{**rule, "resources": [plural]}],
                "namespaceSelector": {"matchLabels": {"injects": name}},
            },
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{', '.join(patches)}]"}}],
        }
        for kind, spec in (("", policy), ("Binding", {"policyName": own})):
            made = make(version, f"MutatingAdmissionPolicy{kind}", own, spec=spec)
            path = f"/apis/{version}/mutatingadmissionpolic{'ybindings' if kind else 'ies'}/{own}"
            world.client.apply(path, made, manager="tests", force=True)


def is_injected(world: World, name: str, *samples: Manifest) -> bool:
    """Whether the policies are in force: what is tried by dry run has something that nobody has sent."""
    for sample in samples:
        given = json.dumps(sample)
        words = ("create", "--dry-run=server", "--output=json", "--namespace", name, "-f", "-")
        try:
            if "injected" not in world.cluster.kubectl(*words, input=given):
                return False
        except KubectlError:  # a new kind may take a moment to be served
            return False
    return True


def test_what_a_policy_injects_stays_with_an_adoption_and_the_revision_after_it(world: World) -> None:
    """It is recorded under the name of kubectl, which created the objects. What people have set themselves goes."""
    name = new_name()
    world.client.apply(f"{CRDS}/racks.{name}.example.com", rack(name, OPTIONS), manager="tests", force=True)
    job = {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}, "suspend": True}
    objects = [
        make("v1", "ServiceAccount", "runner"),
        make("v1", "PersistentVolumeClaim", "data", spec=CLAIM),
        make("batch/v1", "Job", "job", spec=job),
        {**BUNDLE, "metadata": {"name": "web"}},
        make(f"{name}.example.com/v1", "Rack", "r", spec={"note": "x"}),
    ]
    inject(world, name)
    ways = {f"{name}-{number}": words for number, words in enumerate(WAYS)}
    for own in ways:
        world.client.create("/api/v1/namespaces", labelled(namespace(own), labels={"injects": name}))
    world.wait(lambda: is_injected(world, f"{name}-0", *objects), "the policies in force")
    given: Any = copy.deepcopy(objects)
    for each in given:
        each["metadata"]["annotations"] = {"old": "annotation"}
        if each["kind"] == "Deployment":
            each["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "W", "value": "w"})
    adopted = []
    for own, words in ways.items():
        kubectl(world, own, *words, value=list_of(*given))
        spec = {"collisionProtection": "IfNoController", "installNamespace": own}
        adopted.append(world.deploy(*objects, name=own, **spec))
    again = [{**each, "metadata": {**each["metadata"], "labels": {"more": "labels"}}} for each in objects]
    for deployed in adopted:
        before = wait_changed(deployed, "")
        found = {each["kind"]: injected_object(deployed, name, each) for each in objects}
        check_injected(deployed, found)
        deployed.change(sources=[image(world.push(deployed.name, *again, tag="v2"))])
        wait_changed(deployed, before)
        after = {each["kind"]: injected_object(deployed, name, each) for each in objects}
        check_injected(deployed, after)
        assert [each["metadata"]["uid"] for each in after.values()] == [
            each["metadata"]["uid"] for each in found.values()
        ]


def check_injected(deployed: Deployed, found: dict[str, Manifest]) -> None:
    """Check that objects, by kind, have what was injected, and not what people have set."""
    for kind, each in found.items():
        assert "old" not in each["metadata"].get("annotations", {}), kind
    pods = found["Deployment"]["spec"]["template"]
    assert pods["metadata"]["annotations"] == {"injected": "true"}
    assert pods["spec"]["imagePullSecrets"] == [{"name": "injected"}]
    assert [(each["name"], each.get("env")) for each in pods["spec"]["containers"]] == [("a", ENV), ("injected", None)]
    assert found["ServiceAccount"]["imagePullSecrets"] == [{"name": "injected"}]
    assert found["PersistentVolumeClaim"]["spec"]["storageClassName"] == "injected"
    assert found["Job"]["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "injected"}]
    assert found["Deployment"]["metadata"]["labels"]["injected"] == "true"
    assert found["Rack"]["spec"] == {"note": "x", "of": {"a": "injected"}}
    assert not left_in(deployed)


def injected_object(deployed: Deployed, name: str, manifest: Manifest) -> Manifest:
    """Return an object as it is on the cluster; a Rack is of the group of this name."""
    plurals = {
        "ServiceAccount": ("serviceaccounts",),
        "PersistentVolumeClaim": ("persistentvolumeclaims",),
        "Job": ("jobs", "/apis/batch/v1"),
        "Deployment": ("deployments", APPS),
        "Rack": ("racks", f"/apis/{name}.example.com/v1"),
    }
    found = deployed.get(manifest["metadata"]["name"], *plurals[manifest["kind"]])
    assert found
    return found


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


def rack(name: str, schema: Manifest, **others: Manifest) -> Manifest:
    """Return a CustomResourceDefinition whose spec has the field `of`, a note, and other fields."""
    group = f"{name}.example.com"
    spec = {"type": "object", "properties": {"of": schema, "note": {"type": "string"}, **others}}
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


def test_an_item_that_is_dropped_goes_although_the_type_of_its_list_has_changed(world: World) -> None:
    name = new_name()

    def objects(which: int) -> list[Manifest]:
        schemas = {f"f{number}": case[which] for number, case in enumerate(LISTS.values())}
        made = [rack(name, OPTIONS, **schemas)]
        for number, case in enumerate(LISTS.values()):
            given = {} if case[2 + which] is None else {f"f{number}": case[2 + which]}
            made.append(make(f"{name}.example.com/v1", "Rack", f"r{number}", spec={"note": "x", **given}))
        return made

    deployed = world.deploy(*objects(0), name=name)
    before = wait_changed(deployed, "")
    deployed.change(sources=[image(world.push(name, *objects(1), tag="v2"))])
    wait_changed(deployed, before)
    for number, (case, (_, _, _, second)) in enumerate(LISTS.items()):
        found = deployed.get(f"r{number}", "racks", f"/apis/{name}.example.com/v1")
        assert found
        got = found["spec"].get(f"f{number}")
        kept = [
            {k: v for k, v in each.items() if k != "port"} if isinstance(each, dict) else each for each in got or []
        ]
        assert (kept if isinstance(second, list) else got) == second, case
    assert not left_in(deployed)


def test_an_item_goes_although_somebody_else_has_changed_the_type_of_its_list(world: World) -> None:
    """The CustomResourceDefinition is not in the bundle."""
    name = new_name()

    def define(schema: Manifest) -> None:
        world.client.apply(f"{CRDS}/racks.{name}.example.com", rack(name, schema), manager="tests", force=True)
        world.cluster.kubectl("wait", "--for=condition=Established", f"crd/racks.{name}.example.com")

    def custom(*items: Manifest) -> Manifest:
        return make(f"{name}.example.com/v1", "Rack", "r", spec={"of": list(items)})

    define({**SLOTS, **ATOMIC})
    deployed = world.deploy(custom(A, B), name=name)
    before = wait_changed(deployed, "")
    define({**SLOTS, **BY_NAME})
    deployed.change(sources=[image(world.push(name, custom(B, C), tag="v2"))])
    wait_changed(deployed, before)
    found = deployed.get("r", "racks", f"/apis/{name}.example.com/v1")
    assert found
    assert [each["name"] for each in found["spec"]["of"]] == ["b", "c"]


# what the API server allocates and keeps

PORT = {"name": "gossip", "port": 7946}
KEPT: dict[str, tuple[Manifest, Manifest, str]] = {
    "no cluster IP": ({"clusterIP": "None", "ports": [PORT]}, {"ports": [PORT]}, "spec.clusterIP: None"),
    "a node port": (
        {"type": "NodePort", "ports": [{**PORT, "nodePort": 30001}]}, {"type": "NodePort", "ports": [PORT]},
        "nodePort: 30001",
    ),
    "a port of the health check": (
        {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30002, "ports": [PORT]},
        {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [PORT]}, "spec.healthCheckNodePort: 30002",
    ),
}  # fmt: skip


def test_what_the_server_keeps_is_named_until_it_is_gone(world: World) -> None:
    def services(which: int, **metadata: Any) -> list[Manifest]:
        made = []
        for number, (first, second, _) in enumerate(KEPT.values()):
            spec = {"selector": {"app": "peers"}, **(first, second)[which]}
            service = make("v1", "Service", f"peers-{number}", spec=spec)
            made.append({**service, "metadata": {**service["metadata"], **metadata}})
        return made

    def check() -> None:
        warnings = deployed.status()["warnings"]
        for case, (_, _, said) in KEPT.items():
            assert [text for text in warnings if said in text], (case, warnings)

    deployed = world.deploy(*services(0))
    before = wait_changed(deployed, "")
    deployed.change(sources=[image(world.push(deployed.name, *services(1), tag="v2"))])
    before = wait_changed(deployed, before)
    check()
    deployed.change(sources=[image(world.push(deployed.name, *services(1, labels={"more": "labels"}), tag="v3"))])
    wait_changed(deployed, before)
    check()
    for number in range(len(KEPT)):
        world.client.delete(deployed.path_of(f"peers-{number}", "services"))
    deployed.wait(lambda: not deployed.status().get("warnings"), "no warning")


def left_in(deployed: Deployed) -> str:
    return "\n".join(text for text in deployed.status().get("warnings", []) if "set by nobody" in text)


def test_a_warning_ends_for_each_field_that_somebody_removes_or_takes(world: World) -> None:
    port = {**PORT, "nodePort": 30003}
    first = {
        "type": "NodePort",
        "clusterIP": "10.0.0.221",
        "ports": [port, {"name": "b", "port": 1, "nodePort": 30004}],
    }
    second = {"type": "NodePort", "ports": [PORT, {"name": "b", "port": 1}]}

    def service(spec: Manifest) -> Manifest:
        return make("v1", "Service", "peers", spec={"selector": {"app": "peers"}, **spec})

    deployed = world.deploy(service(first))
    before = wait_changed(deployed, "")
    deployed.change(sources=[image(world.push(deployed.name, service(second), tag="v2"))])
    wait_changed(deployed, before)
    for text in ("10.0.0.221", "30003", "30004"):
        assert text in left_in(deployed)
    path = deployed.path_of("peers", "services")
    patch = [{"op": "replace", "path": "/spec/ports/0/nodePort", "value": 30005}]
    world.client.json_patch(path, patch, manager="somebody")
    deployed.wait(lambda: "30003" not in left_in(deployed), "no warning about what another manager has set")
    assert "10.0.0.221" in left_in(deployed)
    world.controller.kill()
    world.client.apply(path, service({"clusterIP": "10.0.0.221", "ports": first["ports"][1:]}), manager="x", force=True)
    world.controller.start()
    deployed.wait(lambda: not left_in(deployed), "nothing, also if it was taken meanwhile")


def test_a_warning_ends_when_the_bundle_sets_the_field_of_an_item_again(world: World) -> None:
    first, second = (make("v1", "Service", "a", spec=spec) for spec in KEPT["a node port"][:2])
    deployed = world.deploy(first)
    before = wait_changed(deployed, "")
    deployed.change(sources=[image(world.push(deployed.name, second, tag="v2"))])
    before = wait_changed(deployed, before)
    assert left_in(deployed)
    deployed.change(sources=[image(deployed.ref)])
    wait_changed(deployed, before)
    assert not left_in(deployed)


SELECTOR = {"app": "a"}
POD_SPEC = {"containers": [{"name": "a", "image": "example.com/a:1"}]}
TEMPLATE = {"metadata": {"labels": SELECTOR}, "spec": POD_SPEC}
WORKLOAD = {"selector": {"matchLabels": SELECTOR}, "template": TEMPLATE, "replicas": 0}
JOB = {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
BASES: dict[str, tuple[str, Manifest]] = {
    "Service": ("v1", {"selector": SELECTOR, "ports": [PORT]}),
    "PersistentVolumeClaim": ("v1", CLAIM),
    "Pod": ("v1", {**POD_SPEC, "nodeSelector": {"no": "where"}}),
    "Deployment": ("apps/v1", WORKLOAD),
    "StatefulSet": ("apps/v1", {**WORKLOAD, "serviceName": "a"}),
    "Job": ("batch/v1", {**JOB, "suspend": True}),
    "CronJob": ("batch/v1", {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": JOB}}),
    "Ingress": ("networking.k8s.io/v1", {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}),
    "NetworkPolicy": ("networking.k8s.io/v1", {"podSelector": {}}),
    "HorizontalPodAutoscaler": (
        "autoscaling/v2",
        {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}},
    ),
    "Rack": ("{group}/v1", {"note": "x"}),
}
MEMORY = {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}
DROPPED: dict[str, tuple[str, Manifest, str]] = {
    "families that are the default": ("Service", {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}, ""),
    "a fixed IP": ("Service", {"clusterIP": "10.0.0.201"}, "spec.clusterIP: 10.0.0.201"),
    "no IP": ("Service", {"clusterIP": "None"}, "spec.clusterIP: None"),
    "affinity": (
        "Service", {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 9}}}, ""
    ),
    "a type with node ports": ("Service", {"type": "NodePort", "ports": [{**PORT, "nodePort": 30006}]}, ""),
    "policies and IPs": (
        "Service", {"internalTrafficPolicy": "Local", "externalIPs": ["192.0.2.1"], "type": "ClusterIP"}, ""
    ),
    "a mode that is the default": ("PersistentVolumeClaim", {"volumeMode": "Filesystem"}, ""),
    "a source": (
        "PersistentVolumeClaim", {"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}}, "spec.dataSource"
    ),
    "an account that is the default": ("Pod", {"serviceAccountName": "default", "enableServiceLinks": True}, ""),
    "a strategy": ("Deployment", {"strategy": {"type": "Recreate"}, "minReadySeconds": 3, "paused": True}, ""),
    "a spec of pods": (
        "Deployment",
        {"template": {**TEMPLATE, "spec": {**POD_SPEC, "dnsPolicy": "Default", "serviceAccountName": "x"}}}, "",
    ),
    "management and retention": (
        "StatefulSet", {"podManagementPolicy": "OrderedReady", "updateStrategy": {"type": "OnDelete"}}, ""
    ),
    "limits of a Job": ("Job", {"backoffLimit": 2, "activeDeadlineSeconds": 99, "completionMode": "NonIndexed"}, ""),
    "a policy of a CronJob": ("CronJob", {"concurrencyPolicy": "Forbid", "timeZone": "Etc/UTC", "suspend": True}, ""),
    "a class": ("Ingress", {"ingressClassName": "x", "rules": [{"host": "left.example.com"}]}, ""),
    "types of a policy": ("NetworkPolicy", {"policyTypes": ["Egress"], "egress": [{}]}, ""),
    "metrics": (
        "HorizontalPodAutoscaler", {"minReplicas": 2, "metrics": [{"type": "Resource", "resource": MEMORY}]}, ""
    ),
    "a default of a schema": ("Rack", {"size": 3}, ""),
    "another value than that default": ("Rack", {"size": 5, "opts": {"mode": "slow"}}, ""),
}  # fmt: skip


def shelf(name: str) -> Manifest:
    """Return a CustomResourceDefinition with defaults."""
    made = rack(name, OPTIONS)
    spec = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["size"] = {"type": "integer", "default": 3}
    mode = {"type": "string", "default": "fast"}
    spec["opts"] = {"type": "object", "default": {"mode": "fast"}, "properties": {"mode": mode}}
    return made


def test_only_what_differs_from_a_new_object_is_left(world: World) -> None:
    name = new_name()

    def objects(*, whole: bool) -> list[Manifest]:
        made = [shelf(name)]
        for number, (kind, more, _) in enumerate(DROPPED.values()):
            version, spec = BASES[kind]
            version = version.format(group=f"{name}.example.com")
            made.append(make(version, kind, f"a{number}", spec={**spec, **(more if whole else {})}))
        return made

    deployed = world.deploy(*objects(whole=True), name=name)
    before = wait_changed(deployed, "")
    deployed.change(sources=[image(world.push(name, *objects(whole=False), tag="v2"))])
    wait_changed(deployed, before)
    told = {text.partition(": ")[0]: text for text in deployed.status().get("warnings", []) if "set by nobody" in text}
    for number, (case, (kind, _, said)) in enumerate(DROPPED.items()):
        found = told.pop(f"{kind} {name}/a{number}", "")
        assert said in found if said else not found, (case, found)
    assert not told


# maps and lists that become empty

EMPTIED: dict[str, tuple[str, Manifest, Manifest, tuple[str | int, ...]]] = {
    "of a custom resource": ("Rack", {"of": {"a": "1"}}, {"of": {}}, ("of",)),
    "all that its spec has": ("Rack", {"of": {"a": "1"}, "note": None}, {"of": {}, "note": None}, ("of",)),
    "a list with keys": ("Rack", {"slots": [A, B]}, {"slots": []}, ("slots",)),
    "a set that has a default": ("Rack", {"tags": ["a", "b"]}, {"tags": []}, ("tags",)),
    "of a Pod template": (
        "Deployment",
        {"template": {**TEMPLATE, "spec": {**POD_SPEC, "affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}}}}},
        {"template": {**TEMPLATE, "spec": {**POD_SPEC, "affinity": {"podAntiAffinity": {}}}}},
        ("template", "spec", "affinity", "podAntiAffinity"),
    ),
    "of an item of a list": (
        "Deployment",
        {"template": {**TEMPLATE, "spec": {"containers": [{**CONTAINER, "securityContext": {"runAsUser": 5}}]}}},
        {"template": {**TEMPLATE, "spec": {"containers": [{**CONTAINER, "securityContext": {}}]}}},
        ("template", "spec", "containers", 0, "securityContext"),
    ),
}  # fmt: skip


def emptied_objects(name: str, which: int) -> list[Manifest]:
    """Return the objects of `EMPTIED` before (0) and after (1) their maps have become empty."""
    crd = rack(name, OPTIONS)
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields |= {"slots": {**SLOTS, **BY_NAME}, "tags": {**TAGS, **SET, "default": ["x"]}}
    made = [crd]
    for number, (kind, *specs, _) in enumerate(EMPTIED.values()):
        version, spec = BASES[kind]
        given = {k: v for k, v in {**spec, **specs[which]}.items() if v is not None}
        made.append(make(version.format(group=f"{name}.example.com"), kind, f"a{number}", spec=given))
    return made


def preview(world: World, folder: Path, name: str, **spec: Any) -> str:
    """Return what `rukpak diff` shows of a spec that is not applied yet."""
    file = folder / "preview.yaml"
    spec = {"format": "plain", "installNamespace": name, **spec}
    file.write_text(json.dumps(make(f"{names.GROUP}/v1alpha2", names.KIND, name, spec=spec)))
    shown: str = command(world.cluster.kubeconfig)("diff", "-f", str(file), status=1).stdout
    return shown


def shows_emptied(shown: str) -> bool:
    """Whether a preview has the maps and lists of `EMPTIED` empty."""
    lines = {line[:1] + line[1:].strip() for line in shown.splitlines()}
    empty = {"+of: {}", "+podAntiAffinity: {}", "+securityContext: {}", "+slots: []", "+tags: []"}
    return empty | {"-runAsUser: 5", '-a: "1"', "-- b"} <= lines


def check_emptied(deployed: Deployed, name: str) -> None:
    """Check that the maps and lists of `EMPTIED` are empty, and that the BundleDeployment alone has set their objects.

    Args:
        deployed: the BundleDeployment.
        name: the namespace of the objects.
    """
    where = {"Rack": f"/apis/{name}.example.com/v1/namespaces/{name}/racks"}
    where["Deployment"] = f"{APPS}/namespaces/{name}/deployments"
    for number, (case, (kind, _, given, path)) in enumerate(EMPTIED.items()):
        wanted: Any = given
        found: Any = deployed.client.get(f"{where[kind]}/a{number}").value
        managers = {each["manager"] for each in found["metadata"]["managedFields"] if not each.get("subresource")}
        assert managers == {names.field_manager(deployed.name)}, case
        found = found["spec"]
        for step in path:
            found, wanted = found[step] if isinstance(step, int) else found.get(step), wanted[step]
        assert found == wanted, case
    assert not left_in(deployed)


def test_what_becomes_empty_is_empty_and_not_gone(world: World, tmp_path: Path) -> None:
    name = new_name()
    deployed = world.deploy(*emptied_objects(name, 0), name=name)
    before = wait_changed(deployed, "")
    changed: dict[str, Any] = {"sources": [image(world.push(name, *emptied_objects(name, 1), tag="v2"))]}
    assert shows_emptied(preview(world, tmp_path, name, **changed))
    deployed.change(**changed)
    wait_changed(deployed, before)
    check_emptied(deployed, name)


def test_what_becomes_empty_with_an_adoption_is_empty_and_not_gone(world: World, tmp_path: Path) -> None:
    name = prepared(world)
    crd, *objects = emptied_objects(name, 0)
    kubectl(world, name, "apply", value=crd)
    world.cluster.kubectl("wait", "--for=condition=Established", f"crd/racks.{name}.example.com")
    for each in objects:
        kubectl(world, name, "apply", value=each)
    bundle = emptied_objects(name, 1)
    spec = {"sources": [image(world.push(name, *bundle))], "collisionProtection": "IfNoController"}
    assert shows_emptied(preview(world, tmp_path, name, **spec))
    deployed = world.deploy(*bundle, name=name, collisionProtection="IfNoController")
    wait_changed(deployed, "")
    check_emptied(deployed, name)


def test_what_becomes_empty_with_a_take_over_is_empty_and_not_gone(world: World, tmp_path: Path) -> None:
    name, taker = new_name(), new_name()
    giver = world.deploy(*emptied_objects(name, 0), name=name)
    wait_changed(giver, "")
    giver.change(paused=True)
    giver.wait_for("Paused")
    bundle = emptied_objects(name, 1)
    spec: dict[str, Any] = {"takeOver": [{"name": name}], "installNamespace": name}
    shown = preview(world, tmp_path, taker, sources=[image(world.push(taker, *bundle))], **spec)
    assert shows_emptied(shown)
    deployed = world.deploy(*bundle, name=taker, **spec)
    wait_changed(deployed, "")
    check_emptied(deployed, name)


# whoever has set something before

OLD = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"kept": "1", "old": "1"}}
MANAGERS: dict[str, tuple[str, bool, bool]] = {
    manager: (manager, applies, goes)
    for goes, applies, managers in (
        (
            True,
            False,
            ("oc", "kapp", "Terraform", "HashiCorp", "terraform-provider-helm_v2.0", "k9s", "Lens", "Mozilla"),
        ),
        (True, False, ("pulumi-resource-kubernetes", "argocd-application-controller", "helm", "kubectl-edit")),
        (True, True, ("kapp-server-side-apply", "pulumi-kubernetes-1a2b", "argocd-controller", "flux", "kubectl")),
        (False, False, ("kube-controller-manager", "OpenAPI-Generator", "node-fetch", "octopus", "k9s-operator")),
        (False, False, ("kubectl-rollout", "before-first-apply", "cluster-autoscaler")),
        (False, True, ("istio-operator", "capi-kubeadmcontrolplane", "kapp-controller")),
    )
    for manager in managers
}
"""By the field manager that has set a field which the bundle lacks: whether it applies, and whether the field goes."""


def test_what_tools_have_set_goes_with_an_adoption_and_what_controllers_have_set_stays(
    world: World, tmp_path: Path
) -> None:
    name = prepared(world)
    bundle = []
    for number, (manager, applies, _) in enumerate(MANAGERS.values()):
        value = {**OLD, "metadata": {"name": f"a{number}", "namespace": name}}
        collection = f"/api/v1/namespaces/{name}/configmaps"
        if applies:
            world.client.apply(f"{collection}/a{number}", value, manager=manager, force=True)
        else:
            world.client.create(collection, value, manager=manager)
        bundle.append(make("v1", "ConfigMap", f"a{number}", data={"kept": "1"}))
    spec = {"sources": [image(world.push(name, *bundle))], "collisionProtection": "IfNoController"}
    shown = preview(world, tmp_path, name, **spec)
    goes = {manager for manager, (_, _, goes) in MANAGERS.items() if goes}
    assert shown.count('old: "1"') == len(goes), shown
    deployed = world.deploy(*bundle, name=name, collisionProtection="IfNoController")
    wait_changed(deployed, "")
    found = {manager: world.client.get(deployed.path_of(f"a{number}")).value for number, manager in enumerate(MANAGERS)}
    assert {manager for manager, value in found.items() if "old" not in value["data"]} == goes
    assert all(value["data"]["kept"] == "1" for value in found.values())
    owners = {each["manager"] for manager in goes for each in found[manager]["metadata"]["managedFields"]}
    assert owners == {names.field_manager(name)}
    assert not left_in(deployed)


def test_what_people_have_set_goes_also_with_an_object_that_another_one_controls(world: World, tmp_path: Path) -> None:
    name = prepared(world)
    collection = f"/api/v1/namespaces/{name}/configmaps"
    owner = world.client.create(collection, {**OLD, "metadata": {"name": "owner"}}).value
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    value = {**OLD, "metadata": {"name": "a", "ownerReferences": [{**reference, "controller": True}]}}
    world.client.create(collection, value, manager="kubectl-create")
    bundle = make("v1", "ConfigMap", "a", data={"kept": "1"})
    spec = {"sources": [image(world.push(name, bundle))], "collisionProtection": "None"}
    assert '-  old: "1"' in preview(world, tmp_path, name, **spec)
    deployed = world.deploy(bundle, name=name, collisionProtection="None")
    wait_changed(deployed, "")
    assert deployed.data("a") == {"kept": "1"}
    assert not left_in(deployed)


# real bundles

CORPUS = Path(os.environ.get("RUKPAK_CORPUS", "/nonexistent"))
FORMATS: Mapping[str, Manifest] = {
    "plain": {},
    "helm": {"values": {"replicaCount": 0}},
    "registry-v1": {"certificateProvider": "none"},
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "folder",
    [path for kind in FORMATS for path in sorted((CORPUS / kind).glob("*")) if path.is_dir()],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_of_a_real_bundle_nothing_is_left_that_kubectl_has_created_and_labeled(
    world: World, folder: Path, tmp_path: Path
) -> None:
    name, kind = prepared(world), folder.parent.name
    (tmp_path / "config.yaml").write_text(json.dumps(FORMATS[kind]))
    rukpak = command(world.cluster.kubeconfig)
    words = ("--format", kind, "-n", name, "--name", name, "--config", str(tmp_path / "config.yaml"))
    rendered = rukpak("render", str(folder), *words, "-o", "json").stdout
    made = [each for each in json.loads(rendered)["items"] if each["kind"] != "Namespace"]
    for each in made:
        each["metadata"].setdefault("labels", {})["old"] = "label"
    objects = {"apiVersion": "v1", "kind": "List", "items": made}
    kubectl(world, name, "create", value=objects)
    deployed = world.deploy(
        files_of(folder),
        format=kind,
        config=FORMATS[kind],
        name=name,
        collisionProtection="IfNoController",
        installNamespace=name,
    )
    wait_changed(deployed, "")
    assert deployed.status().get("warnings", []) == []
    assert deployed.conditions()["Installed"]["status"] == "True"
    found = json.loads(world.cluster.kubectl("get", "-n", name, "-o", "json", "-f", "-", input=json.dumps(objects)))
    assert [each["metadata"]["name"] for each in found["items"] if "old" in each["metadata"].get("labels", {})] == []
