"""Why objects are made applicable: what a real API server does with them as they are, and with what becomes of them.

Each row is one of controller/formats/README.md: the object misbehaves or is refused as it stands; made applicable it is
accepted, the controller's entry covers it, and a second apply changes nothing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from rukpak.controller.playground.cluster import Cluster
from tests.support.bundles import delete_namespace, new_name
from tests.support.inside import ApiError, Client, first_uncovered, make_applicable, read_documents

Object: TypeAlias = dict[str, Any]
YAML = Path(__file__).parents[1] / "data" / "yaml"
MANAGER = "rukpak/x"
LABELS = {"app": "a"}
CLUSTER_SCOPED = {"ClusterRole", "CustomResourceDefinition", "ValidatingWebhookConfiguration"}
PLURALS = {
    "ClusterRole": "clusterroles",
    "ConfigMap": "configmaps",
    "CustomResourceDefinition": "customresourcedefinitions",
    "Deployment": "deployments",
    "PodTemplate": "podtemplates",
    "Secret": "secrets",
    "Service": "services",
    "Thing": "things",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


@dataclass(frozen=True)
class Reply:
    """What the server said to an apply, and what it stored."""

    status: int
    message: str
    stored: Object

    @property
    def metadata(self) -> Object:
        metadata: Object = self.stored["metadata"]
        return metadata

    @property
    def fields(self) -> Object:
        """The fields that the entry of the manager claims."""
        entries = (entry["fieldsV1"] for entry in self.metadata.get("managedFields", ()) if entry["manager"] == MANAGER)
        fields: Object = next(entries, {})
        return fields

    def claims(self, *path: str) -> bool:
        """Whether the entry of the manager has this path."""
        node = self.fields
        for step in path:
            if step not in node:
                return False
            node = node[step]
        return True


class Server:
    """The API server, and what is to be removed from it: namespaces go with what is in them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._applied: set[str] = set()

    def apply(self, item: Object) -> Reply:
        """Apply an object."""
        path = path_of(item)
        try:
            response = self._client.apply(path, item, manager=MANAGER, force=True, metadata=False)
        except ApiError as error:
            return Reply(error.status, error.message, {})
        if item["kind"] in CLUSTER_SCOPED:
            self._applied.add(path)
        return Reply(response.status, "", response.value)

    def delete(self, item: Object) -> None:
        """Delete an object."""
        self._client.delete(path_of(item))

    def clean_up(self) -> None:
        """Delete the cluster-scoped objects that were applied."""
        for path in self._applied:
            self._client.delete(path)


@pytest.fixture(scope="module")
def server(cluster_client: Client) -> Iterator[Server]:
    server = Server(cluster_client)
    yield server
    server.clean_up()


@pytest.fixture(scope="module")
def namespace(cluster: Cluster, cluster_client: Client) -> Iterator[str]:
    """One for all: `place` gives each object a name of its own."""
    name = new_name()
    cluster_client.create("/api/v1/namespaces", make("Namespace", metadata={"name": name}))
    yield name
    delete_namespace(cluster, cluster_client, name)


def path_of(item: Object) -> str:
    """Return where the API server has an object."""
    prefix = f"/apis/{item['apiVersion']}" if "/" in item["apiVersion"] else f"/api/{item['apiVersion']}"
    namespace = "" if item["kind"] in CLUSTER_SCOPED else f"/namespaces/{item['metadata']['namespace']}"
    return f"{prefix}{namespace}/{PLURALS[item['kind']]}/{item['metadata']['name']}"


def make(kind: str, api_version: str = "v1", metadata: Object | None = None, **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata or {}, **fields}


def pods(**container: Any) -> Object:
    """Return a kind with pods that no controller touches, so that its resourceVersion does not change otherwise."""
    return make("PodTemplate", template={"spec": {"containers": [{"name": "c", "image": "e.x/i", **container}]}})


def deployment(**container: Any) -> Object:
    template = {"metadata": {"labels": LABELS}, **pods(**container)["template"]}
    spec = {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template}
    return make("Deployment", "apps/v1", spec=spec)


def place(item: Object, namespace: str) -> Object:
    """Return the object with a name of its own, and in the namespace."""
    metadata = {
        "name": f"a-{uuid.uuid4().hex[:8]}",
        **({} if item["kind"] in CLUSTER_SCOPED else {"namespace": namespace}),
    }
    return {**item, "metadata": {**metadata, **item["metadata"]}}


def corrected(item: Object, *others: Object) -> Object:
    """Return the object made applicable."""
    return make_applicable(
        [item, *others], install_namespace="unused", is_namespaced=lambda _, kind: kind not in CLUSTER_SCOPED
    )[0]


@dataclass(frozen=True)
class Row:
    name: str
    item: Object
    expect: Callable[[Reply], bool]
    """Of the reply to the object as it stands."""


RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
AGGREGATION = {"clusterRoleSelectors": [{"matchLabels": {"nobody": "has-this"}}]}
INJECT = {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
WEBHOOK = {
    "name": "a.b.c",
    "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "Cg=="},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


def accepted(reply: Reply) -> bool:
    return reply.status == 201


# fmt: off
CORRECTED = [
    Row("a uid", make("ConfigMap", metadata={"uid": "u"}), lambda reply: reply.status == 409),
    Row("managedFields", make("ConfigMap", metadata={"managedFields": [{"manager": "x"}]}),
         lambda reply: reply.status == 400),
    Row("generateName", make("ConfigMap", metadata={"generateName": "a-"}),
         lambda reply: reply.claims("f:metadata", "f:generateName")),
    Row("an ownerReference to nothing",
         make("ConfigMap", metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "x",
         "uid": "u"}]}), lambda reply: reply.claims("f:metadata", "f:ownerReferences")),
    Row("last-applied-configuration", make("ConfigMap", metadata={"annotations": {LAST_APPLIED: "{}"}}),
         lambda reply: LAST_APPLIED in reply.metadata["annotations"]),
    Row("status where the kind has none", make("ConfigMap", status={}), lambda reply: reply.status == 500),
    Row("a null in a ConfigMap", make("ConfigMap", data={"a": None}), lambda reply: reply.stored["data"] == {"a": ""}),
    Row("a null in a Secret", make("Secret", data={"a": None}), lambda reply: reply.stored["data"] == {"a": ""}),
    Row("a null label", make("ConfigMap", metadata={"labels": {"a": None}}),
         lambda reply: reply.claims("f:metadata", "f:labels", "f:a")),
    Row("a null field", make("ConfigMap", immutable=None), lambda reply: reply.claims("f:immutable")),
    Row("stringData", make("Secret", stringData={"a": "b"}),
         lambda reply: reply.claims("f:stringData") and not reply.claims("f:data")),
    Row("rules of an aggregated ClusterRole",
         make("ClusterRole", "rbac.authorization.k8s.io/v1", aggregationRule=AGGREGATION, rules=RULES),
         lambda reply: reply.claims("f:rules")),
    Row("caBundle beside an inject annotation",
         make("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1", INJECT, webhooks=[WEBHOOK]),
         lambda reply: reply.claims("f:webhooks", 'k:{"name":"a.b.c"}', "f:clientConfig", "f:caBundle")),
    Row("the namespace of a cluster-scoped object",
         make("ClusterRole", "rbac.authorization.k8s.io/v1", {"namespace": "default"}, rules=RULES),
         lambda reply: "namespace" not in reply.metadata),
]
# fmt: on


# fmt: off
HARMLESS = [
    Row("a resourceVersion, while the object is absent", make("ConfigMap", metadata={"resourceVersion": "1"}),
         accepted),
    Row("creationTimestamp is not tracked", make("ConfigMap", metadata={"creationTimestamp": "2020-01-01T00:00:00Z"}),
         accepted),
    Row("a null in a list key", pods(ports=[{"containerPort": 80, "protocol": None}]), accepted),
    Row("a null in an atomic list", pods(args=["a", None]), accepted),
    Row("an empty atomic list", pods(args=[]), accepted),
    Row("an empty keyed list", pods(env=[]), accepted),
    Row("quantities as they are written", pods(resources={"limits": {"cpu": "1000m", "memory": "1024Mi"}}), accepted),
    Row("a fraction of a core", pods(resources={"limits": {"cpu": "0.5"}}), accepted),
    Row("a port by number and by name",
         pods(ports=[{"name": "web", "containerPort": 80}], readinessProbe={"httpGet": {"port": 80}},
         livenessProbe={"httpGet": {"port": "web"}}), accepted),
    Row("an empty text", make("ConfigMap", data={"a": ""}), accepted),
    Row("an empty map", pods(securityContext={}, resources={}), accepted),
    Row("a Service with its status", make("Service", spec={"ports": [{"port": 80}]}, status={"loadBalancer": {}}),
         accepted),
    Row("binary data", make("ConfigMap", binaryData={"a": "eA==", "b": None}), accepted),
]
# fmt: on


ROWS = [*CORRECTED, *HARMLESS]


@pytest.mark.parametrize("row", ROWS, ids=attrgetter("name"))
def test_what_the_server_does_with_it_as_it_stands(row: Row, server: Server, namespace: str) -> None:
    assert row.expect(server.apply(place(row.item, namespace)))


@pytest.mark.parametrize("row", ROWS, ids=attrgetter("name"))
def test_made_applicable_a_second_apply_changes_nothing(row: Row, server: Server, namespace: str) -> None:
    item = corrected(place(row.item, namespace))
    first, second = server.apply(item), server.apply(item)
    assert (first.status, second.status) == (201, 200), first.message
    assert second.metadata["resourceVersion"] == first.metadata["resourceVersion"]
    assert first_uncovered(first.fields, item) == ""


