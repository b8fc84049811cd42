"""Worlds: a cluster, a registry and a controller that the tests of one file share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rukpak.controller.playground.cluster import Cluster, ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, World, new_world
from tests.support.mortal import Severing, new_mortal_world
from tests.support.packages import Environment, Install, build_wheel, make_environment
from tests.support.registry import LocalRegistry
from tests.support.standing import Standing


@pytest.fixture(scope="module")
def standing_world(
    standing: Standing, cluster: Cluster, registry: LocalRegistry, settings: Settings
) -> Iterator[World]:
    """The cluster of the session, and the controller of the session, which has one worker."""
    with standing.lend("cluster", lambda: new_world(cluster, registry, settings.running, "--workers=1")) as world:
        yield world


@pytest.fixture(scope="module")
def standing_kwok_world(
    standing: Standing, kwok_cluster: Cluster, registry: LocalRegistry, settings: Settings
) -> Iterator[World]:
    """The same with a fake node: pods run, except those with the annotation `example.com/waits`."""
    with standing.lend("kwok_cluster", lambda: new_world(kwok_cluster, registry, settings.running)) as world:
        yield world


@pytest.fixture(scope="module")
def shared_world(standing_world: World) -> World:
    """The world of `world`. A file may override it, if its controller is to be another one."""
    return standing_world


@pytest.fixture(scope="module")
def shared_kwok_world(standing_kwok_world: World) -> World:
    """The world of `kwok_world`. A file may override it likewise."""
    return standing_kwok_world


@pytest.fixture
def kwok_world(shared_kwok_world: World) -> Iterator[World]:
    """A world with a fake node."""
    yield from _told(shared_kwok_world)


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    """The world of the file, with its controller running; a failure shows the log of the test."""
    yield from _told(shared_world)


@pytest.fixture(scope="module")
def shared_fresh_world(fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A control plane of the file's own and a controller."""
    with new_world(fresh_cluster, registry, settings.running, is_shared=False) as world:
        yield world


@pytest.fixture
def fresh_world(shared_fresh_world: World) -> Iterator[World]:
    """A world whose control plane (`fresh_cluster`) the test may kill."""
    yield from _told(shared_fresh_world)


@pytest.fixture(scope="session")
def environment_with(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Installs RukPak and packages of plug-ins, given their folders; the same ones only once in a session."""
    wheels: dict[Path, Path] = {}
    made: dict[frozenset[Path], Environment] = {}

    def build(project: Path) -> Path:
        if project not in wheels:
            wheels[project] = build_wheel(project, tmp_path_factory.mktemp("wheel"))
        return wheels[project]

    def install(*packages: Path) -> Environment:
        wanted = frozenset(packages)
        if wanted not in made:
            folder = tmp_path_factory.mktemp("installed") / "venv"
            made[wanted] = make_environment(folder, build(ROOT), *map(build, sorted(packages)))
        return made[wanted]

    return install


def _told(world: World) -> Iterator[World]:
    if not world.controller.is_running():
        world.controller.start()
    said = len(world.controller.log)
    yield world
    print(world.controller.log[said:])  # noqa: T201 -- pytest shows it where the test has failed


@pytest.fixture(scope="module")
def severing(fresh_cluster: ControlPlane) -> Iterator[Severing]:
    """What stands between controller and API server."""
    with Severing(fresh_cluster.server, fresh_cluster.folder / "ca.crt") as started:
        yield started


@pytest.fixture(scope="module")
def mortal_world(
    fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, severing: Severing
) -> Iterator[World]:
    """A world whose controller is reached through there, and started in no time."""
    with new_mortal_world(fresh_cluster, registry, settings, severing) as made:
        yield made
