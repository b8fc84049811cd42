"""Two tenants on one cluster, on which RukPak is installed as config/restricted says, for all files of this folder.

One worker runs them all (tests/conftest.py), with one controller, apart from files whose controller has other options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import World
from tests.support.installations import run_installed
from tests.support.registry import LocalRegistry
from tests.support.standing import Standing
from tests.support.tenants import Tenants

StartWorld = Callable[..., AbstractContextManager[World]]
PLACE = "restricted_cluster"


@pytest.fixture(scope="session")
def start_world(restricted_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> StartWorld:
    """Start a controller with options in addition to those of config/restricted."""

    @contextmanager
    def start(*options: str) -> Iterator[World]:
        with run_installed(restricted_cluster, registry, settings.running, *options) as world:
            yield world
            if world.controller.is_running():
                world.controller.stop()  # releases its Lease: another one follows

    return start


@pytest.fixture(scope="module")
def controller_options() -> tuple[str, ...]:
    """Options of the controller in addition to those of config/restricted. A file may override them."""
    return ()


@pytest.fixture(scope="module")
def tenants(standing: Standing, start_world: StartWorld, controller_options: tuple[str, ...]) -> Iterator[Tenants]:
    """The tenants `tenant` and `other`; what the file has installed for them is deleted afterwards."""
    if controller_options:
        standing.end(PLACE)
    with standing.lend(PLACE, lambda: start_world(*controller_options), clean_up) as world:
        tenants = Tenants(world)
        tenants.set_up()
        yield tenants
        print(world.controller.log)  # noqa: T201 -- pytest shows it where the test has failed
    if controller_options:
        standing.end(PLACE)


def clean_up(world: World) -> None:
    Tenants(world).clean_up()
