from __future__ import annotations

from typing import cast

import pytest

from rukpak.api import names
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.events import EventRecorder
from rukpak.controller.kube.resources import DEPLOYMENTS
from rukpak.controller.status.writer import StatusWriter
from tests.support.deployments import manifest
from tests.support.fake_cluster import FakeCluster, FakeWatches

PATH = DEPLOYMENTS.path(name="shop")


def test_a_finalizer_that_another_client_has_added_meanwhile_is_not_lost() -> None:
    cluster = FakeCluster()
    watches = FakeWatches(cluster)
    cluster.put(manifest())
    deployment = watches.deployment("shop")
    assert deployment is not None
    cluster.patch(PATH, {"metadata": {"finalizers": ["example.com/hold"]}})
    writer = StatusWriter(cluster.client, watches.watches, cast("EventRecorder", None))
    with pytest.raises(ApiError) as caught:
        writer.with_finalizer(deployment)
    assert caught.value.status == 409
    assert cluster.objects[PATH]["metadata"]["finalizers"] == ["example.com/hold"]
    found = watches.deployment("shop")
    assert found is not None
    assert writer.with_finalizer(found).metadata.finalizers == ("example.com/hold", names.FINALIZER)
