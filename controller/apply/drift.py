"""Drift: whether an object is as it was left, and in what it differs. Pure.

Rules come from spec.drift.ignore, and from annotations and autoscalers in the bundle.

Where no hash of our entry is known, an object is as we left it by coverage: our managedFields entry still claims every
field that we would apply. The tree itself shows what is atomic, so no schema is needed. By value: if the server lost
all managedFields, which alone is no drift.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from operator import is_
from typing import Any, NamedTuple, TypeAlias

from rukpak.api import names
from rukpak.api.v1alpha2.fields import parse_field_path
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.records import entries_of, entry_of, fields_of, is_scaled, key_of
from rukpak.controller.untrusted import LONGEST_STEP, mapping, path_below, text

Path = tuple[str, ...]
Manifest = Mapping[str, Any]
REPLICAS: Path = ("spec", "replicas")
# What names an object is in no entry. Status is applied only where it is an ordinary field (formats/applicable.py).
_NAMING: tuple[Path, ...] = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
# The identity of an object cannot be ignored.
_IDENTITY = frozenset({*_NAMING, ("metadata",)})
_Tree: TypeAlias = "dict[str, _Tree | None]"
"""Paths by their steps; None where one ends, and longer ones are left out."""
IgnoreRules: TypeAlias = Mapping[tuple[str, str, str], _Tree]
"""The fields to ignore by group, kind and name; an empty name: of all objects of the kind."""
MOST_FIELDS, MOST_MANAGERS = 100, 20
"""How many fields of an object are named, and among how many managers, the latest, their owners are looked for."""
MOST_SHAPES = 16
"""Combinations of key fields that items of one list have. An API server knows a few keys, each of which may be missing;
items of further combinations are not found."""
_QUANTITY_CHARACTERS = 64
# A node of a map that claims nothing in it; an empty one would be a leaf, which claims all.
_NODE: Mapping[str, Any] = {".": {}}
_PARTS = re.compile(r'(?:"[^"]*"|[^,])+')
"""What is between commas that are not in a quoted key."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PORT_KEYS = ("port", "protocol")
_CONTAINER_PORT_KEYS = ("containerPort", "protocol")
# Lists that are maps by these keys in every pod template. Unknown lists are atomic.
_MERGE_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "resourceClaims": ("name",),
    "claims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
# Lists that are maps in one place only: elsewhere the same name is atomic (imagePullSecrets of a ServiceAccount).
_MERGE_KEYS_BY_PATH = {
    ("spec", "imagePullSecrets"): ("name",),
    ("spec", "template", "spec", "imagePullSecrets"): ("name",),
    ("spec", "jobTemplate", "spec", "template", "spec", "imagePullSecrets"): ("name",),
    ("secrets",): ("name",),
    ("webhooks",): ("name",),
    ("metadata", "ownerReferences"): ("uid",),
    ("spec", "ports"): _PORT_KEYS,
}
DEFAULT_KEYS = {"protocol": "TCP"}
"""What keys of list items are if they are not set; no other key of a built-in kind has a default."""
_SETS = frozenset({("metadata", "finalizers")})
# Maps that are replaced as a whole, so that a key more is drift.
_ATOMIC_MAPS = frozenset({"selector", "nodeSelector", "matchLabels", "podSelector", "namespaceSelector"})
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE]))?")
_SUFFIXES = {suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", 1)}
_SUFFIXES |= {f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)}
_SUFFIXES |= {suffix: Decimal(10) ** (-3 * power) for power, suffix in enumerate("mun", 1)}
# Quantities stand directly in fields of the first kind, and as values of maps of the second.
_QUANTITY_FIELDS = frozenset({"sizeLimit", "divisor", "averageValue"})
_QUANTITY_MAPS = frozenset(
    {"limits", "requests", "capacity", "hard", "overhead", "podFixed", "default", "defaultRequest", "max", "min"}
    | {"maxLimitRequestRatio", "target"}
)
DELETED = "deleted"
RECREATED = "deleted to be recreated"
"""By the controller, since an immutable field was modified."""


