"""`--wait`, over a cluster in memory."""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.cli import main
from controller.kube.resources import DEPLOYMENTS
from tests.support.deployments import NOT_READY, NOW, READY, condition, observed
from tests.support.fake_cluster import FakeCluster


@pytest.mark.parametrize("is_terminal", [True, False], ids=["a terminal", "a pipe"])
def test_progress_is_shown_on_a_terminal_only(
    is_terminal: bool, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    path = DEPLOYMENTS.path(name="shop")
    states = [
        condition("Ready", "False", "Applying", "a"),
        condition("Ready", "False", "Applying", "a"),
        condition("Ready", "False", "Progressing", "b"),
        READY,
    ]

    def read(asked: str) -> Any:
        cluster.patch(path, {"status": {"conditions": [states.pop(0)], "notReady": [NOT_READY]}})
        return cluster._reply(cluster.objects[asked])

    cluster.get = read  # type: ignore[method-assign, assignment]
    assert main(["status", "shop", "--wait", "-o", "name"]) == 0
    out, err = capsys.readouterr()
    assert out == "bundledeployment.core.rukpak.io/shop\n"
    shown = [text for text in err.split("\r\x1b[K") if text]
    assert shown == [
        "shop: Applying: a; not ready: Deployment web",
        "shop: Progressing: b; not ready: Deployment web",
    ] * (is_terminal)


class Wait(NamedTuple):
    name: str
    status: dict[str, Any]
    spec: dict[str, Any]
    says: str


STALLED = [condition("Ready", "False", "NotFound", "no tag"), condition("Stalled", "True", "NotFound", "no tag")]
WAITS = [
    Wait("one that is stalled", {"conditions": STALLED}, {}, "waiting cannot help: NotFound: no tag"),
    Wait("a paused one with changes",
         {"conditions": [condition("Ready", "False", "PausedWithChanges", "revision b will be applied"),
                         condition("Installed", "False", "PausedWithChanges", "revision b will be applied")]},
         {"paused": True},
         'waiting cannot help: paused: revision b will be applied; run "rukpak resume shop"'),
    Wait("a paused one that is not healthy yet", {"conditions": [condition("Ready", "False", "Progressing", "0 of 1")]},
         {"paused": True}, "timed out: Progressing: 0 of 1 (paused)"),
    Wait("one that was stalled before the last change",
         {"conditions": [{**each, "observedGeneration": 0} for each in STALLED]}, {},
         "timed out: waiting for the controller"),
]  # fmt: skip


@pytest.mark.parametrize("case", WAITS, ids=attrgetter("name"))
def test_a_wait_ends_at_once_where_it_cannot_help(
    case: Wait, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(observed(status=case.status, spec=case.spec))
    limit = "5h" if "cannot help" in case.says else "1ms"
    assert main(["status", "shop", "--wait", "-o", "name", f"--timeout={limit}"]) == 1
    assert capsys.readouterr().err.startswith(f"rukpak status: shop: {case.says}")


def test_a_failure_that_is_described_is_not_repeated(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.put(observed(status={"conditions": STALLED}))
    assert main(["status", "shop", "--wait"]) == 1
    out, err = capsys.readouterr()
    assert (out + err).count("no tag") == 1
    assert err == "rukpak status: shop: waiting cannot help\n"


def test_one_that_is_deleted_or_gone_is_not_waited_for(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(observed(metadata={"deletionTimestamp": NOW}, status={"conditions": [READY]}))
    assert main(["status", "shop", "--wait", "-o", "name"]) == 1
    assert "shop: waiting cannot help: it is being deleted" in capsys.readouterr().err


def test_all_are_waited_for_together(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.put(observed("a", status={"conditions": [condition("Ready", "False", "Progressing", "0 of 1")]}))
    cluster.put(observed("b", status={"conditions": STALLED}))
    assert main(["status", "--wait", "--timeout=1ms", "-o", "name"]) == 1
    assert sorted(capsys.readouterr().err.splitlines()) == [
        "rukpak status: a: timed out: Progressing: 0 of 1",
        "rukpak status: b: waiting cannot help: NotFound: no tag",
    ]


def test_a_condition_of_the_spec_before_the_change_does_not_end_a_wait(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(observed(metadata={"generation": 2}, status={"conditions": [READY]}))
    assert main(["resume", "shop", "--wait", "--timeout=0"]) == 1
    assert "shop: timed out: waiting for the controller" in capsys.readouterr().err


def test_one_that_cannot_be_read_is_not_waited_for(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.put(observed("odd", spec={"installNamespace": "A B"}))
    assert main(["pause", "odd", "--wait"]) == 1
    assert "odd: waiting cannot help: cannot be read: spec.installNamespace: " in capsys.readouterr().err
