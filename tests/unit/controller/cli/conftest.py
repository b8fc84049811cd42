"""A cluster in memory for verbs."""

from __future__ import annotations

import pytest

from rukpak.controller.cli import changes, deployments, events, install, status, tree, verify
from tests.support.deployments import DIGEST, READY, observed
from tests.support.fake_cluster import FakeCluster, hold_lease


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster with one BundleDeployment, `shop`, that is Ready, and a controller that is active."""
    made = FakeCluster()
    made.put(observed(status={"conditions": [READY], "revision": DIGEST, "installedRevision": DIGEST}))
    hold_lease(made)
    for module in (changes, events, install, status, tree, verify):
        monkeypatch.setattr(module, "connect", lambda _options: made.client)
    monkeypatch.setattr(deployments, "POLL_SECONDS", 0.001)
    return made
