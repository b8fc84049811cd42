"""Namespaces, equal objects, and the digest of a revision."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import CustomKind
from rukpak.controller.formats.applicable import (
    Kind,
    custom_kinds,
    find_kinds_to_know,
    make_applicable,
    reduce_schema,
    revision_digest,
    scopes_of_crds,
    without_nulls,
)
from tests.unit.controller.formats.objects import (
    CRD,
    Case,
    Object,
    applicable,
    is_namespaced,
    make,
    parse,
    refusal,
    with_container,
    with_pod,
)

# fmt: off
NAMESPACES = [
    Case("a namespaced object without namespace gets the install namespace", make("ConfigMap"),
         make("ConfigMap", metadata={"namespace": "install"})),
    Case("an empty namespace is none", make("ConfigMap", metadata={"namespace": ""}),
         make("ConfigMap", metadata={"namespace": "install"})),
    Case("a null namespace is none", make("ConfigMap", metadata={"namespace": None}),
         make("ConfigMap", metadata={"namespace": "install"})),
    Case("a namespace of the object's own stays", make("ConfigMap", metadata={"namespace": "n"}),
         make("ConfigMap", metadata={"namespace": "n"})),
    Case("the namespace of a cluster-scoped object goes", make("Namespace", metadata={"namespace": "n"}),
         make("Namespace")),
    Case("without a known scope nothing is added", make("Thing", "e.x/v1"), make("Thing", "e.x/v1")),
    Case("without a known scope nothing is removed", make("Thing", "e.x/v1", {"namespace": "n"}),
         make("Thing", "e.x/v1", {"namespace": "n"})),
]
# fmt: on


@pytest.mark.parametrize("case", NAMESPACES, ids=attrgetter("name"))
def test_the_namespace_of_an_object(case: Case) -> None:
    assert applicable(case.given) == [case.expect]


@pytest.mark.parametrize(("scope", "namespace"), [("Namespaced", "install"), ("Cluster", None)])
def test_a_crd_of_the_bundle_decides_the_scope_before_the_cluster(scope: str, namespace: str | None) -> None:
    crd, thing = *parse(CRD.replace("SCOPE", scope)), make("Thing", "e.x/v3")
    result = make_applicable([thing, crd], install_namespace="install", is_namespaced=lambda *_: scope == "Cluster")
    assert result[0]["metadata"].get("namespace") == namespace
    assert scopes_of_crds([thing, crd]) == {("e.x", "Thing"): scope == "Namespaced"}


@pytest.mark.parametrize(("subresources", "stays"), [({}, True), ({"status": {}}, False), ({"scale": {}}, True)])
def test_status_is_an_ordinary_field_where_a_crd_of_the_bundle_has_no_subresource(
    subresources: dict[str, Any], *, stays: bool
) -> None:
    version = {"name": "v1", "subresources": subresources}
    spec = {"group": "example.com", "names": {"kind": "Thing"}, "scope": "Namespaced", "versions": [version]}
    name = {"name": "things.example.com"}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": name, "spec": spec}
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "status": {"phase": "Ready"}}
    made, _ = make_applicable([thing, crd], install_namespace="n", is_namespaced=lambda *_: True)
    assert ("status" in made) is stays


def test_objects_that_are_equal_by_their_namespace_are_refused() -> None:
    message = refusal(make("ConfigMap"), make("ConfigMap", metadata={"namespace": "install"}))
    assert message == "ConfigMap install/a: defined twice in the bundle; remove one"


def test_the_namespace_of_a_kind_that_is_not_served_distinguishes() -> None:
    objects = [make("Thing", "e.x/v1"), make("Thing", "e.x/v1", {"namespace": "n"})]
    assert applicable(*objects) == objects


def test_the_cluster_is_asked_once_for_a_kind() -> None:
    asked: list[tuple[str, str]] = []

    def answer(group: str, kind: str) -> None:
        asked.append((group, kind))

    things = [make("Thing", "e.x/v1"), {**make("Thing", "e.x/v1"), "metadata": {"name": "b"}}, make("Secret")]
    make_applicable(things, install_namespace="n", is_namespaced=answer)
    assert asked == [("e.x", "Thing"), ("", "Secret")]


def test_unchanged_parts_are_shared() -> None:
    given_object = make("ConfigMap", data={"a": "b"})
    assert applicable(given_object)[0]["data"] is given_object["data"]


def test_the_digest_is_that_of_canonical_json() -> None:
    # printf '{"hooks":[],"objects":[{"a":"ä","b":[1,null]}]}' | sha256sum
    expected = "sha256:3911f26df3b12987f54a90212d32f1e1395aae37e6d586981e74b54eb5d6be0b"
    assert revision_digest([{"b": [1, None], "a": "ä"}]) == expected


DIFFERENT: list[Callable[[], str]] = [
    lambda: revision_digest([]),
    lambda: revision_digest([{"a": 1}]),
    lambda: revision_digest([{"a": "1"}]),
    lambda: revision_digest([{"a": 1}, {"b": 1}]),
    lambda: revision_digest([{"b": 1}, {"a": 1}]),
    lambda: revision_digest([{"a": [1, 2]}]),
    lambda: revision_digest([{"a": [2, 1]}]),
    lambda: revision_digest([], [{"a": 1}]),
    lambda: revision_digest([{"a": 1}], [{"a": 1}]),
]


def test_different_content_has_different_digests() -> None:
    digests = [make_digest() for make_digest in DIFFERENT]
    assert len(set(digests)) == len(digests)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=15,
)
OBJECTS = st.builds(
    lambda kind, name, labels, fields: {**fields, **make(kind, metadata={"name": name, "labels": labels})},
    st.sampled_from(["ConfigMap", "Secret", "Pod", "Service", "Namespace", "Thing"]),
    st.text(min_size=1),
    st.dictionaries(st.text(), st.text() | st.none(), max_size=3),
    st.dictionaries(st.sampled_from(["spec", "data", "stringData", "status", "type"]), VALUES),
)


def shuffled(value: Any, dice: random.Random) -> Any:
    """Return an equal value with the keys of all mappings in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], dice) for key in dice.sample(list(value), len(value))}
    return [shuffled(item, dice) for item in value] if isinstance(value, list) else value


