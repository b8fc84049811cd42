"""What user stories are told on: a cluster on which pods become Ready, a registry, and a controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hack.control_plane.kubectl import Cluster
from hack.control_plane.settings import Settings
from tests.support.bundles import World, new_world
from tests.support.registry import LocalRegistry


@pytest.fixture
def world(kwok_cluster: Cluster, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A controller of the test's own; what it installed is taken away in the end."""
    with new_world(kwok_cluster, registry, settings.running) as started:
        yield started
        print(started.controller.log)  # noqa: T201 -- pytest shows it where the test has failed
