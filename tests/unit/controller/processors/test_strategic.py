"""Strategic merge patches: invariants. tests/integration/test_patches.py compares them with kubectl's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.controller.processors.patch import merge
from rukpak.controller.processors.strategic import Field, StrategicPatchError, field_of, merge_strategically, type_of
from tests.support.objects import deployment

DEPLOYMENT = "apps.v1.Deployment"
NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


def containers(names: list[str], image: str) -> list[dict[str, str]]:
    return [{"name": name, "image": image} for name in names]


def pods(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


@given(NAMES, NAMES)
def test_a_list_is_merged_by_its_key_and_neither_order_is_lost(live: list[str], patch: list[str]) -> None:
    value, change = pods(containers=containers(live, "1")), pods(containers=containers(patch, "2"))
    before = copy.deepcopy((value, change))
    merged = merge_strategically(value, change, DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
    found = [item["name"] for item in merged]
    assert {item["name"]: item["image"] for item in merged} == {**dict.fromkeys(live, "1"), **dict.fromkeys(patch, "2")}
    assert [name for name in found if name in patch] == patch
    assert [name for name in found if name not in patch] == [name for name in live if name not in patch]
    assert (value, change) == before


LEAVES = st.none() | st.integers(0, 3) | st.sampled_from(["x", "y"])
MAPPINGS = st.recursive(LEAVES, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=9)


@given(st.dictionaries(st.sampled_from("abc"), MAPPINGS, max_size=3), st.dictionaries(st.sampled_from("abc"), MAPPINGS))
def test_without_lists_it_is_a_merge_patch(value: dict[str, Any], patch: dict[str, Any]) -> None:
    value = merge({}, value)  # objects on a cluster have no nulls
    assert merge_strategically(value, patch, DEPLOYMENT) == merge(value, patch)


def test_what_is_deleted_from_a_list_is_what_is_listed() -> None:
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b", "x"]}}
    merged = merge_strategically({"metadata": {"finalizers": ["a", "b", "c"]}}, patch, DEPLOYMENT)
    assert merged == {"metadata": {"finalizers": ["a", "c"]}}


@pytest.mark.parametrize("change", ["ab", {"a": 1}, 1])
def test_what_is_deleted_from_a_list_is_a_list(change: Any) -> None:
    """As in kubectl, anything else deletes nothing: a text is not the list of its letters."""
    value = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": change}}
    assert merge_strategically(value, patch, DEPLOYMENT) == value


REFUSED = {
    "an item without the key": (
        pods(containers=[{"image": "x"}]),
        "spec.template.spec.containers[0]: has no name, by which the list is merged; set it",
    ),
    "an item that is a text": (
        pods(containers=["x"]),
        "spec.template.spec.containers[0]: must be a mapping, like the other items",
    ),
    "a directive of another kind": (
        pods(containers=[{"name": "main", "$patch": "merge"}]),
        "spec.template.spec.containers[].$patch: must be delete or replace",
    ),
    "kept keys that lack one": (
        {"spec": {"$retainKeys": ["replicas"], "paused": True}},
        "spec.$retainKeys: must list all fields of the patch that are not null",
    ),
    "an order that lacks an item": (
        pods(**{"$setElementOrder/containers": [{"name": "main"}], "containers": [{"name": "other"}]}),
        "spec.template.spec.$setElementOrder/containers: must list the items of the patch, in the same order",
    ),
    "an order that is no list": (
        pods(**{"$setElementOrder/containers": "main"}),
        "spec.template.spec.$setElementOrder/containers: must be a list, and so must the field that it orders",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    patch, message = REFUSED[case]
    with pytest.raises(StrategicPatchError) as caught:
        merge_strategically(deployment("web"), patch, DEPLOYMENT)
    assert str(caught.value) == message


def test_the_shipped_table_knows_the_kinds_of_kubernetes() -> None:
    spec = field_of(type_of("apps/v1", "Deployment") or "", "spec").type_name
    pods = field_of(field_of(spec, "template").type_name, "spec").type_name
    assert field_of(pods, "containers") == Field(type_name="core.v1.Container", strategy="merge", key="name")
    assert field_of(pods, "tolerations") == Field()
    assert type_of("example.com/v1", "Deployment") is None
