from __future__ import annotations

import copy
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.apply.drift import covers, equal_by_value, first_uncovered

LEAF: dict[str, Any] = {}


class Coverage(NamedTuple):
    name: str
    entry: dict[str, Any]
    value: dict[str, Any]
    uncovered: str = ""


def _spec(name: str, node: Any, value: Any, uncovered: str = "") -> Coverage:
    """A case about one field of the spec; no node: nothing of it is in the entry."""
    entry = {"f:spec": {"f:other": LEAF, **({} if node is None else {"f:x": node})}}
    return Coverage(name, entry, {"spec": {"x": value}}, uncovered)


PORT = 'k:{"containerPort":80,"protocol":"TCP"}'
UDP = 'k:{"containerPort":80,"protocol":"UDP"}'
ITEM: dict[str, Any] = {".": LEAF, "f:containerPort": LEAF}

# fmt: off
COVERAGE = [
    _spec("a leaf covers a scalar", LEAF, "a"),
    _spec("a leaf covers an atomic list", LEAF, ["a", {"b": 1}]),
    _spec("a leaf covers an atomic map", LEAF, {"a": {"b": 1}}),
    _spec("a field that somebody took is not covered", None, "a", "spec.x"),
    _spec("a map needs each of its keys", {"f:a": LEAF}, {"a": "1", "b": "2"}, "spec.x.b"),
    _spec("more children are no drift", {"f:a": LEAF, "f:b": LEAF, ".": LEAF}, {"a": "1"}),
    _spec("a key that is no plain name is quoted", {"f:a": LEAF}, {"a.b/c": "1"}, 'spec.x["a.b/c"]'),
    _spec("an empty list leaves no trace", None, []),
    _spec("nor does a map of nothing but empty lists", None, {"a": [], "b": {"c": []}}),
    _spec("an empty map is a leaf", LEAF, {}),
    _spec("an empty map that is gone is drift", None, {}, "spec.x"),
    _spec("a map with an empty map in it is drift when it is gone", None, {"a": [], "b": {}}, "spec.x"),
    _spec("zero, false and the empty text are values", None, 0, "spec.x"),
    _spec("null that the schema allows is a leaf", LEAF, None),
    _spec(
        "a list item by its keys",
        {PORT: ITEM},
        [{"containerPort": 80, "protocol": "TCP"}],
        'spec.x[containerPort=80,protocol="TCP"].protocol',
    ),
    _spec("a key that the server defaulted fits", {PORT: ITEM}, [{"containerPort": 80}]),
    _spec("a list item that is gone", {PORT: ITEM}, [{"containerPort": 81}], "spec.x[containerPort=81]"),
    _spec(
        "two items want two children",
        {PORT: ITEM},
        [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
        'spec.x[containerPort=80,protocol="UDP"]',
    ),
    _spec(
        "an item without a key takes the value that no other claims",
        {UDP: ITEM, PORT: {**ITEM, "f:protocol": LEAF}},
        [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}],
    ),
    _spec(
        "the order of items does not count",
        {'k:{"name":"a"}': {"f:name": LEAF}, 'k:{"name":"b"}': {"f:name": LEAF}},
        [{"name": "b"}, {"name": "a"}],
    ),
    _spec("an item that is a leaf is covered whole", {'k:{"uid":"u"}': LEAF}, [{"uid": "u", "name": "a"}]),
    _spec(
        "a field of an item",
        {'k:{"name":"a"}': {"f:name": LEAF}},
        [{"name": "a", "image": "i"}],
        'spec.x[name="a"].image',
    ),
    _spec(
        "a key of another type is another key", {'k:{"port":true}': {"f:port": LEAF}}, [{"port": 1}], "spec.x[port=1]"
    ),
    _spec("a list that became a map by keys", {'k:{"name":"a"}': LEAF}, ["a"], "spec.x"),
    _spec("a set has each of its members", {'v:"a"': LEAF, 'v:"b"': LEAF}, ["b", "a"]),
    _spec("a member that is gone, which is not shown", {'v:"a"': LEAF}, ["a", "b"], "spec.x"),
    _spec("a scalar where the schema has a map now", {"f:a": LEAF}, "a", "spec.x"),
    _spec("a list where the schema has a map now", {"f:a": LEAF}, ["a"], "spec.x"),
    Coverage("what names an object, and its status, is not looked for", {"f:data": {"f:a": LEAF}},
         {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "namespace": "b"}, "data": {"a": "1"},
         "status": {"b": 1}}),
    Coverage("a label is", {"f:metadata": {"f:labels": {}}}, {"metadata": {"name": "a", "labels": {"b": "c"}}}),
    Coverage("a label that is gone", {"f:metadata": {"f:labels": {"f:a": LEAF}}}, {"metadata": {"labels": {"b": "c"}}},
         "metadata.labels.b"),
    Coverage("name and status of the spec count", {"f:spec": {"f:a": LEAF}}, {"spec": {"a": 1, "status": 2}},
         "spec.status"),
    Coverage("an entry without any field covers nothing", {}, {"data": {"a": "1"}}, "data"),
]
# fmt: on


