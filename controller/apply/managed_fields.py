"""Correct managedFields entries that make our apply fail or keep fields that we do not want.

Entries are rewritten with a merge patch at the resourceVersion that was read, so that no newer entry is lost
(README.md, Drift, Ownership, Replies). Functions that take a client send; the others are pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from rukpak.api import names
from rukpak.controller.apply.drift import DEFAULT_KEYS, Items, Path, UnclaimedItems, item_step, merge_keys
from rukpak.controller.apply.holders import held_by, without_values
from rukpak.controller.apply.leftovers import LAST_APPLIED, keeps_empty_lists, owned_fields, taken_fields, with_fields
from rukpak.controller.apply.ownership import Owner, is_always_replaced
from rukpak.controller.apply.trees import differing, outside, pruned, united_trees, unshared, without_tree
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.records import (
    Entry,
    Record,
    Tree,
    entries_of,
    entry_of,
    fields_of,
    is_of_another_owner,
    new_entry,
)
from rukpak.controller.untrusted import text

# On an object that is adopted; `released-from` goes last, since it says that this is not finished.
_ANNOTATIONS = (LAST_APPLIED, names.RELEASED_FROM)
PROBE = "rukpak-probe"
"""Name of what is created by dry run only."""
_MOST_FIELDS = 32
"""Refused fields that are looked for, apart from the indexes of items; a reply may be a webhook's."""
_ITEM = 0
"""Any item of a list: the server counts those of the merged list, which we do not know."""
_STEP = re.compile(r"([^.\[\]]+)|\[([^\[\]]*)\]")


def migrate_entries(client: Client, path: str, api_version: str) -> None:
    """Set the apiVersion of all entries to ours: an older version may lack a field that a newer one defaults.

    Raises: ApiError.
    """
    live = _read(client, path)
    _write_entries(client, path, live, [{**entry, "apiVersion": api_version} for entry in entries_of(live)])


def leave_fields(client: Client, path: str, paths: Iterable[Path], owner: str) -> None:
    """Move fields from our entry to that of the initial manager, so that an apply without them does not remove them.

    Args:
        client: sends.
        path: of the object.
        paths: of the fields.
        owner: name of the BundleDeployment.

    Raises: ApiError; ValueError for a part of an atomic field.
    """
    live = _read(client, path)
    entries = left_fields(live, paths, owner)
    if entries is not None:
        _write_entries(client, path, live, entries)


def take_over_items(
    client: Client, path: str, body: Mapping[str, Any], manager: str, metadata: Mapping[str, Any] | None = None
) -> bool:
    """Move list items that replaced ours into our entry, so that our next apply removes them.

    Args:
        client: sends.
        path: of the object.
        body: the object as it is applied.
        manager: our field manager.
        metadata: of the object if it was just read.

    Returns: whether there are any.
    Raises: ApiError.
    """
    live = {"metadata": metadata} if metadata else _read(client, path)
    if entry_of(live, manager) is None:
        live = client.get(path).value
        entries = claimed_items(live, body, manager)
    else:
        entries = moved_items(live, body, manager)
    if entries is not None:
        _write_entries(client, path, live, entries)
    return entries is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """Entries that were rewritten, and what they were before."""

    before: list[Entry]
    after: list[Entry]


def take_over_fields(
    client: Client, path: str, body: Mapping[str, Any], manager: str, fields: Iterable[str]
) -> Replaced | None:
    """Move fields that nobody applies, and that we do not want, into our entry, so that our next apply removes them.

    What the server has defaulted, or another client has written by an update, may contradict what we apply: the other
    member of a union, for example.

    Args:
        client: sends.
        path: of the object.
        body: the object as it is applied.
        manager: our field manager.
        fields: that the server refuses, as in the causes of its reply.

    Returns: what was rewritten; None if nothing may be in the way.
    Raises: ApiError.
    """
    live = client.get(path).value
    entries = claimed_fields(live, body, manager, fields)
    if entries is None:
        return None
    return Replaced(before=entries_of(live), after=entries_of(_write_entries(client, path, live, entries)))


