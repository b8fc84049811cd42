from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.cli.uninstall import _PARTS, was_created_by_controller
from controller.formats.manifests import read_documents
from controller.kube.resources import NAMESPACES, GroupVersionKind
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
    assert was_created_by_controller(cluster.client, PATH) is expect


def test_a_namespace_that_does_not_exist_is_not_deleted() -> None:
    assert not was_created_by_controller(FakeCluster().client, PATH)


def test_every_kind_of_object_in_config_is_deleted() -> None:
    folder = Path(__file__).parents[4] / "config"
    files = [
        file for name in INSTALLED for file in (folder / name).rglob("*.yaml") if file.name != "kustomization.yaml"
    ]
    found = {GroupVersionKind.of(each.value) for file in files for each in read_documents(file.read_bytes(), file.name)}
    assert len(files) > 10
    assert sorted(map(str, found - {*_PARTS})) == []
