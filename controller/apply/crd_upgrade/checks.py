"""What may not change in one node of a schema: one rule per field, with the texts of crdify.

A rule compares one field of two nodes and reports what is narrower. A wider field is allowed, but some warn since
clients rely on them. A field without a rule is `unhandled`. Not here: the nodes below (schema.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from api.v1alpha2.policies import CrdCheck, Enforcement
from controller.apply.crd_upgrade.definition import Schema
from controller.apply.crd_upgrade.finding import canonical, compact, listed, same
from controller.untrusted import mapping, number, sequence, text

WALKED = frozenset({"properties", "items", "additionalProperties", "allOf", "anyOf"})
"""Fields that are compared as nodes of their own."""
_DOCUMENTATION = ("description", "title", "example", "externalDocs")
INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The finding of a rule in one node."""

    check: CrdCheck
    text: str
    level: Enforcement = "Error"


Rule = Callable[[Schema, Schema], Iterator[SchemaChange]]


def compare_fields(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    """Compare the fields of two nodes, without the nodes below."""
    unhandled = []
    for name in dict.fromkeys((*old, *new)):
        if name in WALKED:
            continue
        if rule := _RULES.get(name):
            yield from rule(old, new)
        elif not same(old.get(name), new.get(name)):
            unhandled.append(name)
    if unhandled:
        yield SchemaChange("unhandled", _unhandled(old, new, unhandled))


def meaning(schema: Any) -> Any:
    """Return a schema without its documentation, to compare the meaning of two."""
    if not isinstance(schema, dict):
        return schema
    return {name: _meaning_of(name, value) for name, value in schema.items() if name not in _DOCUMENTATION}


def without_equal(schemas: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Return the schemas whose meaning differs from that of each other schema."""
    meanings = {canonical(meaning(other)) for other in others}
    return [schema for schema in schemas if canonical(meaning(schema)) not in meanings]


def _meaning_of(name: str, value: Any) -> Any:
    if name == "properties":
        return {key: meaning(item) for key, item in mapping(value).items()}
    if name in ("allOf", "anyOf", "oneOf"):
        return [meaning(item) for item in sequence(value)]
    return meaning(value) if name in ("items", "additionalProperties", "not") else value


def _unhandled(old: Schema, new: Schema, names: Iterable[str]) -> str:
    changes = (f"{name} {compact(old.get(name))} -> {compact(new.get(name))}" for name in sorted(names))
    return f"unhandled changes found ({'; '.join(changes)})"


# rules


def _type(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    before, after = old.get("type", ""), new.get("type", "")
    if before != after:
        yield SchemaChange("type", f"type changed : {compact(before)} -> {compact(after)}")


def _required(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    before = set(map(text, sequence(old, "required")))
    after = filter(None, map(text, sequence(new, "required")))
    added = [name for name in after if name not in before and not _is_defaulted(new, name)]
    if added:
        yield SchemaChange("required", f"new required fields: [{' '.join(sorted(added))}]")


def _is_defaulted(schema: Schema, name: str) -> bool:
    value = mapping(schema, "properties", name)
    return value.get("default") is not None


def _default(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    before, after = old.get("default"), new.get("default")
    if same(before, after):
        return
    if before is None:
        yield SchemaChange("default", f"default added when there was none previously : {_quoted(after)}")
    elif after is None:
        yield SchemaChange("default", f"default value removed : {_quoted(before)}")
    else:
        yield SchemaChange("default", f"default value changed : {_quoted(before)} -> {_quoted(after)}")


def _quoted(value: Any) -> str:
    return compact(compact(value))


def _enum(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    before, after = sequence(old, "enum"), sequence(new, "enum")
    allowed = set(map(canonical, after))
    removed = [value for value in before if canonical(value) not in allowed]
    if after and not before:
        yield SchemaChange("enum", f"enum constraint added when there was none previously : {listed(after)}")
    elif removed:
        level: Enforcement = "Error" if after else "Warn"
        yield SchemaChange("enum", f"allowed enum values removed : {listed(removed)}", level)


def _at_most(check: CrdCheck) -> Rule:
    def _rule(old: Schema, new: Schema) -> Iterator[SchemaChange]:
        before, after = number(old.get(check)), number(new.get(check))
        if after is not None and before is None:
            yield SchemaChange(check, _added(check, after))
        elif after is not None and before is not None and after < before:
            yield SchemaChange(check, f"{check} decreased : {compact(before)} -> {compact(after)}")

    return _rule


def _at_least(check: CrdCheck, floor: float | None = None) -> Rule:
    """Return the rule of a lower bound; bounds up to `floor` have no effect."""

    def _rule(old: Schema, new: Schema) -> Iterator[SchemaChange]:
        before, after = number(old.get(check)), number(new.get(check))
        if after is None or (floor is not None and after <= floor):
            return
        if before is None:
            yield SchemaChange(check, _added(check, after))
        elif after > before:
            yield SchemaChange(check, f"{check} increased : {compact(before)} -> {compact(after)}")

    return _rule


def _added(check: str, value: Any) -> str:
    return f"{check} constraint added when there was none previously : {compact(value)}"


def _multiple_of(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    before, after = number(old.get("multipleOf")), number(new.get("multipleOf"))
    if after and not before:
        yield SchemaChange("multipleOf", _added("multipleOf", after))
    elif after and before and _exact(before) % _exact(after):
        yield SchemaChange("multipleOf", f"multipleOf changed : {compact(before)} -> {compact(after)}")


def _exact(value: float) -> Fraction:
    return Fraction(str(value))  # 0.1 as written, not as stored


def _added_flag(check: CrdCheck, field: str = "") -> Rule:
    """Return the rule of a field that narrows the schema when it is true."""

    def _rule(old: Schema, new: Schema) -> Iterator[SchemaChange]:
        if not old.get(field or check) and new.get(field or check):
            yield SchemaChange(check, f"{check} added : false -> true")

    return _rule


def _pattern(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    for change in _any_change("pattern", "pattern")(old, new):
        yield SchemaChange("pattern", change.text, "Error" if new.get("pattern") else "Warn")


def _nullable(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    before, after = bool(old.get("nullable")), bool(new.get("nullable"))
    if after and not before:
        yield SchemaChange("nullable", "nullable added : false -> true", "Warn")
    elif before and not after:
        yield SchemaChange("nullable", "nullable removed : true -> false")


def _any_change(
    check: CrdCheck, field: str, absent: Any = "", normal: Callable[[Any], Any] = lambda value: value
) -> Rule:
    """Return the rule of a field that may not change.

    Args:
        check: its name.
        field: its name in schemas.
        absent: the value that a missing field stands for.
        normal: makes values with the same meaning equal.
    """

    def _rule(old: Schema, new: Schema) -> Iterator[SchemaChange]:
        before, after = old.get(field) or absent, new.get(field) or absent
        if same(normal(before), normal(after)):
            return
        verb = "added" if field not in old else "removed" if field not in new else "changed"
        yield SchemaChange(check, f"{check} {verb} : {compact(before)} -> {compact(after)}")

    return _rule


def _one_of(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    before, after = sequence(old, "oneOf"), sequence(new, "oneOf")
    removed, added = without_equal(before, after), without_equal(after, before)
    if after and not before:
        yield SchemaChange("oneOf", f"oneOf constraint added when there was none previously: {compact(added)}")
        return
    if removed:
        yield SchemaChange("oneOf", f"allowed oneOf schemas removed: {compact(removed)}", "Error" if after else "Warn")
    if added:
        yield SchemaChange("oneOf", f"allowed oneOf schemas added: {compact(added)}")


def _not(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    before, after = old.get("not"), new.get("not")
    if after is None or same(meaning(before), meaning(after)):
        return
    if before is None:
        yield SchemaChange("not", f"not constraint added when there was none previously : {compact(after)}")
    else:
        yield SchemaChange("not", f"not changed : {compact(before)} -> {compact(after)}")


def _validations(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    before, after = _rules_of(old), _rules_of(new)
    known, kept = set(before), set(after)
    if added := [rule for rule in after if rule not in known]:
        yield SchemaChange("xvalidations", f"rules added : {listed(rule[0] for rule in added)}")
    if removed := [rule for rule in before if rule not in kept]:
        yield SchemaChange("xvalidations", f"rules removed : {listed(rule[0] for rule in removed)}", "Warn")


def _rules_of(schema: Schema) -> list[tuple[str, str, bool]]:
    """Return the identity of each rule of `x-kubernetes-validations`: a new message makes no new rule."""
    rules = map(mapping, sequence(schema, "x-kubernetes-validations"))
    return [
        (str(r.get("rule", "")), str(r.get("reason") or "FieldValueInvalid"), r.get("optionalOldSelf") is True)
        for r in rules
    ]


def _preserve(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    if old.get(PRESERVE) and not new.get(PRESERVE):
        yield SchemaChange("preserveUnknownFields", "preserveUnknownFields removed : true -> false")


def _documentation(field: str) -> Rule:
    def _rule(old: Schema, new: Schema) -> Iterator[SchemaChange]:
        if not same(old.get(field), new.get(field)):
            text = f"{field} changed : {compact(old.get(field, ''))} -> {compact(new.get(field, ''))}"
            yield SchemaChange("description", text, "None")

    return _rule


def _sorted(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, list) else value


_RULES: Mapping[str, Rule] = {
    "type": _type,
    "required": _required,
    "default": _default,
    "enum": _enum,
    "maximum": _at_most("maximum"),
    "maxLength": _at_most("maxLength"),
    "maxItems": _at_most("maxItems"),
    "maxProperties": _at_most("maxProperties"),
    "minimum": _at_least("minimum"),
    "minLength": _at_least("minLength", 0),
    "minItems": _at_least("minItems", 0),
    "minProperties": _at_least("minProperties", 0),
    "exclusiveMaximum": _added_flag("exclusiveMaximum"),
    "exclusiveMinimum": _added_flag("exclusiveMinimum"),
    "multipleOf": _multiple_of,
    "uniqueItems": _added_flag("uniqueItems"),
    "pattern": _pattern,
    "format": _any_change("format", "format"),
    "nullable": _nullable,
    "oneOf": _one_of,
    "not": _not,
    "x-kubernetes-validations": _validations,
    PRESERVE: _preserve,
    INT_OR_STRING: _any_change("intOrString", INT_OR_STRING, absent=False),
    "x-kubernetes-embedded-resource": _any_change("embeddedResource", "x-kubernetes-embedded-resource", absent=False),
    "x-kubernetes-list-type": _any_change("listType", "x-kubernetes-list-type", absent="atomic"),
    "x-kubernetes-list-map-keys": _any_change("listMapKeys", "x-kubernetes-list-map-keys", absent=[], normal=_sorted),
    "x-kubernetes-map-type": _any_change("mapType", "x-kubernetes-map-type", absent="granular"),
    **{name: _documentation(name) for name in _DOCUMENTATION},
}
