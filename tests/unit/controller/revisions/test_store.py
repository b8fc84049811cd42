from __future__ import annotations

import random
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, cast

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.formats.applicable import revision_digest
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import SECRETS
from rukpak.controller.revisions.store import BYTES, CHUNK_BYTES, MAX_BYTES, RevisionSecrets, RevisionStore, make_stored
from tests.support.deployments import make_store, manifest, retired
from tests.support.fake_cluster import FakeCluster
from tests.support.reconciling import SeenSecrets

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
    return make_store(cluster.client, NAMESPACE)


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
    other = make_store(FakeCluster().client, NAMESPACE)
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
    store = make_store(cluster.client, NAMESPACE, tenant_bytes=3000)
    first, second = revision(1, 1500, "installer"), revision(2, 1500, "installer")
    store.write("shop", first)
    store.write("shop", first)
    with pytest.raises(BundleError) as caught:
        store.write("other", second)
    assert caught.value.reason is Reason.QUOTA_EXCEEDED
    store.write("other", revision(2, 1500))  # the controller's own


def test_what_could_not_be_written_takes_no_room(cluster: FakeCluster) -> None:
    store = make_store(cluster.client, NAMESPACE, tenant_bytes=3000)
    made = revision(1, 1500, "installer")
    cluster.faults[f"APPLY {path_of(made, 0)}"] = [ApiError(503, "ServiceUnavailable", "no")]
    with pytest.raises(ApiError):
        store.write("shop", made)
    store.write("shop", made)
    assert store.read("shop", made.digest) == made


class Owner(NamedTuple):
    name: str
    metadata: dict[str, Any] | None
    """None: it does not exist."""
    keeps: bool


OWNERS = [
    Owner("of one that exists", {}, keeps=True),
    Owner("not of one that is being deleted", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, keeps=False),
    Owner("not of one that is gone", None, keeps=False),
    Owner("not of one that was recreated", {"uid": "another"}, keeps=False),
]


@pytest.mark.parametrize("case", OWNERS, ids=attrgetter("name"))
def test_whose_lost_revision_is_stored_again(case: Owner, cluster: FakeCluster, store: RevisionStore) -> None:
    if case.metadata is not None:
        cluster.put(manifest(metadata=case.metadata))
    store.restore("shop", LARGE, "uid-shop")
    assert (store.read("shop", LARGE.digest) is not None) is case.keeps


@pytest.mark.parametrize("case", OWNERS, ids=attrgetter("name"))
def test_whose_known_revision_is_written_with_other_terms(case: Owner, cluster: FakeCluster) -> None:
    """Another process may have deleted the Secrets of one that is gone, and the watch may not have shown it yet."""
    store = RevisionStore(cluster.client, SeenSecrets(cluster, NAMESPACE))
    store.write("shop", revision(), "uid-shop")
    if case.metadata is not None:
        cluster.put(manifest(metadata=case.metadata))
    store.write("shop", revision(account="installer"), "uid-shop")
    kept = store.read("shop", revision().digest)
    assert kept
    assert bool(kept.terms.service_account_name) is case.keeps


def test_whether_a_bundle_deployment_exists_must_be_known(cluster: FakeCluster, store: RevisionStore) -> None:
    cluster.faults["GET /apis/core.rukpak.io/v1alpha2/bundledeployments/shop"] = [ApiError(503, "Unavailable", "no")]
    with pytest.raises(ApiError):
        store.restore("shop", LARGE, "uid-shop")
    assert store.read("shop", LARGE.digest) is None


def test_a_superseded_revision_that_could_not_be_deleted_is_not_forgotten(
    cluster: FakeCluster, store: RevisionStore
) -> None:
    old, new = revision(1), revision(2)
    store.write("shop", old)
    store.write("shop", new)
    cluster.faults[f"DELETE {path_of(old, 0)}"] = [ApiError(409, "Conflict", "try again")]
    with pytest.raises(ApiError):
        store.keep_only("shop", [new.digest])
    assert not store.is_tidy("shop", [new.digest])

    store.keep_only("shop", [new.digest])
    assert store.digests("shop") == [new.digest]


def make_seeing(cluster: FakeCluster) -> RevisionStore:
    """Return a store of 1 MiB for each tenant, whose watch is up to date."""
    return RevisionStore(cluster.client, cast("RevisionSecrets", SeenSecrets(cluster, NAMESPACE)), 1 << 20)


def test_a_retired_revision_can_be_read_and_is_recalled_when_it_is_written_again(cluster: FakeCluster) -> None:
    store, old, new = make_seeing(cluster), revision(1, 2 * CHUNK_BYTES), revision(2)
    cluster.put(manifest())
    store.write("shop", old, "uid-shop")
    store.write("shop", new, "uid-shop")
    store.keep_only("shop", [new.digest], [old.digest])
    assert store.is_tidy("shop", [new.digest], [old.digest])
    assert (store.digests("shop"), retired(store, "shop")) == ([new.digest], [old.digest])
    assert store.read("shop", old.digest) == old
    assert not store.is_lost("shop", old.digest)

    store.write("shop", old, "uid-shop")

    assert sorted(store.digests("shop")) == sorted([new.digest, old.digest])
    assert retired(store, "shop") == []


@pytest.mark.parametrize(
    "make", [make_seeing, lambda cluster: make_store(cluster.client, NAMESPACE)], ids=["seen", "read"]
)
def test_whether_a_revision_is_retired_is_known(
    make: Callable[[FakeCluster], RevisionStore], cluster: FakeCluster
) -> None:
    store, old, new = make(cluster), revision(1), revision(2)
    store.write("shop", old)
    store.write("shop", new)
    store.keep_only("shop", [new.digest], [old.digest])
    known = [store.is_retired("shop", digest) for digest in (old.digest, new.digest, "sha256:" + "0" * 64)]
    assert known == [True, False, False]


def test_only_retired_revisions_make_room(cluster: FakeCluster) -> None:
    kept = [revision(seed, 300_000, account="account") for seed in range(4)]
    store = make_seeing(cluster)
    for made in kept[:3]:
        store.write("shop", made)
    with pytest.raises(BundleError) as caught:
        store.write("other", kept[3])
    assert caught.value.reason is Reason.QUOTA_EXCEEDED
    store.keep_only("shop", [kept[2].digest], [kept[0].digest, kept[1].digest])

    store.write("other", kept[3])

    assert retired(store, "shop") == [kept[1].digest]
    assert store.digests("shop") == [kept[2].digest]


SIZES = {"12": 12, "": 0, "-1": 0, "x": 0, "1" * 5000: 2 * MAX_BYTES}


@pytest.mark.parametrize("text", SIZES, ids=lambda text: text[:9] or "none")
def test_a_size_that_somebody_has_written_is_read_within_limits(text: str) -> None:
    secret = make_stored({"metadata": {"name": "revision.shop.0123456789abcdef.0", "annotations": {BYTES: text}}})
    assert secret.size == SIZES[text]
