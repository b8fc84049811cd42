"""etcd is restored from a backup, so that the cluster is in an older state than the controller knows.

resourceVersions go back: a watch that continued from a known version would be silent until they have caught up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hack.control_plane.cluster import ControlPlane
from hack.control_plane.settings import Settings
from tests.support.bundles import Deployed, World, config_map, exists, image, new_world
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

RESTORED_SECONDS = 15.0
"""A promise: so long after the API server is ready again, the controller acts on the restored state."""


@pytest.fixture
def world(fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    with new_world(fresh_cluster, registry, settings.running, is_shared=False) as started:
        yield started
        print(started.controller.log)  # noqa: T201 -- pytest shows it where the test has failed


def test_the_restored_state_is_acted_on_within_seconds(world: World, fresh_cluster: ControlPlane) -> None:
    kept, changed, deleted = (world.deploy(config_map("a", color="blue"), config_map(f"b-{n}")) for n in range(3))
    before = {deployed.name: deployed.wait_ready()["installedRevision"] for deployed in (kept, changed, deleted)}
    fresh_cluster.back_up_etcd()
    upgrade = [config_map("a", color="green"), config_map("new")]
    changed.change(sources=[image(world.push(changed.name, *upgrade, tag="v2"))])
    changed.wait_installed(before[changed.name])
    deleted.delete()
    deleted.wait_gone()
    added = world.deploy(config_map("a"))
    added.wait_ready()

    fresh_cluster.restore_etcd()
    restored = time.monotonic()
    since = world.position()
    assert not exists(world.client, added.path)
    edited = (kept, changed, deleted)
    for deployed in edited:
        deployed.edit("a", color="red")
    fresh = world.deploy(config_map("a"))
    world.wait(
        lambda: all(deployed.data("a") == {"color": "blue"} for deployed in (*edited, fresh)),
        "drift repaired, and a new bundle installed",
        seconds=RESTORED_SECONDS,
    )
    print(f"repaired after {time.monotonic() - restored:.1f} s")  # noqa: T201 -- a figure
    assert changed.objects().keys() == {"a", "b-1"}
    assert not [request for request in world.writes(since) if added.name in request]
    assert not [request for request in world.writes(since) if changed.name in request and "/new" in request]
    for deployed in edited:
        assert deployed.wait_ready()["installedRevision"] == before[deployed.name]


def test_what_the_backup_brought_back_can_be_upgraded_and_deleted(world: World, fresh_cluster: ControlPlane) -> None:
    upgraded, deleted = (world.deploy(config_map("a")) for _ in range(2))
    installed = upgraded.wait_ready()["installedRevision"]
    deleted.wait_ready()
    fresh_cluster.back_up_etcd()
    # The generation of the second change is that of the first one, which the restored cluster does not have.
    upgrade(world, upgraded, "green")
    upgraded.wait_installed(installed)
    deleted.delete()
    deleted.wait_gone()

    fresh_cluster.restore_etcd()
    upgrade(world, upgraded, "yellow")
    deleted.delete()

    deleted.wait_gone()
    world.wait(lambda: upgraded.data("a") == {"color": "yellow"}, "upgraded", seconds=RESTORED_SECONDS)
    upgraded.wait_installed(installed)
    assert deleted.objects() == {}
    assert deleted.revisions() == []
    assert len(upgraded.revisions()) == 1


def upgrade(world: World, deployed: Deployed, color: str) -> None:
    deployed.change(sources=[image(world.push(deployed.name, config_map("a", color=color), tag=color))])
