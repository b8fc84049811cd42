"""Values as Go's typed structures write them after reading them: checked against apimachinery's converter."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.formats.registry_v1.typed import Reader, WrongTypeError, is_version, kubernetes_types, write_path


class Case(NamedTuple):
    name: str
    type: str
    value: Any
    expect: Any


# fmt: off
CASES = [
    Case("a zero value is left out", "PodSpec", {"hostNetwork": False, "hostPID": True}, {"hostPID": True}),
    Case("behind a pointer it is written", "DeploymentSpec", {"replicas": 0, "paused": False},
         {"replicas": 0, "template": {"metadata": {}, "spec": {}}}),
    Case("an empty list is left out", "Container", {"name": "a", "args": [], "env": [{"name": "a", "value": ""}]},
         {"name": "a", "env": [{"name": "a"}]}),
    Case("null is left out", "ObjectMeta", {"name": "a", "creationTimestamp": None, "labels": None}, {"name": "a"}),
    Case("null in a map of strings is empty", "ObjectMeta", {"labels": {"a": None}}, {"labels": {"a": ""}}),
    Case("null in a list is a zero value", "Container", {"name": "a", "args": [None]}, {"name": "a", "args": [""]}),
    Case("a structure behind a pointer may be empty", "Container",
         {"name": "a", "securityContext": {}, "lifecycle": {}}, {"name": "a", "securityContext": {}, "lifecycle": {}}),
    Case("a field that must be there appears", "ResourceFieldSelector", {"resource": "limits.cpu"},
         {"resource": "limits.cpu", "divisor": "0"}),
    Case("so does a port", "HTTPGetAction", {"path": "/"}, {"path": "/", "port": 0}),
    Case("a port may have a name", "HTTPGetAction", {"port": "web"}, {"port": "web"}),
    Case("and a claim's metadata", "EphemeralVolumeSource", {"volumeClaimTemplate": {"spec": {}}},
         {"volumeClaimTemplate": {"metadata": {}, "spec": {}}}),
    Case("empty resources and strategies do not", "Container", {"name": "a", "resources": {"limits": {}}},
         {"name": "a"}),
    Case("a boolean or a schema", "JSONSchemaProps", {"additionalProperties": False}, {"additionalProperties": False}),
    Case("a schema with a null one inside", "JSONSchemaProps", {"properties": {"a": None}, "items": {"type": "string"}},
         {"properties": {"a": {}}, "items": {"type": "string"}}),
    Case("any JSON stays", "JSONSchemaProps", {"default": {"a": None}, "enum": [1, None]},
         {"default": {"a": None}, "enum": [1, None]}),
    Case("but null is no default", "JSONSchemaProps", {"default": None, "nullable": False, "description": ""}, {}),
    Case("a limit is a float64", "JSONSchemaProps", {"minimum": 0, "maximum": 9223372036854775807},
         {"minimum": 0, "maximum": 9223372036854776000}),
    Case("blanks around a quantity are removed", "ResourceRequirements", {"limits": {"cpu": " 100m"}},
         {"limits": {"cpu": "100m"}}),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_read(case: Case) -> None:
    reader = Reader(kubernetes_types())
    assert reader.read(case.value, case.type) == case.expect
    assert reader.unknown == []


class Wrong(NamedTuple):
    name: str
    type: str
    value: Any
    expect: str


# fmt: off
WRONG = [
    Wrong("a number for a string", "ObjectMeta", {"name": 1}, "name: must be a string, not a number"),
    Wrong("a boolean for a number", "DeploymentSpec", {"replicas": True},
         "replicas: must be an integer, not a boolean"),
    Wrong("a fraction for an integer", "DeploymentSpec", {"replicas": 1.5},
         "replicas: must be an integer, not a number"),
    Wrong("a string for a list", "PodSpec", {"containers": "a"}, "containers: must be a list, not a string"),
    Wrong("a list for a mapping", "PodSpec", {"nodeSelector": []}, "nodeSelector: must be a mapping, not a list"),
    Wrong("a string in a list of structures", "PodSpec", {"containers": ["a"]},
         "containers[0]: must be a mapping, not a string"),
    Wrong("a string for a schema", "JSONSchemaProps", {"items": "a"},
         "items: must be another type, not a string"),
    Wrong("no quantity", "ResourceRequirements", {"limits": {"cpu": "x"}},
         "limits.cpu: must be a quantity such as 100m or 64Mi"),
    Wrong("an integer beyond 32 bits", "DeploymentSpec", {"replicas": 1 << 32},
         "replicas: must be at least -2147483648 and at most 2147483647"),
    Wrong("a port beyond 32 bits", "HTTPGetAction", {"port": 1 << 31},
         "port: must be at least -2147483648 and at most 2147483647"),
    Wrong("an integer beyond 64 bits", "PodSpec", {"activeDeadlineSeconds": 1 << 63},
         "activeDeadlineSeconds: must be at least -9223372036854775808 and at most 9223372036854775807"),
]
# fmt: on


@pytest.mark.parametrize("case", WRONG, ids=attrgetter("name"))
def test_wrong_type(case: Wrong) -> None:
    with pytest.raises(WrongTypeError) as raised:
        Reader(kubernetes_types()).read(case.value, case.type)
    assert f"{write_path(raised.value.path)}: {raised.value.problem}" == case.expect


def test_unknown_fields_are_removed_and_recorded() -> None:
    reader = Reader(kubernetes_types())
    assert reader.read({"containers": [{"name": "a", "x": 1}], "y": {}}, "PodSpec") == {"containers": [{"name": "a"}]}
    assert [write_path(path) for path in reader.unknown] == ["containers[0].x", "y"]


VERSIONS = [
    "1.2.3",
    "v1.2.3",
    " 1.2.3 ",
    "1",
    "1.2",
    "0.0.0",
    "01.002.0003",
    "1.2.3-rc.1",
    "1.2.3-0a.x-y+b.01",
    "1.2.3+b",
    "1.2.03-rc",
    "1.2.0-0",
    "1.2.3--",
]
OTHERS = [
    "",
    "v",
    "foo",
    "1.2.3.4",
    "1.x",
    "1.2.3-",
    "1.2.3+",
    "1.2.3-01",
    "1.2.3-a..b",
    "1.2-rc",
    "1+b",
    "1.2.3-a_b",
    "-1.2.3",
    "V1.2.3",
    "vv1",
    "1..3",
    "1.2.",
    "1.2.3 4",
    "1.2.99999999999999999999",
    "१.2.3",
]


@pytest.mark.parametrize("text", VERSIONS)
def test_versions(text: str) -> None:
    assert is_version(text)


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts(text: str) -> None:
    assert not is_version(text)