def digest_or_refusal(objects: list[Object]) -> str:
    try:
        return revision_digest(applicable(*objects))
    except BundleError as error:
        return error.message.partition(":")[0]


@given(st.lists(OBJECTS, max_size=4), st.randoms(use_true_random=False))
def test_any_order_of_keys_gives_the_same_revision(objects: list[Object], dice: random.Random) -> None:
    before = json.dumps(objects)
    assert digest_or_refusal(objects) == digest_or_refusal(shuffled(objects, dice))
    assert json.dumps(objects) == before


@given(st.lists(VALUES, max_size=4))
def test_values_that_are_not_objects_are_bundle_errors(values: list[Any]) -> None:
    if not values:
        return
    assert refusal(*values).startswith("objects[0]: ")


INJECT = {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}}
CLIENT = {"service": {"name": "s", "namespace": "n"}}
WEBHOOKS = "admissionregistration.k8s.io/v1"
EXTENSIONS = "apiextensions.k8s.io/v1"
SERVICE_CA = {"annotations": {"service.beta.openshift.io/inject-cabundle": "true"}}


def conversion(**client: Any) -> Object:
    return {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": CLIENT | client}}}


# fmt: off
CORRECTED = [
    Case("what needs nothing stays as it is", make("Secret", data={"a": "eA=="}), make("Secret", data={"a": "eA=="})),
    Case(
        "metadata that only a server may set goes",
        make(
            "Secret",
            metadata={
                "uid": "u",
                "resourceVersion": "1",
                "managedFields": [{}],
                "creationTimestamp": "2020-01-01T00:00:00Z",
                "generation": 1,
                "selfLink": "/",
                "deletionTimestamp": "2020-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 0,
                "generateName": "a-",
                "ownerReferences": [{"uid": "u"}],
                "finalizers": ["a/b"],
            },
        ),
        make("Secret", metadata={"finalizers": ["a/b"]}),
    ),
    Case("what a controller of Kubernetes writes goes, as if it had not been exported",
         make("Deployment", metadata={"annotations": {"deployment.kubernetes.io/revision": "3"}}), make("Deployment")),
    Case("the UID of an account elsewhere, for which the token would be deleted",
         make("Secret", metadata={"annotations": {"kubernetes.io/service-account.uid": "x"}}), make("Secret")),
    Case("last-applied-configuration goes, other annotations stay",
         make("Secret", metadata={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}}),
         make("Secret", metadata={"annotations": {"a": "b"}})),
    Case(
        "our own marks go",
        make(
            "BundleDeployment",
            "core.rukpak.io/v1alpha2",
            {
                "labels": {"core.rukpak.io/bundle-deployment": "x"},
                "annotations": {
                    "core.rukpak.io/owner-uid": "u",
                    "core.rukpak.io/applied-digest": "d",
                    "core.rukpak.io/released-from": "x",
                },
            },
            spec={"paused": True},
        ),
        make("BundleDeployment", "core.rukpak.io/v1alpha2", spec={"paused": True}),
    ),
    Case("what users may say in annotations of ours stays",
         make("Secret", metadata={"annotations": {"core.rukpak.io/prune": "true"}}),
         make("Secret", metadata={"annotations": {"core.rukpak.io/prune": "true"}})),
    Case("empty labels stay as they are", make("Secret", metadata={"labels": {}}),
         make("Secret", metadata={"labels": {}})),
    Case("status goes", make("Service", spec={}, status={"loadBalancer": {}}), make("Service", spec={})),
    Case("status of null goes", make("Service", status=None), make("Service")),
    Case("nulls go, wherever they stand",
         with_pod(nodeName=None, containers=[{"name": "c", "ports": [{"containerPort": 1, "protocol": None}]}]),
         with_pod(containers=[{"name": "c", "ports": [{"containerPort": 1}]}])),
    Case("nulls in metadata go", make("Secret", metadata={"labels": None, "annotations": {"a": None, "b": "c"}}),
         make("Secret", metadata={"annotations": {"b": "c"}})),
    Case("nulls that are items of a list stay", with_container(args=["a", None]), with_container(args=["a", None])),
    Case("text that looks like a null stays", make("Secret", type=":null"), make("Secret", type=":null")),
    Case("null data of a ConfigMap is written as the empty string",
         make("ConfigMap", metadata={"namespace": "n"}, data={"a": None, "b": "c"}, binaryData={"d": None}),
         make("ConfigMap", metadata={"namespace": "n"}, data={"a": "", "b": "c"}, binaryData={"d": ""})),
    Case("null data of a Secret, too", make("Secret", data={"a": None, "b": "eA=="}),
         make("Secret", data={"a": "", "b": "eA=="})),
    Case("a ConfigMap without data stays so", make("ConfigMap", metadata={"namespace": "n"}, data=None),
         make("ConfigMap", metadata={"namespace": "n"})),
    Case("stringData is converted, and precedes data",
         make("Secret", data={"a": "eA==", "b": "eQ=="}, stringData={"a": "ä", "c": "", "d": None}),
         make("Secret", data={"a": "w6Q=", "b": "eQ==", "c": "", "d": ""})),
    Case("stringData without data makes data", make("Secret", stringData={"a": "x"}),
         make("Secret", data={"a": "eA=="})),
    Case("empty stringData goes", make("Secret", stringData={}), make("Secret")),
    Case("stringData of null goes", make("Secret", stringData=None), make("Secret")),
    Case("stringData of another kind stays", make("Secret", "e.x/v1", stringData={"a": "x"}),
         make("Secret", "e.x/v1", stringData={"a": "x"})),
    Case("empty atomic and keyed lists stay", with_container(args=[], env=[]), with_container(args=[], env=[])),
    Case("rules of an aggregated ClusterRole go",
         make("ClusterRole", "rbac.authorization.k8s.io/v1", aggregationRule={"clusterRoleSelectors": []}, rules=[]),
         make("ClusterRole", "rbac.authorization.k8s.io/v1", aggregationRule={"clusterRoleSelectors": []})),
    Case("rules of an ordinary ClusterRole stay",
         make("ClusterRole", "rbac.authorization.k8s.io/v1", aggregationRule=None, rules=[{"verbs": ["get"]}]),
         make("ClusterRole", "rbac.authorization.k8s.io/v1", rules=[{"verbs": ["get"]}])),
    Case("caBundle of a webhook goes beside an inject annotation",
         make("ValidatingWebhookConfiguration", WEBHOOKS, INJECT, webhooks=[{"name": "w", "clientConfig": {**CLIENT,
         "caBundle": "Cg=="}}]),
         make("ValidatingWebhookConfiguration", WEBHOOKS, INJECT, webhooks=[{"name": "w", "clientConfig": CLIENT}])),
    Case("caBundle of a webhook stays without one",
         make("MutatingWebhookConfiguration", WEBHOOKS, webhooks=[{"name": "w", "clientConfig": {"caBundle": "Cg=="}}]),
         make("MutatingWebhookConfiguration", WEBHOOKS, webhooks=[{"name": "w",
         "clientConfig": {"caBundle": "Cg=="}}])),
    Case("caBundle of a conversion webhook goes beside an inject annotation",
         make("CustomResourceDefinition", EXTENSIONS, SERVICE_CA, spec=conversion(caBundle="Cg==")),
         make("CustomResourceDefinition", EXTENSIONS, SERVICE_CA, spec=conversion())),
    Case("caBundle of an APIService goes beside an inject annotation",
         make("APIService", "apiregistration.k8s.io/v1", INJECT, spec={"group": "g", "caBundle": "Cg=="}),
         make("APIService", "apiregistration.k8s.io/v1", INJECT, spec={"group": "g"})),
    Case("preserveUnknownFields of false stays",
         make("CustomResourceDefinition", EXTENSIONS, spec={"preserveUnknownFields": False}),
         make("CustomResourceDefinition", EXTENSIONS, spec={"preserveUnknownFields": False})),
]
# fmt: on


