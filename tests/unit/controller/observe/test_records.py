from __future__ import annotations

import copy
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.records import Record, entry_hash, entry_of, key_of, project

ENTRY: dict[str, Any] = {
    "manager": "rukpak/foo",
    "operation": "Apply",
    "apiVersion": "v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
}
OBJECT: dict[str, Any] = {
    "metadata": {
        "name": "settings",
        "namespace": "shop",
        "uid": "u1",
        "resourceVersion": "7",
        "generation": 3,
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "finalizers": ["example.com/hold"],
        "labels": {names.OWNER_LABEL: "foo"},
        "annotations": {
            names.OWNER_UID: "owner-1",
            names.APPLIED_DIGEST: "v1:sha256:aa",
            names.RELEASED_FROM: "bar",
            names.PRUNE: "true",
            "helm.sh/resource-policy": "keep",
        },
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "no", "uid": "u2"},
            {
                "apiVersion": "core.rukpak.io/v1alpha2",
                "kind": "BundleDeployment",
                "name": "foo",
                "uid": "owner-1",
                "controller": True,
            },
        ],
        "managedFields": [ENTRY],
    }
}


def test_all_that_is_kept_is_read_from_the_metadata() -> None:
    assert project(OBJECT, "", "ConfigMap") == Record(
        key=ObjectKey("", "ConfigMap", "shop", "settings"),
        uid="u1",
        resource_version="7",
        generation=3,
        deleting=True,
        finalizers=("example.com/hold",),
        owner="foo",
        owner_uid="owner-1",
        controller_group="core.rukpak.io",
        controller_kind="BundleDeployment",
        controller_name="foo",
        controller_uid="owner-1",
        applied_digest="v1:sha256:aa",
        released_from="bar",
        entry_hash=entry_hash(ENTRY),
        applied_at="2026-01-01T00:00:00Z",
        prune="true",
        resource_policy="keep",
    )


@pytest.mark.parametrize("missing", [{}, {"metadata": None}, {"metadata": {"labels": None, "managedFields": None}}])
def test_what_is_missing_or_null_is_empty(missing: dict[str, Any]) -> None:
    assert project(missing, "apps", "Deployment") == Record(key=ObjectKey("apps", "Deployment", "", ""), wiped=True)


def test_what_repeats_is_kept_once() -> None:
    records = [project(copy.deepcopy(OBJECT), "", "Config" + "Map") for _ in range(2)]
    assert records[0].owner_uid is records[1].owner_uid
    assert records[0].key.namespace is records[1].key.namespace


@pytest.mark.parametrize(
    ("version", "group"),
    [("v1", ""), ("apps/v1", "apps"), ("gateway.networking.k8s.io/v1", "gateway.networking.k8s.io")],
)
def test_the_key_of_an_object_has_its_group_and_no_version(version: str, group: str) -> None:
    manifest = {"apiVersion": version, "kind": "Thing", "metadata": {"name": "a"}}
    assert key_of(manifest) == ObjectKey(group, "Thing", "", "a")


def test_messages_show_the_namespace_of_a_key_where_there_is_one() -> None:
    assert str(ObjectKey("apps", "Deployment", "shop", "web")) == "Deployment shop/web"
    assert str(ObjectKey("", "Namespace", "", "shop")) == "Namespace shop"


@pytest.mark.parametrize(("kind", "labels"), [("Namespace", (("a", "1"), ("b", "2"))), ("ConfigMap", ())])
def test_labels_are_kept_of_a_namespace_alone(kind: str, labels: tuple[tuple[str, str], ...]) -> None:
    assert project({"metadata": {"name": "shop", "labels": {"b": "2", "a": "1"}}}, "", kind).labels == labels


class Mark(NamedTuple):
    name: str
    metadata: dict[str, dict[str, str]]
    expect: str


