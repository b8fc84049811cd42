"""A server that is busy, or a proxy, that asks for ages: each kind is seen again within seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rukpak.controller.playground.cluster import Cluster, ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import World, config_map, image, new_world
from tests.support.registry import LocalRegistry
from tests.support.weather import WATCH, Fault, Seen, Weather

SECONDS = 30.0
"""A watch waits five seconds at most for a server that asks for more, and a machine may be busy."""

pytestmark = [pytest.mark.own_cluster, pytest.mark.timeout(300), pytest.mark.long]


class Throttling(Weather):
    """Refuses each watch, and each list, once, with whatever Retry-After it is to say."""

    def __init__(self, server: str, authority: Path) -> None:
        super().__init__(server, authority)
        self._refused: set[str] | None = None

    def throttle(self, retry_after: str) -> None:
        """Cut every watch, and refuse the next request for each."""
        with self._lock:
            self.retry_after, self._refused, self.requests = retry_after, set(), []
        self._cut_watches()

    def meet(self, verb: str, path: str) -> Fault | None:
        with self._lock:
            is_hit = self._refused is not None and verb == WATCH and path not in self._refused
            if is_hit and self._refused is not None:
                self._refused.add(path)
            fault = Fault.TOO_MANY if is_hit else None
            self.requests.append(Seen(verb=verb, path=path, fault=fault))
        return fault


@pytest.fixture
def busy(cluster: Cluster) -> Iterator[Throttling]:
    assert isinstance(cluster, ControlPlane)
    with Throttling(cluster.server, cluster.folder / "ca.crt") as started:
        yield started


@pytest.fixture
def world(cluster: Cluster, registry: LocalRegistry, settings: Settings, busy: Throttling) -> Iterator[World]:
    """A world whose controller may be told to come again in ages."""
    folder = make_owned_folder(settings.running, "busy")
    with new_world(
        cluster, registry, settings.running, kubeconfig=busy.write_kubeconfig(folder / "kubeconfig")
    ) as started:
        yield started
        print(started.controller.log)  # noqa: T201 -- pytest shows it where the test has failed
    take_away(folder)


@pytest.mark.repeats
@pytest.mark.parametrize("asked", ["99999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "3600"])
def test_one_429_does_not_blind_a_kind(world: World, busy: Throttling, asked: str) -> None:
    drifted, changed = (world.deploy(config_map("a"), config_map("b")) for _ in range(2))
    drifted.wait_ready()
    changed.wait_ready()

    busy.throttle(asked)
    drifted.edit("a", color="red")
    changed.change(sources=[image(world.push(changed.name, config_map("c"), tag="v2"))])

    def is_mended() -> bool:
        return drifted.data("a") == {"color": "blue"} and changed.get("c") is not None

    world.wait(is_mended, "drift repaired, and the new revision there", seconds=SECONDS)
    assert {seen.path for seen in busy.requests if seen.fault} >= {"/api/v1/configmaps"}
    assert "thread died" not in world.controller.log
