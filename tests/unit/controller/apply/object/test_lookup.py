from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api import names
from controller.apply.lookup import LIST_FROM, ObjectReader
from controller.apply.ownership import Owner, make_body
from controller.apply.plan import Action, Task
from controller.apply.pool import ConcurrencyLimits, Pool
from controller.apply.targets import Target
from controller.kube.errors import ApiError
from controller.kube.resources import Resource
from controller.observe.records import ObjectKey, Record, key_of
from controller.processes.supervision import Supervisor
from tests.support.deployments import options_for
from tests.support.fake_cluster import CONFIG_MAPS, SECRETS, FakeCluster

OWNER = Owner("foo", "uid-foo")
MAPS = "/api/v1/namespaces/shop/configmaps"
DENIED = ApiError(403, "Forbidden", "no")
BROKEN = ApiError(500, "InternalError", "conversion webhook")


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(2, ConcurrencyLimits(2), Supervisor())
    yield made
    made.stop()


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def reader(cluster: FakeCluster, pool: Pool) -> ObjectReader:
    return ObjectReader(cluster.client, pool)


def config_map(name: str, namespace: str = "shop", **content: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}, **content}


def key(name: str, namespace: str = "shop") -> ObjectKey:
    return ObjectKey("", "ConfigMap", namespace, name)


def maps(*names_: str) -> list[tuple[ObjectKey, Resource]]:
    return [(key(name), CONFIG_MAPS) for name in names_]


# what is there


def test_a_few_objects_are_read_one_by_one(reader: ObjectReader, cluster: FakeCluster) -> None:
    cluster.put(config_map("a"))
    found = reader.read_all(maps("a", "b"), None)
    assert isinstance(found[key("a")], Record)
    assert found[key("b")] is None
    assert sorted(cluster.requests) == [f"GET {MAPS}/a", f"GET {MAPS}/b"]


def test_many_objects_of_a_namespace_take_one_list(reader: ObjectReader, cluster: FakeCluster) -> None:
    for name in "abx":
        cluster.put(config_map(name))
    found = reader.read_all(maps(*"abcd"), None)
    assert {each.name: record is not None for each, record in found.items()} == {
        "a": True, "b": True, "c": False, "d": False
    }  # fmt: skip
    assert cluster.requests == [f"LIST {MAPS}"]