@pytest.mark.parametrize("case", CORRECTED, ids=attrgetter("name"))
def test_changed(case: Case) -> None:
    before = copy.deepcopy(case.given)
    assert applicable(case.given) == [case.expect]
    assert case.given == before


@pytest.mark.parametrize("case", CORRECTED, ids=attrgetter("name"))
def test_applicable_objects_are_not_changed_again(case: Case) -> None:
    once = applicable(case.given)
    assert applicable(*once) == once


THING = """
apiVersion: VERSION
kind: Thing
metadata: {name: a, labels: {a: null}}
spec:
  strict: null
  unknown: null
  nullable: null
  items: [{a: null, b: null}]
  map: {a: null}
  free: {known: null, unknown: null, deep: {a: [null, {b: null}]}}
"""


def test_nulls_that_a_crd_of_the_bundle_allows_are_kept() -> None:
    objects = parse(CRD.replace("SCOPE", "Namespaced") + "---" + THING.replace("VERSION", "e.x/v1"))
    _, thing = applicable(*objects)
    assert thing["metadata"]["labels"] == {}
    assert thing["spec"] == {
        "nullable": None,
        "items": [{"a": None}],
        "map": {"a": None},
        "free": {"unknown": None, "deep": {"a": [None, {"b": None}]}},
    }


