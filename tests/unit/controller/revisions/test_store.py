from __future__ import annotations

import random
from typing import Any

import pytest

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.build.revision import Revision, Terms
from controller.formats.applicable.applicable import revision_digest
from controller.kube.errors import ApiError
from controller.kube.resources import SECRETS
from controller.revisions.store import CHUNK_BYTES, RevisionStore
from tests.support.fake_cluster import FakeCluster

NAMESPACE = "rukpak-system"


def revision(seed: int = 0, size: int = 1, account: str = "") -> Revision:
    """Return a revision of so many bytes that cannot be compressed."""
    data = {"a": random.Random(seed).randbytes(size).hex()}
    objects = ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}, "data": data},)
    terms = Terms(inputs="", install_namespace="shop", service_account_name=account)
    return Revision(digest=revision_digest(objects, ()), objects=objects, terms=terms)


def path_of(made: Revision, index: int) -> str:
    return SECRETS.path(NAMESPACE, f"revision.shop.{made.digest.removeprefix('sha256:')[:16]}.{index}")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def store(cluster: FakeCluster) -> RevisionStore:
    return RevisionStore(cluster.client, NAMESPACE)


LARGE = revision(size=2 * CHUNK_BYTES + 1)


def test_a_large_revision_is_kept_in_chunks_of_which_the_first_is_written_last(
    cluster: FakeCluster, store: RevisionStore
) -> None:
    store.write("shop", LARGE)
    assert cluster.requests == [f"APPLY {path_of(LARGE, index)}" for index in (2, 1, 0)]
    assert store.read("shop", LARGE.digest) == LARGE


def lose(cluster: FakeCluster, made: Revision) -> None:
    cluster.remove(path_of(made, 1))


def exchange(cluster: FakeCluster, made: Revision) -> None:
    cluster.objects[path_of(made, 1)]["data"] = cluster.objects[path_of(made, 2)]["data"]


def change_terms(cluster: FakeCluster, made: Revision) -> None:
    other = RevisionStore(FakeCluster().client, NAMESPACE)
    other.write("shop", revision(account="installer"))
    changed: Any = other._client
    terms = changed.objects[path_of(revision(), 0)]["data"]["terms"]
    cluster.objects[path_of(made, 0)]["data"]["terms"] = terms


@pytest.mark.parametrize("damage", [lose, exchange, change_terms])
def test_a_revision_that_is_not_as_it_was_written_is_none(
    damage: Any, cluster: FakeCluster, store: RevisionStore
) -> None:
    store.write("shop", LARGE)
    damage(cluster, LARGE)
    assert store.read("shop", LARGE.digest) is None


def test_what_a_tenant_keeps_is_bounded_and_the_same_again_is_no_more(cluster: FakeCluster) -> None:
    store = RevisionStore(cluster.client, NAMESPACE, tenant_bytes=3000)
    first, second = revision(1, 1500, "installer"), revision(2, 1500, "installer")
    store.write("shop", first)
    store.write("shop", first)
    with pytest.raises(BundleError) as caught:
        store.write("other", second)
    assert caught.value.reason is Reason.QUOTA_EXCEEDED
    store.write("other", revision(2, 1500))  # the controller's own


def test_what_could_not_be_written_takes_no_room(cluster: FakeCluster) -> None:
    store = RevisionStore(cluster.client, NAMESPACE, tenant_bytes=3000)
    made = revision(1, 1500, "installer")
    cluster.faults[f"APPLY {path_of(made, 0)}"] = [ApiError(503, "ServiceUnavailable", "no")]
    with pytest.raises(ApiError):
        store.write("shop", made)
    store.write("shop", made)
    assert store.read("shop", made.digest) == made
