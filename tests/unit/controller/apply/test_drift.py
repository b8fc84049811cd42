"""What an entry of managedFields covers, what is equal by value, what is ignored, and how drift is explained."""

from __future__ import annotations

import copy
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.controller.apply.drift import (
    DriftedField,
    DriftedObject,
    Path,
    covers,
    equal_by_value,
    explain,
    find_autoscalers,
    find_ignored_fields,
    first_uncovered,
    only,
    read_ignore_rules,
    united,
    without,
)
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.records import key_of

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
    Coverage("what names an object is not looked for", {"f:data": {"f:a": LEAF}},
         {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "namespace": "b"}, "data": {"a": "1"}}),
    Coverage("status that is an ordinary field is", {"f:data": {"f:a": LEAF}},
         {"data": {"a": "1"}, "status": {"b": 1}}, "status"),
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
    assert equal_by_value(_deployment(), live)
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


KEY = ObjectKey("", "ConfigMap", "shop", "a")
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"one": "1", "two": "2"}}
MANY = {f"k{number:02}": "" for number in range(20)}


def entry(manager: str, *fields: str, time: str = "2026-01-01T00:00:00Z", **changes: str) -> dict[str, Any]:
    data: dict[str, Any] = {f"f:{field}": {} for field in fields}
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": {"f:data": data}, **changes}


OURS = entry("rukpak/foo", "one", operation="Apply")
NOTHING_OURS = {**OURS, "fieldsV1": {"f:metadata": {}}}
LATER = "2026-01-02T00:00:00Z"


class Case(NamedTuple):
    name: str
    entries: list[dict[str, Any]]
    expect: str


CASES = [
    Case("somebody has changed a field", [OURS, entry("kubectl-edit", "two")], '(data.two, owned by "kubectl-edit")'),
    Case("somebody has removed a field", [OURS, entry("kubectl-edit", "other")], "(data.two)"),
    Case(
        "the latest of those who hold it is named",
        [OURS, entry("old", "two"), entry("new", "two", time="2026-01-02T00:00:00Z")],
        '(data.two, owned by "new")',
    ),
    Case("what a status has does not count", [OURS, entry("x", "two", subresource="status")], "(data.two)"),
    Case("our entry is gone, and somebody holds a field", [entry("x", "two")], '(data.two, owned by "x")'),
    Case("our entry is gone, and nobody holds anything", [], ""),
    Case(
        "all fields of one edit are named",
        [NOTHING_OURS, entry("edit", "one", "two")],
        '(data.one, data.two, owned by "edit")',
    ),
    Case(
        "a later edit by another client hides no earlier one",
        [NOTHING_OURS, entry("edit", "one"), entry("scale", "two", time=LATER)],
        '(data.one, owned by "edit"; data.two, owned by "scale")',
    ),
    Case(
        "an edit by a subresource hides no other one",
        [NOTHING_OURS, entry("edit", "one"), entry("kubectl", "two", subresource="scale", time=LATER)],
        '(data.one, owned by "edit"; data.two, owned by "kubectl")',
    ),
    Case(
        "the same client may have edited twice",
        [NOTHING_OURS, entry("edit", "one"), entry("edit", "two", operation="Apply", time=LATER)],
        '(data.one, data.two, owned by "edit")',
    ),
    Case(
        "a field that was removed is named beside one that was changed",
        [NOTHING_OURS, entry("edit", "two")],
        '(data.one; data.two, owned by "edit")',
    ),
    Case("all fields that were removed are named", [NOTHING_OURS], "(data.one, data.two)"),
    Case(
        "without our entry, all fields that somebody holds are named",
        [entry("x", "one"), entry("y", "two")],
        '(data.one, owned by "x"; data.two, owned by "y")',
    ),
    Case("our own entry says nothing of who holds it", [OURS], "(data.two)"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_has_become_of_an_object(case: Case) -> None:
    found = explain(KEY, {"metadata": {"managedFields": case.entries}}, BODY, "rukpak/foo")
    assert str(found) == f"ConfigMap shop/a {case.expect}".rstrip()


def test_of_many_fields_the_first_are_shown_and_the_others_counted() -> None:
    fields = tuple(DriftedField(f"data.{name}", "x") for name in MANY)
    found = DriftedObject(key=KEY, fields=fields)
    assert found.describe(1) == 'ConfigMap shop/a (data.k00, owned by "x"; 19 more fields)'
    assert found.describe(19).endswith('data.k18, owned by "x"; 1 more field)')
    assert str(found).endswith('data.k19, owned by "x")')


def test_what_goes_is_told_as_that() -> None:
    manifest = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": [OURS]}}
    assert explain(KEY, manifest, BODY, "rukpak/foo") == DriftedObject(key=KEY, state="being deleted")


REPLICAS = ("spec", "replicas")


def workload(*, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations or {}},
        "spec": {"replicas": 3, **spec},
    }


def rule(*paths: str, **changes: str) -> dict[str, Any]:
    return {"group": "apps", "kind": "Deployment", "paths": list(paths), **changes}


def ignoring(text: str) -> dict[str, Any]:
    return workload(annotations={names.IGNORE_FIELDS: text})


class IgnoreCase(NamedTuple):
    name: str
    manifest: dict[str, Any]
    rules: list[dict[str, Any]]
    paths: tuple[Path, ...]


IGNORE_CASES = [
    IgnoreCase("nothing is ignored by default", workload(), [], ()),
    IgnoreCase("a rule for the kind", workload(), [rule("spec.replicas")], (REPLICAS,)),
    IgnoreCase("a rule for the object", workload(), [rule("spec.replicas", name="web")], (REPLICAS,)),
    IgnoreCase("a rule for another object", workload(), [rule("spec.replicas", name="api")], ()),
    IgnoreCase("a rule for another kind", workload(), [rule("spec.replicas", kind="StatefulSet")], ()),
    IgnoreCase("a rule for another group", workload(), [rule("spec.replicas", group="")], ()),
    IgnoreCase("a field that the object does not set", workload(), [rule("spec.paused")], ()),
    IgnoreCase("the annotation", ignoring("spec.replicas"), [], (REPLICAS,)),
    IgnoreCase(
        "the annotation and a rule say the same",
        ignoring("spec.replicas"),
        [rule("spec.replicas")],
        (REPLICAS,),
    ),
    IgnoreCase(
        "several paths, a key that holds a comma among them",
        workload(annotations={names.IGNORE_FIELDS: 'metadata.labels["a,b"], spec.replicas', "x": "y"})
        | {"metadata": {**ignoring('metadata.labels["a,b"], spec.replicas')["metadata"], "labels": {"a,b": "1"}}},
        [],
        (("metadata", "labels", "a,b"), REPLICAS),
    ),
    IgnoreCase("a field in one that is left already", workload(), [rule("spec", "spec.replicas")], (("spec",),)),
    IgnoreCase("what says which object it is", workload(), [rule("metadata.name", "kind", "metadata")], ()),
    IgnoreCase("a field below a scalar", workload(), [rule("spec.replicas.x")], ()),
]


@pytest.mark.parametrize("case", IGNORE_CASES, ids=attrgetter("name"))
def test_which_fields_are_left_to_others(case: IgnoreCase) -> None:
    found = find_ignored_fields(case.manifest, read_ignore_rules(case.rules), {})
    assert (found.paths, found.warnings) == (case.paths, ())


def test_a_path_that_is_none_is_told() -> None:
    (warning,) = find_ignored_fields(ignoring("spec..replicas"), {}, {}).warnings
    assert warning.startswith(f"Deployment shop/web: annotation {names.IGNORE_FIELDS}: 'spec..replicas' is not a field")


@pytest.mark.parametrize(("text", "accepted"), [("ignore", True), ("Ignore", True), ("repair", False), ("", False)])
def test_an_object_may_have_its_drift_accepted(text: str, accepted: bool) -> None:
    assert find_ignored_fields(workload(annotations={names.DRIFT: text}), {}, {}).accepts_drift is accepted


# autoscalers


def autoscaler(**reference: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "auto", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", **reference}},
    }


SCALED_OBJECT = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "auto", "namespace": "shop"},
    "spec": {"scaleTargetRef": {"name": "web"}},
}


