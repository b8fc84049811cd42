"""Which managedFields entries become which. What the server makes of them is in integration/test_rule_06_repair.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import pytest

from controller.apply.heal import has_keyed_items, moved_items

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


def test_only_lists_of_objects_have_items_with_keys() -> None:
    assert has_keyed_items(BODY)
    assert not has_keyed_items({"metadata": {"ownerReferences": [{}]}, "data": {"a": "b"}, "args": ["a"]})
