"""What user stories run on: a cluster on which pods become Ready, a registry, and a controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rukpak.controller.playground.cluster import Cluster, ControlPlane
from rukpak.controller.playground.settings import Settings
from tests.support.bundles import World, new_world
from tests.support.installations import install
from tests.support.private_sources import secret_manifest
from tests.support.registry import LocalRegistry
from tests.support.tenants import Tenants


@pytest.fixture
def world(kwok_cluster: Cluster, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A controller for one test; what it has installed is deleted afterwards."""
    with new_world(kwok_cluster, registry, settings.running) as started:
        yield started
        print(started.controller.log)  # noqa: T201 -- pytest shows it where the test has failed


@pytest.fixture(scope="module")
def controller_options() -> tuple[str, ...]:
    """Options of the tenants' controller in addition to those of config/restricted. A file may override them."""
    return ()


@pytest.fixture(scope="module")
def tenants(
    fresh_kwok_cluster: ControlPlane,
    registry: LocalRegistry,
    settings: Settings,
    controller_options: tuple[str, ...],
) -> Iterator[Tenants]:
    with install(fresh_kwok_cluster, registry, settings.running, "restricted", *controller_options) as world:
        tenants = Tenants(world)
        for name in ("tenant", "other"):
            tenants.admit(name)
            tenants.put(name, "secrets", secret_manifest(name, "login", {"username": name, "password": "secret"}))
        yield tenants
