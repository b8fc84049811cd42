"""Fields that are set only at creation, and objects whose drift is accepted (README.md, Drift). Pure.

Rules come from spec.drift.ignore, and from annotations and autoscalers in the bundle. Not here: removing ignored fields
from our managedFields entry (object/managed_fields.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api import names
from api.v1alpha2.fields import parse_field_path
from controller.observe.records import ObjectKey, key_of

Path = tuple[str, ...]
Manifest = Mapping[str, Any]

REPLICAS: Path = ("spec", "replicas")
_ABSENT = object()
# The identity of an object cannot be ignored.
_IDENTITY = frozenset({("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")})
# Commas between paths, not those in a quoted key.
_SEPARATOR = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')


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
