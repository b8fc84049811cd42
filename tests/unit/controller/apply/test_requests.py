"""Threads and their fair shares, and what is read of objects over a cluster in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.controller.apply.ownership import Owner, make_body
from rukpak.controller.apply.plan import Action, Task
from rukpak.controller.apply.requests import LIST_FROM, SLOW_SECONDS, ConcurrencyLimit, ObjectReader, Pool
from rukpak.controller.apply.targets import Target
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.configuration import User
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.records import Record, key_of
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.processes.supervision import Supervisor
from tests.support.clock import Clock
from tests.support.deployments import options_for
from tests.support.fake_cluster import CONFIG_MAPS, SECRETS, FakeCluster

CALLER = ContextVar("caller", default="")


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(2, Supervisor(), clock=lambda: 0.0)
    yield made
    made.stop()


class Gate:
    """Items that wait until they are let go on, and the order in which they came."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.open = threading.Event()

    def pass_through(self, item: str) -> None:
        self.begun.append(item)
        assert self.open.wait(60)


def aside(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_results_are_in_the_order_of_the_items(pool: Pool) -> None:
    assert pool.run(lambda item: item * 2, range(10)) == [item * 2 for item in range(10)]


def test_nothing_to_do_is_done(pool: Pool) -> None:
    assert pool.run(lambda item: item, []) == []


def test_what_is_sent_alone_is_sent_by_the_thread_of_the_caller(pool: Pool) -> None:
    for _ in range(3):
        assert pool.run(lambda _: threading.get_ident(), [0]) == [threading.get_ident()]


def test_as_many_are_under_way_as_there_are_threads_whoever_sends_them() -> None:
    pool, gate = Pool(5, Supervisor(), clock=lambda: 0.0), Gate()
    callers = [aside(lambda: pool.run(gate.pass_through, ["item"] * 4)) for _ in range(3)]
    wait_for(lambda: len(gate.begun) == 5, 60, "as many as there are threads")
    assert pool._busy.total() == 5
    gate.open.set()
    for caller in callers:
        caller.join(60)
    assert len(gate.begun) == 12
    pool.stop()


def test_callers_that_have_much_to_send_let_another_one_have_its_turn(pool: Pool) -> None:
    gate = Gate()
    many = [aside(lambda: pool.run(gate.pass_through, ["many"] * 20))]
    wait_for(lambda: len(gate.begun) == 2, 60, "both threads taken")
    many += [aside(lambda: pool.run(gate.pass_through, ["as many"] * 20))]
    wait_for(lambda: len(pool._batches) == 2, 60, "both wait")
    few = aside(lambda: pool.run(gate.pass_through, ["few"]))
    wait_for(lambda: len(pool._batches) == 3, 60, "all wait")
    gate.open.set()
    for caller in (*many, few):
        caller.join(60)
    assert gate.begun.index("few") <= 6


def test_who_has_little_to_send_does_not_wait_for_who_has_much(pool: Pool) -> None:
    gate = Gate()
    many = aside(lambda: pool.run(gate.pass_through, [f"many {number}" for number in range(20)]))
    wait_for(lambda: len(gate.begun) == 2, 60, "the first two")
    few = aside(lambda: pool.run(gate.pass_through, ["few"]))
    wait_for(lambda: len(pool._batches) == 2, 60, "both wait")
    gate.open.set()
    many.join(60)
    few.join(60)
    assert gate.begun.index("few") <= 3


def test_no_more_are_under_way_than_the_server_can_do_with(pool: Pool) -> None:
    pool.limit_of(None).learn(seconds=0.01, refused=True)
    most: list[int] = []
    pool.run(lambda _: most.append(pool._busy.total()), range(10))
    assert set(most) == {1}


def test_requests_of_a_tenant_that_do_not_end_leave_threads_to_another() -> None:
    pool, gate = Pool(4, Supervisor(), clock=lambda: 0.0), Gate()
    ann, ben = User.service_account("ann", "a"), User.service_account("ben", "b")
    slow = aside(lambda: pool.run(gate.pass_through, [f"slow {number}" for number in range(20)], ann))
    wait_for(lambda: len(gate.begun) == 2, 60, "half of the threads taken")
    assert pool.run(lambda item: item, ["quick"] * 20, ben) == ["quick"] * 20
    assert pool.run(lambda item: item, ["own"], None) == ["own"]
    assert len(gate.begun) == 2
    gate.open.set()
    slow.join(60)
    assert len(gate.begun) == 20
    pool.stop()


def test_the_first_failure_is_raised_when_all_are_done(pool: Pool) -> None:
    done: list[int] = []

    def fail(item: int) -> None:
        done.append(item)
        if item in (1, 3):
            raise ValueError(str(item))

    with pytest.raises(ValueError, match=r"^1$"):
        pool.run(fail, range(5))
    assert sorted(done) == list(range(5))


def test_what_is_logged_is_logged_for_the_caller(pool: Pool) -> None:
    CALLER.set("me")
    assert pool.run(lambda _: CALLER.get(), [0, 1]) == ["me", "me"]


def test_a_pool_that_is_stopped_begins_nothing_more(pool: Pool) -> None:
    gate, ended = Gate(), threading.Event()

    def run() -> None:
        with pytest.raises(CancelledError):
            pool.run(gate.pass_through, ["a", "b", "c"])
        ended.set()

    aside(run)
    wait_for(lambda: len(gate.begun) == 2, 60, "the first two")
    pool.stop()
    gate.open.set()
    assert ended.wait(60)
    assert sorted(gate.begun) == ["a", "b"]
    with pytest.raises(CancelledError):
        pool.run(gate.pass_through, ["d"])


BUSY = ApiError(429, "TooManyRequests", "too many requests")
DENIED = ApiError(429, "TooManyRequests", 'admission webhook "x" denied the request: no')
GONE = ApiError(404, "NotFound", "gone")


@pytest.fixture
def concurrency(clock: Clock) -> ConcurrencyLimit:
    return ConcurrencyLimit(8, clock)


class Case(NamedTuple):
    name: str
    replies: list[tuple[float, ApiError | None]]
    """Each a second after the one before: how long it took, and what it said."""
    limits: list[int]


CASES = [
    Case("without trouble it is as high as may be", [(0.01, None)] * 2, [8, 8]),
    Case("each second that refuses halves it, down to one", [(0.01, BUSY)] * 5, [4, 2, 1, 1, 1]),
    Case("slow replies lower it by a quarter", [(SLOW_SECONDS + 1, None)] * 4, [6, 4, 3, 2]),
    Case("recovery raises it by one each second", [(0.01, BUSY), *[(0.01, None)] * 5], [4, 5, 6, 7, 8, 8]),
    Case("what a webhook denies is no load", [(0.01, DENIED)], [8]),
    Case("nor is another failure", [(0.01, GONE)], [8]),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_how_many_requests_may_be_under_way(case: Case, concurrency: ConcurrencyLimit, clock: Clock) -> None:
    limits = []
    for seconds, error in case.replies:
        clock.now += 1

        def send(seconds: float = seconds, error: ApiError | None = error) -> str:
            clock.now += seconds
            if error:
                raise error
            return "reply"

        if error:
            with pytest.raises(ApiError):
                concurrency.watch(send)
        else:
            assert concurrency.watch(send) == "reply"
        limits.append(concurrency.limit)
    assert limits == case.limits


def test_what_was_in_flight_together_counts_once(concurrency: ConcurrencyLimit) -> None:
    for _ in range(8):
        concurrency.learn(seconds=0.01, refused=True)
    assert concurrency.limit == 4


def test_what_does_not_change_it_holds_no_change_up(concurrency: ConcurrencyLimit) -> None:
    concurrency.learn(seconds=0.01, refused=False)
    concurrency.learn(seconds=0.01, refused=True)
    assert concurrency.limit == 4


def test_what_slows_one_tenant_slows_no_other(clock: Clock) -> None:
    pool = Pool(8, Supervisor(), clock=clock)
    ann, hers, ben = (User.service_account(*name) for name in (("ann", "a"), ("ann", "b"), ("ben", "a")))
    pool.limit_of(ann).learn(seconds=0.01, refused=True)
    assert [pool.limit_of(user).limit for user in (ann, hers, ben, None)] == [4, 4, 8, 8]
    pool.stop()


OWNER = Owner("foo", "uid-foo")
MAPS = "/api/v1/namespaces/shop/configmaps"
FORBIDDEN = ApiError(403, "Forbidden", "no")
BROKEN = ApiError(500, "InternalError", "conversion webhook")


@pytest.fixture
def reading_pool() -> Iterator[Pool]:
    made = Pool(2, Supervisor())
    yield made
    made.stop()


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def reader(cluster: FakeCluster, reading_pool: Pool) -> ObjectReader:
    return ObjectReader(cluster.client, reading_pool)


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
    pages = cluster.pages
    monkeypatch.setattr(cluster, "pages", lambda path, **options: pages(path, **options, limit=3))
    assert all(reader.read_all(maps(*"abcd"), None).values())
    assert cluster.requests == [f"LIST {MAPS}", f"GET {MAPS}/d"]


def test_where_listing_is_not_allowed_each_is_read(reader: ObjectReader, cluster: FakeCluster) -> None:
    cluster.put(config_map("a"))
    cluster.faults[f"LIST {MAPS}"] = [FORBIDDEN]
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
    cluster.faults[f"GET {MAPS}/a"] = [FORBIDDEN]
    found = reader.read_all(maps("a", "b"), None)
    assert found[key("a")] is FORBIDDEN
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
    cluster.client.apply(path, make_body(manifest, OWNER), manager="rukpak/foo", force=True)
    cluster.taken()
    return path


def compare(reader: ObjectReader, *manifests: dict[str, Any]) -> list[bool | ApiError]:
    found = reader.compare([task(each) for each in manifests], options_for())
    return [found[key_of(each)] for each in manifests]


def wipe(cluster: FakeCluster, path: str, **content: Any) -> None:
    cluster.patch(path, {"metadata": {"managedFields": None}, **content})


class ReadingCase(NamedTuple):
    name: str
    change: Any
    """Gets the cluster and the path of an applied object."""
    same: bool
    requests: int = 1


def other_version(cluster: FakeCluster, path: str) -> None:
    (entry,) = cluster.objects[path]["metadata"]["managedFields"]
    cluster.patch(path, {"metadata": {"managedFields": [{**entry, "apiVersion": "v1beta1"}]}})


READING_CASES = [
    ReadingCase("nobody has touched it", lambda cluster, path: None, same=True),
    ReadingCase("somebody has added a field", lambda cluster, path: cluster.edit(path, extra={"b": "2"}), same=True),
    ReadingCase("somebody has taken a field", lambda cluster, path: cluster.edit(path, data={"a": "2"}), same=False),
    ReadingCase("our entry is of another version of the kind", other_version, same=False),
    ReadingCase("somebody removed it", lambda cluster, path: cluster.remove(path), same=False),
    ReadingCase("all entries were lost, and the values are ours", wipe, same=True, requests=2),
    ReadingCase(
        "all entries were lost, and a value is not ours",
        lambda cluster, path: wipe(cluster, path, data={"a": "2"}),
        same=False,
        requests=2,
    ),
]


@pytest.mark.parametrize("case", READING_CASES, ids=attrgetter("name"))
def test_whether_an_object_is_as_the_revision_has_it(
    case: ReadingCase, reader: ObjectReader, cluster: FakeCluster
) -> None:
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
    cluster.faults["LIST /api/v1/configmaps"] = [FORBIDDEN]
    assert compare(reader, config_map("a")) == [False]