@pytest.mark.parametrize("manifest", [autoscaler(), SCALED_OBJECT], ids=["HorizontalPodAutoscaler", "KEDA"])
def test_replicas_that_an_autoscaler_of_the_bundle_sets_are_left_to_it(manifest: dict[str, Any]) -> None:
    found = find_ignored_fields(workload(), {}, find_autoscalers([manifest]))
    assert found.paths == (REPLICAS,)
    kind = manifest["kind"]
    assert found.warnings == (
        f"Deployment shop/web: spec.replicas is ignored, since {kind} shop/auto scales it; remove it from the bundle",
    )


@pytest.mark.parametrize("name", ["api", ""])
def test_what_it_does_not_scale_is_not(name: str) -> None:
    assert find_ignored_fields(workload(), {}, find_autoscalers([autoscaler(name=name)])).paths == ()


def test_a_rule_says_it_without_a_warning() -> None:
    assert (
        find_ignored_fields(
            workload(), read_ignore_rules([rule("spec.replicas")]), find_autoscalers([autoscaler()])
        ).warnings
        == ()
    )


@pytest.mark.parametrize("spec", [{}, {"scaleTargetRef": None}, {"scaleTargetRef": {"name": 5}}, None])
def test_an_autoscaler_of_odd_shape_scales_nothing(spec: Any) -> None:
    assert find_autoscalers([{**autoscaler(), "spec": spec}]) == {}


def test_an_autoscaler_scales_in_its_namespace() -> None:
    assert find_autoscalers([autoscaler()]) == {
        ObjectKey("apps", "Deployment", "shop", "web"): key_of(autoscaler()),
    }


# parts of objects


def test_an_object_comes_apart_and_together_again() -> None:
    manifest = workload(paused=True, strategy={"type": "Recreate"})
    before, paths = copy.deepcopy(manifest), [REPLICAS, ("spec", "strategy", "type")]
    rest, part = without(manifest, paths), only(manifest, paths)
    assert manifest == before
    assert rest["spec"] == {"paused": True}
    assert part == {"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}}
    assert united(rest, part) == manifest


def test_a_map_that_held_nothing_else_goes() -> None:
    assert "spec" not in without(workload(), [REPLICAS])


def test_a_map_that_was_empty_stays() -> None:
    assert without(workload(template={}), [REPLICAS])["spec"] == {"template": {}}
