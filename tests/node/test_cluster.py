"""`hack/cluster up --node`: what it starts, and that nothing of it is left, whatever was killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.control_plane.nodes import CONTROL_GROUPS, install_needs
from rukpak.controller.playground.binaries import MissingError
from rukpak.controller.playground.processes import kill_noted, running_process, take_away, wait_for
from rukpak.controller.playground.programs import Settings

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.thorough]


@pytest.fixture
def name(settings: Settings) -> Iterator[str]:
    try:
        install_needs(settings.cache)
    except MissingError as error:
        pytest.skip(str(error))
    name = f"test-{os.getpid()}"
    yield name
    take_away(settings.running / name)


def cluster(*words: str) -> str:
    done = subprocess.run([ROOT / "hack/cluster", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def left_behind(name: str) -> list[str]:
    """Return what a cluster has on this machine: control groups, mounts, links, rules, and processes that name it."""
    groups = [
        str(path) for path in [*CONTROL_GROUPS.glob(f"*/rukpak-{name}-*"), *CONTROL_GROUPS.glob(f"rukpak-{name}-*")]
    ]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"/{name}/" in line]
    said = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
    links = [line for line in said.splitlines() if line.startswith(("nodes ", "pods ", "node-", "veth"))]
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    processes = [path for path in Path("/proc").glob("[0-9]*/cmdline") if names(path, f"/{name}/")]
    return [*groups, *mounts, *links, *(["rules"] if "KUBE-" in rules else []), *map(str, processes)]


def names(path: Path, text: str) -> bool:
    try:
        return text in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


@pytest.mark.parametrize("killed", ["nothing", "node-1", "node-1-init", "node-1-containerd", "kube-apiserver"])
def test_down_leaves_nothing_after_a_kill_of(killed: str, name: str, settings: Settings) -> None:
    cluster("up", name, "--nodes=2")
    assert len(left_behind(name)) > 10
    assert "node-2" in cluster("exec", "--on=node-2", name, "hostname")
    cluster("exec", name, "touch", "/etc/of-the-node")
    assert not Path("/etc/of-the-node").exists()
    if killed != "nothing":
        kill_noted(settings.running / name / f"{killed}.pid")
    cluster("down", name)
    assert left_behind(name) == []
    assert not (settings.running / name).exists()


@pytest.mark.parametrize("record", ["node-1", "node-2-init", "node-1-kubelet"])
def test_down_leaves_nothing_of_an_up_that_is_killed_once_it_has_started(
    record: str, name: str, settings: Settings
) -> None:
    command = [str(ROOT / "hack/cluster"), "up", name, "--nodes=2"]
    note = settings.running / name / f"{record}.pid"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as up:
        wait_for(lambda: running_process(note), 120, record)
        up.send_signal(signal.SIGKILL)
    cluster("down", name)
    assert left_behind(name) == []