@pytest.mark.parametrize("version", ["e.x/v2", "other.x/v1"])
def test_nulls_of_unknown_fields_are_removed(version: str) -> None:
    objects = parse(CRD.replace("SCOPE", "Namespaced") + "---" + THING.replace("VERSION", version))
    assert applicable(*objects)[1]["spec"] == {"items": [{}], "map": {}, "free": {"deep": {"a": [None, {}]}}}


def known(crd: str) -> dict[Kind, CustomKind]:
    """Return what is kept of a definition of the cluster."""
    found = custom_kinds(parse(crd))
    return {kind: replace(each, schema=reduce_schema(each.schema)) for kind, each in found.items()}


def test_nulls_that_a_crd_of_the_cluster_allows_are_kept_as_by_one_of_the_bundle() -> None:
    crd = CRD.replace("SCOPE", "Namespaced")
    thing, bundled = parse(THING.replace("VERSION", "e.x/v1")), parse(crd)
    [made] = make_applicable(thing, install_namespace="install", is_namespaced=is_namespaced, custom=known(crd))
    assert made["spec"] == applicable(*thing, *bundled)[0]["spec"]
    assert made["spec"]["nullable"] is None


@pytest.mark.parametrize(("has_status", "stays"), [(True, False), (False, True)])
def test_status_is_an_ordinary_field_where_a_kind_of_the_cluster_has_no_subresource(
    *, has_status: bool, stays: bool
) -> None:
    custom = {("e.x", "v1", "Thing"): CustomKind(has_status=has_status, schema={})}
    thing = make("Thing", "e.x/v1", status={"phase": "Ready"})
    [made] = make_applicable([thing], install_namespace="n", is_namespaced=is_namespaced, custom=custom)
    assert ("status" in made) is stays


