"""`rukpak approve` and `deny` over a cluster in memory."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.cli import approval, command, deployments, main
from controller.kube.errors import ApiError
from controller.kube.resources import DEPLOYMENTS
from tests.support.deployments import DIGEST, manifest
from tests.support.fake_cluster import FakeCluster

OTHER = "sha256:" + "b" * 64
PATH = DEPLOYMENTS.path(name="shop")
PENDING = {
    "revision": OTHER,
    "since": "2026-01-01T00:00:00Z",
    "serviceAccountName": "deployer",
    "changes": {"create": 3, "change": 12, "delete": 1, "recreate": 0},
    "problems": ["CustomResourceDefinition a: unsafe"],
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster with one BundleDeployment, `shop`, of which a revision waits; questions are answered with yes."""
    made = FakeCluster()
    spec = {"approval": "Manual", "approvedRevision": DIGEST, "serviceAccountName": "deployer", "installNamespace": "a"}
    made.put(manifest(spec=spec, status={"pending": PENDING, "installedRevision": DIGEST, "revision": DIGEST}))
    monkeypatch.setattr(approval, "connect", lambda _options: made.client)
    monkeypatch.setattr(command, "ask", lambda _without: True)
    monkeypatch.setattr(deployments, "POLL_SECONDS", 0.001)
    return made


def spec(cluster: FakeCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.objects[PATH]["spec"]
    return found


def test_what_waits_is_shown_and_approved(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approve", "shop"]) == 0

    out, err = capsys.readouterr()
    assert out == f"bundledeployment.core.rukpak.io/shop revision {'b' * 12} approved\n"
    for text in (OTHER, DIGEST, "3 to create, 12 to change, 1 to delete", "ServiceAccount deployer", "unsafe"):
        assert text in err
    assert spec(cluster)["approvedRevision"] == OTHER
    assert spec(cluster)["approvedServiceAccountName"] == "deployer"


def test_a_denial_withdraws_the_approval(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.patch(PATH, {"spec": {"approvedRevision": OTHER, "approvedServiceAccountName": "deployer"}})
    assert main(["deny", "shop"]) == 0

    assert capsys.readouterr().out == f"bundledeployment.core.rukpak.io/shop revision {'b' * 12} denied\n"
    assert spec(cluster)["deniedRevision"] == OTHER
    assert not {"approvedRevision", "approvedServiceAccountName"} & spec(cluster).keys()


def test_a_denial_leaves_the_approval_of_another_revision(cluster: FakeCluster) -> None:
    assert main(["deny", "shop"]) == 0
    assert spec(cluster)["approvedRevision"] == DIGEST


def test_an_approval_withdraws_the_denial(cluster: FakeCluster) -> None:
    cluster.patch(PATH, {"spec": {"deniedRevision": OTHER}})
    assert main(["approve", "shop"]) == 0
    assert "deniedRevision" not in spec(cluster)


class Case(NamedTuple):
    name: str
    words: list[str]
    status: int
    says: str


REFUSED = [
    Case("one that does not exist", ["approve", "till"], 1, 'rukpak approve: BundleDeployment "till" not found'),
    Case("another abbreviated revision", ["approve", "shop", "--revision", "aaaaaaaaaaaa"], 2,
         'rukpak approve: --revision "aaaaaaaaaaaa": no revision that waits for approval begins so'),
    Case("no digest", ["deny", "shop", "--revision", "latest"], 2, 'rukpak deny: --revision "latest"'),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_what_is_not_approved(case: Case, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    before = dict(spec(cluster))
    assert main(case.words) == case.status
    assert case.says in capsys.readouterr().err
    assert spec(cluster) == before


def test_nothing_waits(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.patch(PATH, {"status": {"pending": None}})
    assert main(["approve", "shop"]) == 1
    assert capsys.readouterr().err == "rukpak approve: shop: no revision waits for approval\n"


def test_nothing_waits_after_a_denial(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.patch(PATH, {"spec": {"deniedRevision": OTHER}, "status": {"pending": None}})
    assert main(["approve", "shop"]) == 1
    err = capsys.readouterr().err
    assert f"{'b' * 12} was denied (spec.deniedRevision)" in err
    assert f"approve shop --revision {OTHER}" in err

    assert main(["approve", "shop", "--revision", OTHER]) == 0
    assert spec(cluster)["approvedRevision"] == OTHER
    assert "deniedRevision" not in spec(cluster)


def test_a_no_changes_nothing(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "ask", lambda _without: False)
    assert main(["approve", "shop"]) == 1
    assert capsys.readouterr().err.endswith("rukpak approve: nothing was approved\n")
    assert spec(cluster)["approvedRevision"] == DIGEST


@pytest.mark.parametrize("text", ["b" * 12, f"sha256:{'b' * 12}", OTHER, "b" * 64])
def test_a_revision_is_named(text: str, cluster: FakeCluster) -> None:
    assert main(["approve", "shop", "--revision", text, "--yes"]) == 0
    assert spec(cluster)["approvedRevision"] == OTHER


def test_a_revision_that_does_not_wait_is_approved_in_advance(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = "sha256:" + "c" * 64
    assert main(["approve", "shop", "--revision", digest]) == 0
    assert "It does not wait for approval" in capsys.readouterr().err
    assert spec(cluster)["approvedRevision"] == digest


def test_what_has_changed_meanwhile_is_not_approved(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    third = {**PENDING, "revision": "sha256:" + "c" * 64}
    monkeypatch.setattr(command, "ask", lambda _without: cluster.patch(PATH, {"status": {"pending": third}}))
    assert main(["approve", "shop"]) == 1
    assert '"shop" has changed meanwhile; run the command again' in capsys.readouterr().err
    assert spec(cluster)["approvedRevision"] == DIGEST


def test_a_changed_spec_is_not_approved_either(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change = {"metadata": {"generation": 7}, "spec": {"serviceAccountName": "admin"}}
    monkeypatch.setattr(command, "ask", lambda _without: cluster.patch(PATH, change))
    assert main(["approve", "shop"]) == 1
    assert "has changed meanwhile" in capsys.readouterr().err


def test_a_status_that_has_changed_does_not_matter(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ask", lambda _without: cluster.patch(PATH, {"status": {"managedState": "x"}}))
    assert main(["approve", "shop"]) == 0
    assert spec(cluster)["approvedRevision"] == OTHER


def test_another_failure_is_reported(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ApiError(403, "Forbidden", 'you need the verb "approve"')

    monkeypatch.setattr(cluster, "merge_patch", refuse)
    assert main(["approve", "shop"]) == 1
    assert 'you need the verb "approve"' in capsys.readouterr().err


def test_waiting_ends_when_another_revision_waits(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    condition = {"type": "Ready", "status": "False", "reason": "AwaitingApproval", "message": "revision ccc waits"}
    about = {"observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    cluster.patch(PATH, {"status": {"conditions": [{**condition, **about}]}})
    assert main(["approve", "shop", "--wait", "--timeout=5h"]) == 1
    assert "waiting cannot help: AwaitingApproval: revision ccc waits" in capsys.readouterr().err


def test_a_denial_is_awaited(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deny", "shop", "--wait", "--timeout=1ms"]) == 1
    assert "waiting for the controller" in capsys.readouterr().err