def give_back(client: Client, path: str, replaced: Replaced) -> str:
    """Write the entries as they were, unless they have changed since; returns the resourceVersion after that.

    Raises: ApiError.
    """
    live = _read(client, path)
    if entries_of(live) == replaced.after:
        live = _write_entries(client, path, live, replaced.before)
    version: str = live["metadata"]["resourceVersion"]
    return version


def take_over_entries(
    client: Client, resource: Resource, record: Record, owner: Owner, paths: Iterable[Path]
) -> Mapping[str, Any]:
    """Make the entries of the owner of an object ours, so that our next apply replaces its marks and its fields.

    Nothing else changes, so that until that apply it still has an owner. What was taken over before it is not written
    again.

    Args:
        client: sends.
        resource: of the object.
        record: as it was judged.
        owner: the BundleDeployment that takes it over.
        paths: of fields that are ignored.

    Returns: the object after that.
    Raises: ApiError, a 409 if the object has changed since it was judged; ValueError for a part of an atomic field.
    """
    path = resource.path(record.key.namespace, record.key.name)
    live = client.get(path).value
    entries = inherited_entries(live, record, owner.name, resource.api_version)
    entries = left_fields({"metadata": {"managedFields": entries}}, paths, owner.name) or entries
    judged = {**live, "metadata": {**live["metadata"], "resourceVersion": record.resource_version}}
    return judged if entries == entries_of(live) else _write_entries(client, path, judged, entries)


def claim(client: Client, path: str, value: Mapping[str, Any], manager: str, fields: Tree) -> Mapping[str, Any]:
    """Move fields that nobody owns into our entry, so that our next apply removes them.

    Args:
        client: sends.
        path: of the object.
        value: the object as it was applied, with managedFields.
        manager: our field manager.
        fields: to move.

    Returns: the object after that.
    Raises: ApiError; a 409 if the object has changed since.
    """
    ours = entry_of(value, manager) or new_entry(manager, value["apiVersion"])
    entries = with_fields(entries_of(value), ours, united_trees(fields_of(ours), fields))
    return _write_entries(client, path, value, entries)


def disclaim(client: Client, path: str, manager: str, fields: Tree) -> None:
    """Remove fields from our entry, so that our next apply leaves them as they are.

    Raises: ApiError.
    """
    live = _read(client, path)
    if ours := entry_of(live, manager):
        entries = with_fields(entries_of(live), ours, without_tree(fields_of(ours), fields))
        _write_entries(client, path, live, entries)


class Probe:
    """Tells what an object would be if it were new, by a dry run under another name.

    The new object has defaults, and what admission writes, but not what only one object of its kind can have.
    """

    def __init__(self, client: Client, resource: Resource, body: Mapping[str, Any], manager: str) -> None:
        """Send nothing yet.

        Args:
            client: sends.
            resource: of the object.
            body: the object as it is applied.
            manager: our field manager.
        """
        self._client, self._resource, self._body, self._manager = client, resource, body, manager

    @cached_property
    def made(self) -> Mapping[str, Any] | None:
        """The new object; None if it is refused."""
        return self.make_another()

    def make_another(self) -> Mapping[str, Any] | None:
        """Return one more new object, in which what is generated differs; None if it is refused."""
        body, kind = self._body, (self._resource.group, self._resource.kind)
        free = without_values(body, held_by(body, kind))
        unbound = {name: value for name, value in free["metadata"].items() if name not in ("uid", "resourceVersion")}
        path = self._resource.path(unbound.get("namespace", ""), PROBE)
        new = {**free, "metadata": {**unbound, "name": PROBE}}
        try:
            reply = self._client.apply(path, new, manager=self._manager, force=False, dry_run=True, metadata=False)
        except ApiError:
            return None
        made: Mapping[str, Any] = reply.value
        return made