def test_a_crd_of_the_bundle_counts_before_that_of_the_cluster() -> None:
    custom = {("e.x", "v1", "Thing"): CustomKind(has_status=False, schema={"nullable": True})}
    thing, crd = parse(THING.replace("VERSION", "e.x/v1")), parse(CRD.replace("SCOPE", "Namespaced"))
    made = make_applicable([*thing, *crd], install_namespace="install", is_namespaced=is_namespaced, custom=custom)
    assert made == applicable(*thing, *crd)


class Asked(NamedTuple):
    name: str
    given: Object
    expect: bool
    crds: str = ""


# fmt: off
ASKED = [
    Asked("a null in a field", make("Thing", "e.x/v1", spec={"a": None}), expect=True),
    Asked("a null in an item of a list", make("Thing", "e.x/v1", spec={"a": [{"b": None}]}), expect=True),
    Asked("a null at the top", make("Thing", "e.x/v1", spec=None), expect=True),
    Asked("a status", make("Thing", "e.x/v1", status={"phase": "Ready"}), expect=True),
    Asked("an empty status", make("Thing", "e.x/v1", status={}), expect=True),
    Asked("neither", make("Thing", "e.x/v1", spec={"a": 1}), expect=False),
    Asked("a null in metadata", make("Thing", "e.x/v1", {"creationTimestamp": None}, spec={}), expect=False),
    Asked("a null that is an item of a list", make("Thing", "e.x/v1", spec={"a": [None]}), expect=False),
    Asked("text that looks like a null", make("Thing", "e.x/v1", spec={"a": ":null"}), expect=False),
    Asked("a null in a kind of Kubernetes", make("Deployment", "apps/v1", spec=None, status={}), expect=False),
    Asked("a null in a kind of the core group", make("Service", spec=None, status={}), expect=False),
    Asked("a kind of the bundle", make("Thing", "e.x/v1", spec={"a": None}), expect=False, crds=CRD),
    Asked("another version of a kind of the bundle", make("Thing", "e.x/v2", spec=None), expect=False, crds=CRD),
    Asked("a kind of the same name in another group", make("Thing", "f.x/v1", spec={"a": None}), expect=True, crds=CRD),
]
# fmt: on


@pytest.mark.parametrize("case", ASKED, ids=attrgetter("name"))
def test_only_kinds_that_decide_about_a_field_need_to_be_known(case: Asked) -> None:
    group, _, version = case.given["apiVersion"].rpartition("/")
    expect = {(group, version, case.given["kind"])} if case.expect else set()
    assert find_kinds_to_know([case.given, case.given], parse(case.crds)) == expect


PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
TEXT = {"type": "string", "description": "a"}
# fmt: off
REDUCED = [
    ("nothing is nullable", {"type": "object", "properties": {"a": TEXT}}, {}),
    ("nullable: false", {"properties": {"a": {"nullable": False}}}, {}),
    ("a nullable field", {"type": "object", "properties": {"a": TEXT, "b": {**TEXT, "nullable": True, "default": ""}}},
     {"properties": {"b": {"nullable": True}}}),
    ("in a list", {"properties": {"a": {"items": {"properties": {"b": {"nullable": True}}}}}},
     {"properties": {"a": {"items": {"properties": {"b": {"nullable": True}}}}}}),
    ("in a map", {"additionalProperties": {**TEXT, "nullable": True}}, {"additionalProperties": {"nullable": True}}),
    ("below unknown fields, declared ones are told apart", {**PRESERVE, "properties": {"a": TEXT}},
     {**PRESERVE, "properties": {"a": {}}}),
    ("and lists", {**PRESERVE, "items": TEXT}, {**PRESERVE, "items": {}}),
    ("and maps", {**PRESERVE, "additionalProperties": TEXT}, {**PRESERVE, "additionalProperties": {}}),
    ("any map", {**PRESERVE, "additionalProperties": True}, PRESERVE),
    ("nonsense", {"properties": {"a": 1}, "items": [], "nullable": "yes"}, {}),
]
# fmt: on


@pytest.mark.parametrize(("schema", "expect"), [row[1:] for row in REDUCED], ids=[row[0] for row in REDUCED])
def test_of_a_schema_is_kept_where_null_is_allowed(schema: Object, expect: Object) -> None:
    assert reduce_schema(schema) == expect


NAMES = st.sampled_from("ab")
SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional={"nullable": st.booleans(), **dict.fromkeys(PRESERVE, st.booleans())}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "nullable": st.booleans(),
            **dict.fromkeys(PRESERVE, st.booleans()),
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "items": inner,
        },
    ),
    max_leaves=8,
)
WITH_NULLS = st.recursive(
    st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=8,
)


@given(schema=SCHEMAS, value=st.dictionaries(NAMES, WITH_NULLS, max_size=2))
def test_what_is_kept_of_a_schema_keeps_the_same_nulls(schema: Object, value: Object) -> None:
    assert without_nulls(value, reduce_schema(schema)) == without_nulls(value, schema)


def env(*variables: Any) -> Object:
    return with_container(env=list(variables))


