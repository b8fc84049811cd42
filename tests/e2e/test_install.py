"""The story of a user: what README.md shows is typed as it stands there, and what comes back is what it shows."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rukpak.controller.playground.binaries import Binaries
from tests.support.bundles import World
from tests.support.charts import files_of
from tests.support.instructions import pattern_of, run, steps_of

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BUNDLE = ROOT / "hack" / "demonstration" / "bundle" / "v1"
IMAGE = "quay.io/foo/bar:v1"
STEPS = list(steps_of(README.partition("\n## ")[0]))
"""What comes before the first heading."""


def block(language: str) -> str:
    """Return the first block in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture
def terminal(world: World, binaries: Binaries, tmp_path: Path) -> dict[str, str]:
    """A folder with the bundle and the file that README.md names, and an image that exists; returns the environment."""
    shutil.copytree(BUNDLE, tmp_path / "shop")
    world.registry.push_image("foo/bar", "v1", [files_of(BUNDLE)])
    manifest = block("yaml")
    assert IMAGE in manifest
    (tmp_path / "foo.yaml").write_text(manifest.replace(IMAGE, f"{world.registry.host}/foo/bar:v1"), encoding="utf-8")
    folders = [binaries.obtain(["kubectl"])["kubectl"].parent, Path(sys.executable).parent]
    return os.environ | {
        "KUBECONFIG": str(world.cluster.kubeconfig),
        "KUBECACHEDIR": str(tmp_path / "cache"),
        "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
    }


@pytest.fixture
def _nothing_left(world: World) -> Iterator[None]:
    yield
    world.cluster.kubectl("delete", "bd", "foo", "shop", "--ignore-not-found")
    world.cluster.kubectl("delete", "namespace", "foo", "shop", "--ignore-not-found")


@pytest.mark.usefixtures("_nothing_left")
def test_the_commands_of_the_readme_do_what_it_says(terminal: dict[str, str], tmp_path: Path) -> None:
    for step in STEPS:
        said = run(step, tmp_path, terminal, "none")
        assert re.fullmatch(pattern_of(step.output), said), (step.command, said)


def test_the_readme_tells_the_whole_story() -> None:
    verbs = [" ".join(step.command.split()[:2]) for step in STEPS]
    assert verbs == [
        *("rukpak install", "kubectl get", "kubectl delete"),
        *("kubectl apply", "kubectl wait", "kubectl get", "kubectl delete"),
    ]
