"""What `--from` names, and releases of Helm as Helm stores them."""

from __future__ import annotations

import base64
import gzip
import json
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.cli.command import FailedError, MisuseError
from controller.cli.other_tools import (
    Origin,
    Tool,
    delete_release,
    find_release,
    hint_at_tool,
    is_tool,
    read_origin,
)
from controller.observe.records import ObjectKey
from tests.support.fake_cluster import FakeCluster

MANAGERS = [
    ("helm/a", "helm", True),
    ("helm/a", "terraform-provider-helm_v2.17.0_x5", True),
    ("helm/a", "kubectl-edit", True),
    ("helm/a", "kustomize-controller", False),
    ("flux/a", "kustomize-controller", True),
    ("flux/a", "kube-controller-manager", False),
    ("kubectl", "kubectl-client-side-apply", True),
    ("kubectl", "kubectl", True),
    ("kubectl", "helm", False),
    ("kubectl", "ci", True),
]
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


class Case(NamedTuple):
    name: str
    text: str
    origin: Origin


CASES = [
    Case("a release in the install namespace", "helm/shop", Origin(tool=Tool.HELM, name="shop", namespace="installed")),
    Case("a release elsewhere", "helm/shop.team", Origin(tool=Tool.HELM, name="shop", namespace="team")),
    Case("a release with a dot in its name", "helm/a.b.team", Origin(tool=Tool.HELM, name="a.b", namespace="team")),
    Case("a Kustomization", "flux/apps", Origin(tool=Tool.FLUX, name="apps", namespace="flux-system")),
    Case("a Kustomization elsewhere", "flux/apps.team", Origin(tool=Tool.FLUX, name="apps", namespace="team")),
    Case("kubectl", "kubectl", Origin(tool=Tool.KUBECTL)),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_a_tool_is_read(case: Case) -> None:
    assert is_tool(case.text)
    assert read_origin(case.text, "installed", ()) == case.origin


@pytest.mark.parametrize("text", ["helm/", "argo/shop", "helm/.team", "flux"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(MisuseError, match="must be helm/RELEASE"):
        read_origin(text, "installed", ())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("helm", "name what it has installed: --from helm/RELEASE"),
        ("flux", "name what it has installed: --from flux/KUSTOMIZATION"),
        ("shop", ""),
    ],
)
def test_a_tool_without_a_name_gets_a_hint(text: str, hint: str) -> None:
    assert hint_at_tool(text) == hint


@pytest.mark.parametrize(("text", "manager", "is_theirs"), MANAGERS)
def test_its_field_managers_are_known(text: str, manager: str, is_theirs: bool) -> None:
    assert read_origin(text, "a", ("ci",)).is_manager(manager) is is_theirs


def test_its_marks_include_the_namespace() -> None:
    release = read_origin("helm/shop.team", "", ())
    marks = {"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "team"}
    assert release.has_marked({"annotations": marks})
    assert not release.has_marked({"annotations": {**marks, "meta.helm.sh/release-namespace": "other"}})
    assert not read_origin("kubectl", "", ()).has_marked({"annotations": marks})


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
    with pytest.raises(FailedError, match="Helm release n/shop: not found"):
        find_release(cluster.client, cluster.discovery, ORIGIN)


def test_a_release_that_helm_is_changing_is_refused() -> None:
    cluster = FakeCluster()
    cluster.put(stored(1))
    cluster.put(stored(2, "pending-upgrade"))
    with pytest.raises(FailedError, match="is pending-upgrade"):
        find_release(cluster.client, cluster.discovery, ORIGIN)


@pytest.mark.parametrize("data", ["", "bm90aGluZw==", base64.b64encode(b"!").decode()])
def test_a_release_that_cannot_be_read_is_refused(data: str) -> None:
    cluster = FakeCluster()
    cluster.put(stored(1, data=data or "IQ=="))
    with pytest.raises(FailedError, match="it is not a release of Helm"):
        find_release(cluster.client, cluster.discovery, ORIGIN)
