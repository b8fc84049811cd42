"""Trees of managedFields: which fields of an object somebody has set. Pure.

A tree has `f:` and a name for a field, `k:` and the keys of an item as JSON, `v:` and an item, with what is below each;
`.` stands for the item or map itself. A leaf stands for everything below it.

Not here: the entries that trees are in (managed_fields.py), and whose fields are whose (leftovers.py, drift.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from rukpak.controller.apply.drift import UnclaimedItems, identity_of
from rukpak.controller.observe.records import Tree

_MOST_REFUSED = 50
"""Fields named by a refusal that are looked for."""


def united_trees(*trees: Tree) -> Tree:
    """Return the fields that any of some trees has."""
    children: dict[str, list[Tree]] = {}
    for name, child in chain.from_iterable(tree.items() for tree in trees):
        children.setdefault(name, []).append(child)
    return {name: united_trees(*found) if len(found) > 1 else found[0] for name, found in children.items()}


def inside(tree: Tree, value: Any) -> Tree:
    """Return the part of a tree that a value has."""
    found: dict[str, Any] = {}
    for name, child, has, below in walk(tree, value):
        kept = inside(child, below) if has else {}
        if has and (kept or not child.keys() - {"."}):
            found[name] = kept or child
    # The item or map itself: if its fields alone were ours, an apply would leave it without them.
    return {".": {}, **found} if found and "." in tree else found


def outside(tree: Tree, value: Any) -> Tree:
    """Return the part of a tree that a value does not have."""
    found: dict[str, Any] = {}
    for name, child, has, below in walk(tree, value):
        if not has:
            found[name] = child
        elif child and (rest := outside(child, below)):
            found[name] = rest
    return found


def differing(tree: Tree, value: Any, other: Any) -> Tree:
    """Return the part of a tree that a value has, and another one lacks or has otherwise."""
    theirs = {name: below for name, _, has, below in walk(tree, other) if has}
    found: dict[str, Any] = {}
    for name, child, has, below in walk(tree, value):
        if not has or (name in theirs and theirs[name] == below):
            continue
        if name in theirs and child.keys() - {"."}:
            if rest := differing(child, below, theirs[name]):
                found[name] = rest
        else:
            found[name] = child
    return found


def common_tree(left: Tree, right: Tree) -> Tree:
    """Return the fields that two trees have."""
    return without_tree(left, without_tree(left, right))


def without_tree(tree: Tree, taken: Tree) -> Tree:
    """Return a tree without a part of it, and without nodes that become empty: an empty one claims a field."""
    rest: dict[str, Any] = {}
    for name, child in tree.items():
        if name not in taken:
            rest[name] = child
        elif taken[name].keys() - {"."} and (left := without_tree(child, taken[name])).keys() - {"."}:
            rest[name] = left
    return rest


def unshared(tree: Tree, other: Tree) -> Tree:
    """Return the part of a tree that shares no field with another one, at no depth."""
    rest: dict[str, Any] = {}
    for name, child in tree.items():
        if name not in other:
            rest[name] = child
        elif child and other[name] and (left := unshared(child, {**other[name], ".": {}})):
            rest[name] = left
    return rest


def pruned(value: Any, tree: Tree) -> Any:
    """Return a value without what a tree has of it: the items that it has as such, and maps that become empty."""
    if isinstance(value, dict):
        kept = {}
        for name, item in value.items():
            child = tree.get(f"f:{name}")
            if child is None:
                kept[name] = item
            elif child.keys() - {"."} and ((rest := pruned(item, child)) or "." not in child):
                kept[name] = rest
        return kept
    if not isinstance(value, list):
        return value
    places = {place: child for _, child, place in find_items(tree, value)}
    return [
        pruned(item, places.get(number, {}))
        for number, item in enumerate(value)
        if number not in places or (places[number] and "." not in places[number])
    ]


def split_at(tree: Tree, path: Sequence[str]) -> tuple[Tree, Tree]:
    """Return the part of a tree that is a field, or below it, and the rest.

    Args:
        tree: of an object.
        path: the names of the fields that lead to it; a step into a list stands for each of its items.
    """
    part: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, child in tree.items():
        is_step = name == f"f:{path[0]}"
        if is_step and len(path) == 1:
            part[name] = child
        elif is_step or name.startswith("k:"):
            within, beside = split_at(child, path[1:] if is_step else path)
            if within:
                part[name] = within
            if beside or not child:
                rest[name] = beside
        else:
            rest[name] = child
    return part, rest


def walk(tree: Tree, value: Any) -> Iterator[tuple[str, Tree, bool, Any]]:
    """Yield the steps of a tree, what is below each, and whether a value has it, and what the value has there."""
    if isinstance(value, dict):
        below = {name: value[name[2:]] for name in tree if name.startswith("f:") and name[2:] in value}
    elif isinstance(value, list):
        below = {name: value[place] for name, _, place in find_items(tree, value)}
    else:
        below = {}
    yield from ((name, child, name in below, below.get(name)) for name, child in tree.items() if name != ".")


def find_items(tree: Tree, items: Sequence[Any]) -> Iterator[tuple[str, Tree, int]]:
    """Yield the steps of a tree that stand for items of a list, and the places of these."""
    unclaimed, whole = UnclaimedItems(items), {identity_of(item): number for number, item in enumerate(items)}
    for name, child in tree.items():
        if name.startswith("v:"):
            place = whole.get(identity_of(json.loads(name[2:])))
        elif name.startswith("k:"):
            place = unclaimed.claim(json.loads(name[2:]))
        else:
            continue
        if place is not None:
            yield name, child, place


def refused_part(tree: Tree, fields: Iterable[Sequence[str | int]]) -> Tree:
    """Return the part of a tree that a refusal of some fields is about; all of it if none of them leads into it.

    Args:
        tree: what was taken.
        fields: the steps to each field, with 0 for any item of a list.
    """
    return united_trees(*(_below(tree, steps) for steps in islice(fields, _MOST_REFUSED))) or tree


def _below(tree: Tree, steps: Sequence[str | int]) -> Tree:
    if not steps:
        return tree
    step, rest = steps[0], steps[1:]
    if step == 0:
        below = {name: _below(child, rest) for name, child in tree.items() if name.startswith("k:")}
        return {name: child for name, child in below.items() if child}
    child = tree.get(f"f:{step}")
    if not child:
        return {} if child is None else {f"f:{step}": child}
    found = _below(child, rest)
    return {f"f:{step}": found} if found else {}
