"""A controller beside a real node: what it installs runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import World, new_world
from tests.support.registry import LocalRegistry


@pytest.fixture(scope="module")
def node_world(node_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """The real node of the session and a controller for the tests of one file."""
    with new_world(node_cluster, registry, settings.running) as world:
        yield world
        print(world.controller.log)  # noqa: T201 -- pytest shows it where the test has failed
