"""The revision store in the Secrets of a real API server (rule 2)."""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import DEPLOYMENTS, ROOT, SECONDS, delete_namespace, is_answered
from tests.support.deployments import make_secrets
from tests.support.inside import (
    CHUNK_BYTES,
    TENANT_BYTES,
    Client,
    Revision,
    RevisionStore,
    Terms,
    connect,
    remove_orphans,
    revision_digest,
)

Json = dict[str, Any]
TERMS = Terms(
    inputs="sha256:" + "a" * 64,
    install_namespace="shop",
    service_account_name="deployer",
    pins=({"resolved": "example.com/shop@sha256:aa", "digest": "sha256:aa"},),
    drift={"mode": "Repair"},
    optional=({"group": "", "kind": "Pod"},),
)


class Cluster(Protocol):
    kubeconfig: Path

    def kubectl(self, *arguments: str) -> str: ...


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Client:
    return connect(kubeconfig=str(cluster.kubeconfig), user_agent="rukpak-test")


@pytest.fixture
def name() -> str:
    """A BundleDeployment of a name as long as one may be."""
    return f"shop-{uuid.uuid4().hex}".ljust(63, "x")


class Kept(RevisionStore):
    """A store, and what it keeps."""

    def __init__(self, client: Client, namespace: str, tenant_bytes: int = TENANT_BYTES) -> None:
        super().__init__(client, make_secrets(client, namespace), tenant_bytes)
        self.path = f"/api/v1/namespaces/{namespace}/secrets"

    def secrets(self) -> list[Json]:
        return sorted(self._client.list(self.path), key=lambda each: str(each["metadata"]["name"]))

    def remove_orphans(self) -> None:
        remove_orphans(self._client, self._namespace)

    def patch(self, index: int, change: Json) -> None:
        """Change the Secret of a chunk, as another client."""
        (name,) = (
            each["metadata"]["name"] for each in self.secrets() if each["metadata"]["name"].endswith(f".{index}")
        )
        self._client.merge_patch(f"{self.path}/{name}", change)


@pytest.fixture
def store(cluster: Cluster, client: Client) -> Iterator[Kept]:
    """A store in a namespace that does not exist yet."""
    namespace = f"revisions-{uuid.uuid4().hex[:8]}"
    yield Kept(client, namespace)
    delete_namespace(cluster, client, namespace)


def revision(*objects: Json, **terms: Any) -> Revision:
    values = {field: getattr(TERMS, field) for field in TERMS.__slots__}
    return Revision(digest=revision_digest(objects), objects=objects, terms=Terms(**{**values, **terms}))


def config_map(name: str, value: str = "1") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}


