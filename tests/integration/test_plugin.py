"""`kubectl rukpak` from the archive for Krew: unpacked and linked as Krew does it, and run by a real kubectl."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hack.packaging import plugin
from rukpak.controller.playground.binaries import Binaries
from tests.support.bundles import World, config_map

pytestmark = [pytest.mark.timeout(600), pytest.mark.long, pytest.mark.thorough]
URL = "https://example.com/releases/v1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with archive and manifest."""
    folder = tmp_path_factory.mktemp("made")
    assert plugin.main([str(folder), f"{URL}/"]) == 0
    return folder


@pytest.fixture(scope="module")
def linked(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PATH, in which Krew would have put a link."""
    folder = tmp_path_factory.mktemp("krew")
    (archive,) = made.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder / "store", filter="data")
    (folder / "bin").mkdir()
    (folder / "bin" / "kubectl-rukpak").symlink_to(folder / "store" / "kubectl-rukpak")
    return folder / "bin"


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(world: World, binaries: Binaries, linked: Path) -> Run:
    program = binaries.obtain(["kubectl"])["kubectl"]
    usual = os.pathsep.join([f"{sys.base_prefix}/bin", os.environ["PATH"]])

    def run(*words: str, path: str = usual) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": f"{linked}:{path}", "KUBECONFIG": str(world.cluster.kubeconfig), "HOME": "/nonexistent"}
        line = [str(program), *words]
        return subprocess.run(
            line, env=variables, cwd="/", capture_output=True, text=True, timeout=60, check=False, input=""
        )

    return run


def test_the_manifest_describes_the_archive(made: Path) -> None:
    manifest = yaml.safe_load((made / "rukpak.yaml").read_text(encoding="utf-8"))  # noqa: TID251 - as Krew reads it
    (archive,) = made.glob("*.tar.gz")
    (entry,) = manifest["spec"]["platforms"]
    assert entry["uri"] == f"{URL}/{archive.name}"
    assert entry["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as opened:
        names = opened.getnames()
        assert opened.getmember(entry["bin"]).mode & 0o111
    assert "LICENSE" in names  # Krew demands one


def test_kubectl_runs_it_with_nothing_else_installed(world: World, kubectl: Run, tmp_path: Path) -> None:
    assert kubectl("rukpak", "status", "--help").stdout.startswith("usage: kubectl rukpak status")
    (tmp_path / "settings.json").write_text(json.dumps(config_map("settings")), encoding="utf-8")
    (tmp_path / "manifests").mkdir()
    (tmp_path / "settings.json").rename(tmp_path / "manifests" / "settings.json")
    rendered = kubectl("rukpak", "render", str(tmp_path), "--install-namespace", "a", "-o", "name")
    assert rendered.stdout == "configmap/settings\n", rendered.stderr
    deployed = world.deploy(config_map("settings"))
    deployed.wait_ready()
    assert deployed.name in kubectl("rukpak", "status").stdout


def test_a_missing_python_is_named(kubectl: Run, tmp_path: Path) -> None:
    for name in ("sh", "dirname", "readlink"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    done = kubectl("rukpak", "version", path=str(tmp_path))
    assert done.returncode == 1
    assert f"Python {plugin.PYTHON} is missing; install it" in done.stderr