@pytest.mark.parametrize("case", COVERAGE, ids=attrgetter("name"))
def test_what_an_entry_covers(case: Coverage) -> None:
    assert first_uncovered(case.entry, case.value) == case.uncovered
    assert covers(case.entry, case.value) is not bool(case.uncovered)


def _deployment(**container: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [{"name": "main", "image": "a", **container}]}},
        },
    }


def test_what_the_server_defaults_does_not_count() -> None:
    live = _deployment(imagePullPolicy="Always", terminationMessagePath="/dev/termination-log")
    live["spec"] |= {"revisionHistoryLimit": 10, "strategy": {"type": "RollingUpdate"}}
    live["metadata"] |= {"uid": "u", "labels": {"app": "web", "foreign": "x"}}
    live["status"] = {"replicas": 1}
    before = copy.deepcopy(live)
    assert equal_by_value({**_deployment(), "status": {"replicas": 9}}, live)
    assert live == before


class Value(NamedTuple):
    name: str
    desired: dict[str, Any]
    live: dict[str, Any]
    equal: bool


def _container(name: str, desired: dict[str, Any], live: dict[str, Any], *, equal: bool) -> Value:
    return Value(name, _deployment(**desired), _deployment(**live), equal)


def _manifest(name: str, desired: dict[str, Any], live: dict[str, Any], *, equal: bool) -> Value:
    return Value(
        name,
        {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, **desired},
        {"metadata": {"name": "a"}, **live},
        equal,
    )


def _limit(name: str, ours: Any, theirs: Any, *, equal: bool) -> Value:
    return _container(
        name, {"resources": {"limits": {"cpu": ours}}}, {"resources": {"limits": {"cpu": theirs}}}, equal=equal
    )


def _env(value: str) -> dict[str, Any]:
    return {"env": [{"name": "A", "value": value}]}


SIDECAR = {"spec": {"template": {"spec": {"containers": [{"name": "proxy"}, {"name": "main", "image": "a"}]}}}}
MAIN = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "a"}]}}}}

