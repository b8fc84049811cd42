"""What stays on an object although nobody applies it: what an earlier owner or revision had set, and ours lacks. Pure.

A forced apply removes what our entry of managedFields had and the new manifest lacks, and nothing else. So what must go
is moved into our entry before: when an object is adopted, and when a list or map has another type than it had when it
was applied. What the API server has set itself stays: defaults, what admission writes, and what it has allocated.

Not here: the trees themselves (trees.py), and the requests (managed_fields.py, sender.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from rukpak.api.v1alpha2.status import LEFT_FIELDS, LEFT_PATH_LENGTH, LEFT_STEPS, LEFT_VALUE_LENGTH, LeftField, Leftover
from rukpak.controller.apply.drift import (
    DEFAULT_KEYS,
    REPLICAS,
    Items,
    Path,
    UnclaimedItems,
    has_field,
    identity_of,
    item_step,
)
from rukpak.controller.apply.trees import differing, inside, outside, split_at, united_trees, walk, without_tree
from rukpak.controller.content.limits import some, visible
from rukpak.controller.formats.objects import BUILT_IN_GROUPS, ObjectKey
from rukpak.controller.observe.records import Entry, Tree, entries_of, fields_of, find_entry, is_passed_on, new_entry
from rukpak.controller.untrusted import mapping, path_below, text

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KEPT = "the API server keeps it: delete the object, or add it to the bundle"
CLIENT_SIDE = "kubectl-client-side-apply"
_VALUE_CHARACTERS = LEFT_VALUE_LENGTH - 1
_NOT_TAKEN: tuple[Path, ...] = (("metadata", "finalizers"), ("metadata", "ownerReferences"), ("status",))
"""Whoever has set these needs them: a finalizer of admission, the owner of an object, what a controller reports."""
_SET_METADATA = ("f:labels", "f:annotations")
_IP = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
RETAINED: Mapping[tuple[str, str], frozenset[Path]] = {
    ("", "Service"): frozenset(("spec", name) for name in (*_IP, "healthCheckNodePort", "loadBalancerClass"))
    | {("spec", "ports", "nodePort")},
    ("", "PersistentVolumeClaim"): frozenset(
        ("spec", name) for name in ("volumeName", "storageClassName", "volumeMode", "selector")
    ),
    ("", "PersistentVolume"): frozenset({("spec", "claimRef"), ("spec", "nodeAffinity")}),
    ("", "Pod"): frozenset(("spec", name) for name in ("nodeName", "serviceAccountName")),
    ("", "Namespace"): frozenset({("spec", "finalizers")}),
    ("", "ServiceAccount"): frozenset({("secrets",)}),
    ("batch", "Job"): frozenset({("spec", "selector"), ("spec", "manualSelector"), ("spec", "completionMode")}),
}
"""Fields that the API server allocates or decides once, and keeps when nobody sets them any more (README.md). A step
into a list stands for each of its items."""


# adopting


def taken_fields(live: Mapping[str, Any], body: Mapping[str, Any]) -> tuple[Tree, bool]:
    """Return what the earlier managers of an adopted object have set and we do not, and whether defaults may be in it.

    What `kubectl apply` has not recorded as applied was defaulted, or written by admission: it stays.

    Args:
        live: the object as it is on the cluster.
        body: the object as it is applied.
    """
    recorded = last_applied(mapping(live, "metadata"))
    applied = recorded if recorded and recorded.get("kind") == live.get("kind") else None
    is_secret = (live.get("apiVersion"), live.get("kind")) == ("v1", "Secret")
    if applied and is_secret:  # the API server makes data of stringData
        applied = {**applied, "data": {**mapping(applied, "data"), **mapping(applied, "stringData")}}
    found: Tree = {}
    is_mixed = False
    for entry in filter(is_passed_on, entries_of(live)):
        fields = fields_of(entry)
        if is_secret and "f:stringData" in fields:
            fields = united_trees(fields, {"f:data": fields["f:stringData"]})
        surplus = outside(inside(_takeable(fields, body), live), body)
        if entry.get("operation") == "Update" and entry.get("manager") == CLIENT_SIDE and applied is not None:
            surplus = inside(surplus, applied)
        elif surplus and entry.get("operation") == "Update":
            is_mixed = True
        found = united_trees(found, surplus)
    return found, is_mixed


def is_converted(live: Mapping[str, Any]) -> bool:
    """Whether earlier managers have set fields of an object in another version of its kind, where names may differ."""
    return any(is_passed_on(each) and each.get("apiVersion") != live.get("apiVersion") for each in entries_of(live))


def adopted_entries(live: Mapping[str, Any], taken: Tree, manager: str, api_version: str) -> list[Entry]:
    """Return the entries of an object in which ours has what is taken, and earlier managers have none."""
    entries = [entry for entry in entries_of(live) if not is_passed_on(entry)]
    ours = find_entry(entries, manager) or new_entry(manager, api_version)
    return with_fields(entries, ours, united_trees(fields_of(ours), taken))


def with_fields(entries: Iterable[Entry], ours: Entry, fields: Tree) -> list[Entry]:
    """Return entries of which ours has these fields; without ours if there are none."""
    others = [entry for entry in entries if entry != ours]
    return [*others, {**ours, "fieldsV1": fields}] if fields else others


def _takeable(tree: Tree, body: Mapping[str, Any]) -> Tree:
    # Replicas that the bundle leaves open belong to whoever scales.
    paths = [*_NOT_TAKEN, *(() if has_field(body, REPLICAS) else (REPLICAS,))]
    for path in paths:
        _, tree = split_at(tree, path)
    return tree


def last_applied(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what `kubectl apply` has recorded in the metadata of an object; None if it has not."""
    try:
        recorded = json.loads(text(metadata, "annotations", LAST_APPLIED) or "null")
    except (ValueError, RecursionError):
        return None
    return recorded if isinstance(recorded, dict) else None


