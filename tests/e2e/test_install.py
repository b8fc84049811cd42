"""The story of a user: what README.md shows is typed as it stands there, and what comes back is what it shows."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.playground.binaries import Binaries
from tests.support.bundles import World
from tests.support.charts import files_of
from tests.support.instructions import pattern_of

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BUNDLE = ROOT / "hack" / "demonstration" / "bundle" / "v1"
IMAGE = "quay.io/foo/bar:v1"
STEPS = [
    (step.partition("\n")[0], step.partition("\n")[2])
    for step in next(iter(re.findall(r"^```console\n\$ (.*?)^```$", README, re.DOTALL | re.MULTILINE))).split("\n$ ")
]
"""Command and output."""


def block(language: str) -> str:
    """Return the first block in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture
def terminal(world: World, binaries: Binaries, tmp_path: Path) -> dict[str, str]:
    """A folder with the file that README.md shows, naming an image that there is; returns the environment."""
    world.registry.push_image("foo/bar", "v1", [files_of(BUNDLE)])
    manifest = block("yaml")
    assert IMAGE in manifest
    (tmp_path / "foo.yaml").write_text(manifest.replace(IMAGE, f"{world.registry.host}/foo/bar:v1"), encoding="utf-8")
    folder = binaries.obtain(["kubectl"])["kubectl"].parent
    return os.environ | {
        "KUBECONFIG": str(world.cluster.kubeconfig),
        "KUBECACHEDIR": str(tmp_path / "cache"),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
    }


@pytest.fixture
def _nothing_left(world: World) -> Iterator[None]:
    yield
    world.cluster.kubectl("delete", "bd", "foo", "--ignore-not-found")
    world.cluster.kubectl("delete", "namespace", "foo", "--ignore-not-found")


@pytest.mark.usefixtures("_nothing_left")
def test_the_commands_of_the_readme_do_what_it_says(terminal: dict[str, str], tmp_path: Path) -> None:
    for command, expected in STEPS:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=terminal, capture_output=True, text=True, timeout=60, check=False
        )
        assert re.fullmatch(pattern_of(expected), done.stdout.strip()), (command, done.stdout, done.stderr)


def test_the_readme_tells_the_whole_story() -> None:
    verbs = [re.sub(r"^kubectl (\w+) .*", r"\1", command) for command, _ in STEPS]
    assert verbs == ["apply", "wait", "get", "delete"]
