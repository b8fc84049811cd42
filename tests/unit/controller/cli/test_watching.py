"""`--watch` of status and events: what is there, in order, then each change, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.cli import INTERRUPTED
from controller.kube.events import EVENTS, NAMESPACE
from controller.kube.resources import DEPLOYMENTS
from tests.support.deployments import manifest
from tests.support.fake_api import FakeApi

BUNDLES, NEWS = DEPLOYMENTS.path(), EVENTS.path(NAMESPACE)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A cluster with the BundleDeployment `shop`."""
    with FakeApi(BUNDLES, NEWS) as api:
        put(api, paused=False)
        yield api


def put(api: FakeApi, *, paused: bool) -> None:
    api.put(BUNDLES, "shop", spec=manifest(spec={"paused": paused})["spec"])


def note(api: FakeApi, name: str, time: str, text: str, **more: Any) -> None:
    api.put(NEWS, name, type="Normal", reason="Ready", eventTime=time, note=text, **more)


@contextmanager
def watching(api: FakeApi, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a verb with `--watch`, and interrupt it at the end."""
    variables = {**os.environ, "KUBECONFIG": api.kubeconfig(folder / "kubeconfig")}
    # A shell that runs the tests in the background has them, and what they start, ignore SIGINT.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "controller", *words, "--watch"]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert (process.returncode, out, err) == (INTERRUPTED, "", "")


def read(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split("   ")


def test_status_shows_each_change_of_a_row_once(api: FakeApi, tmp_path: Path) -> None:
    with watching(api, tmp_path, "status") as process:
        heading, first = read(process), read(process)
        put(api, paused=False)  # changes no cell
        put(api, paused=True)
        second = read(process)
    assert heading[0].startswith("NAME")
    assert ("false" in " ".join(first), "true" in " ".join(second)) == (True, True)


def test_rows_that_are_shown_one_by_one_are_aligned(api: FakeApi, tmp_path: Path) -> None:
    with watching(api, tmp_path, "status") as process:
        assert process.stdout is not None
        heading, first = process.stdout.readline(), process.stdout.readline()
    assert heading.index("PAUSED") == first.index("false")


def test_events_come_in_order_of_time_and_a_repetition_is_news(api: FakeApi, tmp_path: Path) -> None:
    note(api, "a", "2026-01-01T00:00:02.000000Z", "second")
    note(api, "b", "2026-01-01T00:00:01.000000Z", "first")
    with watching(api, tmp_path, "events", "shop") as process:
        assert [read(process)[-1], read(process)[-1]] == ["first\n", "second\n"]
        note(api, "b", "2026-01-01T00:00:01.000000Z", "first", series={"count": 2})
        assert read(process)[-1] == "first (x2)\n"
    assert api.received[-1].query["fieldSelector"] == "regarding.kind=BundleDeployment,regarding.name=shop"