# after an apply


def drops(before: Any, after: Any) -> bool:
    """Whether a manifest lacks a field or an item that another one has; of changed lists that is not known."""
    if isinstance(before, dict) and isinstance(after, dict):
        return any(name not in after or drops(value, after[name]) for name, value in before.items())
    return isinstance(before, list) and before != after


def keeps_empty_lists(manifest: Mapping[str, Any]) -> bool:
    """Whether an empty list is something else than none: built-in kinds leave it out, custom resources keep it."""
    return text(manifest, "apiVersion").rpartition("/")[0] not in BUILT_IN_GROUPS


def empties(before: Any, after: Any) -> bool:
    """Whether a manifest has an empty map or list where another one has more, which of changed lists is not known.

    Args:
        before: the other manifest; True: one of which nothing is known.
        after: the manifest.
    """
    if after in ({}, []):
        return bool(before)
    if isinstance(after, dict):
        fields = before if isinstance(before, dict) else dict.fromkeys(after, before is True)
        return any(empties(fields.get(name), value) for name, value in after.items())
    is_changed = isinstance(after, list) and bool(before) and before != after
    return is_changed and any(empties(True, item) for item in after)


def find_left(live: Mapping[str, Any], before: Mapping[str, Any], body: Mapping[str, Any]) -> Tree:
    """Return what an object still has of an earlier manifest, the new one lacks, and nobody owns.

    Args:
        live: the object after the apply, with managedFields.
        before: the manifest of the revision before.
        body: the object as it was applied.
    """
    return _clearable(_left(before, body, live, owned_fields(entries_of(live))))


def find_surplus_fields(tree: Tree, body: Mapping[str, Any]) -> Tree:
    """Return the fields of our entry that an apply removes.

    Args:
        tree: the fields of the entry.
        body: the object as it is applied.
    """
    return _clearable(outside(tree, body))


def find_unowned(live: Mapping[str, Any], dropped: Tree) -> Tree:
    """Return what an object still has of some fields, and nobody owns.

    Args:
        live: the object after the apply, with managedFields.
        dropped: what the apply should have removed.
    """
    return _clearable(without_tree(inside(dropped, live), owned_fields(entries_of(live))))


def owned_fields(entries: Iterable[Entry]) -> Tree:
    """Return the fields that any of these entries has."""
    return united_trees(*map(fields_of, entries))


def _clearable(tree: Tree) -> Tree:
    metadata = {name: child for name, child in tree.get("f:metadata", {}).items() if name in _SET_METADATA}
    rest = {name: child for name, child in tree.items() if name not in ("f:metadata", "f:status", ".")}
    return {**rest, **({"f:metadata": metadata} if metadata else {})}


def _left(before: Any, after: Any, live: Any, owned: Tree) -> dict[str, Any]:
    if isinstance(before, dict) and isinstance(live, dict):
        return _left_fields(before, after if isinstance(after, dict) else {}, live, owned)
    if isinstance(before, list) and isinstance(live, list):
        return _left_items(before, after if isinstance(after, list) else [], live, owned)
    return {}


