"""Drift: whether an object is as it was left, and in what it differs. Pure.

Rules come from spec.drift.ignore, and from annotations and autoscalers in the bundle.

Where no hash of our entry is known, an object is as we left it by coverage: our managedFields entry still claims every
field that we would apply. The tree itself shows what is atomic, so no schema is needed. By value: if the server lost
all managedFields, which alone is no drift.

`status.managedState` is one digest for the state in which all objects were left (rule 6): of a sum, to which each
object adds a number of its own. So it does not depend on their order, and changes with one object without a look at the
others. The sum is 2,048 bits wide: for narrow ones, other sets of objects with an equal sum can be found (Wagner, A
Generalized Birthday Problem).

Earlier releases wrote `v1`, a digest of the sorted list.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, NamedTuple

from api import names
from api.v1alpha2.fields import parse_field_path
from controller.content.digests import digest_of, digest_of_json
from controller.observe.records import ObjectKey, entries_of, entry_of, fields_of, key_of
from controller.untrusted import text

Path = tuple[str, ...]
Manifest = Mapping[str, Any]
REPLICAS: Path = ("spec", "replicas")
_ABSENT = object()
# The identity of an object cannot be ignored.
_IDENTITY = frozenset({("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")})
# Commas between paths, not those in a quoted key.
_SEPARATOR = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')
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
DELETED = "deleted"
RECREATED = "deleted to be recreated"
"""By the controller, since an immutable field was modified."""
_BYTES = 256
_MODULUS = 1 << (8 * _BYTES)
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredFields:
    """What is ignored in one object."""

    paths: tuple[Path, ...] = ()
    """Fields of the object that any client may change once it is created."""
    accepts_drift: bool = False
    """Whether every modification is kept until another revision changes the object."""
    warnings: tuple[str, ...] = ()


NOTHING_IGNORED = IgnoredFields()


def find_ignored_fields(
    manifest: Manifest, rules: Iterable[Manifest], autoscalers: Mapping[ObjectKey, ObjectKey]
) -> IgnoredFields:
    """Return what is ignored in an object of the bundle.

    Args:
        manifest: the object.
        rules: items of spec.drift.ignore, as JSON.
        autoscalers: from `find_autoscalers`.
    """
    key = key_of(manifest)
    annotations = manifest["metadata"].get("annotations") or {}
    by_rules = [path for rule in rules if _concerns(rule, key) for path in map(parse_field_path, rule["paths"])]
    by_annotation, warnings = _annotated(key, annotations.get(names.IGNORE_FIELDS, ""))
    paths = [*by_rules, *by_annotation]
    if key in autoscalers and REPLICAS not in paths and has_field(manifest, REPLICAS):
        paths.append(REPLICAS)
        warnings.append(
            f"{key}: spec.replicas is ignored, since {autoscalers[key]} scales it; remove it from the bundle"
        )
    accepts_drift = str(annotations.get(names.DRIFT, "")).lower() == "ignore"
    if not (paths or accepts_drift or warnings):
        return NOTHING_IGNORED
    found = [path for path in dict.fromkeys(paths) if path not in _IDENTITY and has_field(manifest, path)]
    return IgnoredFields(paths=tuple(_outermost(found)), accepts_drift=accepts_drift, warnings=tuple(warnings))


def find_autoscalers(manifests: Iterable[Manifest]) -> dict[ObjectKey, ObjectKey]:
    """Return the objects that autoscalers of the bundle scale, each with its autoscaler."""
    return {target: key_of(manifest) for manifest in manifests for target in _scaled_by(manifest)}


def get_field(manifest: Manifest, path: Path) -> Any:
    """Return the value of a field; None if there is none."""
    found = _get(manifest, path)
    return None if found is _ABSENT else found


def scales(autoscaler: Manifest, key: ObjectKey) -> bool:
    """Whether an object is an autoscaler of another one."""
    return key in _scaled_by(autoscaler)


def has_field(manifest: Manifest, path: Path) -> bool:
    """Whether an object has a field."""
    return _get(manifest, path) is not _ABSENT


def without(manifest: Manifest, paths: Sequence[Path]) -> Manifest:
    """Return an object without some fields, and without maps that become empty."""
    for path in paths:
        manifest = _without(manifest, path)
    return manifest


def only(manifest: Manifest, paths: Sequence[Path]) -> Manifest:
    """Return only some fields of an object, each in its place."""
    found: Manifest = {}
    for path in paths:
        value = _get(manifest, path)
        for step in reversed(path):
            value = {step: value}
        found = united(found, value)
    return found


def united(left: Manifest, right: Manifest) -> dict[str, Any]:
    """Return the fields of both; if both have one, maps are merged, and otherwise the right one wins."""
    merged = dict(left)
    for name, value in right.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = united(merged[name], value) if both else value
    return merged


def _concerns(rule: Manifest, key: ObjectKey) -> bool:
    return (rule.get("group") or "", rule["kind"]) == key[:2] and rule.get("name") in (None, "", key.name)


def _annotated(key: ObjectKey, text: object) -> tuple[list[Path], list[str]]:
    """Read the annotation, comma-separated paths; a malformed path becomes a warning."""
    paths, warnings = [], []
    for part in filter(None, (part.strip() for part in _SEPARATOR.split(str(text)))):
        try:
            paths.append(parse_field_path(part))
        except ValueError as error:
            warnings.append(f"{key}: annotation {names.IGNORE_FIELDS}: {error}")
    return paths, warnings


def _scaled_by(manifest: Manifest) -> Iterator[ObjectKey]:
    """Yield the target of an autoscaler. The default kind of a ScaledObject (KEDA) is Deployment."""
    key = key_of(manifest)
    if key[:2] not in (("autoscaling", "HorizontalPodAutoscaler"), ("keda.sh", "ScaledObject")):
        return
    reference = _get(manifest, ("spec", "scaleTargetRef"))
    if isinstance(reference, Mapping) and isinstance(reference.get("name"), str):
        group = str(reference.get("apiVersion") or "apps/v1").rpartition("/")[0]
        yield ObjectKey(group, str(reference.get("kind") or "Deployment"), key.namespace, reference["name"])


def _outermost(paths: Sequence[Path]) -> list[Path]:
    """Leave out paths that are inside another one."""
    return [path for path in paths if not any(path[: len(other)] == other for other in paths if other != path)]


def _get(value: Any, path: Path) -> Any:
    for step in path:
        if not isinstance(value, Mapping) or step not in value:
            return _ABSENT
        value = value[step]
    return value


def _without(manifest: Manifest, path: Path) -> Manifest:
    step, *rest = path
    kept = {name: value for name, value in manifest.items() if name != step}
    if rest and (inner := _without(manifest[step], tuple(rest))):
        kept[step] = inner
    # In their original order: equal objects must have equal bytes.
    return {name: kept[name] for name in manifest if name in kept}


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
    """All fields that are no longer ours, in the order of the object; none for the object as a whole."""
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
    """Find all fields of an object that are no longer ours, whichever edit took which.

    Args:
        key: of the object.
        manifest: the object as it is, or only its metadata.
        body: the object as we apply it.
        manager: our field manager.
    """
    if manifest["metadata"].get("deletionTimestamp"):
        return DriftedObject(key=key, state="being deleted")
    ours = entry_of(manifest, manager)
    lost = find_uncovered(fields_of(ours), body)
    others = _find_missing(manifest, body, manager) if lost else []
    found = [
        DriftedField(path, next((each for each, missing in others if not _lies_in(path, missing)), "")) for path in lost
    ]
    # Without our entry, a field that nobody owns may be as we left it.
    return DriftedObject(key=key, fields=tuple(field for field in found if ours or field.holder))


def _find_missing(
    manifest: Mapping[str, Any], body: Mapping[str, Any], manager: str
) -> list[tuple[str, frozenset[str]]]:
    """Return the other managers, the latest first, each with our fields that it does not own."""
    others = [
        entry
        for entry in entries_of(manifest)
        if entry.get("manager") != manager and entry.get("subresource") != "status"
    ]
    latest = sorted(others, key=lambda entry: text(entry, "time"), reverse=True)
    return [(text(entry, "manager"), frozenset(find_uncovered(fields_of(entry), body))) for entry in latest]


def _lies_in(path: str, fields: Container[str]) -> bool:
    """Whether some fields contain one, or a field that it is part of."""
    return path in fields or any(path[:end] in fields for end, sign in enumerate(path) if sign in ".[")


class Row(NamedTuple):
    """An object as it was left."""

    key: ObjectKey
    digest: str
    """The applied-digest annotation."""
    entry_hash: str


def add(total: int, row: Row) -> int:
    """Return a sum with one more object."""
    return (total + _weigh(row)) % _MODULUS


def subtract(total: int, row: Row) -> int:
    """Return a sum without one of its objects."""
    return (total - _weigh(row)) % _MODULUS


def describe(total: int) -> str:
    """Return the state of the objects in a sum; 0 is the sum of none."""
    return f"v2:{digest_of(total.to_bytes(_BYTES, 'little'))}"


def is_state_of(state: str, rows: Iterable[Row]) -> bool:
    """Whether this release or an earlier one has recorded a state for these objects."""
    return state == (_describe_in_v1(rows) if state.startswith("v1:") else describe(reduce(add, rows, 0)))


def _weigh(row: Row) -> int:
    text = _ENCODE((*row.key, row.digest, row.entry_hash))
    return int.from_bytes(hashlib.shake_128(text.encode()).digest(_BYTES), "little")


def _describe_in_v1(rows: Iterable[Row]) -> str:
    return f"v1:{digest_of_json(sorted((*row.key, row.digest, row.entry_hash) for row in rows))}"