VALUES = [
    _container("another value", {"image": "b"}, {}, equal=False),
    _container("a value that is gone", _env("1"), {}, equal=False),
    _container("a list item that is gone", _env("1"), {"env": [{"name": "B", "value": "1"}]}, equal=False),
    _container("an item that somebody added", _env("1"), {"env": [{"name": "B"}, *_env("1")["env"]]}, equal=True),
    _manifest("a sidecar before our container", MAIN, SIDECAR, equal=True),
    _container("an atomic list in another order", {"args": ["a", "b"]}, {"args": ["b", "a"]}, equal=False),
    _container("an atomic list with one more", {"args": ["a"]}, {"args": ["a", "b"]}, equal=False),
    _container(
        "a port by number, its protocol defaulted",
        {"ports": [{"containerPort": 80}]},
        {"ports": [{"containerPort": 81}, {"containerPort": 80, "protocol": "TCP"}]},
        equal=True,
    ),
    _container(
        "a port that was renumbered",
        {"ports": [{"containerPort": 80}]},
        {"ports": [{"containerPort": 81}]},
        equal=False,
    ),
    _container(
        "two protocols of one port",
        {"ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP", "name": "u"}]},
        {"ports": [{"containerPort": 53, "protocol": "UDP", "name": "u"}, {"containerPort": 53, "protocol": "TCP"}]},
        equal=True,
    ),
    _container("a field that the server leaves out when it is false", {"tty": False}, {}, equal=True),
    _container("a text that it leaves out when it is empty", _env(""), {"env": [{"name": "A"}]}, equal=True),
    _container("empty lists and maps that it leaves out", {"args": [], "resources": {"limits": {}}}, {}, equal=True),
    _container("true is not left out", {"tty": True}, {}, equal=False),
    _limit("a quantity in another spelling", "1000m", "1", equal=True),
    _limit("a quantity as number", 0.5, "500m", equal=True),
    _limit("a binary quantity", "1024Mi", "1Gi", equal=True),
    _limit("a quantity with an exponent", "1e3", "1k", equal=True),
    _limit("another quantity", "1", "2", equal=False),
    _limit("no quantity at all", "x", "y", equal=False),
    _container("what looks like a quantity elsewhere is text", _env("1000m"), _env("1"), equal=False),
    _manifest("true is not one", {"spec": {"a": True}}, {"spec": {"a": 1}}, equal=False),
    _manifest("a whole number with a point", {"spec": {"a": 1}}, {"spec": {"a": 1.0}}, equal=True),
    _manifest("another type", {"spec": {"a": {"b": 1}}}, {"spec": {"a": "b"}}, equal=False),
    _manifest("a list where a map was", {"spec": {"a": [1]}}, {"spec": {"a": {"b": 1}}}, equal=False),
    _manifest(
        "a key that somebody added to our data", {"data": {"a": "1"}}, {"data": {"a": "1", "b": "2"}}, equal=True
    ),
    _manifest(
        "a label that somebody added to a selector",
        {"spec": {"selector": {"a": "1"}}},
        {"spec": {"selector": {"a": "1", "b": "2"}}},
        equal=False,
    ),
    _manifest(
        "a subject that somebody added",
        {"subjects": [{"kind": "User", "name": "a"}]},
        {"subjects": [{"kind": "User", "name": "a"}, {"kind": "User", "name": "b"}]},
        equal=False,
    ),
    _manifest(
        "a subject with a defaulted group",
        {"subjects": [{"kind": "User", "name": "a"}]},
        {"subjects": [{"kind": "User", "name": "a", "apiGroup": "g"}]},
        equal=True,
    ),
    _manifest(
        "a finalizer that somebody added",
        {"metadata": {"finalizers": ["a/b"]}},
        {"metadata": {"finalizers": ["c/d", "a/b"]}},
        equal=True,
    ),
    _manifest(
        "a finalizer that is gone",
        {"metadata": {"finalizers": ["a/b"]}},
        {"metadata": {"finalizers": ["c/d"]}},
        equal=False,
    ),
    _manifest(
        "a port that somebody added to a Service",
        {"spec": {"ports": [{"port": 80}]}},
        {"spec": {"ports": [{"port": 81}, {"port": 80, "nodePort": 3}]}},
        equal=True,
    ),
    _manifest(
        "one that somebody added to a NetworkPolicy",
        {"spec": {"ingress": [{"ports": [{"port": 80}]}]}},
        {"spec": {"ingress": [{"ports": [{"port": 80}, {"port": 81}]}]}},
        equal=False,
    ),
    _manifest(
        "a pull secret that somebody added to a ServiceAccount",
        {"imagePullSecrets": [{"name": "a"}]},
        {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
        equal=False,
    ),
    _manifest(
        "one that somebody added to a pod",
        {"spec": {"imagePullSecrets": [{"name": "a"}]}},
        {"spec": {"imagePullSecrets": [{"name": "b"}, {"name": "a"}]}},
        equal=True,
    ),
    _manifest("a list that is null now", {"spec": {"a": [1]}}, {"spec": {"a": None}}, equal=False),
]


@pytest.mark.parametrize("case", VALUES, ids=attrgetter("name"))
def test_what_is_equal_by_value(case: Value) -> None:
    assert equal_by_value(case.desired, case.live) is case.equal
