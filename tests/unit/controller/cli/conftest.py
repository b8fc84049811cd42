"""A cluster in memory for verbs."""

from __future__ import annotations

import copy
from functools import cache

import pytest

from rukpak.api.v1alpha2 import schema
from rukpak.controller.cli import changes, deployments, events, install, rollback, status, tree
from tests.support.deployments import DIGEST, READY, observed
from tests.support.fake_cluster import FakeCluster

SCHEMA = cache(schema.open_api_schema)


@pytest.fixture(autouse=True)
def _schema_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs that compare the API with a cluster's make its schema each time, which takes a quarter of a second."""
    monkeypatch.setattr(schema, "open_api_schema", lambda: copy.deepcopy(SCHEMA()))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster with one BundleDeployment, `shop`, that is Ready."""
    made = FakeCluster()
    made.put(observed(status={"conditions": [READY], "revision": DIGEST, "installedRevision": DIGEST}))
    for module in (changes, events, install, rollback, status, tree):
        monkeypatch.setattr(module, "connect", lambda _options: made.client)
    monkeypatch.setattr(deployments, "POLL_SECONDS", 0.001)
    return made
