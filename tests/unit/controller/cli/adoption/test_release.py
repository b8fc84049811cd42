"""Releases of Helm as Helm stores them."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from controller.cli.adoption.origin import Origin, Tool, UnusableOriginError
from controller.cli.adoption.release import delete_release, find_release
from controller.observe.records import ObjectKey
from tests.support.fake_cluster import FakeCluster

ORIGIN = Origin(tool=Tool.HELM, name="shop", namespace="n")
MANIFEST = """---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: other}
"""


def stored(version: int, status: str = "deployed", *, data: str = "", kind: str = "Secret") -> dict[str, Any]:
    packed = base64.b64encode(gzip.compress(json.dumps({"manifest": MANIFEST}).encode())).decode()
    content = base64.b64encode(packed.encode()).decode() if kind == "Secret" else packed
    labels = {"owner": "helm", "name": "shop", "version": str(version), "status": status}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": f"sh.helm.release.v1.shop.v{version}", "namespace": "n", "labels": labels},
        "data": {"release": data or content},
    }


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_the_objects_of_the_latest_revision_are_read(kind: str) -> None:
    cluster = FakeCluster()
    for version in (10, 9):
        cluster.put(stored(version, kind=kind))
    release = find_release(cluster.client, cluster.discovery, ORIGIN)
    assert list(release.objects) == [
        ObjectKey("", "ConfigMap", "n", "a"),
        ObjectKey("", "ConfigMap", "other", "b"),
    ]
    assert release.names == (f"{kind} n/sh.helm.release.v1.shop.v9", f"{kind} n/sh.helm.release.v1.shop.v10")
    delete_release(cluster.client, release)
    with pytest.raises(UnusableOriginError, match="Helm release n/shop: not found"):
        find_release(cluster.client, cluster.discovery, ORIGIN)


def test_a_release_that_helm_is_changing_is_refused() -> None:
    cluster = FakeCluster()
    cluster.put(stored(1))
    cluster.put(stored(2, "pending-upgrade"))
    with pytest.raises(UnusableOriginError, match="is pending-upgrade"):
        find_release(cluster.client, cluster.discovery, ORIGIN)


@pytest.mark.parametrize("data", ["", "bm90aGluZw==", base64.b64encode(b"!").decode()])
def test_a_release_that_cannot_be_read_is_refused(data: str) -> None:
    cluster = FakeCluster()
    cluster.put(stored(1, data=data or "IQ=="))
    with pytest.raises(UnusableOriginError, match="it is not a release of Helm"):
        find_release(cluster.client, cluster.discovery, ORIGIN)
