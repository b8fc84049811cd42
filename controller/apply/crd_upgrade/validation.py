"""Validate a custom resource that was pruned and defaulted (admission.py) against a schema.

The dialect is Kubernetes' own, not JSON Schema's: `nullable`, `x-kubernetes-int-or-string`, embedded resources, lists
that are sets or maps, `exclusiveMaximum` as a flag, RE2. `metadata` counts only if the schema constrains its name.
Not here: `x-kubernetes-validations`, which are not evaluated.

No reason quotes a value of the object, which may be a secret; what the schema says is quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from controller.apply.crd_upgrade.admission import EMBEDDED, TYPE_META
from controller.apply.crd_upgrade.checks import INT_OR_STRING
from controller.apply.crd_upgrade.definition import Schema
from controller.apply.crd_upgrade.finding import canonical, compact, listed, same
from controller.apply.crd_upgrade.formats import has_format, has_range, matches
from controller.apply.crd_upgrade.schema import ROOT
from controller.untrusted import mapping, number, sequence, text


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of a schema."""

    field: str
    """In the object, such as `spec.ports[0].name`; empty for the object itself."""
    path: str
    """In the schema, such as `^.spec.ports.items.name`."""
    reason: str


@dataclass(frozen=True, slots=True)
class _Location:
    """A place in an object and in its schema."""

    field: str
    path: str

    def at(self, name: str, step: str = "") -> _Location:
        """Return the location of a field; `step` is its name in the schema, if different."""
        return _Location(f"{self.field}.{name}" if self.field else name, f"{self.path}.{step or name}")

    def item(self, index: int) -> _Location:
        """Return the location of a list item."""
        return _Location(f"{self.field}[{index}]", f"{self.path}.items")

    def found(self, reason: str) -> Violation:
        """Return a violation here."""
        return Violation(self.field, self.path, reason)


Checks = Callable[[Any, Schema, _Location], Iterator[Violation]]


def validate(manifest: Mapping[str, Any], schema: Schema) -> Iterator[Violation]:
    """Yield the violations of a custom resource."""
    return _validate(_only_name(manifest), _without_metadata(schema), _Location("", ROOT))


def _only_name(manifest: Mapping[str, Any]) -> dict[str, Any]:
    metadata = mapping(manifest, "metadata")
    return {**manifest, "metadata": {name: metadata[name] for name in ("name", "generateName") if name in metadata}}


def _without_metadata(schema: Schema) -> Schema:
    """Return a schema of a resource that allows any metadata, except for the name."""
    properties = mapping(schema, "properties")
    metadata = mapping(properties, "metadata", "properties")
    named = {name: metadata[name] for name in ("name", "generateName") if name in metadata}
    return {**schema, "properties": {**properties, "metadata": {"type": "object", "properties": named}}}


def _validate(value: Any, schema: Schema, place: _Location) -> Iterator[Violation]:
    is_null = value is None and schema.get("nullable") is True
    if not is_null and (reason := _wrong_type(value, schema)):
        yield place.found(reason)
        return
    # Null is never among enumerated values, even if it is enumerated.
    if (allowed := sequence(schema, "enum")) and (is_null or not any(same(value, each) for each in allowed)):
        yield place.found(f"must be one of {listed(allowed)}")
    if is_null:
        return
    for kind, checks in _CHECKS:
        if isinstance(value, kind) and not isinstance(value, bool):
            yield from checks(value, schema, place)
    yield from _combined(value, schema, place)


def _wrong_type(value: Any, schema: Schema) -> str:
    if schema.get(INT_OR_STRING) is True:
        return "" if isinstance(value, str) or _is_integer(value) else "must be an integer or a string"
    type_ = text(schema, "type")
    return "" if _TYPES.get(type_, lambda _: True)(value) else f"must be of type {type_}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": _is_number,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


# values of one type


def _text(value: str, schema: Schema, place: _Location) -> Iterator[Violation]:
    yield from _sized(len(value), schema, place, "Length", "characters")
    if (pattern := text(schema, "pattern")) and not matches(value, pattern):
        yield place.found(f"does not match the pattern {compact(pattern)}")
    if (name := text(schema, "format")) and not has_format(value, name):
        yield place.found(f"does not have the format {name}")


def _numeric(value: float, schema: Schema, place: _Location) -> Iterator[Violation]:
    most, least, step = (number(schema.get(name)) for name in ("maximum", "minimum", "multipleOf"))
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        yield place.found(f"is above the maximum {compact(most)}" if value > most else f"is not below {compact(most)}")
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        yield place.found(
            f"is below the minimum {compact(least)}" if value < least else f"is not above {compact(least)}"
        )
    if not has_range(value, text(schema, "type"), text(schema, "format")):
        yield place.found(f"does not have the format {schema['format']}")
    if step and Fraction(str(value)) % Fraction(str(step)):
        yield place.found(f"must be a multiple of {compact(step)}")


def _array(value: list[Any], schema: Schema, place: _Location) -> Iterator[Violation]:
    yield from _sized(len(value), schema, place, "Items", "items")
    if (schema.get("uniqueItems") or schema.get("x-kubernetes-list-type") == "set") and _has_duplicates(value):
        yield place.found("has duplicate items")
    if schema.get("x-kubernetes-list-type") == "map":
        keys = list(map(text, sequence(schema, "x-kubernetes-list-map-keys")))
        if _has_duplicates([{key: mapping(item).get(key) for key in keys} for item in value]):
            yield place.found(f"has two items with the same {' and '.join(keys)}")
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from _validate(item, items, place.item(index))


def _object(value: Mapping[str, Any], schema: Schema, place: _Location) -> Iterator[Violation]:
    yield from _sized(len(value), schema, place, "Properties", "fields")
    for name in map(text, sequence(schema, "required")):
        if name not in value:
            yield place.at(name).found("is required")
    if schema.get(EMBEDDED) is True:
        yield from (place.at(name).found("is required") for name in TYPE_META[:2] if not value.get(name))
    properties, others = mapping(schema, "properties"), schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            yield from _validate(item, mapping(properties[name]), place.at(name))
        elif isinstance(others, dict):
            yield from _validate(item, others, place.at(name, "additionalProperties"))


def _sized(size: int, schema: Schema, place: _Location, suffix: str, unit: str) -> Iterator[Violation]:
    most, least = number(schema.get(f"max{suffix}")), number(schema.get(f"min{suffix}"))
    if most is not None and size > most:
        yield place.found(f"has more than {compact(most)} {unit}")
    if least is not None and size < least:
        yield place.found(f"has fewer than {compact(least)} {unit}")


def _has_duplicates(items: list[Any]) -> bool:
    return len(set(map(canonical, items))) < len(items)


_CHECKS: tuple[tuple[Any, Checks], ...] = ((str, _text), (int | float, _numeric), (list, _array), (dict, _object))


# several schemas at once


def _combined(value: Any, schema: Schema, place: _Location) -> Iterator[Violation]:
    for part in sequence(schema, "allOf"):
        yield from _validate(value, mapping(part), place)
    if (parts := sequence(schema, "anyOf")) and not _count_fitting(value, parts, place):
        yield place.found("must match a schema of anyOf")
    if (parts := sequence(schema, "oneOf")) and (count := _count_fitting(value, parts, place)) != 1:
        yield place.found(f"must match one schema of oneOf, but matches {count or 'none'}")
    if (part := schema.get("not")) is not None and _count_fitting(value, [part], place):
        yield place.found('must not match the schema of "not"')


def _count_fitting(value: Any, schemas: Sequence[Any], place: _Location) -> int:
    return sum(not any(_validate(value, mapping(schema), place)) for schema in schemas)
