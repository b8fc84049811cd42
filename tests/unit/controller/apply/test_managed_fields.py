"""Which managedFields entries become which. What the server makes of them is in integration/test_rule_06_repair.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from rukpak.controller.apply.managed_fields import (
    PROBE,
    Probe,
    claimed_fields,
    claimed_items,
    emptied,
    empty_maps,
    find_taken,
    has_keyed_items,
    inherited_entries,
    left_fields,
    moved_items,
)
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.records import Record
from tests.support.fake_cluster import CONFIG_MAPS, FakeCluster

OURS, VERSION = "rukpak/shop", "v1"
BODY = {"apiVersion": VERSION, "kind": "Service", "spec": {"ports": [{"name": "web", "port": 80}]}}
WANTED, STRAY = 'k:{"port":80,"protocol":"TCP"}', 'k:{"port":81,"protocol":"TCP"}'
ITEM: dict[str, Any] = {".": {}, "f:name": {}, "f:port": {}}


def ports(*items: str) -> dict[str, Any]:
    return {"f:spec": {"f:ports": dict.fromkeys(items, ITEM)}} if items else {"f:spec": {"f:selector": {}}}


def entry(manager: str, fields: dict[str, Any], operation: str = "Update", **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "apiVersion": VERSION, "fieldsV1": fields, **more}


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    ours: dict[str, Any] = field(default_factory=ports)
    others: list[dict[str, Any]]
    taken: bool


CASES = [
    Case(name="an item in place of ours is taken over", others=[entry("x", ports(STRAY))], taken=True),
    Case(name="an item beside ours is left alone", ours=ports(WANTED), others=[entry("x", ports(STRAY))], taken=False),
    Case(name="an item that we want is no stray", others=[entry("x", ports(WANTED))], taken=False),
    Case(name="an applier's item is its own", others=[entry("x", ports(STRAY), "Apply")], taken=False),
    Case(name="what a subresource wrote is left", others=[entry("x", ports(STRAY), subresource="status")], taken=False),
    Case(
        name="an entry of another version cannot be compared",
        others=[{**entry("x", ports(STRAY)), "apiVersion": "v2"}],
        taken=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_items_are_taken_over(case: Case) -> None:
    entries = [entry(OURS, case.ours, "Apply"), *case.others]
    moved = moved_items({"metadata": {"managedFields": entries}}, BODY, OURS)
    assert (moved is not None) is case.taken


def test_an_item_that_is_taken_over_is_moved_and_the_rest_of_its_entry_stays() -> None:
    theirs = {"f:spec": {"f:ports": {STRAY: ITEM}, "f:type": {}}}
    entries = [entry(OURS, ports(), "Apply"), entry("x", theirs), entry("y", ports(STRAY))]
    moved = moved_items({"metadata": {"managedFields": entries}}, BODY, OURS)
    ours = {"f:spec": {"f:selector": {}, "f:ports": {STRAY: ITEM}}}
    assert moved == [entry(OURS, ours, "Apply"), entry("x", {"f:spec": {"f:type": {}}})]


def test_a_nested_item_is_taken_over_alone() -> None:
    containers = [{"name": "main", "ports": [{"containerPort": 80}]}]
    body = {"apiVersion": VERSION, "kind": "Pod", "spec": {"containers": containers}}
    main, port, other = 'k:{"name":"main"}', 'k:{"containerPort":81,"protocol":"TCP"}', 'k:{"name":"sidecar"}'
    ours: dict[str, Any] = {"f:spec": {"f:containers": {main: {".": {}, "f:name": {}}}}}
    theirs = {"f:spec": {"f:containers": {main: {"f:ports": {port: ITEM}}, other: ITEM}}}
    entries = [entry(OURS, ours, "Apply"), entry("x", theirs)]
    moved = moved_items({"metadata": {"managedFields": entries}}, body, OURS)
    assert moved is not None
    assert moved[0]["fieldsV1"]["f:spec"]["f:containers"][main]["f:ports"] == {port: ITEM}
    assert moved[1]["fieldsV1"] == {"f:spec": {"f:containers": {other: ITEM}}}


def test_an_item_that_has_none_of_its_keys_is_not_taken_for_one_that_we_have_applied() -> None:
    body = {**BODY, "spec": {"ports": [{"name": "web"}]}}  # the default of protocol alone says nothing
    entries = [entry(OURS, ports(WANTED), "Apply"), entry("x", ports(STRAY))]
    moved = moved_items({"metadata": {"managedFields": entries}}, body, OURS)
    assert moved is not None
    assert moved[0]["fieldsV1"]["f:spec"]["f:ports"].keys() == {WANTED, STRAY}


# without any entries


def service(*ports: int) -> dict[str, Any]:
    listed = [{"name": f"p{port}", "port": port, "protocol": "TCP"} for port in ports]
    return {"metadata": {"name": "web"}, "spec": {"ports": listed}}


@pytest.mark.parametrize(
    ("live", "claimed"),
    [((81,), {STRAY}), ((80, 81), set()), ((80,), set()), ((), set())],
    ids=["a port in place of ours", "one beside ours", "ours alone", "none at all"],
)
def test_which_items_are_claimed_where_all_entries_were_wiped(live: tuple[int, ...], claimed: set[str]) -> None:
    entries = claimed_items(service(*live), BODY, OURS)
    assert set(entries[0]["fieldsV1"]["f:spec"]["f:ports"] if entries else ()) == claimed


def test_entries_of_others_stay_beside_the_one_that_claims() -> None:
    theirs = entry("x", {"f:metadata": {}})
    live = service(81)
    live["metadata"]["managedFields"] = [theirs]
    entries = claimed_items(live, BODY, OURS)
    assert entries is not None
    assert (entries[0], entries[1]["manager"], entries[1]["operation"]) == (theirs, OURS, "Apply")


def test_a_container_is_claimed_by_its_name_and_a_port_in_one_by_its_number() -> None:
    def pod(name: str, port: int) -> dict[str, Any]:
        containers = [{"name": name, "ports": [{"containerPort": port, "protocol": "TCP"}]}]
        return {"apiVersion": VERSION, "kind": "Pod", "metadata": {}, "spec": {"containers": containers}}

    renamed, renumbered = (claimed_items(pod(*live), pod("a", 80), OURS) for live in (("b", 80), ("a", 81)))
    assert renamed is not None
    assert renamed[0]["fieldsV1"] == {"f:spec": {"f:containers": {'k:{"name":"b"}': {".": {}}}}}
    port: dict[str, Any] = {"f:ports": {'k:{"containerPort":81,"protocol":"TCP"}': {".": {}}}}
    assert renumbered is not None
    assert renumbered[0]["fieldsV1"] == {"f:spec": {"f:containers": {'k:{"name":"a"}': port}}}


# fields that are left to others


def test_a_field_that_is_left_is_moved_to_the_initial_manager() -> None:
    fields: dict[str, Any] = {"f:spec": {"f:replicas": {}, "f:limits": {"f:cpu": {}, "f:memory": {}}, "f:paused": {}}}
    entries = [entry("rukpak/shop", fields, "Apply"), entry("x", {"f:status": {}})]
    left = left_fields({"metadata": {"managedFields": entries}}, [("spec", "replicas"), ("spec", "limits")], "shop")
    assert left is not None
    assert {one["manager"]: one["fieldsV1"] for one in left} == {
        "x": {"f:status": {}},
        "rukpak/shop": {"f:spec": {"f:paused": {}}},
        "rukpak-initial/shop": {"f:spec": {"f:replicas": {}, "f:limits": {"f:cpu": {}, "f:memory": {}}}},
    }


def test_what_was_left_before_stays_with_the_initial_manager() -> None:
    entries = [
        entry("rukpak/shop", {"f:spec": {"f:a": {}, "f:b": {}}}, "Apply"),
        entry("rukpak-initial/shop", {"f:spec": {"f:c": {}}}, "Apply"),
    ]
    left = left_fields({"metadata": {"managedFields": entries}}, [("spec", "a")], "shop")
    assert left is not None
    assert left[-1]["fieldsV1"] == {"f:spec": {"f:c": {}, "f:a": {}}}


@pytest.mark.parametrize("path", [("spec", "x"), ("data",)], ids=["beside", "elsewhere"])
def test_a_field_that_we_do_not_hold_is_left_already(path: tuple[str, ...]) -> None:
    entries = [entry("rukpak/shop", {"f:spec": {"f:replicas": {}}}, "Apply")]
    assert left_fields({"metadata": {"managedFields": entries}}, [path], "shop") is None


def test_a_part_of_what_is_replaced_as_a_whole_cannot_be_left() -> None:
    entries = [entry("rukpak/shop", {"f:spec": {"f:selector": {}}}, "Apply")]
    with pytest.raises(ValueError, match=r"spec\.selector\.app cannot be ignored, since spec\.selector is atomic"):
        left_fields({"metadata": {"managedFields": entries}}, [("spec", "selector", "app")], "shop")


def test_only_lists_of_objects_have_items_with_keys() -> None:
    assert has_keyed_items(BODY)
    assert not has_keyed_items({"metadata": {"ownerReferences": [{}]}, "data": {"a": "b"}, "args": ["a"]})


# the entries of an object that is taken over

KEY = ObjectKey("", "ConfigMap", "shop", "a")
GIVERS = Record(key=KEY, owner="old", controller_uid="u")
REFERENCE: dict[str, Any] = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"u"}': {}}}}
DATA: dict[str, Any] = {"f:data": {"f:a": {}}}


def inherit(*entries: dict[str, Any], record: Record = GIVERS) -> list[Any]:
    return inherited_entries({"metadata": {"managedFields": list(entries)}}, record, "shop", VERSION)


def test_the_entries_of_a_giver_become_ours_and_others_stay() -> None:
    theirs = entry("x", {"f:data": {"f:b": {}}})
    status = entry("rukpak/old", {"f:status": {}}, subresource="status")
    found = inherit(
        entry("rukpak/old", {**DATA, **REFERENCE}, "Apply"), entry("rukpak-initial/old", DATA, "Apply"), theirs, status
    )
    assert found == [
        entry(OURS, {**DATA, **REFERENCE}, "Apply"),
        entry("rukpak-initial/shop", DATA, "Apply"),
        theirs,
        status,
    ]


def test_an_entry_that_is_ours_already_is_united_with_theirs() -> None:
    found = inherit(entry("rukpak/old", DATA, "Apply"), entry(OURS, {"f:data": {"f:b": {}}}, "Apply"))
    assert found == [entry(OURS, {"f:data": {"f:a": {}, "f:b": {}}, **REFERENCE}, "Apply")]


def test_entries_that_were_taken_over_stay_as_they_are() -> None:
    first = inherit(entry("rukpak/old", DATA, "Apply"))
    assert inherit(*first) == first


def test_the_reference_of_the_giver_is_claimed_by_nobody_else() -> None:
    found = inherit(entry("rukpak/old", REFERENCE, "Apply"), entry("x", {**REFERENCE, **DATA}), entry("y", REFERENCE))
    assert found == [entry(OURS, REFERENCE, "Apply"), entry("x", DATA)]


def test_of_wiped_entries_only_the_reference_is_claimed() -> None:
    [found] = inherit()
    assert (found["manager"], found["operation"], found["fieldsV1"]) == (OURS, "Apply", REFERENCE)
    assert inherit(record=Record(key=KEY, owner="old")) == []


# Fields that nobody applies


class InTheWay(NamedTuple):
    name: str
    field: str
    ours: dict[str, Any]
    live: dict[str, Any]
    claimed: dict[str, Any] | None
    entries: tuple[dict[str, Any], ...] = ()


RECREATE, ROLLING = {"strategy": {"type": "Recreate"}}, {"strategy": {"type": "Recreate", "rollingUpdate": {"a": 1}}}
VOLUMES: dict[str, Any] = {
    "f:spec": {"f:volumes": {'k:{"name":"v"}': {".": {}, "f:name": {}}, 'k:{"name":"w"}': {".": {}}}}
}
IN_THE_WAY = [
    InTheWay("what the server names and we do not apply", "spec.strategy.rollingUpdate", RECREATE, ROLLING,
             {"f:strategy": {"f:rollingUpdate": {}}}),
    InTheWay("something in it", "spec.strategy.rollingUpdate.maxSurge", RECREATE, ROLLING,
             {"f:strategy": {"f:rollingUpdate": {}}}),
    InTheWay("what is beside a field of ours that the server names", "spec.strategy.type", RECREATE, ROLLING,
             {"f:strategy": {"f:rollingUpdate": {}}}),
    InTheWay("what is below it", "spec.strategy", RECREATE, ROLLING, {"f:strategy": {"f:rollingUpdate": {}}}),
    InTheWay("of list items those with the field, whatever number the server gives them", "spec.volumes[7].secret",
             {"volumes": [{"name": "v", "secret": {}}]},
             {"volumes": [{"name": "w", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]},
             {"f:volumes": {'k:{"name":"v"}': {"f:emptyDir": {}}}}, (entry(OURS, VOLUMES, "Apply"),)),
    InTheWay("nothing in a list that is replaced as a whole", "spec.volumes[0].secret",
             {"volumes": [{"name": "v", "secret": {}}]}, {"volumes": [{"name": "v", "emptyDir": {}}]}, None),
    InTheWay("nothing where all is ours", "spec.strategy.type", RECREATE, RECREATE, None),
    InTheWay("nothing that another manager applies", "spec.strategy.rollingUpdate", RECREATE, ROLLING, None,
             (entry("flux", {"f:spec": {"f:strategy": {"f:rollingUpdate": {"f:a": {}}}}}, "Apply"),)),
    InTheWay("no part of what another manager applies as a whole", "spec.strategy.rollingUpdate", RECREATE, ROLLING,
             None, (entry("flux", {"f:spec": {"f:strategy": {}}}, "Apply"),)),
    InTheWay("what another client has written", "spec.strategy.rollingUpdate", RECREATE, ROLLING,
             {"f:strategy": {"f:rollingUpdate": {}}},
             (entry("kubectl", {"f:spec": {"f:strategy": {"f:rollingUpdate": {"f:a": {}}}}}),)),
    InTheWay("no key of a map that is not there", "data[a.b]", RECREATE, ROLLING, None),
    InTheWay("nothing in metadata", "metadata.labels", RECREATE, ROLLING, None),
    InTheWay("nothing for a path that is none", "[]", RECREATE, ROLLING, None),
]  # fmt: skip


@pytest.mark.parametrize("case", IN_THE_WAY, ids=attrgetter("name"))
def test_what_is_taken_over_since_it_may_be_in_the_way(case: InTheWay) -> None:
    live = {"metadata": {"managedFields": list(case.entries)}, "spec": case.live}
    body = {"apiVersion": "v1", "kind": "Foo", "metadata": {}, "spec": case.ours}
    entries = claimed_fields(live, body, OURS, [case.field])
    if case.claimed is None:
        assert entries is None
        return
    assert entries
    ours = entries[-1]
    assert (ours["manager"], ours["operation"]) == (OURS, "Apply")
    before: dict[str, Any] = next((each["fieldsV1"]["f:spec"] for each in case.entries if each["manager"] == OURS), {})
    assert ours["fieldsV1"] == {"f:spec": merged(before, case.claimed)}
    assert [each for each in entries[:-1] if each["manager"] == "kubectl"] == [], "nothing is left of its entry"


def merged(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {**left, **{name: merged(left.get(name, {}), child) for name, child in right.items()}}


# what an object would be if it were new

SERVICES = Resource("", "v1", "Service", "services", namespaced=True, verbs=frozenset())
NAMED = {"name": "web", "namespace": "shop"}


class Probed:
    """An API server that answers dry runs with these specs in turn: None is a refusal. Further ones fail the test."""

    def __init__(self, *specs: Mapping[str, Any] | None) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self._specs = iter(specs)

    def apply(self, path: str, body: Mapping[str, Any], **options: Any) -> SimpleNamespace:
        assert options == {"manager": OURS, "force": False, "dry_run": True, "metadata": False}
        self.sent.append((path, body))
        spec = next(self._specs)
        if spec is None:
            raise ApiError(422, "Invalid", "is invalid")
        return SimpleNamespace(value={**body, "spec": spec})

    def probe(self, body: Mapping[str, Any]) -> Probe:
        return Probe(cast("Client", self), SERVICES, body, OURS)


class New(NamedTuple):
    name: str
    metadata: dict[str, Any]
    spec: dict[str, Any]
    sent: dict[str, Any]


NEW = [
    New("as it is applied", {}, {"ports": [{"port": 80}]}, {"ports": [{"port": 80}]}),
    New("not bound to the object", {"uid": "u", "resourceVersion": "1"}, {"type": "ClusterIP"}, {"type": "ClusterIP"}),
    New("without a port of the nodes", {}, {"ports": [{"port": 80, "nodePort": 30000}]}, {"ports": [{"port": 80}]}),
    New("without an address", {}, {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}, {"clusterIPs": []}),
    New("headless, which any number of Services may be", {}, {"clusterIP": "None"}, {"clusterIP": "None"}),
]


@pytest.mark.parametrize("case", NEW, ids=attrgetter("name"))
def test_what_is_asked_to_learn_what_a_new_object_would_be(case: New) -> None:
    server = Probed({})
    metadata = {**NAMED, "labels": {"a": "b"}}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, **case.metadata}, "spec": case.spec}
    assert server.probe(body).made
    [(path, sent)] = server.sent
    assert path == f"/api/v1/namespaces/shop/services/{PROBE}"
    assert sent == {**body, "metadata": {**metadata, "name": PROBE}, "spec": case.sent}


@pytest.mark.parametrize("spec", [{"a": 1}, None], ids=["accepted", "refused"])
def test_a_new_object_is_asked_for_once(spec: dict[str, Any] | None) -> None:
    server = Probed(spec)
    probe = server.probe({**BODY, "metadata": NAMED})
    assert probe.made is probe.made
    assert (probe.made is None) is (spec is None)
    assert len(server.sent) == 1


class Kept(NamedTuple):
    name: str
    live: dict[str, Any]
    made: tuple[dict[str, Any] | None, ...]
    """The spec of each new object that is asked for."""
    taken: set[str]
    manager: str = "kubectl-create"


TAKEN_FROM = [
    Kept("what a new object lacks goes", {"x": 1}, ({},), {"f:x"}),
    Kept("a default stays", {"x": 1}, ({"x": 1},), set()),
    Kept("another value than the default goes", {"x": 2}, ({"x": 1}, {"x": 1}), {"f:x"}),
    Kept("what is generated stays", {"x": "abc"}, ({"x": "def"}, {"x": "ghi"}), set()),
    Kept("what is generated stays beside what goes", {"x": "abc", "y": 1}, ({"x": "def"}, {"x": "ghi"}), {"f:y"}),
    Kept("all goes if a new object is refused", {"x": 1, "y": 1}, (None,), {"f:x", "f:y"}),
    Kept("another value goes if only the second one is refused", {"x": 2}, ({"x": 1}, None), {"f:x"}),
    Kept("nothing is asked where the bundle has it all", {"a": 2}, (), set()),
    Kept("nothing is asked where others have set it", {"x": 1}, (), set(), "kube-controller-manager"),
]


@pytest.mark.parametrize("case", TAKEN_FROM, ids=attrgetter("name"))
def test_what_goes_with_an_adoption_beside_defaults(case: Kept) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": NAMED, "spec": {"a": 1}}
    theirs = entry(case.manager, {"f:spec": {f"f:{name}": {} for name in case.live}})
    live = {**body, "metadata": {**NAMED, "managedFields": [theirs]}, "spec": case.live}
    server = Probed(*case.made)
    taken = find_taken(live, body, server.probe(body))
    assert set(taken.get("f:spec", {})) == case.taken
    assert len(server.sent) == len(case.made)


# maps that become empty


class Emptied(NamedTuple):
    name: str
    live: Any
    body: Any
    ours: dict[str, Any]
    pointers: dict[str, Any]


ALL_OF_M: dict[str, Any] = {"f:m": {".": {}, "f:a": {}}}
ALL_OF_L: dict[str, Any] = {"f:l": {'k:{"name":"y"}': {".": {}, "f:name": {}}}}
Y = {"name": "y"}
EMPTIED = [
    Emptied("a map whose fields are all ours", {"m": {"a": 1}}, {"m": {}}, {"f:m": {"f:a": {}}}, {"/m": {}}),
    Emptied("a map which is ours itself", {"m": {"a": 1}}, {"m": {}}, ALL_OF_M, {"/m": {}}),
    Emptied("not one that somebody else has a field in", {"m": {"a": 1, "b": 1}}, {"m": {}}, ALL_OF_M, {}),
    Emptied("not one that is atomic: it is replaced", {"m": {"a": 1}}, {"m": {}}, {"f:m": {}}, {}),
    Emptied("not one that is empty", {"m": {}}, {"m": {}}, ALL_OF_M, {}),
    Emptied("not one that is gone", {}, {"m": {}}, ALL_OF_M, {}),
    Emptied("not one that is removed", {"m": {"a": 1}, "b": 1}, {"b": 1}, {**ALL_OF_M, "f:b": {}}, {}),
    Emptied("not one that keeps a field", {"m": {"a": 1, "b": 1}}, {"m": {"b": 1}}, ALL_OF_M, {}),
    Emptied("a map below another one", {"n": {"m": {"a": 1}}}, {"n": {"m": {}}}, {"f:n": ALL_OF_M}, {"/n/m": {}}),
    Emptied("one with a slash in its name", {"a/b~": {"a": 1}}, {"a/b~": {}}, {"f:a/b~": {"f:a": {}}},
            {"/a~1b~0": {}}),
    Emptied("a map in an item, wherever it is on the cluster",
            {"l": [{"name": "x"}, {**Y, "m": {"a": 1}}]}, {"l": [{**Y, "m": {}}]},
            {"f:l": {'k:{"name":"y"}': {".": {}, "f:name": {}, **ALL_OF_M}}}, {"/l/1/m": {}}),
    Emptied("a list with keys", {"l": [Y]}, {"l": []}, ALL_OF_L, {"/l": []}),
    Emptied("not one with an item of somebody else's", {"l": [Y, {"name": "x"}]}, {"l": []}, ALL_OF_L, {}),
    Emptied("a set", {"s": ["a"]}, {"s": []}, {"f:s": {'v:"a"': {}}}, {"/s": []}),
    Emptied("not a list that is atomic", {"s": ["a"]}, {"s": []}, {"f:s": {}}, {}),
    Emptied("a list in an item of another one",
            {"l": [{**Y, "s": ["a"]}]}, {"l": [{**Y, "s": []}]},
            {"f:l": {'k:{"name":"y"}': {".": {}, "f:name": {}, "f:s": {'v:"a"': {}}}}}, {"/l/0/s": []}),
    Emptied("not a list instead of a map", {"m": {"a": 1}}, {"m": []}, ALL_OF_M, {}),
]  # fmt: skip


@pytest.mark.parametrize("case", EMPTIED, ids=attrgetter("name"))
def test_which_maps_and_lists_are_emptied_before_an_apply(case: Emptied) -> None:
    custom, built_in = ({"apiVersion": version, **case.body} for version in ("example.com/v1", "apps/v1"))
    assert dict(emptied(case.live, custom, case.ours)) == case.pointers
    # A built-in kind leaves out an empty list.
    assert dict(emptied(case.live, built_in, case.ours)) == {k: v for k, v in case.pointers.items() if v == {}}


@pytest.mark.parametrize(
    ("manager", "theirs", "is_emptied"),
    [
        ("x", {"f:data": {"f:a": {}}}, False),
        ("x", {"f:data": {}}, False),
        ("x", {"f:metadata": {}}, True),
        (OURS, {"f:data": {"f:a": {}}}, True),
    ],
    ids=["a field of it", "the map as a whole", "something else", "what was ours before"],
)
def test_a_map_is_emptied_unless_somebody_else_has_set(
    manager: str, theirs: dict[str, Any], *, is_emptied: bool
) -> None:
    cluster = FakeCluster(CONFIG_MAPS)
    entries = [entry(OURS, {"f:data": {"f:a": {}}}, "Apply"), entry(manager, theirs)]
    metadata = {"name": "a", "namespace": "shop", "managedFields": entries}
    live = cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}}
    found = empty_maps(cluster.client, CONFIG_MAPS.path("shop", "a"), body, live, OURS)
    assert (found is not None) is is_emptied


@pytest.mark.parametrize(
    ("uid", "sent", "data"),
    [("", True, {}), ("the same", True, {}), ("another", False, {"a": "1"})],
    ids=["an object that is adopted", "one of ours", "one that was made again meanwhile"],
)
def test_a_map_is_emptied_in_what_was_read_and_not_read_again(uid: str, *, sent: bool, data: dict[str, str]) -> None:
    cluster = FakeCluster(CONFIG_MAPS)
    metadata = {"name": "a", "namespace": "shop", "managedFields": [entry(OURS, {"f:data": {"f:a": {}}}, "Apply")]}
    live = cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}})
    path = CONFIG_MAPS.path("shop", "a")
    bound = {"uid": live["metadata"]["uid"] if uid == "the same" else uid} if uid else {}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **bound}, "data": {}}
    version = empty_maps(cluster.client, path, body, live, OURS)
    assert (version is not None) is sent
    assert cluster.objects[path]["data"] == data
    assert [request for request in cluster.requests if request.startswith("GET")] == []
