"""Ranges of versions: compared with Helm's, and resolved with a real registry, a real git server and a controller."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import Deployed, World, bundle_of, config_map, new_name, new_world
from tests.support.charts import RANGES, VERSIONS, pack
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.inside import Choice, Range
from tests.support.private_sources import FORGE, commit_bundle
from tests.support.registry import LocalRegistry
from tests.support.web_servers import FileServer

pytestmark = pytest.mark.timeout(180)

# Helm


@pytest.fixture(scope="module")
def repository() -> Iterator[FileServer]:
    """A chart repository with one chart in all versions."""
    with FileServer().serving() as files:
        entries = []
        for version in VERSIONS:
            about = f"apiVersion: v2\nname: web\nversion: {version}\n"
            template = "kind: Chosen\nversion: {{ .Chart.Version }}\n"
            archive = pack({"web/Chart.yaml": about.encode(), "web/templates/a.yaml": template.encode()})
            files.files[f"/web-{version}.tgz"] = archive
            entry = {"apiVersion": "v2", "name": "web", "version": version, "urls": [f"web-{version}.tgz"]}
            entries.append({**entry, "digest": hashlib.sha256(archive).hexdigest()})
        files.files["/index.yaml"] = json.dumps({"apiVersion": "v1", "entries": {"web": entries}}).encode()
        yield files


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = str(tmp_path_factory.mktemp("helm"))
    names = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
    return {**os.environ, **dict.fromkeys(names, folder)}


def by_helm(helm: Path, repository: FileServer, text: str, home: dict[str, str]) -> str | None:
    command = [str(helm), "template", "web", "--repo", repository.address, f"--version={text}"]
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1)
    chosen = [line.removeprefix("version: ") for line in done.stdout.splitlines() if line.startswith("version: ")]
    return chosen[0] if chosen else None


def by_us(text: str) -> str | None:
    try:
        choice = Choice(Range(text))
    except ValueError:
        return None
    for version in VERSIONS:
        choice.see(version)
    return choice.highest


BY_VERSION: dict[str | None, list[str]] = {
    "2.1.0": ["*", "x", "~0.0.0", "~*", ">1", ">1.2", ">1.2.3", "=>1.3", "<1 || >=2", "~2.1.0-0"],
    "3.0.0-rc.1": [">=0.0.0-0", ">=3.0.0-0"],
    "1.2.3": [
        "1.2.3",
        "=1.2.3",
        "v1.2.3",
        "1.2",
        "1.2.x",
        "~1.2",
        "~1.2.3",
        "~>1.2",
        "<=1.2",
        "<=1.2.3",
        ">=1.2, <1.3",
        "^3 || ~1.2",
    ],
    "1.10.0": [
        "1",
        "1.x",
        "1.X.X",
        "~1",
        "~1.x",
        "^1",
        "^1.2",
        "^1.2.4",
        "<=1",
        "<2.0.0-0",
        ">=1.2 <2",
        "!=2.x",
        "1.2.0 - 1.10",
    ],
    "0.3.0": ["~0", "^0", "<1", "!=1.x <2"],
    "0.0.4": ["^0.0"],
    "0.0.3": ["^0.0.3"],
    "0.2.5": ["^0.2.3"],
    "0.1.0": ["^0.1"],
    None: ["^*", ">=3", "9.x", "<0.0.3", "foo", ">==1", "1 ||", "1.2.3.4"],
    "1.3.0": ["=<1.3", "1.0 - 1.3"],
    "2.0.0": ["!=2.1.0", "!=2.1"],
    "1.2.4-rc.1": ["~1.2.4-0"],
    "1.0.0-alpha.10": [">=1.0.0-alpha.1 <1.0.0"],
}
"""The ranges that lead Helm 4 to a version; None: to nothing, or they cannot be read."""
CHOSEN = {text: version for version, ranges in BY_VERSION.items() for text in ranges}


def test_a_range_leads_to_the_version_that_helm_has_chosen() -> None:
    assert {text: by_us(text) for text in RANGES} == CHOSEN


@pytest.mark.thorough
def test_helm_chooses_so_still(helm_4: Path, repository: FileServer, home: dict[str, str]) -> None:
    assert {text: by_helm(helm_4, repository, text, home) for text in RANGES} == CHOSEN


# sources


@pytest.fixture(scope="module")
def world(cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    with new_world(cluster, registry, settings.running) as made:
        yield made


def push(world: World, name: str, *tags: str) -> None:
    for tag in tags:
        world.registry.push_image(name, tag, [bundle_of(config_map("settings", version=tag))])


def ranged(world: World, name: str, **block: Any) -> list[dict[str, Any]]:
    return [{"kind": "image", "image": {"ref": f"{world.registry.host}/{name}", **block}}]


def version_of(deployed: Deployed) -> str | None:
    return (deployed.data("settings") or {}).get("version")


def test_the_highest_tag_in_a_range_is_installed(world: World) -> None:
    name = new_name()
    push(world, name, "v1.2.0", "v1.10.0", "v1.11.0-rc.1", "v2.0.0", "latest", "v1.12.0-alpine")
    deployed = world.deploy(name=name, ref="-", sources=ranged(world, name, semver="1.x"))
    status = deployed.wait_ready()
    assert version_of(deployed) == "v1.10.0"
    [pin] = status["sources"]
    assert pin["resolved"] == f"{world.registry.host}/{name}:v1.10.0@{pin['digest']}"
    assert pin["version"] == "v1.10.0"
    deployed.change(sources=ranged(world, name, semver=">=1.2.0-0", semverFilter="-alpine$"))
    deployed.wait(lambda: version_of(deployed) == "v1.12.0-alpine", "a filtered tag")


def test_nothing_in_the_range_is_told_with_what_is_near(world: World) -> None:
    name = new_name()
    push(world, name, "1.0.0", "1.1.0", "1.2.0", "1.3.0")
    deployed = world.deploy(name=name, ref="-", sources=ranged(world, name, semver=">=2"))
    found = deployed.wait_for("Unpacked", "False", "NotFound")
    assert 'no tag in the range ">=2"; the nearest are "1.3.0", "1.2.0", "1.1.0"' in found["message"]


def test_a_lower_version_is_refused_unless_the_spec_allows_it(world: World) -> None:
    name = new_name()
    push(world, name, "1.0.0", "1.1.0")
    deployed = world.deploy(name=name, ref="-", sources=ranged(world, name, semver=">=1"))
    before = deployed.wait_ready()
    deployed.change(sources=ranged(world, name, semver="<1.1"))
    found = deployed.wait_for("Installed", "False", "Downgrade")
    assert 'spec.sources[0]: the range leads to "1.0.0", which is lower than "1.1.0"' in found["message"]
    deployed.edit("settings", version="edited")
    deployed.wait(lambda: version_of(deployed) == "1.1.0", "the installed version repaired")
    deployed.change(allowDowngrade=True)
    deployed.wait_installed(before["installedRevision"])
    assert version_of(deployed) == "1.0.0"


def test_a_reconcile_finds_a_new_tag(world: World) -> None:
    name = new_name()
    push(world, name, "1.0.0")
    deployed = world.deploy(name=name, ref="-", sources=ranged(world, name, semver="^1"))
    before = deployed.wait_ready()
    push(world, name, "1.1.0", "2.0.0")
    deployed.request_reconcile("again")
    deployed.wait_installed(before["installedRevision"])
    assert version_of(deployed) == "1.1.0"


def test_tags_of_a_git_repository(world: World, tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "git/shop.git", config=FORGE)
    for version in ("v1.0.0", "v1.1.0", "v2.0.0"):
        commit_bundle(repository, config_map("settings", version=version))
        repository.git("tag", *(["-a", "-m", "annotated"] if version == "v1.1.0" else []), version, "main")
    with GitHttpServer(tmp_path / "git") as server:
        block = {"repository": f"{server.url}/shop.git", "directory": "deploy", "semver": "~1"}
        deployed = world.deploy(name=new_name(), ref="-", sources=[{"kind": "git", "git": block}])
        [pin] = deployed.wait_ready()["sources"]
        commit = repository.git("rev-parse", "v1.1.0^{commit}")
        assert (pin["resolved"], pin["digest"]) == (f"{server.url}/shop.git@v1.1.0@{commit}", f"sha1:{commit}")
        assert version_of(deployed) == "v1.1.0"
        deployed.change(sources=[{"kind": "git", "git": {**block, "semver": ">=3"}}])
        deployed.wait_for("Unpacked", "False", "NotFound", 'the nearest are "v2.0.0", "v1.1.0", "v1.0.0"')
        deployed.delete()
        deployed.wait_gone()
