"""`--wait`, over a cluster in memory.

BundleDeployments on which no controller acts are named by verbs that show them.

`--watch` of status and events: what is there, in order, then each change, until Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.controller.cli import INTERRUPTED, deployments, main
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.events import EVENTS, NAMESPACE
from rukpak.controller.kube.lease import LEASES
from rukpak.controller.kube.resources import DEPLOYMENTS
from tests.support.deployments import NOT_READY, NOW, READY, condition, manifest, observed
from tests.support.fake_api import FakeApi
from tests.support.fake_cluster import FakeCluster, hold_lease

SHOWN = ["shop: Applying: a; not ready: Deployment web", "shop: Progressing: b; not ready: Deployment web"]


@pytest.fixture
def moving(cluster: FakeCluster) -> FakeCluster:
    """The same cluster, where each read of `shop` finds its next state, and the fourth finds all of them Ready."""
    states = [condition("Ready", "False", *state) for state in (("Applying", "a"), ("Applying", "a"))]
    states += [condition("Ready", "False", "Progressing", "b"), READY]

    def read(asked: str) -> Any:
        if asked == DEPLOYMENTS.path(name="shop"):
            cluster.patch(asked, {"status": {"conditions": [states.pop(0)], "notReady": [NOT_READY]}})
        elif not states:
            cluster.patch(asked, {"status": {"conditions": [READY]}})
        return cluster._reply(cluster.objects[asked])

    cluster.get = read  # type: ignore[method-assign, assignment]
    return cluster


def test_a_terminal_shows_progress_in_one_line(
    moving: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["status", "shop", "--wait", "-o", "name"]) == 0
    out, err = capsys.readouterr()
    assert out == "bundledeployment.core.rukpak.io/shop\n"
    assert [text for text in err.split("\r\x1b[K") if text] == SHOWN


def test_a_log_has_a_line_for_each_change_with_its_time(
    moving: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "shop", "--wait", "-o", "name"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line[9:] for line in lines] == SHOWN
    assert all(datetime.strptime(line[:8], "%H:%M:%S") for line in lines)  # noqa: DTZ007 - only whether it is a time


def test_what_nobody_reads_later_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    for is_logged in (False, True):
        line = deployments.ProgressLine(is_logged=is_logged)
        line.show("comparing 1 of 2 objects")
        line.clear()
    assert capsys.readouterr().err.count("comparing") == 1


def test_a_log_has_lines_for_each_of_several(moving: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    moving.put(observed("till", status={"conditions": [condition("Ready", "False", "Applying", "\x1b[2J")]}))
    assert main(["status", "shop", "till", "--wait", "-o", "name"]) == 0
    assert sorted(line[9:] for line in capsys.readouterr().err.splitlines()) == [*SHOWN, "till: Applying: \\u001b[2J"]


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
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"rukpak status: shop: {case.says}")


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
    assert sorted(line for line in capsys.readouterr().err.splitlines() if line.startswith("rukpak")) == [
        "rukpak status: a: timed out: Progressing: 0 of 1",
        "rukpak status: b: waiting cannot help: NotFound: no tag",
    ]


def test_a_condition_of_the_spec_before_the_change_does_not_end_a_wait(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(observed(metadata={"generation": 2}, status={"conditions": [READY]}))
    assert main(["resume", "shop", "--wait", "--timeout=1"]) == 1
    told = capsys.readouterr().err
    assert "shop: timed out: waiting for the controller" in told
    assert told.count("waiting for the controller") == 1  # it may take a moment to notice


def test_one_that_cannot_be_read_is_not_waited_for(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.put(observed("odd", spec={"installNamespace": "A B"}))
    assert main(["pause", "odd", "--wait"]) == 1
    assert "odd: waiting cannot help: cannot be read: spec.installNamespace: " in capsys.readouterr().err


def put_in_shard(cluster: FakeCluster, shard: str) -> None:
    cluster.patch(DEPLOYMENTS.path(name="shop"), {"metadata": {"labels": {"core.rukpak.io/shard": shard}}})


def test_one_whose_shard_no_controller_serves_is_named(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in_shard(cluster, "blue")
    assert main(["status"]) == 0
    assert capsys.readouterr().err == (
        'rukpak status: shop: no controller serves the shard "blue"; start one with "--shard blue", or change the '
        "label core.rukpak.io/shard\n"
    )
    put_in_shard(cluster, "No_Name")
    main(["status"])
    assert '"No_Name"; that cannot be the name of one' in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["status", "tree"])
@pytest.mark.parametrize("lease", ["missing", "expired"])
def test_that_no_controller_is_active_is_said(
    verb: str, lease: str, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    path = LEASES.path("rukpak-system", "rukpak")
    if lease == "missing":
        del cluster.objects[path]
    else:
        cluster.patch(path, {"spec": {"renewTime": NOW}})
    assert main([verb, "shop"]) == 0
    assert capsys.readouterr().err == (
        f'rukpak {verb}: shop: no controller is active in namespace "rukpak-system"; "rukpak check" says what is '
        "missing, and --namespace names another one\n"
    )


def test_one_whose_shard_is_served_is_not_named(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    put_in_shard(cluster, "blue")
    hold_lease(cluster, "rukpak-blue")
    assert main(["status", "shop"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "Shard:     blue\n" in captured.out


def test_without_the_right_to_read_leases_nothing_is_said(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in_shard(cluster, "blue")
    cluster.faults[f"GET {LEASES.path('rukpak-system', 'rukpak-blue')}"] = [ApiError(403, "Forbidden", "no")]
    assert main(["status"]) == 0
    assert capsys.readouterr().err == ""


BUNDLES, NEWS = DEPLOYMENTS.path(), EVENTS.path(NAMESPACE)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A cluster with the BundleDeployment `shop`."""
    with FakeApi(BUNDLES, NEWS) as api:
        put(api, paused=False)
        yield api


