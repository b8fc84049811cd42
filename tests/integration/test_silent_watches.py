"""Watches that stop telling without an end, as behind a proxy or a server that hangs: the controller finds out.

A controller without patience by default; with RUKPAK_STORMS above 1 one as it is shipped, too. Watches that deliver
bookmarks and omit events look alive: the periodic list finds what they omit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pytest

from rukpak.controller.playground.cluster import Cluster, ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import World, config_map, image, new_world
from tests.support.controller import Controller
from tests.support.hasty import PROGRAM, QUIET_SECONDS
from tests.support.registry import LocalRegistry
from tests.support.weather import WATCH, Weather

FULL = int(os.environ.get("RUKPAK_STORMS", "1")) > 1
CONTROLLERS = {"without patience": (partial(Controller, program=PROGRAM), QUIET_SECONDS)}
if FULL:
    CONTROLLERS["as shipped"] = (partial(Controller), 150.0)
SLACK_SECONDS = 30.0
RELIST_SECONDS = 10

pytestmark = [pytest.mark.own_cluster, pytest.mark.timeout(300)]


@pytest.fixture
def weather(cluster: Cluster) -> Iterator[Weather]:
    assert isinstance(cluster, ControlPlane)
    with Weather(cluster.server, cluster.folder / "ca.crt") as started:
        yield started


@pytest.fixture(params=CONTROLLERS.values(), ids=list(CONTROLLERS))
def patience(request: pytest.FixtureRequest) -> tuple[partial[Controller], float]:
    """What makes a controller, and after how many seconds of silence it gives a watch up."""
    found: tuple[partial[Controller], float] = request.param
    return found


@pytest.fixture
def waiting_world(
    cluster: Cluster,
    registry: LocalRegistry,
    settings: Settings,
    weather: Weather,
    patience: tuple[partial[Controller], float],
) -> Iterator[World]:
    """A world whose controller may be told nothing."""
    folder = make_owned_folder(settings.running, "weather")
    kubeconfig = weather.write_kubeconfig(folder / "kubeconfig")
    with new_world(cluster, registry, settings.running, kubeconfig=kubeconfig, make=patience[0]) as world:
        yield world
        print(world.controller.log)  # noqa: T201 -- pytest shows it where the test has failed
    take_away(folder)


@pytest.mark.thorough
def test_what_happened_while_all_watches_were_silent_is_dealt_with(
    waiting_world: World, weather: Weather, patience: tuple[partial[Controller], float]
) -> None:
    world = waiting_world
    drifted, changed = (world.deploy(config_map("a"), config_map("b")) for _ in range(2))
    drifted.wait_ready()
    installed = changed.wait_ready()["installedRevision"]

    weather.hush()
    drifted.edit("a", color="red")
    drifted.remove("b")
    changed.change(sources=[image(world.push(changed.name, config_map("c"), tag="v2"))])

    def is_mended() -> bool:
        return drifted.data("a") == drifted.data("b") == {"color": "blue"} and changed.get("c") is not None

    world.wait(is_mended, "drift repaired, and the new revision there", seconds=patience[1] + SLACK_SECONDS)
    changed.wait_installed(installed)
    assert changed.objects().keys() == {"c"}
    assert {seen.path for seen in weather.requests if seen.verb == WATCH} >= {"/api/v1/configmaps"}


@pytest.fixture
def relisting_world(cluster: Cluster, registry: LocalRegistry, settings: Settings, weather: Weather) -> Iterator[World]:
    """A world whose controller lists everything again every few seconds."""
    folder = make_owned_folder(settings.running, "weather")
    kubeconfig = weather.write_kubeconfig(folder / "kubeconfig")
    option = f"--relist-interval={RELIST_SECONDS}"
    with new_world(cluster, registry, settings.running, option, kubeconfig=kubeconfig) as world:
        yield world
        print(world.controller.log)  # noqa: T201 -- pytest shows it where the test has failed
    take_away(folder)


@pytest.mark.thorough
def test_what_watches_omit_although_bookmarks_come_is_found_by_the_periodic_list(
    relisting_world: World, weather: Weather
) -> None:
    world = relisting_world
    drifted, changed = (world.deploy(config_map("a")) for _ in range(2))
    drifted.wait_ready()
    installed = changed.wait_ready()["installedRevision"]

    weather.deafen()
    drifted.edit("a", color="red")
    changed.change(sources=[image(world.push(changed.name, config_map("c"), tag="v2"))])

    world.wait(
        lambda: drifted.data("a") == {"color": "blue"} and changed.get("c"),
        "drift repaired, and the new revision there",
        seconds=RELIST_SECONDS + SLACK_SECONDS,
    )
    changed.wait_installed(installed)
