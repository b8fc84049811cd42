"""`rukpak rollback --undo`, over a cluster in memory; what it shows is tested against a real one."""

from __future__ import annotations

from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.cli import command, main, render
from rukpak.controller.cli.command import NoConsentError
from rukpak.controller.kube.resources import DEPLOYMENTS
from tests.support.deployments import DIGEST
from tests.support.fake_cluster import FakeCluster

PATH = DEPLOYMENTS.path(name="shop")


@pytest.fixture
def pinned(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The same cluster, where `shop` is rolled back; nothing can be fetched, and questions are answered with yes."""

    def refuse(*_: Any) -> None:
        raise BundleError(Reason.UNREACHABLE, "registry.example.com does not respond")

    monkeypatch.setattr(render, "render_new", refuse)
    monkeypatch.setattr(command, "ask", lambda _without: True)
    cluster.patch(PATH, {"spec": {"pinnedRevision": DIGEST}})
    return cluster


def test_what_cannot_be_shown_is_said_and_the_question_asked(
    pinned: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rollback", "shop", "--undo"]) == 0
    assert capsys.readouterr() == (
        "bundledeployment.core.rukpak.io/shop rollback undone\n",
        "warning: what follows cannot be shown: Unreachable: registry.example.com does not respond\n",
    )
    assert "pinnedRevision" not in pinned.objects[PATH]["spec"]


def test_whoever_gives_no_secret_is_asked_all_the_same(
    pinned: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise NoConsentError

    monkeypatch.setattr(render, "render_new", refuse)
    monkeypatch.setattr(command, "ask", lambda _without: False)
    assert main(["rollback", "shop", "--undo"]) == 1
    assert capsys.readouterr().err == (
        "warning: what follows is not shown, since no Secret was read\nrukpak rollback: nothing was undone\n"
    )
    assert pinned.objects[PATH]["spec"]["pinnedRevision"] == DIGEST


def test_what_has_changed_meanwhile_is_not_undone(
    pinned: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "ask", lambda _without: pinned.patch(PATH, {"spec": {"paused": True}}))
    assert main(["rollback", "shop", "--undo"]) == 1
    assert capsys.readouterr().err.endswith("rukpak rollback: shop: changed meanwhile; run the command again\n")
    assert pinned.objects[PATH]["spec"]["pinnedRevision"] == DIGEST


def test_nothing_is_undone_where_nothing_is_pinned(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollback", "shop", "--undo", "--yes"]) == 1
    assert capsys.readouterr().err == "rukpak rollback: shop: not rolled back: spec.pinnedRevision is not set\n"


def test_back_and_forward_is_misuse(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollback", "shop", "--undo", "--to", "aaaaaaaa"]) == 2
    assert capsys.readouterr().err == "rukpak rollback: specify only one of --to and --undo\n"