POD = "Deployment a: spec.template.spec"
NUMBER = "must be a string, not a number; put it in quotes"
WAVE = f"metadata.annotations.{names.WAVE}: must be an integer from -999999 to 999999; correct it"
BOOLEAN = "must be a string, not a boolean; put it in quotes"
# fmt: off
REFUSED = [
    Case("a number in a ConfigMap", make("ConfigMap", metadata={"namespace": "n"}, data={"port": 80}),
         f"ConfigMap n/a: data.port: {NUMBER}"),
    Case("a boolean in a ConfigMap", make("ConfigMap", data={"on": True}), f"ConfigMap a: data.on: {BOOLEAN}"),
    Case("a mapping in a ConfigMap", make("ConfigMap", data={"c": {}}),
         "ConfigMap a: data.c: must be a string, not a mapping"),
    Case("a list as data", make("ConfigMap", data=[]), "ConfigMap a: data: must be a mapping, not a list"),
    Case("a number in binaryData", make("ConfigMap", binaryData={"a": 1}), f"ConfigMap a: binaryData.a: {NUMBER}"),
    Case("a number in a Secret", make("Secret", data={"a": 1.5}), f"Secret a: data.a: {NUMBER}"),
    Case("a number in stringData", make("Secret", stringData={"pin": 1234}), f"Secret a: stringData.pin: {NUMBER}"),
    Case("a boolean as a label", make("Secret", metadata={"labels": {"a": False}}),
         f"Secret a: metadata.labels.a: {BOOLEAN}"),
    Case("a list as labels", make("Secret", metadata={"labels": []}),
         "Secret a: metadata.labels: must be a mapping, not a list"),
    Case("a number as an annotation", make("Secret", metadata={"annotations": {"a": 1}}),
         f"Secret a: metadata.annotations.a: {NUMBER}"),
    Case("a number as an environment variable", env({"name": "A", "value": "b"}, {"name": "B", "value": 1}),
         f"{POD}.containers[0].env[1].value: {NUMBER}"),
    Case("a boolean as an argument", with_container(args=["-v", True]), f"{POD}.containers[0].args[1]: {BOOLEAN}"),
    Case("a number in a command", with_pod(initContainers=[{"name": "c", "command": [1]}]),
         f"{POD}.initContainers[0].command[0]: {NUMBER}"),
    Case("a boolean in a node selector", with_pod(nodeSelector={"ssd": True}), f"{POD}.nodeSelector.ssd: {BOOLEAN}"),
    Case("a number in the selector of a Service", make("Service", spec={"selector": {"a": 1}}),
         f"Service a: spec.selector.a: {NUMBER}"),
    Case("a number in the selector of a ReplicationController",
         make("ReplicationController", spec={"selector": {"a": 1}}),
         f"ReplicationController a: spec.selector.a: {NUMBER}"),
    Case("a number in the selector of a workload",
         make("StatefulSet", "apps/v1", spec={"selector": {"matchLabels": {"a": 1}}}),
         f"StatefulSet a: spec.selector.matchLabels.a: {NUMBER}"),
    Case("a number as a label of pods", make("Job", "batch/v1", spec={"template": {"metadata": {"labels": {"a": 1}}}}),
         f"Job a: spec.template.metadata.labels.a: {NUMBER}"),
    Case("a number in the pods of a CronJob",
         make("CronJob", "batch/v1",
         spec={"jobTemplate": {"spec": {"template": {"spec": {"nodeSelector": {"a": 1}}}}}}),
         f"CronJob a: spec.jobTemplate.spec.template.spec.nodeSelector.a: {NUMBER}"),
    Case("a number in a Pod", make("Pod", spec={"nodeSelector": {"a": 1}}), f"Pod a: spec.nodeSelector.a: {NUMBER}"),
    Case("a label of a Pod, once", make("Pod", metadata={"labels": {"a": 1}}, spec={}),
         f"Pod a: metadata.labels.a: {NUMBER}"),
    Case("two environment variables of one name",
         env({"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}),
         f'{POD}.containers[0].env[2]: same name "A" as env[0]; remove one'),
    Case("two equal ports, one of them by default",
         with_container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80,
         "protocol": "TCP"}]),
         f'{POD}.containers[0].ports[2]: same containerPort "80", protocol "TCP" as ports[0]; remove one'),
    Case("two mounts at one path",
         with_container(volumeMounts=[{"mountPath": "/a", "name": "x"}, {"mountPath": "/a", "name": "y"}]),
         f'{POD}.containers[0].volumeMounts[1]: same mountPath "/a" as volumeMounts[0]; remove one'),
    Case("two containers of one name", with_pod(containers=[{"name": "c"}] * 2),
         f'{POD}.containers[1]: same name "c" as containers[0]; remove one'),
    Case("two volumes of one name", with_pod(volumes=[{"name": "v"}] * 2),
         f'{POD}.volumes[1]: same name "v" as volumes[0]; remove one'),
    Case("two pull secrets without a name", with_pod(imagePullSecrets=[{}, {}]),
         f'{POD}.imagePullSecrets[1]: same name "" as imagePullSecrets[0]; remove one'),
    Case("two ports of a Service",
         make("Service", spec={"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}, {"port": 53,
         "protocol": None}]}), 'Service a: spec.ports[2]: same port "53", protocol "TCP" as ports[1]; remove one'),
    Case("two equal secrets of a ServiceAccount", make("ServiceAccount", secrets=[{"name": "s"}] * 2),
         'ServiceAccount a: secrets[1]: same name "s" as secrets[0]; remove one'),
    Case("two equal finalizers", make("Secret", metadata={"finalizers": ["a/b", "a/b"]}),
         'Secret a: metadata.finalizers[1]: same name "a/b" as finalizers[0]; remove one'),
    Case("two webhooks of one name",
         make("MutatingWebhookConfiguration", WEBHOOKS, webhooks=[{"name": "w"}, {"name": "w"}]),
         'MutatingWebhookConfiguration a: webhooks[1]: same name "w" as webhooks[0]; remove one'),
    Case("a null in a keyed list", env({"name": "A"}, None),
         f"{POD}.containers[0].env[1]: must not be null; remove it"),
    Case("a null finalizer", make("Secret", metadata={"finalizers": [None]}),
         "Secret a: metadata.finalizers[0]: must not be null; remove it"),
    Case(
        "preserveUnknownFields of true",
        make("CustomResourceDefinition", EXTENSIONS, spec={"preserveUnknownFields": True}),
        "CustomResourceDefinition a: spec.preserveUnknownFields: must not be true in apiextensions.k8s.io/v1; "
        "remove it and set x-kubernetes-preserve-unknown-fields: true in the schema",
    ),
    Case("a wave that is no integer", make("Secret", metadata={"annotations": {names.WAVE: "first"}}),
         f"Secret a: {WAVE}"),
    Case("a wave without quotes", make("Secret", metadata={"annotations": {names.WAVE: 3}}),
         f"Secret a: metadata.annotations.{names.WAVE}: {NUMBER}"),
    Case("an object without kind", {"apiVersion": "v1", "metadata": {"name": "a"}}, "objects[0]: kind: missing"),
]
# fmt: on


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_refused(case: Case) -> None:
    assert refusal(case.given) == case.expect