def find_taken(live: Mapping[str, Any], body: Mapping[str, Any], probe: Probe) -> Tree:
    """Return what is removed from an object that is adopted; defaults and what admission writes are not.

    Where no tool has recorded what it applied, a new object shows which these are. If that is refused, all is taken:
    defaults come back by themselves.
    """
    taken, is_mixed = taken_fields(live, body)
    made = probe.made if taken and is_mixed else None
    if made is None:
        return taken
    unset = outside(taken, made)
    changed = without_tree(differing(taken, live, made), unset)
    again = probe.make_another() if changed else None
    if again is not None:
        # What is another one in each new object was generated, and would be lost.
        changed = without_tree(changed, differing(changed, made, again))
    return united_trees(unset, changed)


def empty_maps(client: Client, path: str, body: Mapping[str, Any], live: Mapping[str, Any], manager: str) -> str | None:
    """Empty the maps and lists of an object that an apply sets empty, and all of whose fields or items it would remove.

    The apply alone would leave null instead: a CustomResourceDefinition refuses that, and of a built-in kind the map
    would be gone, which is something else (a selector that matches everything). No other client's fields are touched.

    Args:
        client: sends.
        path: of the object.
        body: the object as it is applied.
        live: the object as it is on the cluster, with managedFields.
        manager: our field manager.

    Returns: the resourceVersion after that; None if there are none.
    Raises: ApiError; a 409 if the object has changed since it was read.
    """
    if live["metadata"].get("uid") != body["metadata"].get("uid", live["metadata"].get("uid")):
        return None
    theirs = owned_fields(entry for entry in entries_of(live) if entry.get("manager") != manager)
    empties = list(emptied(live, body, unshared(fields_of(entry_of(live, manager)), theirs)))
    if not empties:
        return None
    unchanged = {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]}
    operations = [unchanged, *({"op": "replace", "path": pointer, "value": value} for pointer, value in empties)]
    version: str = client.json_patch(path, operations, manager=manager).value["metadata"]["resourceVersion"]
    return version


def emptied(live: Mapping[str, Any], body: Mapping[str, Any], ours: Tree) -> Iterator[tuple[str, Any]]:
    """Yield the JSON pointers of the maps and lists that an apply sets empty, and that have nothing but what is ours.

    Pure.

    Args:
        live: the object as it is on the cluster.
        body: the object as it is applied.
        ours: the fields of our entry.

    Each comes with its empty value.
    """
    found = _emptied(live, body, ours, "")
    return found if keeps_empty_lists(body) else ((pointer, value) for pointer, value in found if value == {})


def _emptied(live: Any, body: Any, ours: Tree, pointer: str) -> Iterator[tuple[str, Any]]:
    if type(live) is type(body) and body in ({}, []) and live and ours.keys() - {"."} and not pruned(live, ours):
        yield pointer, body
    elif isinstance(live, dict) and isinstance(body, dict):
        for name in body.keys() & live.keys():
            step = name.replace("~", "~0").replace("/", "~1")
            yield from _emptied(live[name], body[name], ours.get(f"f:{name}", {}), f"{pointer}/{step}")
    elif isinstance(live, list) and isinstance(body, list):
        for name, item, place in _paired(body, live, ours):
            yield from _emptied(live[place], item, ours[name], f"{pointer}/{place}")


def drop_replaced_entries(
    client: Client, path: str, live: Mapping[str, Any], owner: str, *, adopted: bool, leaves: bool
) -> Mapping[str, Any]:
    """Remove entries that would keep fields which we drop later, and annotations of an adopted object, in one write.

    Args:
        client: sends.
        path: of the object.
        live: the object, as the reply to our apply has it.
        owner: name of the BundleDeployment.
        adopted: whether the object had another owner, whose entries are replaced.
        leaves: whether it has ignored fields, which the initial manager keeps.

    Returns: the object after that.
    Raises: ApiError.
    """
    entries = entries_of(live)
    kept = [entry for entry in entries if not _is_replaced(entry, owner, adopted=adopted, leaves=leaves)]
    found = live["metadata"].get("annotations") or {}
    dropped = dict.fromkeys(name for name in _ANNOTATIONS if adopted and name in found)
    if len(kept) == len(entries) and not dropped:
        return live
    return _write_entries(client, path, live, kept, annotations=dropped)