MARKS = [
    Mark("no other owner", {"labels": {"app.kubernetes.io/instance": "x"}}, ""),
    Mark("Helm", {"annotations": {"meta.helm.sh/release-name": "x"}}, 'Helm release "x"'),
    Mark("Flux", {"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, 'Flux Kustomization "x"'),
    Mark(
        "Flux with Helm beneath it is Helm's",
        {"labels": {"helm.toolkit.fluxcd.io/name": "x"}, "annotations": {"meta.helm.sh/release-name": "y"}},
        'Helm release "y"',
    ),
    Mark(
        "Argo CD by annotation", {"annotations": {"argocd.argoproj.io/tracking-id": "x:a"}}, 'Argo CD application "x:a"'
    ),
    Mark("Argo CD by label", {"labels": {"argocd.argoproj.io/instance": "x"}}, 'Argo CD application "x"'),
    Mark("kapp", {"labels": {"kapp.k14s.io/app": "1"}}, 'kapp app "1"'),
    Mark("OLM v0", {"labels": {"olm.owner": "x.v1"}}, 'OLM operator "x.v1"'),
    Mark("OLM v1", {"labels": {"olm.operatorframework.io/owner-name": "x"}}, 'OLM extension "x"'),
    Mark("OLM by the key of a label", {"labels": {"operators.coreos.com/x.ns": ""}}, 'OLM operator "x.ns"'),
    Mark("OLM, which operator is not said", {"labels": {"olm.managed": "true"}}, "OLM"),
]


@pytest.mark.parametrize("case", MARKS, ids=attrgetter("name"))
def test_who_else_claims_an_object(case: Mark) -> None:
    assert project({"metadata": case.metadata}, "", "ConfigMap").marks == case.expect


OTHERS = [
    pytest.param({"manager": "rukpak/bar"}, id="another manager's"),
    pytest.param({"operation": "Update"}, id="an update by the same manager"),
    pytest.param({"subresource": "status"}, id="one for a subresource"),
]


@pytest.mark.parametrize("other", OTHERS)
def test_an_entry_that_is_not_ours_is_passed_over(other: dict[str, str]) -> None:
    manifest = {"metadata": {"managedFields": [{**ENTRY, **other}, ENTRY]}}
    assert entry_of(manifest, "rukpak/foo") is ENTRY
    assert entry_of({"metadata": {"managedFields": [{**ENTRY, **other}]}}, "rukpak/foo") is None


def test_an_object_without_owner_label_has_no_entry_of_ours() -> None:
    record = project({"metadata": {"managedFields": [{**ENTRY, "manager": "rukpak/"}]}}, "", "ConfigMap")
    assert (record.entry_hash, record.wiped) == ("", False)


WIPED_CHANGES = [
    pytest.param({"generation": 2, "resourceVersion": "9"}, False, id="its status was written"),
    pytest.param({"generation": 3, "resourceVersion": "9"}, True, id="its spec was written"),
    pytest.param({"generation": None, "resourceVersion": "9"}, True, id="it has no generation, and was written"),
]


@pytest.mark.parametrize(("metadata", "changed"), WIPED_CHANGES)
def test_what_was_wiped_has_changed_when(metadata: dict[str, Any], changed: bool) -> None:
    labels = {"labels": {names.OWNER_LABEL: "foo"}}
    before, after = (
        project({"metadata": {**labels, **about}}, "", "Foo")
        for about in ({"generation": metadata["generation"] and 2, "resourceVersion": "8"}, metadata)
    )
    assert (before.wiped, before.entry_hash != "") == (True, True)
    assert (before.entry_hash != after.entry_hash) is changed


def test_the_hash_is_of_what_an_entry_claims() -> None:
    reordered = {**ENTRY, "time": "later", "fieldsV1": {"f:data": {"f:b": {}, "f:a": {}}}}
    assert entry_hash(reordered) == entry_hash(ENTRY)
    assert (
        len({entry_hash(entry) for entry in (ENTRY, {**ENTRY, "apiVersion": "v2"}, {**ENTRY, "fieldsV1": {}}, None)})
        == 4
    )