# fmt: off
LEFT_TO_THE_SERVER = [
    Case("a workload without a spec", make("Deployment", "apps/v1"), None),
    Case("text as a spec", make("Deployment", "apps/v1", spec="x"), None),
    Case("text as containers", with_pod(containers="x"), None),
    Case("text as a container", with_pod(containers=["x"]), None),
    Case("text as an environment", with_container(env="x", args="y", ports=["z"]), None),
    Case("keys of other types", with_container(env=[{"name": []}, {"name": {}}, {"name": []}]), None),
    Case("items without a key", with_container(env=[{}, {}, {"value": "x"}]), None),
    Case("webhooks that are none", make("MutatingWebhookConfiguration", WEBHOOKS, INJECT, webhooks={"a": 1}), None),
    Case("a webhook that is none", make("MutatingWebhookConfiguration", WEBHOOKS, INJECT, webhooks=["a"]), None),
    Case("a CRD of nonsense", make("CustomResourceDefinition", EXTENSIONS, spec={"versions": 1, "names": []}), None),
    Case("a CRD of worse nonsense", make("CustomResourceDefinition", EXTENSIONS, spec={"versions": [1, {"schema": 1}]}),
         None),
    Case("finalizers that are none", make("Secret", metadata={"finalizers": {"a": 1}}), None),
]
# fmt: on


@pytest.mark.parametrize("case", LEFT_TO_THE_SERVER, ids=attrgetter("name"))
def test_left_to_the_api_server(case: Case) -> None:
    assert applicable(case.given) == [case.given]


def test_all_problems_are_counted() -> None:
    message = refusal(make("Secret", data={"a": 1, "b": 2}), make("ConfigMap", data={"c": 3}))
    assert message == f"Secret a: data.a: {NUMBER} (and 2 more)"


def test_a_message_never_shows_a_value() -> None:
    assert "7391" not in refusal(make("Secret", stringData={"pin": 7391}))
