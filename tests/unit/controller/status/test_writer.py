from __future__ import annotations

import copy
from operator import attrgetter
from typing import Any, NamedTuple, cast

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.events import EventRecorder
from rukpak.controller.kube.resources import DEPLOYMENTS
from rukpak.controller.status.writer import StatusWriter
from tests.support.deployments import manifest
from tests.support.fake_cluster import FakeCluster, FakeWatches
from tests.support.reconciling import Told

PATH = DEPLOYMENTS.path(name="shop")


def test_a_finalizer_that_another_client_has_added_meanwhile_is_not_lost() -> None:
    cluster = FakeCluster()
    watches = FakeWatches(cluster)
    cluster.put(manifest())
    deployment = watches.deployments.find("shop")
    assert deployment is not None
    cluster.patch(PATH, {"metadata": {"finalizers": ["example.com/hold"]}})
    writer = StatusWriter(cluster.client, watches.watches.deployments, cast("EventRecorder", None))
    with pytest.raises(ApiError) as caught:
        writer.with_finalizer(deployment)
    assert caught.value.status == 409
    assert cluster.objects[PATH]["metadata"]["finalizers"] == ["example.com/hold"]
    found = watches.deployments.find("shop")
    assert found is not None
    assert writer.with_finalizer(found).metadata.finalizers == ("example.com/hold", names.FINALIZER)


class Fence(NamedTuple):
    name: str
    shard: str
    now: dict[str, Any]
    """Metadata of the version that was read last; the pass knows generation 1."""
    is_written: bool


FENCES = [
    Fence("one of the shard is written", "", {}, is_written=True),
    Fence("so is one of a named shard", "a", {"labels": {names.SHARD: "a"}}, is_written=True),
    Fence("and one with other labels than the pass knows", "", {"labels": {"app": "b"}}, is_written=True),
    Fence("one that has left is not", "", {"labels": {names.SHARD: "a"}}, is_written=False),
    Fence("nor one that has left for the default shard", "a", {}, is_written=False),
    Fence("nor one that has moved between two others", "a", {"labels": {names.SHARD: "b"}}, is_written=False),
    Fence("nor one whose spec has changed", "", {"generation": 2}, is_written=False),
    Fence("nor another one of its name", "", {"uid": "another"}, is_written=False),
]


@pytest.mark.parametrize("case", FENCES, ids=attrgetter("name"))
def test_which_status_is_written(case: Fence) -> None:
    cluster, watches, deployment = _prepare(case)
    writer = StatusWriter(cluster.client, watches.watches.deployments, cast("EventRecorder", Told()))
    status = deployment.status.model_copy(update={"observed_generation": 1})
    if case.is_written:
        writer.write_status(deployment, status)
    else:
        with pytest.raises(ApiError, match="has changed"):
            writer.write_status(deployment, status)
        assert cluster.taken() == []
    assert cluster.objects[PATH]["status"]["observedGeneration"] == (1 if case.is_written else -1)


@pytest.mark.parametrize("case", FENCES, ids=attrgetter("name"))
def test_one_whose_watch_is_silent_writes_no_status_over_another_version_and_learns_that(case: Fence) -> None:
    cluster, watches, deployment = _prepare(case, silent=True)
    writer = StatusWriter(cluster.client, watches.watches.deployments, cast("EventRecorder", Told()))
    with pytest.raises(ApiError, match="has changed") as caught:
        writer.write_status(deployment, deployment.status.model_copy(update={"observed_generation": 1}))
    assert caught.value.status == 409
    assert cluster.objects[PATH]["status"] == {"observedGeneration": -1}
    assert "shop" not in watches.deployments.silent


def _prepare(case: Fence, *, silent: bool = False) -> tuple[FakeCluster, FakeWatches, BundleDeployment]:
    """Return a BundleDeployment as a pass knows it, of which there is another version now."""
    cluster = FakeCluster()
    watches = FakeWatches(cluster)
    watches.deployments.shard = case.shard
    labels = {names.SHARD: case.shard} if case.shard else {}
    known = cluster.put(manifest(metadata={"generation": 1, "labels": labels}, status={"observedGeneration": -1}))
    deployment = watches.deployments.find("shop")
    assert deployment is not None
    known = copy.deepcopy(known)
    cluster.put({**known, "metadata": {**known["metadata"], "labels": {}, **case.now}})
    if silent:
        watches.deployments.silent["shop"] = known
    return cluster, watches, deployment


def test_a_status_that_is_there_already_is_not_written_but_by_the_one_that_serves_it() -> None:
    cluster = FakeCluster()
    watches = FakeWatches(cluster)
    cluster.put(manifest(metadata={"labels": {names.SHARD: "a"}}))
    found = watches.deployments.outline("shop")
    assert found is not None
    writer = StatusWriter(cluster.client, watches.watches.deployments, cast("EventRecorder", Told()))
    with pytest.raises(ApiError):
        writer.write_status(found, found.status)
    watches.deployments.shard = "a"
    writer.write_status(found, found.status)
    assert cluster.taken() == []
