"""Custom resources whose definition is on the cluster and not in the bundle: kubectl is the reference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import SECONDS, World, definition, is_answered, new_name
from tests.support.inside import Client

Object = dict[str, Any]
PLAIN, WITH_STATUS = "Plain", "Reporting"
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXT = {"type": "string"}
MAYBE = {**TEXT, "nullable": True}
SPEC = {
    "limit": {"type": "integer", "nullable": True, "default": 10},
    "maybe": MAYBE,
    "block": {"type": "object", "nullable": True, "properties": {"a": TEXT}},
    "strict": {**TEXT, "default": "x"},
    "items": {"type": "array", "items": {"type": "object", "properties": {"name": TEXT, "value": MAYBE}}},
    "names": {"type": "array", "items": MAYBE},
    "map": {"type": "object", "additionalProperties": MAYBE},
    "values": FREE,
    "half": {**FREE, "properties": {"known": {**TEXT, "default": "y"}}},
}


def define(group: str, kind: str) -> Object:
    crd = definition(group, kind)
    [version] = crd["spec"]["versions"]
    properties = {"spec": {"type": "object", "properties": SPEC}, "status": {**FREE, "properties": {"phase": TEXT}}}
    version["schema"]["openAPIV3Schema"] = {"type": "object", "properties": properties}
    if kind == WITH_STATUS:
        version["subresources"] = {"status": {}}
    return crd


def apply(cluster: Cluster, *items: Object) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    # kubectl itself validates by OpenAPI v2, which knows no null in a list.
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-", input=text)


def install(client: Client, *crds: Object) -> None:
    """Apply definitions, and wait until their kinds are served."""
    for crd in crds:
        client.apply(path_of(crd), crd, manager="tests", force=True)
    for crd in crds:
        served = f"/apis/{crd['spec']['group']}/v1/{crd['spec']['names']['plural']}"
        wait_for(lambda: is_answered(client, served), SECONDS, f"{served} served")  # noqa: B023


def path_of(crd: Object) -> str:
    return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"


@pytest.fixture(scope="module")
def group(cluster_client: Client) -> Iterator[str]:
    """An API group with a kind that has the status subresource and one that has not."""
    group = f"{new_name()}.example.com"
    crds = [define(group, kind) for kind in (PLAIN, WITH_STATUS)]
    install(cluster_client, *crds)
    yield group
    for crd in crds:
        cluster_client.delete(path_of(crd))


def thing(group: str, kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}, **fields}


def read(world: World, group: str, namespace: str, kind: str, name: str) -> Object:
    """Return what is stored of an object, but for its metadata."""
    path = f"/apis/{group}/v1/namespaces/{namespace}/{kind.lower()}s/{name}"
    value: Object = world.client.get(path).value
    return {key: each for key, each in value.items() if key != "metadata"}


@dataclass(frozen=True)
class Row:
    name: str
    fields: Object
    expect: Object = field(default_factory=dict)
    """A part of what is stored, so that the row says something without kubectl."""
    kind: str = PLAIN


# fmt: off
ROWS = [
    Row("a nullable field with a default", {"spec": {"limit": None}}, {"limit": None}),
    Row("a nullable field", {"spec": {"maybe": None}}, {"maybe": None}),
    Row("a nullable object", {"spec": {"block": None}}, {"block": None}),
    Row("a field with a default that is not nullable", {"spec": {"strict": None}}, {"strict": "x"}),
    Row("in an item of a list", {"spec": {"items": [{"name": "a", "value": None}]}},
        {"items": [{"name": "a", "value": None}]}),
    Row("an item of a list", {"spec": {"names": ["a", None]}}, {"names": ["a", None]}),
    Row("in a map", {"spec": {"map": {"a": None, "b": "c"}}}, {"map": {"a": None, "b": "c"}}),
    Row("below unknown fields", {"spec": {"values": {"a": None, "b": {"c": [None, {"d": None}]}}}},
        {"values": {"a": None, "b": {"c": [None, {"d": None}]}}}),
    Row("below unknown fields, where one is declared", {"spec": {"half": {"known": None, "other": None}}},
        {"half": {"known": "y", "other": None}}),
    Row("status without the subresource", {"spec": {"maybe": "a"}, "status": {"phase": "Ready", "more": None}},
        {"maybe": "a"}),
    Row("an empty status without the subresource", {"spec": {"maybe": "a"}, "status": {}}, {"maybe": "a"}),
    Row("status with the subresource", {"spec": {"maybe": None}, "status": {"phase": "Ready"}}, {"maybe": None},
        kind=WITH_STATUS),
]
# fmt: on


def test_what_is_stored_is_what_kubectl_stores(world: World, cluster: Cluster, group: str) -> None:
    named = {f"row-{index}": row for index, row in enumerate(ROWS)}
    ours = [thing(group, row.kind, name, **row.fields) for name, row in named.items()]
    deployed = world.deploy(*ours)
    status = deployed.wait_ready()
    namespace = deployed.namespace
    theirs = [thing(group, row.kind, f"kubectl-{name}", **row.fields) for name, row in named.items()]
    apply(cluster, *({**item, "metadata": {**item["metadata"], "namespace": namespace}} for item in theirs))

    stored = {row.name: read(world, group, namespace, row.kind, name) for name, row in named.items()}
    reference = {row.name: read(world, group, namespace, row.kind, f"kubectl-{name}") for name, row in named.items()}

    assert stored == reference
    for row in ROWS:
        assert stored[row.name]["spec"].items() >= row.expect.items(), row.name
    assert stored["status without the subresource"]["status"] == {"phase": "Ready", "more": None}
    assert "status" not in stored["status with the subresource"]
    assert "warnings" not in status


def test_a_definition_that_changes_makes_no_new_revision_until_that_is_asked_for(world: World) -> None:
    group = f"{new_name()}.example.com"
    crd = define(group, PLAIN)
    install(world.client, crd)
    deployed = world.deploy(thing(group, PLAIN, "a", spec={"maybe": None, "limit": None}))
    before = deployed.wait_ready()

    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    install_changed = {**properties, "limit": {"type": "integer", "default": 10}}
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = install_changed
    install(world.client, crd)
    world.wait_until_looked_at()
    world.restart()
    world.wait_until_looked_at()
    assert deployed.status()["revision"] == before["revision"]
    assert len(deployed.revisions()) == 1

    deployed.request_reconcile("now")
    deployed.wait_installed(before["revision"])
    assert read(world, group, deployed.namespace, PLAIN, "a")["spec"] == {"maybe": None, "limit": 10, "strict": "x"}
    deployed.delete()
    deployed.wait_gone()
    world.client.delete(path_of(crd))


def test_without_a_definition_the_warning_says_what_is_left_out(world: World) -> None:
    group = f"{new_name()}.example.com"
    crd = define(group, PLAIN)
    deployed = world.deploy(thing(group, PLAIN, "a", spec={"maybe": None}))
    expect = f"{PLAIN} {group}/v1: nulls and status are left out of its objects"
    deployed.wait(deployed.revisions, "a revision in the store")

    install(world.client, crd)
    first = deployed.wait_ready()
    assert any(each.startswith(expect) for each in first["warnings"])
    assert "maybe" not in read(world, group, deployed.namespace, PLAIN, "a")["spec"]
    deployed.request_reconcile("now")
    second = deployed.wait_installed(first["revision"])
    assert read(world, group, deployed.namespace, PLAIN, "a")["spec"]["maybe"] is None
    assert not any(each.startswith(expect) for each in second.get("warnings", ()))
    deployed.delete()
    deployed.wait_gone()
    world.client.delete(path_of(crd))