class IgnoredFields(NamedTuple):
    """What is ignored in one object."""

    paths: tuple[Path, ...] = ()
    """Fields of the object that any client may change once it is created."""
    accepts_drift: bool = False
    """Whether every modification is kept until another revision changes the object."""
    warnings: tuple[str, ...] = ()


NOTHING_IGNORED = IgnoredFields()


def read_ignore_rules(rules: Iterable[Manifest]) -> IgnoreRules:
    """Return the items of spec.drift.ignore for any number of objects: each costs what it has, not more."""
    paths: dict[tuple[str, str, str], list[Path]] = {}
    for rule in rules:
        concerned = paths.setdefault((rule.get("group") or "", rule["kind"], rule.get("name") or ""), [])
        concerned += [path for path in map(parse_field_path, rule["paths"]) if path not in _IDENTITY]
    return {key: _tree_of(found) for key, found in paths.items()}


def find_ignored_fields(
    manifest: Manifest, rules: IgnoreRules, autoscalers: Mapping[ObjectKey, ObjectKey]
) -> IgnoredFields:
    """Return what is ignored in an object of the bundle.

    Args:
        manifest: the object.
        rules: from `read_ignore_rules`.
        autoscalers: from `find_autoscalers`.
    """
    key = key_of(manifest)
    annotations = manifest["metadata"].get("annotations") or {}
    by_annotation, warnings = _annotated(key, annotations.get(names.IGNORE_FIELDS, ""))
    trees = [rules.get((*key[:2], name), {}) for name in ("", key.name)]
    trees.append(_tree_of(path for path in by_annotation if path not in _IDENTITY))
    paths = [path for tree in trees for path in _find_all(manifest, tree)]
    if key in autoscalers and not {REPLICAS, REPLICAS[:1]}.intersection(paths) and has_field(manifest, REPLICAS):
        paths.append(REPLICAS)
        warnings.append(
            f"{key}: spec.replicas is ignored, since {autoscalers[key]} scales it; remove it from the bundle"
        )
    accepts_drift = str(annotations.get(names.DRIFT, "")).lower() == "ignore"
    if not (paths or accepts_drift or warnings):
        return NOTHING_IGNORED
    found = tuple(_find_all(manifest, _tree_of(paths)))
    return IgnoredFields(paths=found, accepts_drift=accepts_drift, warnings=tuple(warnings))


def find_autoscalers(manifests: Iterable[Manifest]) -> dict[ObjectKey, ObjectKey]:
    """Return the objects that autoscalers of the bundle scale, each with its autoscaler."""
    return {target: key_of(manifest) for manifest in manifests for target in _scaled_by(manifest)}


def has_field(manifest: Manifest, path: Path) -> bool:
    """Whether an object has a field."""
    return path[-1] in mapping(manifest, *path[:-1])


def without(manifest: Manifest, paths: Sequence[Path]) -> Manifest:
    """Return an object without some fields, and without maps that become empty."""
    return _without(manifest, _tree_of(paths)) if paths else manifest


def only(manifest: Manifest, paths: Sequence[Path]) -> Manifest:
    """Return only some fields of an object, each in its place."""
    return _only(manifest, _tree_of(paths))


def united(left: Manifest, right: Manifest) -> dict[str, Any]:
    """Return the fields of both; if both have one, maps are merged, and otherwise the right one wins."""
    merged = dict(left)
    for name, value in right.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = united(merged[name], value) if both else value
    return merged


def _annotated(key: ObjectKey, text: object) -> tuple[list[Path], list[str]]:
    # A malformed path becomes a warning.
    paths, warnings = [], []
    for part in filter(None, map(str.strip, _PARTS.findall(str(text)))):
        try:
            paths.append(parse_field_path(part))
        except ValueError as error:
            warnings.append(f"{key}: annotation {names.IGNORE_FIELDS}: {error}")
    return paths, warnings


def _scaled_by(manifest: Manifest) -> Iterator[ObjectKey]:
    # The default kind of a ScaledObject (KEDA) is Deployment.
    key = key_of(manifest)
    if key[:2] not in (("autoscaling", "HorizontalPodAutoscaler"), ("keda.sh", "ScaledObject")):
        return
    reference = mapping(manifest, "spec", "scaleTargetRef")
    if isinstance(reference.get("name"), str):
        group = str(reference.get("apiVersion") or "apps/v1").rpartition("/")[0]
        yield ObjectKey(group, str(reference.get("kind") or "Deployment"), key.namespace, reference["name"])


