"""What user stories run on: a cluster on which pods become Ready, a registry, and a controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import World, new_world
from tests.support.registry import LocalRegistry


@pytest.fixture
def world(kwok_cluster: Cluster, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A controller for one test; what it has installed is deleted afterwards."""
    with new_world(kwok_cluster, registry, settings.running) as started:
        yield started
        print(started.controller.log)  # noqa: T201 -- pytest shows it where the test has failed
