"""A crash is remembered: whoever the controller dies of is set aside, and what it has installed stays."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import pytest

from tests.support.bundles import Deployed, World, config_map
from tests.support.web_servers import FaultyServer, File

pytestmark = pytest.mark.long

GREEN = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: green}\n"


def archive() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        entry = tarfile.TarInfo("manifests/settings.yaml")
        entry.size = len(GREEN)
        tar.addfile(entry, io.BytesIO(GREEN))
    return target.getvalue()


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as started:
        yield started


def hang(world: World, deployed: Deployed, server: FaultyServer, path: str) -> File:
    """Have a BundleDeployment prepared for ever: its source comes byte by byte."""
    server.files[path] = file = File(body=archive(), trickle=True)
    world.apply(
        deployed.name,
        sources=[{"kind": "http", "http": {"url": f"{server.address}{path}"}}],
        installNamespace=deployed.namespace,
    )
    return file


def wait_green(deployed: Deployed) -> None:
    deployed.wait(lambda: deployed.data("settings") == {"color": "green"}, "what was set aside installed")


def wait_asked(world: World, server: FaultyServer, before: int) -> None:
    """Wait until the server was asked for more than so many files."""
    world.wait(lambda: len(server.requests) > before, "a request")


def die_while_asking(world: World, server: FaultyServer, *paths: str) -> None:
    """Kill the controller once all these were asked for since it was started."""
    before = len(server.requests)
    world.restart()
    world.wait(lambda: {each.path for each in server.requests[before:]} >= set(paths), f"a request for {paths}")
    world.controller.kill()


def test_who_is_prepared_when_the_controller_dies_twice_is_set_aside(world: World, server: FaultyServer) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    world.controller.stop()  # or it might be preparing the bundle already when it is killed for the restart
    file = hang(world, deployed, server, "/a.tar")
    for _ in range(2):
        die_while_asking(world, server, "/a.tar")
    asked = len(server.requests)
    world.controller.start()
    saying = "the controller crashed 2 times while it prepared this bundle; make the bundle smaller or raise"
    deployed.wait_for("Installed", "False", "Quarantined", saying)

    deployed.remove("settings")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "what is installed repaired")
    world.restart()
    world.wait_until_looked_at()
    assert len(server.requests) == asked

    file.trickle = False
    deployed.request_reconcile("again")
    wait_green(deployed)


@pytest.mark.thorough
def test_of_several_none_is_set_aside_and_others_are_served(world: World, server: FaultyServer) -> None:
    several = [world.deploy(config_map("settings", color="blue")) for _ in range(2)]
    for deployed in several:
        deployed.wait_ready()
    files = [hang(world, deployed, server, f"/{index}.tar") for index, deployed in enumerate(several)]
    for _ in range(3):
        die_while_asking(world, server, "/0.tar", "/1.tar")
    world.controller.start()
    world.wait_until_looked_at()
    for deployed, file in zip(several, files, strict=True):
        assert deployed.conditions()["Installed"]["reason"] != "Quarantined"
        file.trickle = False
        deployed.request_reconcile("again")
        wait_green(deployed)


@pytest.mark.thorough
def test_who_is_stopped_in_order_suspects_nobody(world: World, server: FaultyServer) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    file = hang(world, deployed, server, "/b.tar")
    asked = 0
    for _ in range(3):
        wait_asked(world, server, asked)
        world.controller.stop()
        asked = len(server.requests)
        world.controller.start()
    world.wait_until_looked_at()
    assert deployed.conditions()["Installed"]["reason"] != "Quarantined"
    file.trickle = False
    deployed.request_reconcile("again")
    wait_green(deployed)
