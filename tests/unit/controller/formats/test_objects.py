"""Which documents are objects, and the errors for those that are not."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.formats.objects import Object, collect_objects, identify


def collect(text: str) -> list[Object]:
    return collect_objects(read_documents(text.encode(), "manifests/x.yaml"))


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    expect: str


A = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
B = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}"
# fmt: off
LISTS = [
    Case("objects come in file order", f"---\n{B}\n---\n{A}\n", "ba"),
    Case("a List is expanded", f"apiVersion: v1\nkind: List\nitems: [{A}, {B}]\n", "ab"),
    Case("a List within a List is expanded",
         f"kind: List\nitems: [{{kind: List, apiVersion: v1, items: [{A}]}}, {B}]\n", "ab"),
    Case("a List without items holds nothing", f"apiVersion: v1\nkind: List\n---\n{A}\n", "a"),
    Case("a List of null holds nothing", "apiVersion: v1\nkind: List\nitems:\n", ""),
    Case("a typed list is expanded", f"apiVersion: v1\nkind: ConfigMapList\nitems: [{A}]\n", "a"),
    Case("items of a typed list take its kind", "apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}}]\n",
         "a"),
    Case("a kind that ends with List may have no items", "{apiVersion: e.x/v1, kind: AllowList, metadata: {name: l}}",
         "l"),
]
# fmt: on


@pytest.mark.parametrize("case", LISTS, ids=attrgetter("name"))
def test_lists(case: Case) -> None:
    assert "".join(item["metadata"]["name"] for item in collect(case.text)) == case.expect


def test_items_of_a_typed_list_inherit_its_api_version_and_kind() -> None:
    (item,) = collect("apiVersion: apps/v1\nkind: DeploymentList\nitems: [{metadata: {name: a}}]\n")
    assert (item["apiVersion"], item["kind"]) == ("apps/v1", "Deployment")


def test_the_same_name_in_another_kind_group_or_namespace_is_another_object() -> None:
    text = f"{A}\n---\n{{apiVersion: v1, kind: Secret, metadata: {{name: a}}}}\n---\n"
    text += "{apiVersion: e.x/v1, kind: ConfigMap, metadata: {name: a}}\n---\n"
    text += "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}}\n"
    assert [str(identify(item)) for item in collect(text)] == [
        "ConfigMap a",
        "Secret a",
        "ConfigMap a",
        "ConfigMap ns/a",
    ]


# fmt: off
DEFECTS = [
    Case("text", "hello\n", "1: must be an object, not a string; set apiVersion, kind and metadata.name"),
    Case("a list", "- a\n", "1: must be an object, not a list; set apiVersion, kind and metadata.name"),
    Case("no apiVersion", "\nkind: ConfigMap\nmetadata: {name: a}\n", "2: apiVersion: missing"),
    Case("an empty kind", "apiVersion: v1\nkind: ''\nmetadata: {name: a}\n", "1: kind: missing"),
    Case("no metadata", "apiVersion: v1\nkind: ConfigMap\n", "1: metadata.name: missing"),
    Case("metadata of null", "apiVersion: v1\nkind: A\nmetadata:\n", "1: metadata: must be a mapping, not null"),
    Case("a list as metadata", "apiVersion: v1\nkind: A\nmetadata: []\n",
         "1: metadata: must be a mapping, not a list"),
    Case("generateName alone", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n",
         "1: metadata.name: missing; generateName is not supported, set metadata.name"),
    Case("the name n, which is false", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: n}\n",
         "1: metadata.name: must be a string, not a boolean; put it in quotes"),
    Case("a number as a namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: 1}\n",
         "1: metadata.namespace: must be a string, not a number; put it in quotes"),
    Case("a mapping as a kind", "apiVersion: v1\nkind: {a: b}\nmetadata: {name: a}\n",
         "1: kind: must be a string, not a mapping"),
    Case("a number as an apiVersion", "apiVersion: 1\nkind: A\nmetadata: {name: a}\n",
         "1: apiVersion: must be a string, not a number; put it in quotes"),
    Case("two slashes", "{apiVersion: a/b/c, kind: A, metadata: {name: a}}",
         "1: apiVersion: must be version or group/version; correct it"),
    Case("nothing after the slash", "{apiVersion: apps/, kind: A, metadata: {name: a}}",
         "1: apiVersion: must be version or group/version; correct it"),
    Case("a slash in a kind", "{apiVersion: v1, kind: a/B, metadata: {name: a}}",
         '1: kind: contains "/"; write the kind without its group'),
    Case("a kind that is too long", f"{{apiVersion: v1, kind: {'A' * 64}, metadata: {{name: a}}}}",
         "1: kind: has 64 characters, but Kubernetes allows 63; shorten it"),
    Case("a namespace that is too long", f"{{apiVersion: v1, kind: A, metadata: {{name: a, namespace: {'a' * 64}}}}}",
         "1: metadata.namespace: has 64 characters, but Kubernetes allows 63; shorten it"),
    Case("a slash in a name", "{apiVersion: v1, kind: A, metadata: {name: org/image}}",
         '1: metadata.name: "org/image": ".", "..", "/" and "%" are not allowed; rename it'),
    Case("a namespace that leads elsewhere", "{apiVersion: v1, kind: A, metadata: {name: a, namespace: ..}}",
         '1: metadata.namespace: "..": ".", "..", "/" and "%" are not allowed; rename it'),
    Case("an item of a List", f"kind: List\nitems: [{A}, {{kind: List, items: [{{kind: A}}]}}]\n",
         "1: items[1].items[0]: apiVersion: missing"),
    Case("an item of null", "kind: List\nitems:\n-\n",
         "1: items[0]: must be an object, not null; set apiVersion, kind and metadata.name"),
    Case("two equal objects", f"{A}\n---\n{B}\n---\n{A}\n",
         "5: ConfigMap a: already defined at manifests/x.yaml:1; remove one"),
    Case("two equal objects in a List", f"kind: List\nitems: [{A}, {A}]\n",
         "1: items[1]: ConfigMap a: defined more than once; remove one"),
    Case(
        "two versions of one object",
        "{apiVersion: e.x/v1, kind: A, metadata: {name: a}}\n---\n{apiVersion: e.x/v2, kind: A, metadata: {name: a}}\n",
        "3: A a: already defined at manifests/x.yaml:1; remove one",
    ),
    Case("several defects", f"kind: A\n---\n- b\n---\n{A}\n---\n{A}\n", "1: apiVersion: missing (and 2 more)"),
]
# fmt: on


@pytest.mark.parametrize("case", DEFECTS, ids=attrgetter("name"))
def test_what_is_no_object_is_named(case: Case) -> None:
    with pytest.raises(BundleError) as raised:
        collect(case.text)
    assert (raised.value.reason, raised.value.message) == (Reason.INVALID_BUNDLE, f"manifests/x.yaml:{case.expect}")
