"""What a change of the schema of a CustomResourceDefinition means for existing objects. Pure.

A node that only the new schema has is never a change, and a removed one is a single change, without its subtree. Inside
`allOf` and `anyOf`, where every node is a constraint, it is the other way round: a new node narrows, and a removed one
does not. `oneOf` and `not`, where wider and narrower swap, are compared as a whole by their rules, and so is
`additionalProperties` if it is true or false.

The source of the formats: `strfmt` of k8s.io/kube-openapi, and `supportedVersionedFormats` of k8s.io/apiextensions. RE2
matches, since its dialect is not Python's, and since its time is linear in a text that any user may write.

A, the whole definition; B, each version with itself; C, the served versions of the new definition with each other,
unless a webhook converts between them. Findings of C that the definition on the cluster also has are dropped.

A rule compares one field of two nodes and reports what is narrower. A wider field is allowed, but some warn since
clients rely on them. A field without a rule is `unhandled`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any

import re2

from api.v1alpha2.policies import CrdCheck, Enforcement
from controller.apply.crd_upgrade.definition import (
    CheckFinding,
    CustomResourceDefinition,
    Schema,
    Version,
    canonical,
    compact,
    listed,
    same,
)
from controller.untrusted import mapping, number, path_below, sequence, text

ROOT = "^"
MOST_PAIRED = 6
"""Versions that are served at once, up to which each is compared with each; of more, each with the next."""
_INT_OR_STRING_ALTERNATIVES = [{"type": "integer"}, {"type": "string"}]
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_LETTER = r"a-zA-Z0-9\p{S}\p{L}"
_UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}$"
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DURATION = (
    r"(ns|us|µs|μs|ms|s|m|h|d|w|(nano|micro|milli)s(econds?)?|sec(onds?)?|min(utes?)?|h(ou)?rs?|days?|w(ee)?ks?)"
)
_PATTERNS: Mapping[str, str] = {
    "bsonobjectid": r"^[0-9a-fA-F]{24}$",
    "uri": r"^(/|[a-zA-Z][-+.a-zA-Z0-9]*:)[^\x00-\x20\x7f]*$",
    "email": r"^[^@]*[^@\s]@[^@\s]+$|<[^@\s]+@[^@\s]+>$",
    "hostname": (
        rf"^([{_LETTER}]((-?[{_LETTER}]{{0,62}})?)"
        rf"|([{_LETTER}](([-{_LETTER}]{{0,61}}[{_LETTER}])?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ),
    "mac": (
        r"^[0-9a-fA-F]{2}(([:-][0-9a-fA-F]{2}){5}|([:-][0-9a-fA-F]{2}){7}|([:-][0-9a-fA-F]{2}){19})$"
        r"|^[0-9a-fA-F]{4}((\.[0-9a-fA-F]{4}){2}|(\.[0-9a-fA-F]{4}){3}|(\.[0-9a-fA-F]{4}){9})$"
    ),
    "uuid": _UUID % ("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _UUID % ("3", "[0-9a-f]"),
    "uuid4": _UUID % ("4", "[89ab]"),
    "uuid5": _UUID % ("5", "[89ab]"),
    "ssn": r"^\d{3}[- ]?\d{2}[- ]?\d{4}$",
    "hexcolor": r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$",
    "rgbcolor": r"^rgb\(\s*(\d{1,2}|1\d\d|2[0-4]\d|25[0-5])(\s*,\s*(\d{1,2}|1\d\d|2[0-4]\d|25[0-5])){2}\s*\)$",
    "byte": r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$",
    "duration": rf"^[-+]?(0|(\d+(\.\d*)?|\.\d+)\s*{_DURATION}(\s*(\d+(\.\d*)?|\.\d+)\s*{_DURATION})*)$",
    "datetime": (
        r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)"
        r"([.,]\d+)?([Zz]|[-+]\d{2}:?\d{2})?$"
    ),
    "k8sshortname": rf"^{_LABEL}$",
    "k8slongname": rf"^{_LABEL}(\.{_LABEL})*$",
}
_LARGEST_FLOAT = 3.4028234663852886e38
_RANGES: Mapping[tuple[str, str], tuple[float, float]] = {
    ("integer", "int32"): (-(2**31), 2**31 - 1),
    ("integer", "int64"): (-(2**63), 2**63 - 1),
    ("number", "float"): (-_LARGEST_FLOAT, _LARGEST_FLOAT),
}
WALKED = frozenset({"properties", "items", "additionalProperties", "allOf", "anyOf"})
"""Fields that are compared as nodes of their own."""
_DOCUMENTATION = ("description", "title", "example", "externalDocs")
INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True, slots=True)
class Difference:
    """One change, and its path in the schema."""

    path: str
    change: SchemaChange
    gone: bool = False
    """Whether the new schema lacks the node: the change is that to an empty schema."""


def compare_schemas(old: Schema, new: Schema) -> list[Difference]:
    """Return what is narrower, or otherwise different, in the new schema."""
    return list(_compare(old, new, ROOT))


def narrows_unknown_fields(old: Schema, new: Schema) -> bool:
    """Whether there are new nodes where the old schema allowed anything: stored values may not match them."""
    took_anything = bool(old.get(PRESERVE)) or old.get("additionalProperties") is True
    before, after = _children(old), _children(new)
    if took_anything and after.keys() - before.keys():
        return True
    return any(narrows_unknown_fields(child, after[path]) for path, child in before.items() if path in after)


def _compare(old: Schema, new: Schema, path: str) -> Iterator[Difference]:
    for change in compare_fields(old, new):
        yield Difference(path, change)
    yield from _compare_openness(old, new, path)
    yield from _compare_combinations(old, new, path)
    after = _children(new)
    for suffix, child in _children(old).items():
        if suffix in after:
            yield from _compare(child, after[suffix], path_below(path, suffix))
        else:
            yield Difference(path_below(path, suffix), _removal(child), gone=True)


def _children(schema: Schema) -> dict[str, Schema]:
    """Return the nodes directly below a node, by their suffix to its path."""
    children = {f".{name}": mapping(value) for name, value in mapping(schema, "properties").items()}
    if isinstance(schema.get("items"), dict):
        children[".items"] = schema["items"]
    if isinstance(schema.get("additionalProperties"), dict):
        children[".additionalProperties"] = schema["additionalProperties"]
    return children


def _removal(schema: Schema) -> SchemaChange:
    if schema.get("type"):
        return SchemaChange("type", f'type changed : {compact(schema["type"])} -> ""')
    return SchemaChange("unhandled", "unhandled changes found (node without type removed)")


def _compare_openness(old: Schema, new: Schema, path: str) -> Iterator[Difference]:
    """Compare additionalProperties if it allowed everything and so has no node."""
    before, after = old.get("additionalProperties"), new.get("additionalProperties")
    if before is True and after is not True:
        text = f"unhandled changes found (additionalProperties true -> {compact(after)})"
        yield Difference(path, SchemaChange("unhandled", text))


# allOf and anyOf


def _compare_combinations(old: Schema, new: Schema, path: str) -> Iterator[Difference]:
    if "anyOf" in old or "anyOf" in new:
        yield from _compare_alternatives(_any_of(old), _any_of(new), path)
    if "allOf" in old or "allOf" in new:
        yield from _compare_demands(sequence(old, "allOf"), sequence(new, "allOf"), path)


def _any_of(schema: Schema) -> Sequence[Any]:
    """Return anyOf, except where it only repeats int-or-string, as some generators do."""
    alternatives = sequence(schema, "anyOf")
    return [] if schema.get(INT_OR_STRING) and alternatives == _INT_OR_STRING_ALTERNATIVES else alternatives


def _compare_alternatives(old: Sequence[Any], new: Sequence[Any], path: str) -> Iterator[Difference]:
    lost, gained = without_equal(old, new), without_equal(new, old)
    if new and not old:
        text = f"anyOf constraint added when there was none previously: {compact(new)}"
        yield Difference(path, SchemaChange("anyOf", text))
    if not new or not old:
        return
    yield from _compare_paired(lost, gained, old, path, "anyOf")
    if rest := lost[len(gained) :]:
        yield Difference(path, SchemaChange("anyOf", f"allowed anyOf schemas removed: {compact(rest)}"))


def _compare_demands(old: Sequence[Any], new: Sequence[Any], path: str) -> Iterator[Difference]:
    lost, gained = without_equal(old, new), without_equal(new, old)
    yield from _compare_paired(lost, gained, old, path, "allOf")
    rest = gained[len(lost) :]
    if rest and not old:
        text = f"allOf constraint added when there was none previously: {compact(rest)}"
        yield Difference(path, SchemaChange("allOf", text))
    elif rest:
        yield Difference(path, SchemaChange("allOf", f"required allOf schemas added: {compact(rest)}"))


def _compare_paired(
    lost: Sequence[Any], gained: Sequence[Any], old: Sequence[Any], path: str, check: CrdCheck
) -> Iterator[Difference]:
    """Compare schemas that were probably changed in place: the first removed one with the first new one."""
    places = {id(schema): index for index, schema in enumerate(old)}
    for before, after in zip(lost, gained, strict=False):
        below = path_below(path, f".{check}[{places[id(before)]}]")
        yield from _compare_constraints(mapping(before), mapping(after), below)


def _compare_constraints(old: Schema, new: Schema, path: str) -> Iterator[Difference]:
    for change in compare_fields(old, new):
        yield Difference(path, change)
    yield from _compare_combinations(old, new, path)
    before, after = _children(old), _children(new)
    for suffix in dict.fromkeys((*before, *after)):
        below = path_below(path, suffix)
        yield from _compare_constraints(before.get(suffix, {}), after.get(suffix, {}), below)


def has_format(text: str, name: str) -> bool:
    """Whether a text has a format; true if the API server does not know the format."""
    known = name.replace("-", "")
    if known in _PATTERNS:
        return matches(text, _PATTERNS[known])
    rule = _RULES.get(known)
    return rule is None or rule(text)


def has_range(value: float, type_: str, name: str) -> bool:
    """Whether a number is in the range of its format; true if the API server does not check that."""
    least, most = _RANGES.get((type_, name), (value, value))
    return least <= value <= most


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern matches anywhere in a text; true for a malformed one, which the API server refuses."""
    compiled = _compiled(pattern)
    return compiled is None or compiled.search(text) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error:
        return None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def _rule(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return _rule


def _cidr(text: str) -> None:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit():
        raise ValueError(text)
    ipaddress.ip_interface(f"{address}/{bits}")


def _is_isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not matches(digits, r"^[0-9]{9}[0-9X]$"):
        return False
    return sum((10 - i) * (10 if digit == "X" else int(digit)) for i, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    return matches(digits, r"^[0-9]{13}$") and sum(int(d) * (1, 3)[i % 2] for i, d in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = "".join(character for character in text if character in "0123456789")
    doubled = (int(digit) * (1, 2)[index % 2] for index, digit in enumerate(reversed(digits)))
    return matches(digits, r"^[0-9]{12,19}$") and sum(sum(divmod(value, 10)) for value in doubled) % 10 == 0


_RULES: Mapping[str, Callable[[str], bool]] = {
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(_cidr),
    "date": _parses(date.fromisoformat),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
}


def compare(old: CustomResourceDefinition, new: CustomResourceDefinition) -> list[CheckFinding]:
    """Return what an upgrade changes for users, from the definition on the cluster to the one to be applied."""
    return [*_compare_whole(old, new), *_compare_versions(old, new), *_compare_served(old, new)]


# A: the whole definition


def _compare_whole(old: CustomResourceDefinition, new: CustomResourceDefinition) -> Iterator[CheckFinding]:
    if old.scope != new.scope:
        yield CheckFinding(check="scope", text=f"scope changed : {compact(old.scope)} -> {compact(new.scope)}")
    stored = [name for name in old.stored if name not in new.versions]
    if stored:
        yield CheckFinding(check="storedVersionRemoval", text=f"stored versions removed : [{' '.join(sorted(stored))}]")
    still_served = {version.name for version in new.served}
    served = [v.name for v in old.served if v.name not in still_served and v.name not in stored]
    if served:
        text = f"served versions removed : [{' '.join(sorted(served))}]"
        yield CheckFinding(check="servedVersionRemoval", text=text, level="Warn")


# B: each version with itself


def _compare_versions(old: CustomResourceDefinition, new: CustomResourceDefinition) -> Iterator[CheckFinding]:
    for name, version in old.versions.items():
        if name in new.versions:
            for difference in compare_schemas(version.schema, new.versions[name].schema):
                yield _in_version(name, difference)


def _in_version(name: str, difference: Difference) -> CheckFinding:
    path = difference.path
    if difference.gone:
        text = f"removed field : {name}.{path}"
        return CheckFinding(check="existingFieldRemoval", text=text, version=name, path=path)
    return _finding(name, difference)


# C: served versions with each other


def _compare_served(old: CustomResourceDefinition, new: CustomResourceDefinition) -> list[CheckFinding]:
    known = {(finding.version, finding.line) for finding in _compare_pairs(old)}
    return [finding for finding in _compare_pairs(new) if (finding.version, finding.line) not in known]


def _compare_pairs(definition: CustomResourceDefinition) -> Iterator[CheckFinding]:
    if definition.converts:
        return
    served = definition.served
    for lower, higher in combinations(served, 2) if len(served) <= MOST_PAIRED else pairwise(served):
        for difference in compare_schemas(lower.schema, higher.schema):
            yield _finding(_pair(lower, higher), difference)


def _pair(lower: Version, higher: Version) -> str:
    return f"{lower.name} -> {higher.name}"


def _finding(version: str, difference: Difference) -> CheckFinding:
    change = difference.change
    return CheckFinding(check=change.check, text=change.text, version=version, path=difference.path, level=change.level)


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
        if rule := _CHECKS_RULES.get(name):
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


_CHECKS_RULES: Mapping[str, Rule] = {
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
