"""Whether an object is as we left it, where no hash of our entry is known (rule 6; README.md).

By coverage: our managedFields entry still claims every field that we would apply. The tree itself shows what is atomic,
so no schema is needed. By value: if the server lost all managedFields, which alone is no drift.

Not here: the test by hash (observe/records.py makes it, the plan compares it), and what is done about drift.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

# What names an object is in no entry, and status is never applied.
_TOP_LEVEL_SKIPPED = frozenset({"apiVersion", "kind", "status"})
_METADATA_SKIPPED = frozenset({"name", "namespace"})

# A node of a map that claims nothing in it; an empty one would be a leaf, which claims all.
_NODE: Mapping[str, Any] = {".": {}}

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


def covers(entry_fields: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Whether an entry claims every field of an object.

    Args:
        entry_fields: `fieldsV1` of our entry, which is at the object's own apiVersion; another cannot be compared.
        value: the object as it is sent.
    """
    return not first_uncovered(entry_fields, value)


def first_uncovered(entry_fields: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    """Return the path of a field that an entry does not claim any more; nothing if it `covers` the object."""
    return next(_uncovered_fields(entry_fields, _tracked(value), ""), "")


def find_uncovered(entry_fields: Mapping[str, Any], value: Mapping[str, Any]) -> list[str]:
    """Return the paths of all fields that an entry does not claim, each by its innermost map."""
    tracked = _tracked(value)
    return list(_uncovered_fields(_grown({**_NODE, **entry_fields}, tracked), tracked, ""))


def equal_by_value(ours: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether each of our fields has our value, for an object whose managedFields were wiped.

    What the server adds by defaulting does not count, nor does another spelling of a quantity, nor the absence of what
    is empty, zero or false: the server leaves such fields out. Lists that are maps, as far as they can be recognized
    without a schema, are compared by their keys; all other lists as a whole, in order.
    """
    return _map_equal(_tracked(ours), live, ())


def _grown(node: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    """Return a tree in which each map of a value has a node, so that of a map that is missing each field is missed."""
    if not node or not isinstance(value, dict):
        return node
    maps = {f"f:{name}": item for name, item in value.items() if isinstance(item, dict) and item}
    return {**node, **{name: _grown(node.get(name, _NODE), item) for name, item in maps.items()}}


def _tracked(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object that an entry can claim."""
    tracked = {name: value for name, value in manifest.items() if name not in _TOP_LEVEL_SKIPPED}
    metadata = manifest.get("metadata") or {}
    tracked["metadata"] = {name: value for name, value in metadata.items() if name not in _METADATA_SKIPPED}
    if not tracked["metadata"]:
        del tracked["metadata"]
    return tracked


def _uncovered(node: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    """Yield the paths below a node of the tree that it does not claim. A leaf claims all that is below it."""
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
    """Whether the server records nothing of it: an empty list, or a map of nothing but such. An empty map is a leaf."""
    if isinstance(value, dict):
        return bool(value) and all(_leaves_no_trace(item) for item in value.values())
    return isinstance(value, list) and not value


def _uncovered_items(node: Mapping[str, Any], items: Sequence[Any], path: str) -> Iterator[str]:
    keyed = [(json.loads(name[2:]), child) for name, child in node.items() if name.startswith("k:")]
    if keyed and all(isinstance(item, dict) for item in items):
        yield from _uncovered_keyed_items(keyed, items, path)
        return
    members = [json.loads(name[2:]) for name in node if name.startswith("v:")]
    if any(not _contains(members, item) for item in items):
        yield path


def _uncovered_keyed_items(
    keyed: list[tuple[dict[str, Any], dict[str, Any]]], items: Sequence[Any], path: str
) -> Iterator[str]:
    """Give each item the child that has its keys.

    A key that an item lacks was defaulted by the server: it fits any value that no other item claims. So the items that
    say most choose first.
    """
    unclaimed = list(keyed)
    fields = keyed[0][0].keys()
    for item in sorted(items, key=lambda item: -sum(name in item for name in fields)):
        match = next((pair for pair in unclaimed if _has_keys(item, pair[0])), None)
        if match is None:
            yield f"{path}[{_shown_keys(item, fields)}]"
            continue
        unclaimed.remove(match)
        yield from _uncovered(match[1], item, f"{path}[{_shown_keys(item, fields)}]")


def _has_keys(item: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    return all(name not in item or _same(item[name], value) for name, value in keys.items())


def _shown_keys(item: Mapping[str, Any], fields: Iterable[str]) -> str:
    return ",".join(f"{name}={json.dumps(item[name])}" for name in fields if name in item)


def _join(path: str, name: str) -> str:
    if not _PLAIN_NAME.fullmatch(name):
        return f'{path}["{name}"]'
    return f"{path}.{name}" if path else name


def _map_equal(ours: Mapping[str, Any], live: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    if path and path[-1] in _ATOMIC_MAPS and live.keys() - ours.keys():
        return False
    return all(_value_equal(value, live.get(name), (*path, name)) for name, value in ours.items())


def _value_equal(ours: Any, live: Any, path: tuple[str, ...]) -> bool:
    if live is None:
        return _is_zero(ours)
    if isinstance(ours, dict):
        return isinstance(live, dict) and _map_equal(ours, live, path)
    if isinstance(ours, list):
        return isinstance(live, list) and _list_equal(ours, live, path)
    return _same(ours, live) or (_is_quantity(path) and _quantities_equal(ours, live))


def _is_zero(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_zero(item) for item in value.values())
    return not value


def _list_equal(ours: list[Any], live: list[Any], path: tuple[str, ...]) -> bool:
    if path in _SETS:
        return all(_contains(live, item) for item in ours)
    keys = merge_keys(ours, path)
    if keys:
        return _keyed_lists_equal(ours, live, path, keys)
    return len(ours) == len(live) and all(
        _value_equal(item, other, path) for item, other in zip(ours, live, strict=True)
    )


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


def _keyed_lists_equal(ours: list[Any], live: list[Any], path: tuple[str, ...], keys: tuple[str, ...]) -> bool:
    """Compare the items that have the same keys; what others added to the list does not count."""
    unclaimed = list(live)
    for item in sorted(ours, key=lambda item: -sum(name in item for name in keys)):
        own_keys = {name: item[name] for name in keys if name in item}
        match = next((other for other in unclaimed if _is_item(other, own_keys)), None)
        if match is None or not _map_equal(item, match, path):
            return False
        unclaimed.remove(match)
    return True


def _is_item(item: Any, keys: Mapping[str, Any]) -> bool:
    return isinstance(item, dict) and all(_same(item.get(name), value) for name, value in keys.items())


def _contains(items: Sequence[Any], value: Any) -> bool:
    return any(_same(item, value) for item in items)


def _same(left: Any, right: Any) -> bool:
    # In Python True equals 1.
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _is_quantity(path: tuple[str, ...]) -> bool:
    return path[-1] in _QUANTITY_FIELDS or (len(path) > 1 and path[-2] in _QUANTITY_MAPS)


def _quantities_equal(left: Any, right: Any) -> bool:
    parsed = _quantity(left), _quantity(right)
    return parsed[0] is not None and bool(parsed[0] == parsed[1])


def _quantity(value: Any) -> Decimal | None:
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    return Decimal(number + (exponent or "")) * _SUFFIXES.get(suffix, Decimal(1))