def _tree_of(paths: Iterable[Path]) -> _Tree:
    tree: _Tree = {}
    for path in paths:
        at: _Tree | None = tree
        for step in path[:-1]:
            at = at.setdefault(step, {}) if at is not None else None
        if at is not None:
            at[path[-1]] = None
    return tree


def _find_all(value: Any, tree: _Tree, above: Path = ()) -> Iterator[Path]:
    # The work depends on the smaller of both.
    if not isinstance(value, Mapping):
        return
    for step in [*tree] if len(tree) <= len(value) else [step for step in value if step in tree]:
        if step in value:
            below = tree[step]
            if below is None:
                yield (*above, step)
            else:
                yield from _find_all(value[step], below, (*above, step))


def _without(value: Manifest, tree: _Tree) -> Manifest:
    kept: dict[str, Any] = {}
    for name, item in value.items():
        below = tree.get(name)
        if name not in tree:
            kept[name] = item
        elif below is not None and (inner := _without(item, below)):
            kept[name] = inner
    return kept


def _only(value: Manifest, tree: _Tree) -> dict[str, Any]:
    return {
        name: value[name] if below is None else _only(value[name], below)
        for name, below in tree.items()
        if name in value
    }


def as_compared(body: Manifest, live: Manifest) -> Manifest:
    """Return the fields of an object to compare: without spec.replicas if an autoscaler scales it."""
    return without(body, [REPLICAS]) if is_scaled(entries_of(live)) and has_field(body, REPLICAS) else body


def is_claimed(live: Manifest, body: Manifest, manager: str) -> bool:
    """Whether the entry of a manager still claims every field of an object, at the same version.

    Args:
        live: the object as it is, or only its metadata.
        body: as it is sent.
        manager: our field manager.
    """
    entry = entry_of(live, manager)
    is_comparable = entry is not None and entry.get("apiVersion") == body["apiVersion"]
    return is_comparable and covers(fields_of(entry), as_compared(body, live))


