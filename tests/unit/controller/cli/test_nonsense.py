"""Objects of others, whatever they contain, are shown: no command ends in a traceback."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.controller.cli import events, status
from rukpak.controller.cli.tree import draw
from rukpak.controller.views.comparison import clean, mask
from rukpak.controller.views.dry_run import overlay
from rukpak.controller.views.objects import Node, by_owner, grow, make_outline
from rukpak.controller.views.texts import to_yaml
from tests.support.nonsense import DEPLOYMENT, IDENTITY, LIVE, OBJECTS, nested, nonsense_in, objects_like

Item = dict[str, Any]
EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "a"},
    "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00Z"},
    "eventTime": "2026-01-01T00:00:00Z",
    "type": "Normal",
    "reason": "a",
    "note": "b",
}
KEPT = {*IDENTITY, ("metadata", "uid"), ("metadata", "resourceVersion")}


def make_node(_: Any, children: Any) -> Node:
    return Node(kind="ConfigMap", name="a", reason="Healthy", children=children)


@given(objects_like(*LIVE), objects_like(*LIVE), objects_like(*OBJECTS))
def test_any_objects_are_shown_and_compared(item: Item, other: Item, body: Item) -> None:
    assert str(make_outline(item).key)
    to_yaml(mask(clean(item), b"key"))
    to_yaml(clean(overlay(item, body, "rukpak/web")))
    list(draw(make_node(item, grow(item, by_owner([item, other]), make_node))))


@given(nonsense_in(DEPLOYMENT, KEPT))
def test_any_deployment_is_described(item: Item) -> None:
    assert status._describe(item, lambda _deployment: (), colors=False)


@given(st.lists(nonsense_in(EVENT, IDENTITY), max_size=3))
def test_any_events_are_listed(found: list[Item]) -> None:
    assert events._tabulate(found) or not found
    assert all(map(events._event_line, found))


@pytest.mark.parametrize("how", ["map", "list", "both"])
def test_the_deepest_object_is_shown(how: str) -> None:
    item = {**LIVE[-2], "spec": nested(490, how)}
    assert to_yaml(clean(item))


def owned(number: int, owner: int) -> Item:
    metadata = {"name": f"a{number}", "uid": str(number), "ownerReferences": [{"controller": True, "uid": str(owner)}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


@pytest.mark.parametrize(
    "items",
    [[owned(0, 0)], [owned(0, 1), owned(1, 0)], [owned(number, number - 1) for number in range(5000)]],
    ids=["itself", "each other", "one another in a long line"],
)
def test_objects_that_own(items: list[Item]) -> None:
    assert len(list(draw(make_node(items[0], grow(items[0], by_owner(items), make_node))))) <= 22