def test_what_is_beyond_the_first_page_is_read_one_by_one(
    reader: ObjectReader, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        cluster.put(config_map(name))
    page = cluster.list_page
    monkeypatch.setattr(cluster, "list_page", lambda path, **options: page(path, **options, limit=3))
    assert all(reader.read_all(maps(*"abcd"), None).values())
    assert cluster.requests == [f"LIST {MAPS}", f"GET {MAPS}/d"]


def test_where_listing_is_not_allowed_each_is_read(reader: ObjectReader, cluster: FakeCluster) -> None:
    cluster.put(config_map("a"))
    cluster.faults[f"LIST {MAPS}"] = [DENIED]
    found = reader.read_all(maps(*"abcd"), None)
    assert [name for name in "abcd" if found[key(name)]] == ["a"]
    assert len(cluster.requests) == 5


def test_namespaces_and_kinds_are_looked_at_apart(reader: ObjectReader, cluster: FakeCluster) -> None:
    wanted = [(key(name, namespace), CONFIG_MAPS) for namespace in ("x", "y") for name in "ab"]
    wanted += [(ObjectKey("", "Secret", "x", name), SECRETS) for name in "ab"]
    assert len(wanted) > LIST_FROM
    assert set(reader.read_all(wanted, None).values()) == {None}
    assert all(request.startswith("GET ") for request in cluster.requests)


def test_what_may_not_be_read_keeps_its_error(reader: ObjectReader, cluster: FakeCluster) -> None:
    cluster.faults[f"GET {MAPS}/a"] = [DENIED]
    found = reader.read_all(maps("a", "b"), None)
    assert found[key("a")] is DENIED
    assert found[key("b")] is None


def test_nothing_wanted_is_nothing_asked(reader: ObjectReader, cluster: FakeCluster) -> None:
    assert reader.read_all([], None) == {}
    assert not cluster.requests


# what is unchanged


def task(manifest: dict[str, Any]) -> tuple[Task, Resource]:
    target = Target(key=key_of(manifest), kind=CONFIG_MAPS.gvk, digest="d", carries_reference=True, manifest=manifest)
    return Task(target=target, action=Action.COMPARE), CONFIG_MAPS


def apply(cluster: FakeCluster, manifest: dict[str, Any]) -> str:
    path = cluster.path(manifest)
    cluster.client.apply(path, make_body(manifest, OWNER, orphan=False), manager="rukpak/foo", force=True)
    cluster.taken()
    return path


def compare(reader: ObjectReader, *manifests: dict[str, Any]) -> list[bool | ApiError]:
    found = reader.compare([task(each) for each in manifests], options_for())
    return [found[key_of(each)] for each in manifests]


def wipe(cluster: FakeCluster, path: str, **content: Any) -> None:
    cluster.patch(path, {"metadata": {"managedFields": None}, **content})


class Case(NamedTuple):
    name: str
    change: Any
    """Gets the cluster and the path of an applied object."""
    same: bool
    requests: int = 1


def other_version(cluster: FakeCluster, path: str) -> None:
    (entry,) = cluster.objects[path]["metadata"]["managedFields"]
    cluster.patch(path, {"metadata": {"managedFields": [{**entry, "apiVersion": "v1beta1"}]}})


CASES = [
    Case("nobody has touched it", lambda cluster, path: None, same=True),
    Case("somebody has added a field", lambda cluster, path: cluster.edit(path, extra={"b": "2"}), same=True),
    Case("somebody has taken a field", lambda cluster, path: cluster.edit(path, data={"a": "2"}), same=False),
    Case("our entry is of another version of the kind", other_version, same=False),
    Case("somebody removed it", lambda cluster, path: cluster.remove(path), same=False),
    Case("all entries were lost, and the values are ours", wipe, same=True, requests=2),
    Case(
        "all entries were lost, and a value is not ours",
        lambda cluster, path: wipe(cluster, path, data={"a": "2"}),
        same=False,
        requests=2,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_whether_an_object_is_as_the_revision_has_it(case: Case, reader: ObjectReader, cluster: FakeCluster) -> None:
    case.change(cluster, apply(cluster, config_map("a")))
    assert compare(reader, config_map("a")) == [case.same]
    assert len(cluster.requests) == case.requests


def test_all_objects_of_a_kind_take_one_list_over_all_namespaces(reader: ObjectReader, cluster: FakeCluster) -> None:
    manifests = [config_map(name, namespace) for namespace in ("x", "y") for name in "ab"]
    for manifest in manifests:
        apply(cluster, manifest)
    theirs = config_map("theirs")
    theirs["metadata"]["labels"] = {names.OWNER_LABEL: "bar"}
    cluster.put(theirs)
    assert compare(reader, *manifests) == [True] * 4
    assert cluster.requests == ["LIST /api/v1/configmaps"]


def test_what_cannot_be_read_now_is_no_reason_to_apply_everything_again(
    reader: ObjectReader, cluster: FakeCluster
) -> None:
    apply(cluster, config_map("a"))
    cluster.faults["LIST /api/v1/configmaps"] = [BROKEN]
    assert compare(reader, config_map("a")) == [BROKEN]


def test_what_was_wiped_and_cannot_be_read_now_is_not_applied_again_either(
    reader: ObjectReader, cluster: FakeCluster
) -> None:
    path = apply(cluster, config_map("a"))
    wipe(cluster, path)
    cluster.faults[f"GET {path}"] = [BROKEN]
    assert compare(reader, config_map("a")) == [BROKEN]


def test_what_may_not_be_listed_is_applied_once(reader: ObjectReader, cluster: FakeCluster) -> None:
    apply(cluster, config_map("a"))
    cluster.faults["LIST /api/v1/configmaps"] = [DENIED]
    assert compare(reader, config_map("a")) == [False]