def put(api: FakeApi, *, paused: bool, **about: str) -> None:
    api.put(BUNDLES, "shop", about=about, spec=manifest(spec={"paused": paused})["spec"])


def note(api: FakeApi, name: str, time: str, text: str, **more: Any) -> None:
    api.put(NEWS, name, type="Normal", reason="Ready", eventTime=time, note=text, **more)


@contextmanager
def watching(api: FakeApi, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a verb with `--watch`, and interrupt it at the end."""
    variables = {**os.environ, "KUBECONFIG": api.kubeconfig(folder / "kubeconfig")}
    # A shell that runs the tests in the background has them, and what they start, ignore SIGINT.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "rukpak", *words, "--watch"]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
        assert (process.returncode, out, err) == (INTERRUPTED, "", "")


def read(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split("   ")


def test_status_shows_each_change_of_a_row_once_and_aligned(api: FakeApi, tmp_path: Path) -> None:
    """An age is no change, and a deletion is one."""
    put(api, paused=False, creationTimestamp="2026-01-01T00:00:00Z")
    with watching(api, tmp_path, "status") as process:
        assert process.stdout is not None
        heading, first = process.stdout.readline(), process.stdout.readline()
        put(api, paused=False, creationTimestamp="2025-01-01T00:00:00Z")
        put(api, paused=True, creationTimestamp="2025-01-01T00:00:00Z")
        second = read(process)
        put(api, paused=True, deletionTimestamp="2026-01-02T00:00:00Z")
        api.delete(BUNDLES, "shop")
        last = read(process)
    assert heading.startswith("NAME")
    assert heading.index("PAUSED") == first.index("false")
    assert ("true" in " ".join(second), "Deleted" in " ".join(second), "Deleted" in " ".join(last)) == (
        True,
        False,
        True,
    )


def test_events_come_in_order_of_time_and_a_repetition_is_news(api: FakeApi, tmp_path: Path) -> None:
    note(api, "a", "2026-01-01T00:00:02.000000Z", "second")
    note(api, "b", "2026-01-01T00:00:01.000000Z", "first")
    with watching(api, tmp_path, "events", "shop") as process:
        assert [read(process)[-1], read(process)[-1]] == ["first\n", "second\n"]
        note(api, "b", "2026-01-01T00:00:01.000000Z", "first", series={"count": 2})
        assert read(process)[-1] == "first (x2)\n"
    assert api.received[-1].query["fieldSelector"] == "regarding.kind=BundleDeployment,regarding.name=shop"
