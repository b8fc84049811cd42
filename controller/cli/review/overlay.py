"""What an apply would make of an object, computed here: for users whom the server does not let try it. Pure.

It lacks what the server adds (defaults, admission), and takes lists that it cannot recognize as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from controller.apply.drift import UnclaimedItems, merge_keys
from controller.observe.records import entry_of, fields_of

Path = tuple[str, ...]


def overlay(live: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """Return an object with the fields of an apply, and without those that only the apply before had set.

    Args:
        live: the object as it is.
        body: the object as it is sent.
        manager: the field manager of the apply.
    """
    return _merge(live, body, fields_of(entry_of(live, manager)), ())


def _merge(live: Mapping[str, Any], body: Mapping[str, Any], owned: Mapping[str, Any], path: Path) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key, value in live.items():
        node = owned.get(f"f:{key}")
        if key in body:
            merged[key] = _merge_value(value, body[key], node or {}, (*path, key))
        elif node is None:
            merged[key] = value
        elif node and isinstance(value, dict) and (rest := _merge(value, {}, node, (*path, key))):
            merged[key] = rest  # other clients have put fields into it, too
    return merged | {key: value for key, value in body.items() if key not in live}


def _merge_value(live: Any, ours: Any, owned: Mapping[str, Any], path: Path) -> Any:
    if isinstance(ours, dict) and isinstance(live, dict):
        return _merge(live, ours, owned, path)
    if isinstance(ours, list) and isinstance(live, list):
        return _merge_lists(live, ours, owned, path)
    return ours


def _merge_lists(live: list[Any], ours: list[Any], owned: Mapping[str, Any], path: Path) -> list[Any]:
    keys = merge_keys(ours, path)
    if not keys or not all(isinstance(item, dict) for item in live):
        return ours
    nodes = _nodes_of(live, owned)
    merged, unclaimed, left = [], UnclaimedItems(live), set(range(len(live)))
    for item in ours:
        place = unclaimed.claim({key: item[key] for key in keys if key in item})
        left.discard(-1 if place is None else place)
        merged.append(_merge({} if place is None else live[place], item, nodes.get(place, {}), path))
    return [*merged, *(live[place] for place in sorted(left) if place not in nodes)]


def _nodes_of(live: Sequence[Any], owned: Mapping[str, Any]) -> dict[int | None, Mapping[str, Any]]:
    """Return the nodes that a tree has for the items of a list, by their places."""
    unclaimed = UnclaimedItems(live)
    named = ((unclaimed.claim(json.loads(name[2:])), node) for name, node in owned.items() if name.startswith("k:"))
    return {place: node for place, node in named if place is not None}