def covers(entry_fields: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Whether an entry claims every field of an object.

    Args:
        entry_fields: `fieldsV1` of our entry, which is at the object's own apiVersion; another cannot be compared.
        value: the object as it is sent.
    """
    return not first_uncovered(entry_fields, value)


def first_uncovered(entry_fields: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    """Return the path of a field that an entry does not claim any more; nothing if it `covers` the object."""
    return next(_uncovered_fields(entry_fields, without(value, _NAMING), ""), "")


def find_uncovered(entry_fields: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of all fields that an entry does not claim, each by its innermost map."""
    tracked = without(value, _NAMING)
    return _uncovered_fields(_grown({**_NODE, **entry_fields}, tracked), tracked, "")


def equal_by_value(ours: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether each of our fields has our value, for an object whose managedFields were wiped.

    What the server adds by defaulting does not count, nor does another spelling of a quantity, nor the absence of what
    is empty, zero or false: the server leaves such fields out. Lists that are maps, as far as they can be recognized
    without a schema, are compared by their keys; all other lists as a whole, in order.
    """
    tracked = without(ours, _NAMING)
    return narrow(tracked, live) is tracked


def _narrow(ours: Any, live: Any, path: Path) -> Any:
    """Return ours, the same object, if both are equal by value; otherwise what the other has of it."""
    if isinstance(ours, dict) and isinstance(live, dict):
        return narrow(ours, live, path)
    if isinstance(ours, list) and isinstance(live, list):
        return _narrow_list(ours, live, path)
    if live is None:
        return ours if _is_zero(ours) else None
    is_same = ours == live and isinstance(ours, bool) == isinstance(live, bool)  # in Python True equals 1
    return ours if is_same or (_is_quantity(path) and _quantities_equal(ours, live)) else live


def narrow(ours: Mapping[str, Any], live: Mapping[str, Any], path: Path = ()) -> Mapping[str, Any]:
    """Return of an object the fields that we set, as they are: in our spelling where they are equal by value.

    What the server or others have added beside them is left out, as `equal_by_value` ignores it.

    Args:
        ours: the object as we apply it, or a map in it; returned itself if both are equal by value.
        live: the same as it is on the cluster.
        path: of the map.
    """
    added = live.keys() - ours.keys() if path and path[-1] in _ATOMIC_MAPS else frozenset()
    kept = {
        name: _narrow(value, live.get(name), (*path, name))
        for name, value in ours.items()
        if name in live or _is_zero(value)
    }
    if not added and len(kept) == len(ours) and all(kept[name] is value for name, value in ours.items()):
        return ours
    return kept | {name: live[name] for name in sorted(added)}


def _narrow_list(ours: list[Any], live: list[Any], path: Path) -> list[Any]:
    if path in _SETS:
        return ours if set(map(identity_of, ours)) <= set(map(identity_of, live)) else live
    if keys := merge_keys(ours, path):  # what others added to the list does not count
        places = {id(item): place for item, _, place in UnclaimedItems(live).claim_all(ours, keys)}
        found = [(item, places[id(item)]) for item in ours]
        kept = [_narrow(item, live[place], path) for item, place in found if place is not None]
        return ours if len(kept) == len(ours) and all(map(is_, kept, ours)) else kept
    pairs = zip(ours, live, strict=False)
    is_same = len(ours) == len(live) and all(_narrow(item, other, path) is item for item, other in pairs)
    return ours if is_same else live


def _grown(node: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    if not node or not isinstance(value, dict):
        return node
    maps = {f"f:{name}": item for name, item in value.items() if isinstance(item, dict) and item}
    return {**node, **{name: _grown(node.get(name, _NODE), item) for name, item in maps.items()}}


def _uncovered(node: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if not node:
        return
    if isinstance(value, dict):
        yield from _uncovered_fields(node, value, path)
    elif isinstance(value, list):
        yield from _uncovered_items(node, value, path)
    else:
        yield path


def _uncovered_fields(node: Mapping[str, Any], fields: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in fields.items():
        child = node.get(f"f:{name}")
        if child is not None:
            yield from _uncovered(child, value, _join(path, name))
        elif not _leaves_no_trace(value):
            yield _join(path, name)


def _leaves_no_trace(value: Any) -> bool:
    # An empty map is a leaf.
    if isinstance(value, dict):
        return bool(value) and all(_leaves_no_trace(item) for item in value.values())
    return isinstance(value, list) and not value


def _uncovered_items(node: Mapping[str, Any], items: Sequence[Any], path: str) -> Iterator[str]:
    keyed = [(json.loads(name[2:]), child) for name, child in node.items() if name.startswith("k:")]
    if keyed and all(isinstance(item, dict) for item in items):
        yield from _uncovered_keyed_items(keyed, items, path)
        return
    members = {identity_of(json.loads(name[2:])) for name in node if name.startswith("v:")}
    if any(identity_of(item) not in members for item in items):
        yield path


def _uncovered_keyed_items(
    keyed: list[tuple[dict[str, Any], dict[str, Any]]], items: Sequence[Any], path: str
) -> Iterator[str]:
    unclaimed = UnclaimedItems([keys for keys, _ in keyed])
    for item, own_keys, match in unclaimed.claim_all(items, keyed[0][0]):
        place = path_below(path, f"[{','.join(f'{name}={json.dumps(value)}' for name, value in own_keys.items())}]")
        if match is None:
            yield place
        else:
            yield from _uncovered(keyed[match][1], item, place)


def _join(path: str, name: str) -> str:
    if not _PLAIN_NAME.fullmatch(name[:LONGEST_STEP]):
        return path_below(path, f'["{name}"]')
    return path_below(path, f".{name}" if path else name)


def identity_of(value: Any) -> Hashable:
    """Return what is equal for equal JSON values alone: true is not 1."""
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True)
    return isinstance(value, bool), value


_Values: TypeAlias = tuple[Hashable, ...]


class UnclaimedItems:
    """The items of a list, each of which is claimed once by some of its fields. The work is linear in their number.

    Args:
        items: mappings; others are never found. A key that one lacks is what `DEFAULT_KEYS` says.
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self._items, self._claimed = items, [False] * len(items)
        self._places: dict[tuple[str, ...], dict[_Values, list[int]]] = {}

    def claim(self, fields: Mapping[str, Any]) -> int | None:
        """Return the index of the first item that has these fields and is not claimed yet."""
        names = tuple(sorted(fields))
        if names not in self._places and len(self._places) == MOST_SHAPES:
            return None
        if names not in self._places:
            self._places[names] = self._sort(names)
        places = self._places[names].get(_values(fields, names), [])
        while places:
            place = places.pop()
            if not self._claimed[place]:
                self._claimed[place] = True
                return place
        return None

    def claim_all(
        self, items: Iterable[Mapping[str, Any]], keys: Collection[str]
    ) -> Iterator[tuple[Mapping[str, Any], dict[str, Any], int | None]]:
        """Yield each of other items with its keys, and the index of what it claims by them.

        A key that an item lacks was defaulted by the server: it fits any value that no other item claims. So the items
        that say most choose first.
        """
        for item in sorted(items, key=lambda item: -sum(name in item for name in keys)):
            own_keys = {name: item[name] for name in keys if name in item}
            yield item, own_keys, self.claim(own_keys)

    def _sort(self, names: tuple[str, ...]) -> dict[_Values, list[int]]:
        found: dict[_Values, list[int]] = {}
        for place in range(len(self._items) - 1, -1, -1):
            item = self._items[place]
            if isinstance(item, dict):
                found.setdefault(_values(item, names), []).append(place)
        return found


class Items:
    """The items of a list, by the keys of names in managedFields that may stand for them: all that an item has agree.

    The work is linear in the number of items, and constant for each name.
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items
        self._found: dict[tuple[str, ...], dict[tuple[str, ...], dict[_Values, list[int]]]] = {}

    def find(self, keys: Mapping[str, Any]) -> Any:
        """Return the first item that a name with these keys may stand for; None if there is none."""
        first = min((places[0] for places in self._places(keys)), default=None)
        return None if first is None else self._items[first]

    def find_all(self, names: Iterable[Mapping[str, Any]]) -> set[int]:
        """Return the places of all items that some of these names, given by their keys, may stand for."""
        found = {id(places): places for keys in names for places in self._places(keys)}
        return {place for places in found.values() for place in places}

    def _places(self, keys: Mapping[str, Any]) -> Iterator[list[int]]:
        by_shape = self._sort(tuple(sorted(keys)))
        return filter(None, (found.get(_values(keys, shape)) for shape, found in by_shape.items()))

    def _sort(self, keys: tuple[str, ...]) -> dict[tuple[str, ...], dict[_Values, list[int]]]:
        if keys in self._found or len(self._found) == MOST_SHAPES:
            return self._found.get(keys, {})
        by_shape = self._found[keys] = {}
        for place, item in enumerate(self._items):
            shape = _present(item, keys)
            if shape and (shape in by_shape or len(by_shape) < MOST_SHAPES):
                by_shape.setdefault(shape, {}).setdefault(_values(item, shape), []).append(place)
        return by_shape


def _present(item: Any, keys: Sequence[str]) -> tuple[str, ...]:
    has_any = isinstance(item, dict) and any(key in item for key in keys)
    return tuple(key for key in keys if key in item or key in DEFAULT_KEYS) if has_any else ()


def _values(item: Mapping[str, Any], keys: Sequence[str]) -> _Values:
    return tuple(identity_of(item.get(key, DEFAULT_KEYS.get(key))) for key in keys)


def item_step(keys: Mapping[str, Any]) -> str:
    """Return the step of a managedFields tree that stands for the item with these keys."""
    return f"k:{json.dumps(keys, sort_keys=True, separators=(',', ':'))}"


def _is_zero(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_zero(item) for item in value.values())
    return not value


def merge_keys(items: Sequence[Any], path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields by which a list is a map, as far as that can be known without a schema.

    None if it is atomic, or not all items have the first of them.

    Args:
        items: of the list.
        path: names of the fields that lead to it, from the root of the object.
    """
    keys = _MERGE_KEYS_BY_PATH.get(path) or _MERGE_KEYS.get(path[-1], ())
    if path[-1] == "ports" and not keys:
        keys = _CONTAINER_PORT_KEYS
    return keys if keys and all(isinstance(item, dict) and keys[0] in item for item in items) else ()


def _is_quantity(path: tuple[str, ...]) -> bool:
    return path[-1] in _QUANTITY_FIELDS or (len(path) > 1 and path[-2] in _QUANTITY_MAPS)


def _quantities_equal(left: Any, right: Any) -> bool:
    parsed = _quantity(left), _quantity(right)
    return parsed[0] is not None and bool(parsed[0] == parsed[1])


def _quantity(value: Any) -> Decimal | None:
    text = str(value)
    match = _QUANTITY.fullmatch(text) if len(text) <= _QUANTITY_CHARACTERS else None
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    return Decimal(number + (exponent or "")) * _SUFFIXES.get(suffix, Decimal(1))


class DriftedField(NamedTuple):
    """A field that is no longer ours."""

    path: str
    holder: str = ""
    """The field manager that owns it now; empty if none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftedObject:
    """An object that another client has modified or deleted, as far as that is known."""

    key: ObjectKey
    fields: tuple[DriftedField, ...] = ()
    """Fields that are no longer ours, in the order of the object, at most `MOST_FIELDS`; none for the whole object."""
    state: str = ""
    """Instead of fields: `DELETED`, `RECREATED`, `being deleted`."""

    def __str__(self) -> str:
        """Return it in the form of messages: `ConfigMap foo/a (data.color, owned by "kubectl-edit")`."""
        return self.describe()

    def describe(self, most: int | None = None) -> str:
        """Return it in the form of messages, with at most so many of its fields."""
        about = self.describe_fields(most)
        return f"{self.key} ({about})" if about else str(self.key)

    def describe_fields(self, most: int | None = None) -> str:
        """Return its fields by the manager that owns them now, or else its state."""
        shown = self.fields if most is None else self.fields[:most]
        paths: dict[str, list[str]] = {}
        for each in shown:
            paths.setdefault(each.holder, []).append(each.path)
        parts = [", ".join([*found, *([f'owned by "{holder}"'] if holder else [])]) for holder, found in paths.items()]
        if left := len(self.fields) - len(shown):
            parts.append(f"{left} more {'field' if left == 1 else 'fields'}")
        return "; ".join(parts) or self.state


def explain(key: ObjectKey, manifest: Mapping[str, Any], body: Mapping[str, Any], manager: str) -> DriftedObject:
    """Find the fields of an object that are no longer ours, whichever edit took which.

    Args:
        key: of the object.
        manifest: the object as it is, or only its metadata.
        body: the object as we apply it.
        manager: our field manager.
    """
    if manifest["metadata"].get("deletionTimestamp"):
        return DriftedObject(key=key, state="being deleted")
    ours = entry_of(manifest, manager)
    lost = list(islice(find_uncovered(fields_of(ours), body), MOST_FIELDS))
    owners = _find_owners(lost, manifest, body, manager)
    found = [DriftedField(path, owners.get(path, "")) for path in lost]
    # Without our entry, a field that nobody owns may be as we left it.
    return DriftedObject(key=key, fields=tuple(field for field in found if ours or field.holder))


def _find_owners(
    lost: Sequence[str], manifest: Mapping[str, Any], body: Mapping[str, Any], manager: str
) -> dict[str, str]:
    concerned = {each for path in lost for each in _containing(path)}
    others = [each for each in entries_of(manifest) if each.get("manager") != manager]
    whole = (each for each in others if each.get("subresource") != "status")
    latest = sorted(whole, key=lambda each: text(each, "time"), reverse=True)
    found: dict[str, str] = {}
    for entry in latest[:MOST_MANAGERS] if lost else ():
        missing = concerned.intersection(find_uncovered(fields_of(entry), body))
        owned = (path for path in lost if path not in found and missing.isdisjoint(_containing(path)))
        found |= dict.fromkeys(owned, text(entry, "manager"))
    return found


def _containing(path: str) -> Iterator[str]:
    yield path
    yield from (path[:end] for end, sign in enumerate(path) if sign in ".[")
