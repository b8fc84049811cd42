"""etcd is restored from a backup, so that the cluster is in an older state than the controller knows.

resourceVersions go back: a watch that continued from a known version would be silent until they have caught up.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import Deployed, World, config_map, exists, image, new_name, new_world
from tests.support.controller import Controller
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

MAPS = "/api/v1/namespaces/default/configmaps"
RESTORED_SECONDS = 15.0
"""A promise: so long after the API server is ready again, the controller acts on the restored state."""


@pytest.fixture
def world(fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    # However long a busy machine takes to restart the API server, the Lease is kept: a new process knows nothing old.
    patience = ("--lease-duration=240", "--renew-deadline=200")
    with new_world(fresh_cluster, registry, settings.running, *patience, is_shared=False) as started:
        yield started
        print(started.controller.log)  # noqa: T201 -- pytest shows it where the test has failed
        started.controller.stop()  # releases the Lease


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_what_the_backup_brought_back_can_be_upgraded_and_deleted(world: World, fresh_cluster: ControlPlane) -> None:
    upgraded, deleted = (world.deploy(config_map("a"), revisionHistoryLimit=0) for _ in range(2))
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


@pytest.mark.thorough
def test_a_restored_cluster_that_has_had_more_writes_than_known_is_noticed(
    world: World, fresh_cluster: ControlPlane
) -> None:
    deployed, bystander = world.deploy(config_map("a", color="blue"), config_map("b")), world.deploy(config_map("a"))
    before = deployed.wait_ready()["installedRevision"]
    bystander.wait_ready()
    fresh_cluster.back_up_etcd()
    upgrade(world, deployed, "green")
    deployed.wait_installed(before)
    known = version(world)

    with frozen(world.controller):
        fresh_cluster.restore_etcd()
        assert version(world) < known
        while version(world) <= known:
            world.client.create(MAPS, config_map(new_name()))
    world.wait(
        lambda: deployed.data("a") == {"color": "blue"} and deployed.objects().keys() == {"a", "b"},
        "the state of the backup",
        seconds=RESTORED_SECONDS,
    )
    deployed.edit("a", color="red")
    deployed.remove("b")
    world.wait(
        lambda: deployed.data("a") == {"color": "blue"} and deployed.objects().keys() == {"a", "b"},
        "drift repaired",
        seconds=RESTORED_SECONDS,
    )
    assert deployed.wait_ready()["installedRevision"] == before
    assert "Stray" not in deployed.events()


def version(world: World) -> int:
    """Return the resourceVersion of the cluster."""
    return int(next(world.client.pages(MAPS, limit=1)).resource_version)


@contextmanager
def frozen(controller: Controller) -> Iterator[None]:
    """Stop a controller for less time than its Lease lasts, so that it sees only what has become of the cluster."""
    os.kill(controller.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(controller.pid, signal.SIGCONT)


def upgrade(world: World, deployed: Deployed, color: str) -> None:
    deployed.change(sources=[image(world.push(deployed.name, config_map("a", color=color), tag=color))])