# fmt: off
REFUSED = [
    Row("a number in a ConfigMap", make("ConfigMap", data={"a": 1}), lambda reply: "expected string" in reply.message),
    Row("a boolean as a label", make("ConfigMap", metadata={"labels": {"a": True}}),
         lambda reply: "expected string" in reply.message),
    Row("a number in env", pods(env=[{"name": "A", "value": 1}]), lambda reply: "expected string" in reply.message),
    Row("a number in args", pods(args=[1]), lambda reply: "expected string" in reply.message),
    Row("two env of one name", pods(env=[{"name": "A"}] * 2), lambda reply: "duplicate entries" in reply.message),
    Row("two equal ports, one by default",
         pods(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]),
         lambda reply: "duplicate entries" in reply.message),
    Row("two equal finalizers", make("ConfigMap", metadata={"finalizers": ["a/b"] * 2}),
         lambda reply: "duplicate entries" in reply.message),
    Row("a null in a keyed list", pods(env=[None]), lambda reply: "may not have a null element" in reply.message),
    Row("a null finalizer", make("ConfigMap", metadata={"finalizers": [None]}),
         lambda reply: "explicit null" in reply.message),
]
# fmt: on


@pytest.mark.parametrize("row", REFUSED, ids=attrgetter("name"))
def test_what_is_refused_beforehand_would_be_a_500(row: Row, server: Server, namespace: str) -> None:
    reply = server.apply(place(row.item, namespace))
    assert reply.status == 500
    assert row.expect(reply)


def test_a_resource_version_that_differs_is_a_conflict(server: Server, namespace: str) -> None:
    item = place(make("ConfigMap"), namespace)
    server.apply(item)
    assert server.apply({**item, "metadata": {**item["metadata"], "resourceVersion": "1"}}).status == 409


def test_a_null_in_a_list_key_makes_a_generation_at_every_apply(server: Server, namespace: str) -> None:
    item = place(deployment(ports=[{"containerPort": 80, "protocol": None}]), namespace)
    generations = [server.apply(item).metadata["generation"] for _ in range(3)]
    assert len(set(generations)) == 3


def test_keys_removed_from_string_data_stay_and_from_data_go(server: Server, namespace: str) -> None:
    with_both = place(make("Secret", stringData={"a": "x", "b": "y"}), namespace)
    with_one = {**with_both, "stringData": {"a": "x"}}
    server.apply(with_both)
    assert server.apply(with_one).stored["data"].keys() == {"a", "b"}
    server.delete(with_both)
    server.apply(corrected(with_both))
    assert server.apply(corrected(with_one)).stored["data"].keys() == {"a"}


# Custom resources


@pytest.fixture(scope="module")
def definition(cluster: Cluster) -> Iterator[Object]:
    """A CRD whose schema allows null here and there, Established."""
    group = f"test-{uuid.uuid4().hex[:8]}.example.com"
    properties = {
        "strict": {"type": "string"},
        "nullable": {"type": "string", "nullable": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [version],
    }
    crd = make("CustomResourceDefinition", "apiextensions.k8s.io/v1", {"name": f"things.{group}"}, spec=spec)
    cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(crd))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/things.{group}")
    yield crd
    cluster.kubectl("delete", "crd", f"things.{group}", "--wait=false")


def thing(definition: Object, namespace: str, **spec: Any) -> Object:
    return place(make("Thing", f"{definition['spec']['group']}/v1", spec=spec), namespace)


def test_a_null_is_refused_where_the_schema_does_not_allow_it(
    server: Server, namespace: str, definition: Object
) -> None:
    item = thing(definition, namespace, strict=None, nullable="x")
    assert server.apply(item).status == 422
    assert server.apply(corrected(item, definition)).stored["spec"] == {"nullable": "x"}


def test_nulls_that_the_schema_allows_arrive(server: Server, namespace: str, definition: Object) -> None:
    spec = {"nullable": None, "free": {"a": None, "b": [None, {"c": None}]}}
    item = corrected(thing(definition, namespace, **spec), definition)
    first, second = server.apply(item), server.apply(item)
    assert first.stored["spec"] == spec
    assert second.metadata["resourceVersion"] == first.metadata["resourceVersion"]


def test_a_crd_that_preserves_unknown_fields_is_refused(server: Server, definition: Object) -> None:
    reply = server.apply({**definition, "spec": {**definition["spec"], "preserveUnknownFields": True}})
    assert reply.status == 422


# YAML: kubectl is the reference


def read_with_kubectl(cluster: Cluster, paths: Sequence[Path]) -> Iterator[Object]:
    """Yield what kubectl reads in files, without the namespace that it adds."""
    options = ("--dry-run=client", "--validate=false", "--output=json")
    text = cluster.kubectl("create", *options, *(f"--filename={path}" for path in paths)).lstrip()
    while text:
        value, end = json.JSONDecoder().raw_decode(text)
        for item in value["items"] if value["kind"] == "List" else [value]:
            item["metadata"].pop("namespace", None)
            yield item
        text = text[end:].lstrip()


def test_files_are_read_as_kubectl_reads_them(cluster: Cluster) -> None:
    paths = sorted(YAML.glob("*.yaml"))
    theirs = read_with_kubectl(cluster, paths)
    for path in paths:
        ours = [document.value for document in read_documents(path.read_bytes(), path.name)]
        assert ours == json.loads(path.with_suffix(".json").read_text()), path
        assert ours == [*islice(theirs, len(ours))], path
    assert [*theirs] == []
