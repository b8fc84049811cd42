"""Which objects of Flux would take back what is adopted, over a cluster in memory."""

from __future__ import annotations

import pytest

from controller.cli.command import FailedError
from controller.cli.other_tools import HELM_RELEASE, KUSTOMIZATION, Origin, Tool, find_rivals
from controller.kube.resources import Resource
from tests.support.fake_cluster import FakeCluster

KUBECTL = Origin(tool=Tool.KUBECTL)
KINDS = {
    KUSTOMIZATION: Resource(KUSTOMIZATION, "v1", "Kustomization", "kustomizations", namespaced=True),
    HELM_RELEASE: Resource(HELM_RELEASE, "v2", "HelmRelease", "helmreleases", namespaced=True),
}


def make_cluster(*, suspend: bool = False) -> FakeCluster:
    """Return a cluster with a Kustomization and a HelmRelease, each `flux-system/shop`."""
    cluster = FakeCluster(*KINDS.values())
    for kind in KINDS.values():
        about = {"apiVersion": kind.gvk.api_version, "kind": kind.kind, "spec": {"suspend": suspend}}
        cluster.put({**about, "metadata": {"name": "shop", "namespace": "flux-system"}})
    return cluster


def labelled(group: str, name: str = "shop") -> dict[str, str]:
    return {f"{group}/name": name, f"{group}/namespace": "flux-system"}


def find(cluster: FakeCluster, origin: Origin, *labels: dict[str, str]) -> list[str]:
    return [str(rival) for rival in find_rivals(cluster.client, cluster.discovery, origin, labels)]


def test_labels_of_adopted_objects_name_rivals() -> None:
    found = find(make_cluster(), KUBECTL, labelled(KUSTOMIZATION), {}, labelled(HELM_RELEASE))
    assert found == ["Kustomization flux-system/shop", "HelmRelease flux-system/shop"]


def test_one_that_is_gone_is_no_rival_unless_it_is_named() -> None:
    gone = labelled(KUSTOMIZATION, "gone")
    assert find(make_cluster(), KUBECTL, gone) == []
    with pytest.raises(FailedError, match="flux-system/gone: not found"):
        find(make_cluster(), Origin(tool=Tool.FLUX, name="gone", namespace="flux-system"), gone)


def test_one_that_is_named_twice_is_found_once() -> None:
    origin = Origin(tool=Tool.FLUX, name="shop", namespace="flux-system")
    assert find(make_cluster(), origin, labelled(KUSTOMIZATION)) == ["Kustomization flux-system/shop"]


@pytest.mark.parametrize("suspend", [True, False])
def test_one_that_is_suspended_already_is_known(*, suspend: bool) -> None:
    cluster = make_cluster(suspend=suspend)
    [rival] = find_rivals(cluster.client, cluster.discovery, KUBECTL, [labelled(KUSTOMIZATION)])
    assert rival.is_suspended is suspend
