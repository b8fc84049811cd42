"""What stays on an object although nobody applies it. What the server makes of it is in integration/test_left.py."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from rukpak.api.v1alpha2.status import LEFT_FIELDS, LeftField, Leftover
from rukpak.controller.apply.leftovers import (
    LAST_APPLIED,
    describe_left,
    drops,
    empties,
    find_left,
    is_converted,
    key_of_left,
    list_left,
    split_retained,
    still_left,
    taken_fields,
)
from rukpak.controller.formats.objects import ObjectKey

LEAF: dict[str, Any] = {}
ITEM = {".": LEAF, "f:name": LEAF, "f:value": LEAF}
WRITTEN = {".": LEAF, "f:old": LEAF, "f:kept": LEAF}
LABELS = {"f:metadata": {"f:labels": {".": LEAF, "f:old": LEAF, "f:kept": LEAF}}}
KEY = ObjectKey("", "Service", "shop", "web")


def live(manager: str, fields: dict[str, Any], operation: str = "Update", **more: Any) -> dict[str, Any]:
    entry = {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields, **more}
    metadata = {"name": "web", "labels": {"old": "1", "kept": "1"}, "managedFields": [entry]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"replicas": 2}}


BODY = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"kept": "1"}}, "spec": {"a": 1}}


class Taken(NamedTuple):
    name: str
    live: dict[str, Any]
    is_taken: bool = True


TAKEN = [
    *(Taken(f"of {manager}", live(manager, LABELS)) for manager in ("kubectl-edit", "kubectl-set", "kubectl", "helm")),
    Taken("of kubectl apply --server-side", live("kubectl", LABELS, "Apply")),
    Taken("of Flux", live("kustomize-controller", LABELS, "Apply")),
    *(
        Taken(f"of {manager}", live(manager, LABELS))
        for manager in ("HashiCorp", "pulumi-resource-kubernetes", "pulumi-kubernetes-1a2b", "k9s", "Mozilla", "oc")
    ),
    Taken("of a client of a library, which may be an operator", live("OpenAPI-Generator", LABELS), is_taken=False),
    Taken("of a rollout restart", live("kubectl-rollout", LABELS), is_taken=False),
    Taken("of a controller", live("kube-controller-manager", LABELS), is_taken=False),
    Taken("of an operator that applies", live("istio-operator", LABELS, "Apply"), is_taken=False),
    Taken("of unknown managers", live("before-first-apply", LABELS), is_taken=False),
    Taken("of a subresource", live("kubectl", LABELS, subresource="status"), is_taken=False),
    Taken(
        "replicas that the bundle leaves open", live("kubectl-edit", {"f:spec": {"f:replicas": LEAF}}), is_taken=False
    ),
    Taken("a finalizer", live("kubectl-edit", {"f:metadata": {"f:finalizers": LEAF}}), is_taken=False),
    Taken("what is gone already", live("kubectl-edit", {"f:spec": {"f:gone": LEAF}}), is_taken=False),
]


@pytest.mark.parametrize("case", TAKEN, ids=attrgetter("name"))
def test_what_is_taken_from_an_earlier_manager(case: Taken) -> None:
    taken, _ = taken_fields(case.live, BODY)
    assert taken == ({"f:metadata": {"f:labels": {"f:old": LEAF}}} if case.is_taken else {})


@pytest.mark.parametrize(("recorded", "is_taken"), [({"old": "1"}, True), ({}, False)])
def test_what_kubectl_has_not_recorded_was_written_by_admission(recorded: dict[str, str], *, is_taken: bool) -> None:
    value = live("kubectl-client-side-apply", LABELS)
    applied = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": recorded}}
    value["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(applied)}
    taken, is_mixed = taken_fields(value, BODY)
    assert (bool(taken), is_mixed) == (is_taken, False)


def test_fields_of_another_version_of_a_kind_cannot_be_compared() -> None:
    assert not is_converted(live("kubectl", LABELS))
    assert not is_converted({**live("kube-controller-manager", LABELS), "apiVersion": "v2"})
    assert is_converted({**live("kubectl", LABELS), "apiVersion": "v2"})


def test_what_was_applied_as_text_to_a_secret_goes_from_its_data() -> None:
    metadata = {"managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:stringData": WRITTEN}}]}
    value = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"old": "Yg==", "kept": "Yg=="}}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"kept": "Yg=="}}
    assert taken_fields(value, body) == ({"f:data": {"f:old": LEAF}}, False)
    custom = {"apiVersion": "example.com/v1", "kind": "Secret"}
    assert taken_fields({**value, **custom}, {**body, **custom}) == ({}, False)


@pytest.mark.parametrize("written", ["data", "stringData"])
def test_what_kubectl_has_recorded_of_a_secret_goes_in_whichever_field_it_was_written(written: str) -> None:
    fields = {"f:data": {".": LEAF, "f:old": LEAF, "f:injected": LEAF}}
    entry = {"manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}
    recorded = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, written: {"old": "b"}}
    metadata = {"annotations": {LAST_APPLIED: json.dumps(recorded)}, "managedFields": [entry]}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"old": "Yg==", "injected": "Yg=="}}
    taken, _ = taken_fields(secret, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {}})
    assert taken == {"f:data": {"f:old": LEAF}}


class Left(NamedTuple):
    name: str
    before: Any
    after: Any
    now: Any
    owned: dict[str, Any]
    found: dict[str, Any]


A, B, C = ({"name": name, "value": "1"} for name in "abc")
KEYED = {'k:{"name":"b"}': ITEM, 'k:{"name":"c"}': ITEM}
LEFT = [
    Left("an item of a list that was atomic", [A, B], [B, C], [A, B, C], KEYED, {'k:{"name":"a"}': {".": LEAF}}),
    Left("an item that another manager has", [A, B], [B], [A, B], {**KEYED, 'k:{"name":"a"}': ITEM}, {}),
    Left("an item that was never ours", [B], [B, C], [A, B, C], KEYED, {}),
    Left(
        "an item under other keys", [A, B], [B], [{**A, "port": 1}, {**B, "port": 1}],
        {'k:{"name":"b","port":1}': ITEM}, {'k:{"name":"a","port":1}': {".": LEAF}},
    ),
    Left("a member of a set", ["a", "b"], ["b"], ["a", "b"], {'v:"b"': LEAF}, {'v:"a"': LEAF}),
    Left("a list that is atomic", [A, B], [B], [B], LEAF, {}),
    Left("a key of a map that was atomic", {"a": 1, "b": 1}, {"b": 1}, {"a": 1, "b": 1}, {"f:b": LEAF}, {"f:a": LEAF}),
    Left("a default instead of a value", {"a": 1, "b": 1}, {"b": 1}, {"a": 2, "b": 1}, {"f:b": LEAF}, {}),
]  # fmt: skip


@pytest.mark.parametrize("case", LEFT, ids=attrgetter("name"))
def test_what_is_left_of_the_revision_before(case: Left) -> None:
    entry = {"manager": "rukpak/a", "operation": "Apply", "fieldsV1": {"f:spec": {"f:x": case.owned}}}
    now = {"metadata": {"managedFields": [entry]}, "spec": {"x": case.now}}
    found = find_left(now, {"spec": {"x": case.before}}, {"spec": {"x": case.after}})
    assert found == ({"f:spec": {"f:x": case.found}} if case.found else {})


class Changed(NamedTuple):
    name: str
    before: Any
    after: Any
    drops: bool = False
    empties: bool = False


CHANGED = [
    Changed("nothing", {"a": {"b": 1}}, {"a": {"b": 1}}),
    Changed("another value", {"a": 1}, {"a": 2}),
    Changed("a field that is new", {"a": 1}, {"a": 1, "b": 1}),
    Changed("a field that is gone", {"a": {"b": 1, "c": 1}}, {"a": {"b": 1}}, drops=True),
    Changed("a map that is gone", {"a": {"b": 1}, "c": 1}, {"c": 1}, drops=True),
    Changed("a map that becomes empty", {"a": {"b": 1}}, {"a": {}}, drops=True, empties=True),
    Changed("a map that was empty", {"a": {}}, {"a": {}}),
    Changed("an empty map that is new", {}, {"a": {}}),
    Changed("an empty map instead of a value", {"a": 1}, {"a": {}}, empties=True),
    Changed("an empty map instead of null", {"a": None}, {"a": {}}),
    Changed("an empty map below one that is new", {"a": 1}, {"a": 1, "b": {"c": {}}}),
    Changed("another order", ["a", "b"], ["b", "a"], drops=True),
    Changed("an empty map in an item of a list that changes", {"l": [{"name": "a", "m": {"x": 1}}]},
            {"l": [{"name": "a", "m": {}}]}, drops=True, empties=True),
    Changed("an empty map in an item of a list that stays", {"l": [{"m": {}}]}, {"l": [{"m": {}}]}),
    Changed("an empty map in an item of a list that is new", {}, {"l": [{"m": {}}]}),
    Changed("a list that becomes empty", {"l": [1]}, {"l": []}, drops=True, empties=True),
    Changed("a list that stays empty", {"l": []}, {"l": []}),
    Changed("a list that was empty", {"l": []}, {"l": [{"m": {}}]}, drops=True),
    Changed("a list instead of a map", {"a": {"b": 1}}, {"a": [1]}),
]  # fmt: skip


@pytest.mark.parametrize("case", CHANGED, ids=attrgetter("name"))
def test_whether_a_revision_may_lack_something_or_leave_something_empty(case: Changed) -> None:
    assert drops(case.before, case.after) is case.drops
    assert empties(case.before, case.after) is case.empties


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({"a": {}}, True),
        ({"a": {"b": {}}}, True),
        ({"l": [{"m": {}}]}, True),
        ({"a": 1, "l": []}, True),
        ({"a": 1, "l": [1]}, False),
    ],
)
def test_of_an_object_of_which_nothing_is_known_each_empty_map_and_list_counts(
    after: dict[str, Any], *, found: bool
) -> None:
    assert empties(True, after) is found


def test_a_warning_names_field_and_value_when_the_bundle_sets_it() -> None:
    ports = {'k:{"port":80,"protocol":"TCP"}': {"f:nodePort": LEAF}}
    kept, rest = split_retained({"f:spec": {"f:clusterIP": LEAF, "f:ports": ports, "f:other": LEAF}}, KEY)
    assert rest == {"f:spec": {"f:other": LEAF}}
    spec = {"clusterIP": "None", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}]}
    [left] = list_left(KEY, {"spec": spec}, kept, "remove it", conceals=False)
    assert key_of_left(left) == KEY
    assert "spec.clusterIP: None" in describe_left(left)
    assert "nodePort: 30000" in describe_left(left)
    [hidden] = list_left(KEY, {"spec": spec}, kept, "remove it", conceals=True)
    assert "30000" not in str(hidden)


class Still(NamedTuple):
    name: str
    spec: dict[str, Any]
    owned: dict[str, Any]
    says: str


PORT_KEY = 'k:{"port":80,"protocol":"TCP"}'
SPEC: dict[str, Any] = {
    "clusterIP": "None",
    "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}],
    "tags": ["a, b", "c"],
    "options": {"a.b/c": "x, y: z", "d": 1},
}
LEFTOVERS = {
    "f:clusterIP": LEAF,
    "f:ports": {PORT_KEY: {"f:nodePort": LEAF}},
    "f:tags": {'v:"a, b"': LEAF},
    "f:options": {"f:a.b/c": LEAF},
}
ALL = (
    'spec.clusterIP: None, spec.ports[port=80,protocol="TCP"].nodePort: 30000, spec.tags["a, b"]: a, b, '
    'spec.options["a.b/c"]: x, y: z'
)
STILL = [
    Still("all of it", SPEC, {}, ALL),
    Still("while only the item is owned", SPEC, {"f:ports": {PORT_KEY: {".": LEAF, "f:port": LEAF}}}, ALL),
    Still("while others have other members", SPEC, {"f:tags": {'v:"c"': LEAF}, "f:options": {"f:d": LEAF}}, ALL),
    Still("not what another manager has taken", SPEC, {"f:clusterIP": LEAF}, ALL.partition(", ")[2]),
    Still(
        "not what is below a field that another manager has as a whole", SPEC,
        {"f:ports": LEAF, "f:tags": LEAF, "f:options": LEAF}, "spec.clusterIP: None",
    ),
    Still("not what is gone", {"clusterIP": "None"}, {}, "spec.clusterIP: None"),
    Still("not another value", {**SPEC, "clusterIP": "10.0.0.9"}, {}, ALL.partition(", ")[2]),
    Still("not an item that is gone", {"ports": [{"port": 81}], "tags": ["c"], "options": {"d": 1}}, {}, ""),
    Still("nothing of an empty object", {}, {}, ""),
]  # fmt: skip


@pytest.mark.parametrize("case", STILL, ids=attrgetter("name"))
def test_what_of_a_warning_still_holds(case: Still) -> None:
    [left] = list_left(KEY, {"spec": SPEC}, {"f:spec": LEFTOVERS}, "remove it", conceals=False)
    head = describe_left(left).partition("spec.")[0]
    assert describe_left(left) == f"{head}{ALL}; remove it"
    entry = {"manager": "x", "operation": "Update", "fieldsV1": {"f:spec": case.owned} if case.owned else {}}
    found = still_left(left, {"metadata": {"managedFields": [entry]}, "spec": case.spec})
    assert (describe_left(found) if found.fields else "") == (f"{head}{case.says}; remove it" if case.says else "")


def test_a_path_that_is_too_long_for_status_is_left_out() -> None:
    data = {"a": "1", "b" * 600: "2"}
    tree = {"f:data": {f"f:{name}": LEAF for name in data}}
    [left] = list_left(KEY, {"data": data}, tree, "remove it", conceals=False)
    assert [each.path for each in left.fields] == [("f:data", "f:a")]
    many = {f"f:{number}": LEAF for number in range(100)}
    [left] = list_left(KEY, {"data": {name[2:]: name for name in many}}, {"f:data": many}, "remove it", conceals=False)
    assert len(left.fields) == LEFT_FIELDS
    assert Leftover.model_validate(left.model_dump()) == left


@pytest.mark.parametrize("step", ["x:a", "k:1", 'v:{"a":1}', "k:", "v:x"])
def test_a_step_that_somebody_has_edited_is_not_read(step: str) -> None:
    with pytest.raises(ValidationError):
        LeftField(path=(step,))
