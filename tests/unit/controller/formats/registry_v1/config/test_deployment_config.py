"""`deploymentConfig`: how each part is merged into Deployments, and what its schema refuses."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.registry_v1.config import configure, find_errors, read_deployment_config
from tests.support.operator_bundles import deployment, of_kind, refusal, render, service_version, webhook, write_bundle


def env(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


def mount(name: str, path: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **fields}


class Merge(NamedTuple):
    name: str
    field: str
    before: Any
    config: Any
    after: Any


# fmt: off
CONTAINER = [
    Merge("a variable is replaced in place", "env", [env("a", "1"), env("b", "2")], [env("a", "3")],
         [env("a", "3"), env("b", "2")]),
    Merge("the last of equal names is replaced", "env", [env("a", "1"), env("a", "2")], [env("a", "3")],
         [env("a", "1"), env("a", "3")]),
    Merge("a new variable is appended", "env", None, [env("a", "1")], [env("a", "1")]),
    Merge("two new ones of one name are both appended", "env", [], [env("a", "1"), env("a", "2")],
         [env("a", "1"), env("a", "2")]),
    Merge("of two for one that is there the second wins", "env", [env("a", "0")], [env("a", "1"), env("a", "2")],
         [env("a", "2")]),
    Merge("no variables change nothing", "env", [env("a", "0")], [], [env("a", "0")]),
    Merge("what is there is not appended", "envFrom", [{"secretRef": {"name": "a"}}],
         [{"secretRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
         [{"secretRef": {"name": "a"}}, {"secretRef": {"name": "b"}}]),
    Merge("of two equal ones one is appended", "envFrom", None, [{"secretRef": {"name": "a"}}] * 2,
         [{"secretRef": {"name": "a"}}]),
    Merge("a mount is replaced by the name of its volume", "volumeMounts", [mount("a", "/x"), mount("b", "/y")],
         [mount("a", "/z")], [mount("a", "/z"), mount("b", "/y")]),
    Merge("a volume that the config mounts twice is replaced by path", "volumeMounts",
         [mount("a", "/x"), mount("b", "/y")], [mount("a", "/x", subPath="x"), mount("a", "/z")],
         [mount("a", "/x", subPath="x"), mount("b", "/y"), mount("a", "/z")]),
    Merge("a volume that is mounted twice is replaced by path", "volumeMounts", [mount("a", "/x"), mount("a", "/y")],
         [mount("a", "/y", readOnly=True)], [mount("a", "/x"), mount("a", "/y", readOnly=True)]),
    Merge("resources are replaced", "resources", {"limits": {"cpu": "1"}}, {"requests": {"cpu": "1"}},
         {"requests": {"cpu": "1"}}),
    Merge("empty resources remove them", "resources", {"limits": {"cpu": "1"}}, {}, None),
]
# fmt: on
TERM = {"weight": 1, "preference": {}}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [TERM]}
NO_NODES: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
NODES = {"nodeAffinity": PREFERRED}
PODS = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
OTHER_PODS = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}}
# fmt: off
POD = [
    Merge("a volume is replaced in place", "volumes", [{"name": "a", "emptyDir": {}}, {"name": "b"}],
         [{"name": "a", "hostPath": {"path": "/"}}], [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b"}]),
    Merge("a new volume is appended", "volumes", None, [{"name": "a"}], [{"name": "a"}]),
    Merge("a toleration that is there is not appended", "tolerations", [{"key": "a"}], [{"key": "a"}, {"key": "b"}],
         [{"key": "a"}, {"key": "b"}]),
    Merge("of two equal tolerations one is appended", "tolerations", [{"key": "a"}], [{"key": "b"}] * 2,
         [{"key": "a"}, {"key": "b"}]),
    Merge("the node selector is replaced", "nodeSelector", {"a": "1"}, {"b": "2"}, {"b": "2"}),
    Merge("an empty node selector removes it", "nodeSelector", {"a": "1"}, {}, None),
    Merge("an empty affinity removes it", "affinity", {**NODES, **PODS}, {}, None),
    Merge("one kind of affinity is replaced, the others stay", "affinity", {**NODES, **PODS}, OTHER_PODS,
         {**NODES, **OTHER_PODS}),
    Merge("an empty kind of affinity is removed", "affinity", {**NODES, **PODS}, {"podAffinity": {}}, NODES),
    Merge("no node terms are empty", "affinity", {**NODES, **PODS}, {"nodeAffinity": NO_NODES}, PODS),
    Merge("if only empty ones are left, affinity goes", "affinity", {**NODES, "podAffinity": {}}, {"nodeAffinity": {}},
         None),
    Merge("affinity where there was none", "affinity", None, NODES, NODES),
]
# fmt: on


def configured(pod: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    assert not find_errors(config, "deploymentConfig")
    made = {"metadata": {"name": "x"}, "spec": {"template": {"metadata": {}, "spec": pod}}}
    result: dict[str, Any] = configure(made, read_deployment_config(config))["spec"]["template"]["spec"]
    return result


@pytest.mark.parametrize("case", CONTAINER, ids=attrgetter("name"))
def test_containers(case: Merge) -> None:
    container = {"name": "c"} | ({} if case.before is None else {case.field: case.before})
    pod = configured({"containers": [container, container], "initContainers": [container]}, {case.field: case.config})
    assert [item.get(case.field) for item in pod["containers"]] == [case.after, case.after]
    assert pod["initContainers"] == [container]


@pytest.mark.parametrize("case", POD, ids=attrgetter("name"))
def test_pods(case: Merge) -> None:
    pod = {"containers": []} | ({} if case.before is None else {case.field: case.before})
    assert configured(pod, {case.field: case.config}).get(case.field) == case.after


def test_annotations_are_added_without_replacing_others(tmp_path: Path) -> None:
    csv = service_version(deployments=[deployment()], annotations={"a": "csv"})
    config = {"deploymentConfig": {"annotations": {"a": "config", "b": "config"}}}
    (made,) = of_kind(render(write_bundle(tmp_path, csv), config), "Deployment")
    template = made["spec"]["template"]["metadata"]["annotations"]
    assert made["metadata"]["annotations"] == {"a": "config", "b": "config"}
    assert (template["a"], template["b"]) == ("csv", "config")


def test_every_deployment_is_configured_and_certificates_can_be_overridden(tmp_path: Path) -> None:
    csv = service_version(deployments=[deployment(), deployment("b")], webhooks=[webhook()])
    volume = {"name": "webhook-cert", "emptyDir": {}}
    made = of_kind(render(write_bundle(tmp_path, csv), {"deploymentConfig": {"volumes": [volume]}}), "Deployment")
    assert [item["spec"]["template"]["spec"]["volumes"][0] for item in made] == [volume, volume]


class Wrong(NamedTuple):
    config: Any
    expect: list[str]

    def __str__(self) -> str:
        return str(self.config)


def missing(*fields: str) -> list[str]:
    return [f'required field "deploymentConfig.{field}" is missing' for field in fields]


def wrong(field: str, got: str, want: str) -> list[str]:
    return [f'invalid type for field "deploymentConfig{field}": got {got}, want {want}']


# fmt: off
WRONG = [
    Wrong([], wrong("", "array", "object")),
    Wrong({"env": None}, missing("env")),
    Wrong({"env": {}}, wrong(".env", "object", "array")),
    Wrong({"env": [{}]}, missing("env.0.name")),
    Wrong({"env": [{"name": 1}]}, wrong(".env.0.name", "number", "string")),
    Wrong({"env": [{"name": "a", "valu": ""}]}, ['unknown field "deploymentConfig.env.0.valu"']),
    Wrong({"env": [{"name": "a", "valueFrom": {"secretKeyRef": {}}}]}, missing("env.0.valueFrom.secretKeyRef.key")),
    Wrong({"env": [{"name": "a", "valueFrom": {"fieldRef": {}}}]}, missing("env.0.valueFrom.fieldRef.fieldPath")),
    Wrong({"env": [{"name": "a", "valueFrom": {"fileKeyRef": {}}}]},
         missing(*(f"env.0.valueFrom.fileKeyRef.{key}" for key in ("key", "path", "volumeName")))),
    Wrong({"envFrom": [{"configMapRef": {}, "secretRef": {}}]}, []),
    Wrong({"tolerations": [{}, {"tolerationSeconds": 1}]}, []),
    Wrong({"tolerations": [{"tolerationSeconds": "1"}]},
         wrong(".tolerations.0.tolerationSeconds", "string", "integer")),
    Wrong({"volumes": [{"hostPath": {}}]}, missing("volumes.0.name", "volumes.0.hostPath.path")),
    Wrong({"volumes": [{"name": "a", "nfs": {}}]}, missing("volumes.0.nfs.path", "volumes.0.nfs.server")),
    Wrong({"volumes": [{"name": "a", "csi": {}}]}, missing("volumes.0.csi.driver")),
    Wrong({"volumes": [{"name": "a", "persistentVolumeClaim": {}}]},
         missing("volumes.0.persistentVolumeClaim.claimName")),
    Wrong({"volumes": [{"name": "a", "projected": {}}]}, []),
    Wrong({"volumeMounts": [{}]}, missing("volumeMounts.0.mountPath", "volumeMounts.0.name")),
    Wrong({"resources": {"claims": [{}]}}, missing("resources.claims.0.name")),
    Wrong({"resources": {"limits": {"cpu": 1, "memory": "many"}}}, []),
    Wrong({"resources": {"limits": {"cpu": True}}}, wrong(".resources.limits.cpu", "boolean", "string or number")),
    Wrong({"nodeSelector": {"a": 1}}, wrong(".nodeSelector.a", "number", "string")),
    Wrong({"annotations": {"a": None}}, missing("annotations.a")),
    Wrong({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
         missing("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")),
    Wrong(
        {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        missing(
            *(
                f"affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution.0.{key}"
                for key in ("podAffinityTerm", "weight")
            )
        ),
    ),
    Wrong({"foo": 1, "bar": 1, "env": 1},
         [*wrong(".env", "number", "array"), 'unknown field "bar"', 'unknown field "foo"']),
]
# fmt: on


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_schema(case: Wrong) -> None:
    assert find_errors(case.config, "deploymentConfig") == case.expect


def test_an_invalid_quantity_passes_the_schema_and_fails_decoding(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version())
    reason, message = refusal(root, {"deploymentConfig": {"resources": {"limits": {"cpu": "many"}}}})
    assert reason is Reason.INVALID_CONFIG
    assert message.startswith("invalid deploymentConfig: failed to unmarshal deploymentConfig: quantities must match")


@pytest.mark.parametrize("quantity", ["1", " 1 ", "1.", ".5", "-1", "+100m", "1e3", "1E-3", "12Ki", "1M", 2, 0.5])
def test_quantities(quantity: Any) -> None:
    assert read_deployment_config({"resources": {"limits": {"cpu": quantity}}})


@pytest.mark.parametrize("quantity", ["", " ", "1\t", ".", "Ki", "1ki", "1e", "0x1", "१"])
def test_invalid_quantities(quantity: str) -> None:
    with pytest.raises(BundleError):
        read_deployment_config({"resources": {"limits": {"cpu": quantity}}})
