"""BundleDeployments on which no controller acts are named by verbs that show them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controller.cli import main
from controller.kube.errors import ApiError
from controller.kube.lease import LEASES
from controller.kube.resources import DEPLOYMENTS
from tests.support.fake_cluster import FakeCluster


def put_in_shard(cluster: FakeCluster, shard: str) -> None:
    cluster.patch(DEPLOYMENTS.path(name="shop"), {"metadata": {"labels": {"core.rukpak.io/shard": shard}}})


def test_one_whose_shard_no_controller_serves_is_named(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in_shard(cluster, "blue")
    assert main(["status"]) == 0
    assert capsys.readouterr().err == (
        'rukpak status: shop: no controller serves the shard "blue"; start one with "--shard blue", or change the '
        "label core.rukpak.io/shard; meanwhile the default shard acts\n"
    )
    cluster.patch(DEPLOYMENTS.path(name="shop"), {"status": {"shard": "blue"}})
    main(["status"])
    assert capsys.readouterr().err.endswith("or change the label core.rukpak.io/shard\n")
    put_in_shard(cluster, "No_Name")
    main(["status"])
    assert '"No_Name"; that cannot be the name of one' in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["status", "tree"])
def test_one_that_no_controller_has_observed_is_named(
    verb: str, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.patch(DEPLOYMENTS.path(name="shop"), {"metadata": {"generation": 2}})
    assert main([verb, "shop"]) == 0
    assert capsys.readouterr().err == (
        f'rukpak {verb}: shop: no controller acts; "rukpak check" says what is missing\n'
    )


def test_one_whose_shard_is_served_is_not_named(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    put_in_shard(cluster, "blue")
    spec = {"holderIdentity": "pod_1", "renewTime": datetime.now(UTC).isoformat(), "leaseDurationSeconds": 30}
    path = LEASES.path("rukpak-system", "rukpak-blue")
    cluster.objects[path] = {"metadata": {"name": "rukpak-blue", "namespace": "rukpak-system"}, "spec": spec}
    assert main(["status", "shop"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "Shard:     blue, still held by the default one\n" in captured.out


def test_without_the_right_to_read_leases_nothing_is_said(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in_shard(cluster, "blue")
    cluster.faults[f"GET {LEASES.path('rukpak-system', 'rukpak-blue')}"] = [ApiError(403, "Forbidden", "no")]
    assert main(["status"]) == 0
    assert capsys.readouterr().err == ""
