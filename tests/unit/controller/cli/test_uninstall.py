from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.cli import main
from rukpak.controller.cli.uninstall import _PARTS, find_made, find_owned, find_staying, was_made
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import NAMESPACES, GroupVersionKind
from tests.support.deployments import observed
from tests.support.fake_cluster import FakeCluster

CONFIG = Path(__file__).parents[4] / "config"
INSTALLED = ("manager", "rbac", "default", "restricted", "finalizer", "policy", "prometheus", "shards")
PATH = NAMESPACES.path(name="rukpak-system")
OURS, OTHERS = {"manager": "rukpak-revisions"}, {"manager": "kubectl-create"}
DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("metadata", "expect"),
    [
        pytest.param({"managedFields": [OURS]}, True, id="created by a controller"),
        pytest.param({"managedFields": [OTHERS]}, False, id="created by a user"),
        pytest.param({"managedFields": [OURS, OTHERS]}, False, id="changed by a user"),
        pytest.param({}, False, id="of unknown origin"),
        pytest.param({"managedFields": [OURS], **DELETING}, False, id="being deleted"),
    ],
)
def test_a_namespace_is_deleted_only_if_a_controller_has_created_it(metadata: dict[str, Any], expect: bool) -> None:
    cluster = FakeCluster()
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rukpak-system", **metadata}})
    assert was_made(cluster.client, PATH) is expect


def test_a_namespace_that_does_not_exist_is_not_deleted() -> None:
    assert not was_made(FakeCluster().client, PATH)


def test_every_kind_of_object_in_config_is_deleted() -> None:
    folder = Path(__file__).parents[4] / "config"
    files = [
        file for name in INSTALLED for file in (folder / name).rglob("*.yaml") if file.name != "kustomization.yaml"
    ]
    found = {GroupVersionKind.of(each.value) for file in files for each in read_documents(file.read_bytes(), file.name)}
    assert len(files) > 10
    assert sorted(map(str, found - {*_PARTS})) == []


KINDS = ("v1/ConfigMap", "v1/PersistentVolumeClaim", "apiextensions.k8s.io/v1/CustomResourceDefinition")


def make_deployment(**spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = observed(status={"managedKinds": list(KINDS)})
    return {**made, "spec": {**made["spec"], **spec}}


def owned(kind: str, name: str, uid: str, **annotations: str) -> dict[str, Any]:
    """Return the metadata of an object of the BundleDeployment `shop`."""
    api_version, _, kind = kind.rpartition("/")
    metadata = {"name": name, "labels": {names.OWNER_LABEL: "shop"}}
    marks = {names.OWNER_UID: uid, **annotations}
    place = {} if kind == "CustomResourceDefinition" else {"namespace": "n"}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**metadata, **place, "annotations": marks}}


STAYING = {
    "all of them, to be kept": (True, {}, ["kept, without an owner: "], 5),
    "all of an orphaning one": (
        False,
        {"deletionPolicy": "Orphan"},
        ["kept, since spec.deletionPolicy is Orphan: "],
        5,
    ),
    "what may not be deleted": (
        False,
        {},
        [
            "kept, since an annotation says so: ConfigMap n/marked",
            "kept, since they may hold data: PersistentVolumeClaim n/data",
            "kept while something uses it: CustomResourceDefinition foos.example.com",
        ],
        3,
    ),
}


@pytest.mark.parametrize("case", STAYING)
def test_what_stays_is_listed_by_why(case: str) -> None:
    keep, spec, expected, count = STAYING[case]
    cluster, deployment = FakeCluster(), make_deployment(**spec)
    uid = deployment["metadata"]["uid"]
    for each in (
        owned(KINDS[0], "a", uid),
        owned(KINDS[0], "marked", uid, **{"helm.sh/resource-policy": "keep"}),
        owned(KINDS[1], "data", uid),
        owned(KINDS[1], "cache", uid, **{names.PRUNE: "true"}),
        owned(KINDS[2], "foos.example.com", uid),
        owned(KINDS[0], "of-an-earlier-one", "other"),
    ):
        cluster.put(each)
    found = list(find_staying(find_owned(cluster.client, cluster.discovery, [deployment]), keep=keep))
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected
    assert sum(line.count(",") - line.startswith("kept, ") for line in found) + len(found) == count


def namespace(name: str, *managers: str, owner: str = "", **annotations: str) -> dict[str, Any]:
    marks = {names.OWNER_UID: owner} if owner else {}
    labels = {names.OWNER_LABEL: "shop"} if owner else {}
    entries = [{"manager": manager} for manager in managers]
    metadata = {"name": name, "labels": labels, "annotations": {**marks, **annotations}, "managedFields": entries}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def test_the_namespaces_that_were_made_are_found() -> None:
    cluster = FakeCluster()
    deployment = make_deployment(installNamespace="shop")
    born = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    bare = [observed(name, metadata=born, spec={"installNamespace": name}) for name in ("bare", "older")]
    orphan = observed("kept", spec={"installNamespace": "orphaned", "deletionPolicy": "Orphan"})
    uid = deployment["metadata"]["uid"]
    for each in (
        namespace("shop", "kubectl-rukpak"),
        namespace("bare"),
        namespace("older"),
        namespace("brought", "rukpak/shop", owner=uid),
        namespace("changed", "rukpak/shop", "kubectl-label", owner=uid),
        namespace("marked", "rukpak/shop", owner=uid, **{"helm.sh/resource-policy": "keep"}),
        namespace("of-another", "rukpak/other", owner="other"),
        namespace("orphaned", "rukpak/kept"),
        namespace("rukpak-system", "rukpak/shop", owner=uid),
        namespace("n", "rukpak/shop", owner=uid),
        owned(KINDS[0], "stays", uid, **{"helm.sh/resource-policy": "keep"}),
    ):
        cluster.put(each)
    for name, time in {"older": "2025-01-01T00:00:00Z", "bare": "2026-01-01T00:00:01Z"}.items():
        cluster.objects[NAMESPACES.path(name=name)]["metadata"]["creationTimestamp"] = time
    everything = find_owned(cluster.client, cluster.discovery, [deployment, orphan, *bare])
    found = find_made(cluster.client, everything, "rukpak-system")
    assert [part.name for part in found] == ["namespace/bare", "namespace/brought", "namespace/shop"]
    shops = find_owned(cluster.client, cluster.discovery, [deployment])
    staying = find_staying(shops, keep=False, deleted={part.path for part in found})
    assert "Namespace brought" not in " ".join(staying)


def test_namespaces_are_deleted_only_with_the_objects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["uninstall", "--namespaces"]) == 2
    assert "--namespaces requires --delete" in capsys.readouterr().err


def test_many_that_stay_are_counted() -> None:
    cluster, deployment = FakeCluster(), make_deployment()
    for number in range(12):
        cluster.put(owned(KINDS[0], f"a{number:02}", deployment["metadata"]["uid"]))
    [line] = find_staying(find_owned(cluster.client, cluster.discovery, [deployment]), keep=True)
    assert line.endswith("ConfigMap n/a04 and 7 more")


def test_a_kind_that_may_not_be_listed_is_named() -> None:
    cluster = FakeCluster()
    cluster.faults["LIST /api/v1/configmaps"] = [ApiError(403, "Forbidden", "no")]
    assert list(find_staying(find_owned(cluster.client, cluster.discovery, [make_deployment()]), keep=False)) == [
        "not known, since you may not list them: ConfigMap"
    ]
