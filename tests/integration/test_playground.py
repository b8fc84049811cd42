"""`rukpak playground`: the steps that it prints install something on a cluster that was not there before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.processes import kill_noted, take_away
from rukpak.controller.playground.programs import CONTROL_PLANE, Settings

pytestmark = [pytest.mark.own_cluster, pytest.mark.timeout(300), pytest.mark.long]
Run = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(settings: Settings, binaries: Binaries, tmp_path: Path) -> Iterator[Path]:
    """The folder of the playground, in a cache of the test's own, which has the programs of the usual one."""
    binaries.obtain([*CONTROL_PLANE, "kwok", "registry"])
    (tmp_path / "bin").symlink_to(settings.cache / "bin")
    found = replace(settings, cache=tmp_path).running / "playground"
    yield found
    take_away(found)


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Run:
    """Runs commands with this rukpak in a folder of their own."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "RUKPAK_CACHE": str(tmp_path), "PATH": path}

    def run(script: str) -> subprocess.CompletedProcess[str]:
        line = ["bash", "-ec", script]
        return subprocess.run(line, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    return run


def test_the_first_steps_install_something(folder: Path, run: Run) -> None:
    started = run("rukpak playground")
    assert started.returncode == 0, started.stderr
    steps = "\n".join(line for line in started.stderr.splitlines() if line.startswith("  "))
    done = run(f'eval "$(rukpak playground env)"\n{steps}\nkubectl get pods -n hello')
    assert done.returncode == 0, done.stdout + done.stderr
    assert "BundleDeployment hello   " in done.stdout
    assert "Running" in done.stdout
    assert folder.stat().st_mode & 0o777 == 0o700, "its tokens are nobody else's"

    again = run("rukpak playground")
    assert again.stderr.startswith("the playground is running already\n")
    assert again.stdout == started.stdout

    address = f"http://{(folder / 'metrics.host').read_text()}/metrics"
    assert "rukpak_bundledeployments" in run(f"curl --silent --noproxy '*' {address}").stdout
    roles = run('eval "$(rukpak playground env)"\nkubectl get clusterrole rukpak-view rukpak-editor rukpak-approver')
    assert roles.returncode == 0, roles.stderr

    for name in ("controller", "registry", "kwok"):
        kill_noted(folder / f"{name}.pid")
    assert run("rukpak playground status").returncode == 1
    assert "controller" in run("rukpak playground env").stderr
    healed = run("rukpak playground")
    assert healed.stderr.startswith("starting again what has ended: kwok, registry, controller\n"), healed.stderr
    assert healed.stdout == started.stdout, healed.stderr
    assert run('eval "$(rukpak playground env)"\nrukpak status hello --wait --timeout 60s').returncode == 0

    restarted = run("rukpak playground restart")
    assert restarted.returncode == 0, restarted.stderr
    shown = run("rukpak playground status")
    assert (shown.returncode, "ended" in shown.stdout) == (0, False)
    assert run('eval "$(rukpak playground env)"\nrukpak status hello --wait --timeout 60s').returncode == 0

    assert run("rukpak playground down").stderr == "the playground is deleted\n"
    assert not folder.exists()
    assert run("rukpak playground env").returncode == 1