def inherited_entries(live: Mapping[str, Any], record: Record, owner: str, api_version: str) -> list[Entry]:
    """Return the entries of an object with those of its owner as ours. Pure.

    Ours claims the controller reference alone, whoever else does: our apply without it removes it, and a second
    controller reference would be a 422.

    Args:
        live: the object.
        record: the same, as it was judged.
        owner: name of the BundleDeployment that takes it over.
        api_version: of the object, for an entry if all were wiped.
    """
    ours = {
        names.field_manager(record.owner): names.field_manager(owner),
        names.initial_field_manager(record.owner): names.initial_field_manager(owner),
    }
    ours |= {manager: manager for manager in ours.values()}
    reference = item_step({"uid": record.controller_uid})
    claim: Tree = {"f:metadata": {"f:ownerReferences": {reference: {}}}} if record.controller_uid else {}
    inherited: dict[str, Entry] = {}
    others: list[Entry] = []
    for entry in entries_of(live):
        fields = without_tree(fields_of(entry), claim)
        if entry.get("manager") in ours and not entry.get("subresource"):
            manager = ours[entry["manager"]]
            before = inherited.get(manager, {"apiVersion": text(entry, "apiVersion") or api_version})
            merged = united_trees(fields_of(before), fields)
            inherited[manager] = {**entry, **before, "manager": manager, "operation": "Apply", "fieldsV1": merged}
        elif fields:
            others.append({**entry, "fieldsV1": fields})
    manager = names.field_manager(owner)
    if claim:
        entry = inherited.get(manager, new_entry(manager, api_version))
        inherited[manager] = {**entry, "fieldsV1": united_trees(fields_of(entry), claim)}
    return [*inherited.values(), *others]