def _left_fields(
    before: Mapping[str, Any], after: Mapping[str, Any], live: Mapping[str, Any], owned: Tree
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in before.items():
        step = f"f:{name}"
        if name not in live or name in ("apiVersion", "kind"):
            continue
        if name not in after and step not in owned:
            if _resembles(live[name], value):
                found[step] = {}
            continue
        # A leaf stands for all that is below it, unless the manifest has an empty map there.
        below = owned.get(step, {})
        if (below or after.get(name) == {}) and (left := _left(value, after.get(name), live[name], below)):
            found[step] = left
    return found


def _left_items(before: Sequence[Any], after: Sequence[Any], live: Sequence[Any], owned: Tree) -> dict[str, Any]:
    values = {identity_of(json.loads(name[2:])) for name in owned if name.startswith("v:")}
    if values:
        gone = [item for item in before if item not in after and item in live and identity_of(item) not in values]
        return {f"v:{json.dumps(item)}": {} for item in gone}
    named = {name: json.loads(name[2:]) for name in owned if name.startswith("k:")}
    shapes = {tuple(sorted(keys)) for keys in named.values()}
    if len(shapes) != 1:
        return {}
    unclaimed = UnclaimedItems(live)
    known = {unclaimed.claim(keys): name for name, keys in named.items()}
    olds, news = Items(before), Items(after)
    found: dict[str, Any] = {}
    for place, item in enumerate(live):
        shape = next(iter(shapes)) if isinstance(item, dict) else ()
        keys = {key: item.get(key, DEFAULT_KEYS.get(key)) for key in shape}
        old, new, name = olds.find(keys), news.find(keys), known.get(place)
        if old is None:
            continue
        if name is None and new is None:
            found[item_step({key: value for key, value in keys.items() if key in item})] = {".": {}}
        elif name and (below := _left(old, new or {}, item, owned[name])):
            found[name] = below
    return found


def _resembles(live: Any, before: Any) -> bool:
    if isinstance(live, dict) and isinstance(before, dict):
        return any(name in live and _resembles(live[name], value) for name, value in before.items()) or not before
    if isinstance(live, list) and isinstance(before, list):
        return any(_resembles(item, each) for item in live for each in before) or live == before
    return type(live) is type(before) and live == before


def find_kept(left: Tree, value: Mapping[str, Any], made: Mapping[str, Any] | None, key: ObjectKey) -> Tree:
    """Return the part of what is left on an object that the API server keeps, and that is no default.

    Args:
        left: the fields.
        value: the object.
        made: a new object, which has the defaults; None: it is not known, so the table of retained fields decides.
        key: of the object.
    """
    return split_retained(left, key)[0] if made is None else differing(left, value, made)


def split_retained(tree: Tree, key: ObjectKey) -> tuple[Tree, Tree]:
    """Return the part of a tree that the API server keeps for this kind, and the rest."""
    kept: Tree = {}
    rest = tree
    for path in RETAINED.get((key.group, key.kind), ()):
        found, rest = split_at(rest, path)
        kept = united_trees(kept, found)
    return kept, rest


def list_left(
    key: ObjectKey, live: Mapping[str, Any], tree: Tree, remedy: str, *, conceals: bool
) -> tuple[Leftover, ...]:
    """Return what is left on an object as status has it; nothing if there is nothing.

    Args:
        key: of the object.
        live: the object.
        tree: what is left.
        remedy: what to do.
        conceals: whether values may not be shown.
    """
    hides = conceals or (key.group, key.kind) == ("", "Secret")
    found = (
        LeftField(path=path, value=None if hides or isinstance(value, dict) else _shown(value))
        for path, value in _leaves(tree, live)
        if len(path) <= LEFT_STEPS and sum(map(len, path)) <= LEFT_PATH_LENGTH
    )
    fields = tuple(islice(found, LEFT_FIELDS))
    return (Leftover(**key._asdict(), fields=fields, remedy=remedy),) if fields else ()


def describe_left(left: Leftover) -> str:
    """Return a warning about what is left on an object, as `path: value`."""
    fields = some([_describe_field(each) for each in left.fields])
    return f"{key_of_left(left)}: not in the revision and set by nobody: {fields}; {left.remedy}"


def key_of_left(left: Leftover) -> ObjectKey:
    """Return the object on which something is left."""
    return ObjectKey(left.group, left.kind, left.namespace, left.name)


def still_left(left: Leftover, live: Mapping[str, Any]) -> Leftover:
    """Return what is left without the fields that are gone, have another value, or that a manager owns now.

    Args:
        left: what was left before.
        live: the object as it is now, with managedFields.
    """
    fields = tuple(each for each in left.fields if _is_as_told(each, live))
    return left.model_copy(update={"fields": fields})


def _is_as_told(told: LeftField, live: Mapping[str, Any]) -> bool:
    tree: Tree = {}
    for step in reversed(told.path):
        tree = {step: tree}
    return any(told.value in (None, _shown(value)) for _, value in _leaves(find_unowned(live, tree), live))


def _leaves(tree: Tree, value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, child, _, below in walk(tree, value):
        if child.keys() - {"."}:
            yield from _leaves(child, below, (*path, name))
        else:
            yield (*path, name), below


def _describe_field(told: LeftField) -> str:
    place = ""
    for step in told.path:
        kind, _, name = step.partition(":")
        if kind == "f":
            below = f".{name}" if name.isidentifier() else f'["{name}"]'
        else:
            keys = json.loads(name)
            below = f"[{','.join(f'{each}={json.dumps(keys[each])}' for each in keys) if kind == 'k' else name}]"
        place = path_below(place, below)
    return f"{place.removeprefix('.')}{'' if told.value is None else f': {told.value}'}"


def _shown(value: Any) -> str:
    written = visible(value if isinstance(value, str) else json.dumps(value))
    return written if len(written) <= _VALUE_CHARACTERS else f"{written[:_VALUE_CHARACTERS]}…"
