from __future__ import annotations

from collections import Counter

import pytest

from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.lease import LEASES
from rukpak.controller.manager.survey import PERIOD_SECONDS, ShardSurvey
from tests.support.fake_cluster import FakeCluster

DURATION, PATIENCE = 30.0, 60.0
PERIOD = PERIOD_SECONDS


class World:
    """The Leases of one namespace, and BundleDeployments of the shard `a`."""

    def __init__(self) -> None:
        self.cluster, self.seconds, self.counts = FakeCluster(), 0.0, Counter({"a": 2})
        self.survey = ShardSurvey(
            self.cluster.client,
            "system",
            lambda: self.counts,
            identity="own_1",
            patience=PATIENCE,
            clock=lambda: self.seconds,
        )

    def renew(self, holder: str = "pod_1") -> None:
        about = {"name": "rukpak-a", "namespace": "system", "resourceVersion": "1"}
        spec = {"holderIdentity": holder, "renewTime": f"{self.seconds}", "leaseDurationSeconds": DURATION}
        self.cluster.objects[LEASES.path("system", "rukpak-a")] = {"metadata": about, "spec": spec}

    def look(self, after: float = 0.0) -> dict[str, int]:
        self.seconds += after
        _, abandoned = self.survey.look()
        self.abandoned = set(abandoned)
        return self.survey.unserved()


@pytest.fixture
def world() -> World:
    return World()


def test_without_other_shards_no_lease_is_read(world: World) -> None:
    world.counts.clear()
    assert world.look() == {}
    assert world.cluster.requests == []


def test_a_shard_without_lease_is_not_served(world: World) -> None:
    assert world.look() == {"a": 2}


def test_a_shard_is_served_while_its_lease_is_renewed(world: World) -> None:
    for _ in range(10):
        world.renew()
        assert world.look(PERIOD) == {}


def test_a_shard_is_not_served_once_its_lease_has_expired_by_our_own_clock(world: World) -> None:
    world.renew()
    world.look()
    assert world.look(DURATION + PERIOD) == {}
    assert world.look(1) == {"a": 2}


def test_a_released_lease_serves_nobody(world: World) -> None:
    world.renew("")
    assert world.look() == {"a": 2}


def test_a_lease_that_cannot_be_read_raises_no_alert(world: World) -> None:
    world.cluster.faults[f"GET {LEASES.path('system', 'rukpak-a')}"] = [ApiError(403, "Forbidden", "no")]
    assert world.look() == {}


def test_what_cannot_be_the_name_of_a_shard_is_not_served(world: World) -> None:
    world.counts = Counter({"No_Name": 1})
    assert world.look() == {"No_Name": 1}
    assert world.cluster.requests == []


def test_a_shard_is_abandoned_when_nobody_has_served_it_for_a_while(world: World) -> None:
    world.look()
    world.look(PATIENCE - 1)
    assert world.abandoned == set()
    world.look(1)
    assert world.abandoned == {"a"}
    world.renew()
    world.look(1)
    assert world.abandoned == set()


def test_a_shard_that_starts_again_in_time_is_not_abandoned(world: World) -> None:
    world.look()
    world.look(PATIENCE - 1)
    world.renew()
    world.look(1)
    world.renew("")
    world.look(PERIOD)
    world.look(PATIENCE - 1)
    assert world.abandoned == set()


def test_who_takes_over_does_not_serve(world: World) -> None:
    """The default shard holds the Lease for a moment, to know that its controller has stopped."""
    world.look()
    world.renew("own_1")
    assert world.look(PATIENCE) == {"a": 2}
    assert world.abandoned == {"a"}


def test_a_failure_to_read_a_lease_changes_nothing(world: World) -> None:
    world.look()
    world.look(PATIENCE)
    world.cluster.faults[f"GET {LEASES.path('system', 'rukpak-a')}"] = [ApiError(500, "InternalError", "no")]
    world.look(PERIOD)
    assert world.abandoned == {"a"}
