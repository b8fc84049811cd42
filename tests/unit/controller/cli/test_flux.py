"""Which objects of Flux would take back what is adopted, over a cluster in memory."""

from __future__ import annotations

import pytest

from controller.cli.other_tools import find_rivals
from controller.cli.other_tools import HELM_RELEASE, KUSTOMIZATION, Origin, Tool, UnusableOriginError
from controller.cli.adopted_objects import Finding, Standing
from controller.kube.resources import Resource
from controller.observe.records import ObjectKey
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


def labelled(group: str, standing: Standing, name: str = "shop") -> Finding:
    labels = {f"{group}/name": name, f"{group}/namespace": "flux-system"}
    return Finding(key=ObjectKey("", "ConfigMap", "shop", "a"), standing=standing, metadata={"labels": labels})


def find(cluster: FakeCluster, origin: Origin, *findings: Finding) -> list[str]:
    return [str(rival) for rival in find_rivals(cluster.client, cluster.discovery, origin, findings)]


@pytest.mark.parametrize("standing", Standing)
def test_only_what_becomes_or_is_ours_names_rivals(standing: Standing) -> None:
    found = find(make_cluster(), KUBECTL, labelled(KUSTOMIZATION, standing), labelled(HELM_RELEASE, standing))
    is_adopted = standing in (Standing.TAKEN, Standing.OURS)
    assert found == (["Kustomization flux-system/shop", "HelmRelease flux-system/shop"] if is_adopted else [])


def test_one_that_is_gone_is_no_rival_unless_it_is_named() -> None:
    gone = labelled(KUSTOMIZATION, Standing.TAKEN, "gone")
    assert find(make_cluster(), KUBECTL, gone) == []
    with pytest.raises(UnusableOriginError, match="flux-system/gone: not found"):
        find(make_cluster(), Origin(tool=Tool.FLUX, name="gone", namespace="flux-system"), gone)


def test_one_that_is_named_twice_is_found_once() -> None:
    origin = Origin(tool=Tool.FLUX, name="shop", namespace="flux-system")
    assert find(make_cluster(), origin, labelled(KUSTOMIZATION, Standing.TAKEN)) == ["Kustomization flux-system/shop"]


@pytest.mark.parametrize("suspend", [True, False])
def test_one_that_is_suspended_already_is_known(*, suspend: bool) -> None:
    cluster = make_cluster(suspend=suspend)
    [rival] = find_rivals(cluster.client, cluster.discovery, KUBECTL, [labelled(KUSTOMIZATION, Standing.OURS)])
    assert rival.is_suspended is suspend