def has_keyed_items(value: Any) -> bool:
    """Whether an object contains a list of objects, whose items can be renamed."""
    if isinstance(value, dict):
        return any(has_keyed_items(item) for name, item in value.items() if name != "ownerReferences")
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def moved_items(manifest: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> list[Entry] | None:
    """Return the entries with the items that replaced ours moved into our entry; None if there are none. Pure.

    Such an item belongs to an Update entry, is unwanted, and is in a list that lacks an item that we want.
    """
    ours = entry_of(manifest, manager)
    if ours is None or ours.get("apiVersion") != body["apiVersion"]:
        return None
    entries, fields = entries_of(manifest), fields_of(ours)
    updates = [(entry, _strays(fields, fields_of(entry), body)) for entry in entries if _is_update(entry, ours)]
    givers = [entry for entry, strays in updates if strays]
    return _moved(entries, givers, ours, united_trees(*(strays for _, strays in updates))) if givers else None


def _moved(entries: Iterable[Entry], givers: Sequence[Entry], ours: Entry, fields: Tree) -> list[Entry]:
    """Return entries with fields moved from some of them to ours, and without those that have no others."""
    rests = ({**entry, "fieldsV1": without_tree(fields_of(entry), fields)} for entry in givers if entry != ours)
    others = (entry for entry in entries if entry != ours and entry not in givers)
    mine = {**ours, "fieldsV1": united_trees(fields_of(ours), fields)}
    return [mine, *others, *(entry for entry in rests if entry["fieldsV1"])]


def left_fields(manifest: Mapping[str, Any], paths: Iterable[Path], owner: str) -> list[Entry] | None:
    """Return the entries with fields moved from our entry to the initial manager's; None if ours has none. Pure.

    Raises: ValueError for a part of an atomic field.
    """
    ours = entry_of(manifest, names.field_manager(owner))
    claimed = fields_of(ours)
    moved = united_trees(*(_claimed(claimed, path) for path in paths))
    if ours is None or not moved:
        return None
    initial = entry_of(manifest, names.initial_field_manager(owner))
    before = fields_of(initial)
    kept = [entry for entry in entries_of(manifest) if entry not in (ours, initial)]
    theirs = {**ours, "manager": names.initial_field_manager(owner), "fieldsV1": united_trees(before, moved)}
    return [*kept, {**ours, "fieldsV1": without_tree(claimed, moved)}, theirs]


def claimed_items(live: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> list[Entry] | None:
    """Return the entries and one of ours that claims the items that replaced ours; None if there are none. Pure.

    For an object with wiped entries: without our entry and a schema, only keyed lists of built-in kinds are known.
    """
    strays = _strays_by_value(body, live, ())
    if not strays:
        return None
    return [*entries_of(live), {**new_entry(manager, body["apiVersion"]), "fieldsV1": strays}]


def claimed_fields(
    live: Mapping[str, Any], body: Mapping[str, Any], manager: str, fields: Iterable[str]
) -> list[Entry] | None:
    """Return the entries with fields that may be in the way of an apply moved into ours; None if there are none. Pure.

    In the way may be what the server refuses, if we do not apply it; what is beside or below it, if we do: of two
    members of a union, the server names whichever it comes to last. Not what another manager applies.

    Args:
        live: the object as it is on the cluster.
        body: the object as it is applied.
        manager: our field manager.
        fields: that the server refuses, as in the causes of its reply.
    """
    entries = entries_of(live)
    others = [entry for entry in entries if entry.get("operation") == "Apply" and entry.get("manager") != manager]
    known = owned_fields(entries)
    refused = islice(dict.fromkeys(map(parse_field, fields)), _MOST_FIELDS)
    concerned = (steps for steps in refused if steps and steps[0] not in ("metadata", "status", "apiVersion", "kind"))
    found = united_trees(*(_in_the_way(steps, body, live, known) for steps in concerned))
    for entry in others:
        found = unshared(found, fields_of(entry))
    if not found:
        return None
    ours = entry_of(live, manager) or new_entry(manager, body["apiVersion"])
    return _moved(entries, [entry for entry in entries if entry not in others], ours, found)


def parse_field(field: str) -> tuple[str | int, ...]:
    """Return the steps of a path such as `spec.ports[0].name` or `data[a.b]`."""
    steps: list[str | int] = []
    for match in _STEP.finditer(field):
        name, bracket = match.groups()
        steps.append(name if bracket is None else _ITEM if bracket.isdecimal() else bracket)
    return tuple(steps)


def _in_the_way(steps: Sequence[str | int], ours: Any, live: Any, known: Tree) -> Tree:
    """Return the tree of the fields that may be in the way of one that the server refuses.

    Args:
        steps: that lead to it from here.
        ours: the value here as we apply it.
        live: the value here on the cluster.
        known: the trees of all entries together, from here on.
    """
    if isinstance(ours, dict) and isinstance(live, dict):
        surplus: dict[str, Any] = {f"f:{name}": {} for name in live if name not in ours}
        if not steps:
            return surplus
        name, rest = str(steps[0]), steps[1:]
        if name not in ours:
            return {f"f:{name}": {}} if name in live else {}
        beside = {} if rest and name in live else surplus
        below = _in_the_way(rest, ours[name], live.get(name), known.get(f"f:{name}", {}))
        return {**beside, f"f:{name}": below} if below else beside
    if isinstance(ours, list) and isinstance(live, list):
        rest = steps[1:] if steps and steps[0] == _ITEM else steps
        pairs = _paired(ours, live, known)
        found = {name: _in_the_way(rest, item, live[place], known[name]) for name, item, place in pairs}
        return {name: below for name, below in found.items() if below}
    return {}


def _paired(ours: list[Any], live: list[Any], known: Tree) -> Iterator[tuple[str, Any, int]]:
    items, unclaimed = Items(ours), UnclaimedItems(live)
    for name, keys in _names_in(known):
        item, place = items.find(keys), unclaimed.claim(keys)
        if item is not None and place is not None:
            yield name, item, place


def _strays_by_value(ours: Any, live: Any, path: Path) -> Tree:
    if isinstance(ours, dict) and isinstance(live, dict):
        below = {f"f:{name}": _strays_by_value(item, live.get(name), (*path, name)) for name, item in ours.items()}
        return {name: strays for name, strays in below.items() if strays}
    if isinstance(ours, list) and isinstance(live, list) and (keys := merge_keys(ours, path)):
        return _stray_items_by_value(ours, live, path, keys)
    return {}


def _stray_items_by_value(ours: list[Any], live: list[Any], path: Path, keys: Sequence[str]) -> Tree:
    found = [({key: item[key] for key in keys if key in item}, item) for item in live if isinstance(item, dict)]
    items = Items(ours)
    lost = len(items.find_all(each for each, _ in found)) < len(ours)
    strays: dict[str, Any] = {}
    for each, there in found:
        item = items.find(each)
        if item is None and lost:
            strays[item_step(each)] = {".": {}}
        elif item is not None and (below := _strays_by_value(item, there, path)):
            strays[item_step(each)] = below
    return strays


def _claimed(tree: Tree, path: Path) -> Tree:
    found: Any = tree
    for depth, step in enumerate(path):
        if depth and not found:
            whole, part = ".".join(path[:depth]), ".".join(path)
            raise ValueError(f"{part} cannot be ignored, since {whole} is atomic; ignore {whole}")
        if f"f:{step}" not in found:
            return {}
        found = found[f"f:{step}"]
    for step in reversed(path):
        found = {f"f:{step}": found}
    return dict(found)


def _is_update(entry: Entry, ours: Entry) -> bool:
    is_update = entry.get("operation") == "Update" and not entry.get("subresource")
    return is_update and entry.get("apiVersion") == ours.get("apiVersion")


def _is_replaced(entry: Entry, owner: str, *, adopted: bool, leaves: bool) -> bool:
    if not is_of_another_owner(entry, owner):
        return False
    if leaves and entry["manager"] == names.initial_field_manager(owner):
        return False
    return adopted or is_always_replaced(entry["manager"], owner, leaves=leaves)


def _strays(ours: Tree, theirs: Tree, value: Any) -> Tree:
    if isinstance(value, dict):
        below = {
            f"f:{name}": _strays(ours.get(f"f:{name}", {}), theirs[f"f:{name}"], item)
            for name, item in value.items()
            if f"f:{name}" in theirs
        }
        return {name: strays for name, strays in below.items() if strays}
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return _stray_items(ours, theirs, value)
    return {}


def _stray_items(ours: Tree, theirs: Tree, items: Sequence[Mapping[str, Any]]) -> Tree:
    known = Items(items)
    owned = known.find_all(keys for _, keys in _names_in(ours))
    lost = {id(item) for place, item in enumerate(items) if place not in owned}
    strays: dict[str, Any] = {}
    for name, keys in _names_in(theirs):
        item, child = known.find(keys), theirs[name]
        # An item with a key of its own that we leave to its default: which that is, only the schema of its kind says.
        is_another = item is None or (id(item) in lost and not item.keys() | DEFAULT_KEYS.keys() >= keys.keys())
        if is_another and lost and name not in ours:
            strays[name] = child or {".": {}}
        elif item is not None and (below := _strays(ours.get(name, {}), child, item)):
            strays[name] = below
    return strays


def _names_in(tree: Tree) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, json.loads(name[2:])) for name in tree if name.startswith("k:"))


def _read(client: Client, path: str) -> Mapping[str, Any]:
    live: Mapping[str, Any] = client.get(path, metadata=True).value
    return live


def _write_entries(
    client: Client,
    path: str,
    live: Mapping[str, Any],
    entries: Iterable[Entry],
    annotations: Mapping[str, None] | None = None,
) -> Mapping[str, Any]:
    patch = {"resourceVersion": live["metadata"]["resourceVersion"], "managedFields": list(entries)}
    changed = {"metadata": {**patch, "annotations": annotations} if annotations else patch}
    return {**live, "metadata": client.merge_patch(path, changed, metadata=True).value["metadata"]}