def large(chunks: int) -> Revision:
    """Return a revision of so many chunks: noise that nothing compresses."""
    noise = random.Random(7).randbytes((chunks - 1) * CHUNK_BYTES + CHUNK_BYTES // 2)
    parts = [noise[start : start + 500_000] for start in range(0, len(noise), 500_000)]
    return revision(*(config_map(f"noise-{n}", base64.b85encode(part).decode()) for n, part in enumerate(parts)))


def test_what_is_written_is_read_and_the_namespace_is_made(store: Kept, name: str) -> None:
    wanted = revision(config_map("a", "ünïcödé"), config_map("b"))
    store.write(name, wanted)
    assert store.read(name, wanted.digest) == wanted
    (secret,) = store.secrets()
    assert secret["type"] == names.REVISION_SECRET_TYPE
    labels = {names.REVISION_LABEL: name, names.REVISION_NAMESPACE_LABEL: "shop"}
    assert secret["metadata"]["labels"] == labels
    assert "ownerReferences" not in secret["metadata"]


def test_the_same_again_changes_nothing(store: Kept, name: str) -> None:
    wanted = revision(config_map("a"))
    versions = []
    for _ in range(2):
        store.write(name, wanted)
        versions.append([each["metadata"]["resourceVersion"] for each in store.secrets()])
    assert versions[0] == versions[1]


def test_other_terms_rewrite_the_same_revision(store: Kept, name: str) -> None:
    store.write(name, revision(config_map("a")))
    changed = revision(config_map("a"), inputs="sha256:" + "b" * 64)
    store.write(name, changed)
    assert store.read(name, changed.digest) == changed
    assert len(store.secrets()) == 1


def test_a_large_revision_takes_as_many_secrets_as_it_needs(store: Kept, name: str) -> None:
    wanted = large(chunks=3)
    store.write(name, wanted)
    sizes = [len(base64.b64decode(each["data"]["objects"])) for each in store.secrets()]
    assert sizes[:2] == [CHUNK_BYTES] * 2
    assert 0 < sizes[2] < CHUNK_BYTES
    assert store.read(name, wanted.digest) == wanted


def test_one_that_was_not_written_to_the_end_is_not_there(store: Kept, name: str, client: Client) -> None:
    """The Secret with index 0 comes last, so that a kill leaves nothing that looks whole."""
    wanted = large(chunks=2)
    store.write(name, wanted)
    (first,) = (each["metadata"]["name"] for each in store.secrets() if each["metadata"]["name"].endswith(".0"))
    client.delete(f"{store.path}/{first}")
    assert store.read(name, wanted.digest) is None
    store.write(name, wanted)
    assert store.read(name, wanted.digest) == wanted


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def replaced(index: int, **data: str | None) -> Callable[[Kept], None]:
    return lambda store: store.patch(index, {"data": data})


def marked(**annotations: str | None) -> Callable[[Kept], None]:
    marks = {f"{names.GROUP}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return lambda store: store.patch(0, {"metadata": {"annotations": marks}})


def delete_last(store: Kept) -> None:
    store._client.delete(f"{store.path}/{store.secrets()[-1]['metadata']['name']}")


def other_objects(store: Kept) -> None:
    """Put well-formed objects of another revision into its place."""
    other = Kept(store._client, f"other-{uuid.uuid4().hex[:8]}")
    try:
        other.write("other", revision(config_map("evil")))
        (secret,) = other.secrets()
        store.patch(0, {"data": {"objects": secret["data"]["objects"]}})
        marked(chunks="1")(store)
    finally:
        store._client.delete(other.path.removesuffix("/secrets"))


ATTACKS: dict[str, Callable[[Kept], None]] = {
    "other bytes": replaced(0, objects=encoded(b"x")),
    "other bytes in a later chunk": replaced(1, objects=encoded(b"x")),
    "no objects": replaced(0, objects=None),
    "no terms": replaced(0, terms=None),
    "terms that are a number": replaced(0, terms=encoded(b"1")),
    "terms of another BundleDeployment": replaced(0, terms=encoded(b'{"format":"v1","inputs":""}')),
    "objects of another revision": other_objects,
    "a chunk that is gone": delete_last,
    "fewer chunks": marked(chunks="1"),
    "chunks without end": marked(chunks="99999999"),
    "chunks that only look like a number": marked(chunks="²"),
    "no digest of the terms": marked(terms_digest=None),
}


def test_what_was_tampered_with_is_not_used_and_can_be_written_again(store: Kept, name: str) -> None:
    wanted = large(chunks=2)
    store.write(name, wanted)
    for attack, tamper in ATTACKS.items():
        tamper(store)
        assert store.read(name, wanted.digest) is None, attack
        store.write(name, wanted)
        assert store.read(name, wanted.digest) == wanted, attack


def test_what_was_never_written_is_not_there(store: Kept, name: str) -> None:
    assert store.read(name, "sha256:" + "0" * 64) is None
    assert store.digests(name) == []


def test_only_what_is_still_needed_is_kept(store: Kept, name: str) -> None:
    revisions = [large(chunks=2), revision(config_map("a")), revision(config_map("b"))]
    for each in revisions:
        store.write(name, each)
        store.write(f"x{name[1:]}", each)
    assert set(store.digests(name)) == {each.digest for each in revisions}
    store.keep_only(name, {revisions[1].digest})
    assert store.digests(name) == [revisions[1].digest]
    assert len(store.digests(f"x{name[1:]}")) == 3
    store.keep_only(name, ())
    assert store.digests(name) == []


# what nobody has any more


@pytest.fixture
def deployment(cluster: Cluster, client: Client, name: str) -> Iterator[str]:
    """A BundleDeployment that is there, which nobody looks after; its UID."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(ROOT / "config" / "crd"))
    wait_for(lambda: is_answered(client, DEPLOYMENTS), SECONDS, "BundleDeployments served")
    source = {"kind": "image", "image": {"ref": "example.com/a:v1"}}
    body = {
        "apiVersion": f"{names.GROUP}/v1alpha2",
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"format": "plain", "paused": True, "sources": [source]},
    }
    made: Json = client.create(DEPLOYMENTS, body).value
    yield made["metadata"]["uid"]
    client.delete(f"{DEPLOYMENTS}/{name}")


def test_the_revisions_of_what_is_gone_are_removed_and_other_secrets_are_not(
    store: Kept, name: str, deployment: str, client: Client
) -> None:
    gone = f"x{name[1:]}"
    for each in (name, gone):
        store.write(each, large(chunks=2), deployment)
    client.create(store.path, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "somebody-elses"}})
    store.remove_orphans()
    assert len(store.digests(name)) == 1
    assert store.digests(gone) == []
    assert [each["metadata"]["name"] for each in store.secrets() if "somebody" in each["metadata"]["name"]]


def test_the_revisions_of_one_before_of_this_name_are_removed_and_those_that_lost_their_uid_stay(
    store: Kept, name: str, deployment: str
) -> None:
    before, nobodys, own = (revision(config_map(each)) for each in ("before", "nobodys", "own"))
    store.write(name, before, "uid-of-another")
    store.write(name, nobodys)
    store.write(name, own, deployment)
    store.remove_orphans()
    assert set(store.digests(name)) == {nobodys.digest, own.digest}


@pytest.mark.parametrize("labels", [None, {names.REVISION_LABEL: "other"}], ids=["taken off", "changed"])
def test_a_label_that_is_lost_loses_no_revision(store: Kept, name: str, deployment: str, labels: Json | None) -> None:
    store.write(name, large(chunks=2), deployment)
    for index in range(2):
        store.patch(index, {"metadata": {"labels": labels}})
    store.remove_orphans()
    assert len(store.digests(name)) == 1
    store.keep_only(name, ())
    assert store.secrets() == []


def test_without_its_label_a_revision_of_what_is_gone_is_found_as_well(store: Kept, name: str) -> None:
    store.write(name, revision(config_map("a")))
    store.patch(0, {"metadata": {"labels": None}})
    store.remove_orphans()
    assert store.secrets() == []


def test_a_namespace_that_is_missing_has_no_revisions(store: Kept, name: str) -> None:
    store.keep_only(name, ())
    store.remove_orphans()
    assert store.digests(name) == []


# how much is kept


def noise(seed: int, size: int = 300_000) -> Json:
    return config_map(f"noise-{seed}", base64.b85encode(random.Random(seed).randbytes(size)).decode())


@pytest.fixture
def small(cluster: Cluster, client: Client) -> Iterator[Kept]:
    """A store that keeps 1 MiB for each tenant: three revisions of `noise`."""
    namespace = f"revisions-{uuid.uuid4().hex[:8]}"
    yield Kept(client, namespace, 1 << 20)
    delete_namespace(cluster, client, namespace)


def test_the_bundle_deployments_of_a_namespace_have_so_many_bytes_together(small: Kept) -> None:
    for seed in range(3):
        small.write(f"bd-{seed}", revision(noise(seed)))
    with pytest.raises(BundleError) as caught:
        small.write("bd-3", revision(noise(3)))
    assert caught.value.reason is Reason.QUOTA_EXCEEDED
    assert (
        'exceeds the quota of 1 MiB for all revisions of namespace "shop"; delete BundleDeployments'
        in caught.value.message
    )
    small.write("bd-3", revision(noise(3), install_namespace="other"))
    small.write("bd-4", revision(noise(4), service_account_name=""))
    assert [small.digests(f"bd-{seed}") != [] for seed in range(5)] == [True] * 5


def test_what_is_kept_can_be_written_again_however_full_it_is(small: Kept) -> None:
    for seed in range(3):
        small.write(f"bd-{seed}", revision(noise(seed)))
    full = Kept(small._client, small.path.split("/")[4], 1)
    full.write("bd-0", revision(noise(0), inputs="sha256:" + "b" * 64))
    kept = full.read("bd-0", revision(noise(0)).digest)
    assert kept is not None
    assert kept.terms.inputs == "sha256:" + "b" * 64


def test_room_comes_back_with_what_goes(small: Kept) -> None:
    for seed in range(3):
        small.write(f"bd-{seed}", revision(noise(seed)))
    small.keep_only("bd-0", ())
    small.write("bd-3", revision(noise(3)))
    assert len(small.digests("bd-3")) == 1


def test_those_that_are_written_at_the_same_time_count_as_well(small: Kept) -> None:
    outcomes: list[bool] = []

    def write(seed: int) -> None:
        try:
            small.write(f"bd-{seed}", revision(noise(seed)))
        except BundleError:
            outcomes.append(False)
        else:
            outcomes.append(True)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert 0 < outcomes.count(True) <= 3
