"""What an apply makes of an object, computed without the server."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.cli.diff import overlay

MANAGER = "rukpak/shop"
Value = dict[str, Any]


class Case(NamedTuple):
    name: str
    live: Value
    ours: Value
    owned: Value
    expected: Value


CASES = [
    Case("a field changes", {"a": 1}, {"a": 2}, {"f:a": {}}, {"a": 2}),
    Case("a field is added", {"a": 1}, {"a": 1, "b": 2}, {"f:a": {}}, {"a": 1, "b": 2}),
    Case("a field of ours is dropped", {"a": 1, "b": 2}, {"a": 1}, {"f:a": {}, "f:b": {}}, {"a": 1}),
    Case("a field of another client stays", {"a": 1, "b": 2}, {"a": 1}, {"f:a": {}}, {"a": 1, "b": 2}),
    Case(
        "of a map that is dropped, what others have added stays",
        {"m": {"ours": 1, "theirs": 2}, "n": {"ours": 1}},
        {},
        {"f:m": {"f:ours": {}}, "f:n": {"f:ours": {}}},
        {"m": {"theirs": 2}},
    ),
    Case(
        "an item of a list that is a map is merged by its key",
        {"spec": {"containers": [{"name": "web", "image": "v1", "terminationMessagePath": "/t"}, {"name": "sidecar"}]}},
        {"spec": {"containers": [{"name": "web", "image": "v2"}]}},
        {"f:spec": {"f:containers": {'k:{"name":"web"}': {"f:image": {}}}}},
        {"spec": {"containers": [{"name": "web", "image": "v2", "terminationMessagePath": "/t"}, {"name": "sidecar"}]}},
    ),
    Case(
        "an item of ours is dropped",
        {"spec": {"containers": [{"name": "old"}, {"name": "web"}]}},
        {"spec": {"containers": [{"name": "web"}]}},
        {"f:spec": {"f:containers": {'k:{"name":"web"}': {}, 'k:{"name":"old"}': {}}}},
        {"spec": {"containers": [{"name": "web"}]}},
    ),
    Case("any other list is replaced", {"args": ["a", "b"]}, {"args": ["b"]}, {"f:args": {}}, {"args": ["b"]}),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_an_apply_is_computed(case: Case) -> None:
    entry = {"manager": MANAGER, "operation": "Apply", "fieldsV1": case.owned}
    live = {**case.live, "metadata": {"managedFields": [entry]}}
    found = overlay(live, case.ours, MANAGER)
    assert {key: value for key, value in found.items() if key != "metadata"} == case.expected


def test_without_an_entry_of_ours_nothing_is_dropped() -> None:
    assert overlay({"a": 1, "metadata": {}}, {"b": 2}, MANAGER) == {"a": 1, "b": 2, "metadata": {}}
