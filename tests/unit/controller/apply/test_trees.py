"""Which fields trees of managedFields have in common, and which of them a value has."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.apply.trees import (
    common_tree,
    differing,
    inside,
    outside,
    pruned,
    refused_part,
    split_at,
    united_trees,
    unshared,
    without_tree,
)

Tree = dict[str, Any]
LEAF: Tree = {}
ITEM: Tree = {".": LEAF, "f:name": LEAF, "f:value": LEAF}
A, B = 'k:{"name":"a"}', 'k:{"name":"b"}'
WEB, UDP = 'k:{"port":80,"protocol":"TCP"}', 'k:{"port":80,"protocol":"UDP"}'


class Pair(NamedTuple):
    name: str
    left: Tree
    right: Tree
    united: Tree
    common: Tree
    rest: Tree
    """The left one without the right one."""


PAIRS = [
    Pair("two fields", {"f:a": LEAF}, {"f:b": LEAF}, {"f:a": LEAF, "f:b": LEAF}, {}, {"f:a": LEAF}),
    Pair("the same field", {"f:a": LEAF}, {"f:a": LEAF}, {"f:a": LEAF}, {"f:a": LEAF}, {}),
    Pair("fields of one map", {"f:m": {"f:a": LEAF, "f:b": LEAF}}, {"f:m": {"f:b": LEAF, "f:c": LEAF}},
         {"f:m": {"f:a": LEAF, "f:b": LEAF, "f:c": LEAF}}, {"f:m": {"f:b": LEAF}}, {"f:m": {"f:a": LEAF}}),
    Pair("a map, and all of its fields", {"f:m": {".": LEAF, "f:a": LEAF}}, {"f:m": {"f:a": LEAF}},
         {"f:m": {".": LEAF, "f:a": LEAF}}, {"f:m": {".": LEAF, "f:a": LEAF}}, {}),
    Pair("a field of a map, and the map as a whole", {"f:m": {"f:a": LEAF}}, {"f:m": LEAF},
         {"f:m": {"f:a": LEAF}}, {"f:m": {"f:a": LEAF}}, {}),
    Pair("a map that only is there, and a field of it", {"f:m": {".": LEAF}}, {"f:m": {"f:a": LEAF}},
         {"f:m": {".": LEAF, "f:a": LEAF}}, {"f:m": {".": LEAF}}, {}),
    Pair("two items", {"f:l": {A: ITEM}}, {"f:l": {B: ITEM}}, {"f:l": {A: ITEM, B: ITEM}}, {}, {"f:l": {A: ITEM}}),
    Pair("one item, and a field of it", {"f:l": {A: ITEM}}, {"f:l": {A: {"f:value": LEAF}}}, {"f:l": {A: ITEM}},
         {"f:l": {A: {"f:value": LEAF}}}, {"f:l": {A: {".": LEAF, "f:name": LEAF}}}),
    Pair("members of a set", {"f:s": {'v:"a"': LEAF, 'v:"b"': LEAF}}, {"f:s": {'v:"b"': LEAF}},
         {"f:s": {'v:"a"': LEAF, 'v:"b"': LEAF}}, {"f:s": {'v:"b"': LEAF}}, {"f:s": {'v:"a"': LEAF}}),
    Pair("nothing on the right", {"f:a": LEAF}, {}, {"f:a": LEAF}, {}, {"f:a": LEAF}),
    Pair("nothing on the left", {}, {"f:a": LEAF}, {"f:a": LEAF}, {}, {}),
]  # fmt: skip


@pytest.mark.parametrize("case", PAIRS, ids=attrgetter("name"))
def test_what_two_trees_are_together(case: Pair) -> None:
    assert united_trees(case.left, case.right) == case.united
    assert common_tree(case.left, case.right) == case.common
    assert without_tree(case.left, case.right) == case.rest


class Split(NamedTuple):
    name: str
    tree: Tree
    value: Any
    inside: Tree
    outside: Tree
    pruned: Any
    """The value without the tree."""


SPLIT = [
    Split("a field that it has", {"f:a": LEAF}, {"a": 1, "b": 1}, {"f:a": LEAF}, {}, {"b": 1}),
    Split("a field that it lacks", {"f:a": LEAF}, {"b": 1}, {}, {"f:a": LEAF}, {"b": 1}),
    Split("a field that is null", {"f:a": LEAF}, {"a": None}, {"f:a": LEAF}, {}, {}),
    Split("a field below one that is null", {"f:m": {"f:a": LEAF}}, {"m": None}, {}, {"f:m": {"f:a": LEAF}},
          {"m": None}),
    Split("a part of a map", {"f:m": {"f:a": LEAF, "f:b": LEAF}}, {"m": {"a": 1, "c": 1}}, {"f:m": {"f:a": LEAF}},
          {"f:m": {"f:b": LEAF}}, {"m": {"c": 1}}),
    Split("all fields of a map that is somebody else's", {"f:m": {"f:a": LEAF}}, {"m": {"a": 1}},
          {"f:m": {"f:a": LEAF}}, {}, {"m": {}}),
    Split("all fields of a map, and the map", {"f:m": {".": LEAF, "f:a": LEAF}}, {"m": {"a": 1}},
          {"f:m": {".": LEAF, "f:a": LEAF}}, {}, {}),
    Split("a map as a whole", {"f:m": LEAF}, {"m": {"a": 1}}, {"f:m": LEAF}, {}, {}),
    Split("an item by its key", {"f:l": {A: ITEM}}, {"l": [{"name": "b"}, {"name": "a", "value": 1}]},
          {"f:l": {A: ITEM}}, {}, {"l": [{"name": "b"}]}),
    Split("an item that it lacks", {"f:l": {A: ITEM}}, {"l": [{"name": "b"}]}, {}, {"f:l": {A: ITEM}},
          {"l": [{"name": "b"}]}),
    Split("a field of an item", {"f:l": {A: {"f:value": LEAF}}}, {"l": [{"name": "a", "value": 1}]},
          {"f:l": {A: {"f:value": LEAF}}}, {}, {"l": [{"name": "a"}]}),
    Split("an item whose protocol is left to its default", {"f:l": {WEB: {".": LEAF}}}, {"l": [{"port": 80}]},
          {"f:l": {WEB: {".": LEAF}}}, {}, {"l": []}),
    Split("an item of another protocol than the default", {"f:l": {UDP: {".": LEAF}}}, {"l": [{"port": 80}]}, {},
          {"f:l": {UDP: {".": LEAF}}}, {"l": [{"port": 80}]}),
    Split("a member of a set", {"f:s": {'v:"a"': LEAF}}, {"s": ["a", "b"]}, {"f:s": {'v:"a"': LEAF}}, {},
          {"s": ["b"]}),
    Split("a member that is another JSON value", {"f:s": {"v:1": LEAF}}, {"s": [True]}, {}, {"f:s": {"v:1": LEAF}},
          {"s": [True]}),
    Split("a field of what is no map", {"f:m": {"f:a": LEAF}}, {"m": "text"}, {}, {"f:m": {"f:a": LEAF}},
          {"m": "text"}),
    Split("items of what is no list", {"f:l": {A: ITEM}}, {"l": {"a": 1}}, {}, {"f:l": {A: ITEM}}, {"l": {"a": 1}}),
]  # fmt: skip


@pytest.mark.parametrize("case", SPLIT, ids=attrgetter("name"))
def test_what_a_value_has_of_a_tree(case: Split) -> None:
    assert inside(case.tree, case.value) == case.inside
    assert outside(case.tree, case.value) == case.outside
    assert pruned(case.value, case.tree) == case.pruned


class Differing(NamedTuple):
    name: str
    value: Any
    other: Any
    found: Tree


TREE = {"f:m": {".": LEAF, "f:a": LEAF}, "f:l": {A: ITEM}, "f:s": {'v:"x"': LEAF}}
DIFFERING = [
    Differing("what is the same", {"m": {"a": 1}}, {"m": {"a": 1, "b": 2}}, {}),
    Differing("another value", {"m": {"a": 1}}, {"m": {"a": 2}}, {"f:m": {"f:a": LEAF}}),
    Differing("a field that the other one lacks", {"m": {"a": 1}}, {"m": {}}, {"f:m": {"f:a": LEAF}}),
    Differing("a map that the other one lacks", {"m": {"a": 1}}, {}, {"f:m": {".": LEAF, "f:a": LEAF}}),
    Differing("a field that only the other one has", {}, {"m": {"a": 1}}, {}),
    Differing(
        "a field of an item", {"l": [{"name": "a", "value": 1}]}, {"l": [{"name": "a", "value": 2}]},
        {"f:l": {A: {"f:value": LEAF}}},
    ),
    Differing("an item in another place", {"l": [{"name": "a"}]}, {"l": [{"name": "b"}, {"name": "a"}]}, {}),
    Differing("an item that the other one lacks", {"l": [{"name": "a"}]}, {"l": []}, {"f:l": {A: ITEM}}),
    Differing("a member that the other one lacks", {"s": ["x"]}, {"s": ["y"]}, {"f:s": {'v:"x"': LEAF}}),
]  # fmt: skip


@pytest.mark.parametrize("case", DIFFERING, ids=attrgetter("name"))
def test_what_of_a_tree_differs_between_two_values(case: Differing) -> None:
    assert differing(TREE, case.value, case.other) == case.found


class At(NamedTuple):
    name: str
    path: tuple[str, ...]
    part: Tree
    rest: Tree


PORTS = {"f:spec": {"f:ports": {WEB: {".": LEAF, "f:nodePort": LEAF}}, "f:type": LEAF}}
AT = [
    At("a field", ("spec", "type"), {"f:spec": {"f:type": LEAF}}, {"f:spec": {"f:ports": PORTS["f:spec"]["f:ports"]}}),
    At("a field of each item", ("spec", "ports", "nodePort"), {"f:spec": {"f:ports": {WEB: {"f:nodePort": LEAF}}}},
       {"f:spec": {"f:ports": {WEB: {".": LEAF}}, "f:type": LEAF}}),
    At("all below a field", ("spec",), PORTS, {}),
    At("what it lacks", ("spec", "ports", "name"), {}, PORTS),
]  # fmt: skip


@pytest.mark.parametrize("case", AT, ids=attrgetter("name"))
def test_a_tree_with_a_field_alone_and_without_it(case: At) -> None:
    assert split_at(PORTS, case.path) == (case.part, case.rest)


REFUSED: list[tuple[str, list[tuple[str | int, ...]], Tree]] = [
    ("the field that is named", [("spec", "type")], {"f:spec": {"f:type": LEAF}}),
    ("what is below it", [("spec", "ports")], {"f:spec": {"f:ports": PORTS["f:spec"]["f:ports"]}}),
    ("a field of any item", [("spec", "ports", 0, "nodePort")], {"f:spec": {"f:ports": {WEB: {"f:nodePort": LEAF}}}}),
    ("what a field is in that is taken as a whole", [("spec", "type", "x")], {"f:spec": {"f:type": LEAF}}),
    ("of several those that lead into it", [("spec", "type"), ("metadata",)], {"f:spec": {"f:type": LEAF}}),
    ("all if none leads into it", [("metadata", "labels")], PORTS),
    ("all if none is named", [], PORTS),
]


@pytest.mark.parametrize(("fields", "found"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_refusal_is_about_the_fields_that_it_names(fields: list[tuple[str | int, ...]], found: Tree) -> None:
    assert refused_part(PORTS, fields) == found


UNSHARED: list[tuple[str, Tree, Tree, Tree]] = [
    ("what another one lacks", {"f:a": LEAF}, {"f:b": LEAF}, {"f:a": LEAF}),
    ("nothing that it has", {"f:a": LEAF}, {"f:a": LEAF}, {}),
    ("nothing below what it has as a whole", {"f:m": {"f:a": LEAF}}, {"f:m": LEAF}, {}),
    ("nothing that it has a part of", {"f:m": LEAF}, {"f:m": {"f:a": LEAF}}, {}),
    ("the other fields of a map, but not the map", {"f:m": {".": LEAF, "f:a": LEAF, "f:b": LEAF}},
     {"f:m": {"f:b": LEAF}}, {"f:m": {"f:a": LEAF}}),
    ("no item that it has a field in", {"f:l": {A: ITEM}}, {"f:l": {A: {"f:more": LEAF}}},
     {"f:l": {A: {"f:name": LEAF, "f:value": LEAF}}}),
    ("the other items", {"f:l": {A: ITEM, B: ITEM}}, {"f:l": {B: ITEM}}, {"f:l": {A: ITEM}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tree", "other", "found"), [case[1:] for case in UNSHARED], ids=[case[0] for case in UNSHARED]
)
def test_the_part_of_a_tree_that_is_of_nobody_else(tree: Tree, other: Tree, found: Tree) -> None:
    assert unshared(tree, other) == found
