"""`rukpak plugin new`: what it makes is clean, passes its own tests and works, installed as users install it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import config_map, new_name, new_world
from tests.support.packages import Environment, Install
from tests.support.registry import LocalRegistry
from tests.support.web_servers import FaultyServer

pytestmark = [pytest.mark.thorough, pytest.mark.long, pytest.mark.timeout(600)]
KINDS = ("format", "source", "processor")


@pytest.fixture(scope="module")
def packages(environment_with: Install, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of a package of each kind, made by a RukPak that is installed."""
    root = tmp_path_factory.mktemp("packages")
    for kind in KINDS:
        name = f"example.com/my-{kind}"
        environment_with().run("rukpak", "plugin", "new", name, "--kind", kind, "--folder", str(root / kind))
    return {kind: root / kind for kind in KINDS}


@pytest.fixture(scope="module")
def environment(environment_with: Install, packages: dict[str, Path]) -> Environment:
    """One in which all of them are installed."""
    return environment_with(*packages.values())


@pytest.mark.parametrize("kind", KINDS)
def test_its_tests_pass_and_most_of_them_are_ours(
    environment: Environment, packages: dict[str, Path], kind: str
) -> None:
    told = environment.test(packages[kind]).stdout
    assert int(told.rpartition(" passed")[0].split()[-1]) > 30, told


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_clean(environment: Environment, packages: dict[str, Path], kind: str) -> None:
    environment.run("python", "-m", "mypy", ".", cwd=packages[kind])
    for command in (["check"], ["format", "--check"]):
        # A program, which is beside the interpreter of the tests.
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command], cwd=packages[kind], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_a_bundle_is_installed_with_them(
    environment: Environment, cluster: Cluster, registry: LocalRegistry, settings: Settings
) -> None:
    """A folder of files from an index, rendered, and with labels."""
    files = {"settings.properties": b"color = blue\n"}
    index = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    name = new_name()
    with (
        FaultyServer() as server,
        new_world(cluster, registry, settings.running, "--workers=1", make=environment.controller) as world,
    ):
        for path, data in {**files, "index.json": json.dumps(index).encode()}.items():
            server.add(f"/{path}", data)
        deployed = world.deploy(
            config_map("unused"),
            name=name,
            sources=[{"kind": "example.com/my-source", "parameters": {"url": f"{server.address}/index.json"}}],
            format="example.com/my-format",
            processors=[{"kind": "example.com/my-processor", "parameters": {"labels": {"team": "shop"}}}],
        )
        deployed.wait_ready()
        made = deployed.get("settings")
        assert made is not None
        assert made["data"] == {"color": "blue"}
        assert made["metadata"]["labels"]["team"] == "shop"
