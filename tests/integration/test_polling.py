"""Polling: what floats is asked about again when its interval is over, and not before; nothing is lost when that fails.

The shortest interval is 30 s, and nothing shortens it: one test waits that long, for all cases together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.bundles import Deployed, Manifest, World, bundle_of, config_map, image, new_name
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.private_sources import FORGE, archive_of, commit_bundle
from tests.support.registry import LocalRegistry
from tests.support.web_servers import FaultyServer

pytestmark = pytest.mark.long

LONGEST = 33.0
"""Seconds: 30, and a tenth of jitter."""
BLUE, RED = config_map("settings", color="blue"), config_map("settings", color="red")
POLLED = {"pollInterval": "30s"}


@dataclass(kw_only=True)
class Origins:
    """One source of each kind for anybody."""

    registry: LocalRegistry
    git: GitHttpServer
    files: FaultyServer
    repositories: dict[str, GitRepository] = field(default_factory=dict)

    def put(self, kind: str, name: str, value: Manifest) -> Manifest:
        """Have a bundle under a name; return its entry in the spec."""
        if kind == "image":
            self.registry.push_image(name, "v1", [bundle_of(value)])
            return image(f"{self.registry.host}/{name}:v1")
        if kind == "git":
            if name not in self.repositories:
                self.repositories[name] = GitRepository(self.git.root / f"{name}.git", config=FORGE)
            commit_bundle(self.repositories[name], value)
            address = {"repository": f"{self.git.url}/{name}.git", "ref": "main", "directory": "deploy"}
            return {"kind": "git", "git": address}
        body = archive_of(value)
        self.files.add(f"/{name}", body, tag=f'"{hash(body)}"')
        return {"kind": "http", "http": {"url": f"{self.files.address}/{name}"}}

    def asked(self, name: str) -> list[str]:
        """Return what was asked so far about a name, of whatever kind it is."""
        images = [line for line in self.registry.log.splitlines() if f'"HEAD /v2/{name}/manifests/v1 ' in line]
        commits = [path for _, path, _ in self.git.requests if f"/{name}.git/info/refs" in path]
        return images + commits + [seen.method for seen in self.files.requests if seen.path == f"/{name}"]


@pytest.fixture(scope="module")
def origins(registry: LocalRegistry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origins]:
    with GitHttpServer(tmp_path_factory.mktemp("git")) as git, FaultyServer() as files:
        yield Origins(registry=registry, git=git, files=files)


@dataclass(frozen=True, kw_only=True)
class Polled:
    """A BundleDeployment that polls, as it was when it was Ready."""

    deployed: Deployed
    kind: str
    before: Manifest
    asked: int


@dataclass(frozen=True, kw_only=True)
class Stage:
    world: World
    origins: Origins

    def install(self, kind: str, **spec: Any) -> Polled:
        name = new_name()
        source = {**self.origins.put(kind, name, BLUE), **POLLED}
        deployed = self.world.deploy(name=name, ref="none", sources=[source], **spec)
        deployed.wait_ready()
        self.world.wait_until_looked_at()
        return Polled(deployed=deployed, kind=kind, before=deployed.read(), asked=len(self.origins.asked(name)))

    def asked_since(self, polled: Polled) -> int:
        return len(self.origins.asked(polled.deployed.name)) - polled.asked

    def wait(self, condition: Callable[[], object], what: str) -> None:
        self.world.wait(lambda: condition() or None, what, LONGEST + 20)


def test_what_an_interval_brings(world: World, origins: Origins) -> None:
    stage = Stage(world=world, origins=origins)
    kinds = ("image", "git", "http")
    still = [stage.install(kind) for kind in kinds]
    moved = [stage.install(kind) for kind in kinds]
    lost = stage.install("http")
    paused = stage.install("http")
    paused.deployed.change(paused=True)
    for each in moved:
        origins.put(each.kind, each.deployed.name, RED)
    file = origins.files.files[f"/{lost.deployed.name}"]
    file.status, file.headers = 503, {"Retry-After": "0"}
    world.wait_until_looked_at()
    assert [stage.asked_since(each) for each in (*still, *moved, lost, paused)] == [0] * 8

    stage.wait(lambda: all(stage.asked_since(each) for each in still), "a poll of each kind")
    stage.wait(lambda: all(each.deployed.data("settings") == RED["data"] for each in moved), "what moved is followed")
    stage.wait(lambda: conditions(lost)["Unpacked"] == "False Unreachable", "the poll that failed")
    world.wait_until_looked_at()

    # what has not changed costs one question and no write
    assert [stage.asked_since(each) for each in still] == [1, 1, 1]
    assert [version(each.deployed.read()) for each in still] == [version(each.before) for each in still]
    # what has moved has another pin
    assert all(digest(each.deployed.read()) != digest(each.before) for each in moved)
    # what cannot be reached keeps its pins, and what is installed is repaired
    assert digest(lost.deployed.read()) == digest(lost.before)
    assert (conditions(lost)["Installed"], conditions(lost)["Ready"]) == ("True Installed", "True Ready")
    lost.deployed.edit("settings", color="green")
    stage.wait(lambda: lost.deployed.data("settings") == {"color": "blue"}, "repair")
    # while paused nobody asks
    assert stage.asked_since(paused) == 0
    # and it recovers automatically
    file.status, file.headers = 0, {}
    stage.wait(lambda: conditions(lost)["Unpacked"] == "True Unpacked", "recovery")


def test_after_a_restart_the_interval_goes_on(world: World, origins: Origins) -> None:
    stage = Stage(world=world, origins=origins)
    polled = stage.install("http")
    world.restart()
    world.wait_until_looked_at()
    assert stage.asked_since(polled) == 0


def conditions(polled: Polled) -> dict[str, str]:
    return {kind: f"{each['status']} {each['reason']}" for kind, each in polled.deployed.conditions().items()}


def version(value: Manifest) -> str:
    return str(value["metadata"]["resourceVersion"])


def digest(value: Manifest) -> str:
    return str(value["status"]["sources"][0]["digest"])
