"""What a change of a CustomResourceDefinition means for its users and for existing objects (README.md). Pure.

Malformed fields read as missing: the API server refuses such a definition, and nothing here fails on it.

Compared are A, the whole definition; B, each version with itself; C, the served versions of the new definition with
each other, unless a webhook converts between them. Findings of C that the definition on the cluster also has are
dropped.

A node that only the new schema has is never a change, and a removed one is a single change, without its subtree. Inside
`allOf` and `anyOf`, where every node is a constraint, it is the other way round: a new node narrows, and a removed one
does not. `oneOf` and `not`, where wider and narrower swap, are compared as a whole by their rules, and so is
`additionalProperties` if it is true or false.

A rule compares one field of two nodes and reports what is narrower. A wider field is allowed, but some warn since
clients rely on them. A field without a rule is `unhandled`.

Not here: existing objects, and what is allowed in the end (crd_upgrade.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.policies import CrdCheck, CrdUpgradeRule, CrdUpgradeSafety, Enforcement
from rukpak.controller.kube.resources import Resource
from rukpak.controller.untrusted import mapping, mappings, number, path_below, sequence, text

Schema = Mapping[str, Any]
"""A node of an openAPIV3Schema."""
_PRIORITY = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STABILITY = {"alpha": 1, "beta": 2, None: 3}
_ORDER: tuple[Enforcement, ...] = ("None", "Warn", "Error")
LINES = 10
# The texts of these checks contain the location.
_UNPLACED = frozenset(
    {"scope", "existingFieldRemoval", "storedVersionRemoval", "servedVersionRemoval", "existingResources"}
)
ROOT = "^"
MOST_PAIRED = 6
"""Versions that are served at once, up to which each is compared with each; of more, each with the next."""
_INT_OR_STRING_ALTERNATIVES = [{"type": "integer"}, {"type": "string"}]
WALKED = frozenset({"properties", "items", "additionalProperties", "allOf", "anyOf"})
"""Fields that are compared as nodes of their own."""
_DOCUMENTATION = ("description", "title", "example", "externalDocs")
INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One of spec.versions."""

    name: str
    served: bool
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResourceDefinition:
    """The part of a CustomResourceDefinition that matters in an upgrade."""

    name: str
    scope: str
    resource: Resource
    """Of its objects, without a version."""
    versions: Mapping[str, Version] = field(default_factory=dict)
    """By name."""
    stored: tuple[str, ...] = ()
    """status.storedVersions."""
    converts: bool = False
    """Whether a webhook converts between the versions."""
    established: bool = False
    """Whether it was ever served, so that objects may exist."""
    exempt: bool = False
    """Whether its annotation turns off all checks."""

    @property
    def served(self) -> tuple[Version, ...]:
        """The served versions, by version priority, the lowest first."""
        return tuple(sorted((v for v in self.versions.values() if v.served), key=lambda v: priority(v.name)))


def read_definition(manifest: Mapping[str, Any]) -> CustomResourceDefinition:
    """Read a CustomResourceDefinition of `apiextensions.k8s.io/v1`."""
    metadata, spec, status = (mapping(manifest, name) for name in ("metadata", "spec", "status"))
    versions = [
        Version(
            name=str(version.get("name", "")),
            served=version.get("served") is True,
            schema=mapping(version, "schema", "openAPIV3Schema"),
        )
        for version in map(mapping, sequence(spec, "versions"))
    ]
    called, scope = mapping(spec, "names"), text(spec, "scope")
    return CustomResourceDefinition(
        name=text(metadata, "name"),
        scope=scope,
        resource=Resource(text(spec, "group"), "", text(called, "kind"), text(called, "plural"), scope == "Namespaced"),
        versions={version.name: version for version in versions},
        stored=tuple(str(name) for name in sequence(status, "storedVersions")),
        converts=mapping(spec, "conversion").get("strategy") == "Webhook",
        established=any(
            (condition.get("type"), condition.get("status")) == ("Established", "True")
            for condition in mappings(status, "conditions")
        ),
        exempt=mapping(metadata, "annotations").get(names.SAFE_CRD_UPGRADE_VALIDATION) == "false",
    )


def priority(version: str) -> tuple[int, ...]:
    """Return the sort key of a version name: v10 > v2 > v1 > v1beta1 > v1alpha1 > others.

    The source of the rule: `CompareKubeAwareVersionStrings` of k8s.io/apimachinery.
    """
    match = _PRIORITY.fullmatch(version)
    if match is None:
        return (0, *(-ord(letter) for letter in version), 1)  # the first by the alphabet is the highest
    return (_STABILITY[match[2]], int(match[1]), int(match[3] or 0))


def level_of(finding: CheckFinding, crd: str, safety: CrdUpgradeSafety) -> Enforcement:
    """Return the level of a finding.

    Args:
        finding: what was found.
        crd: name of the CustomResourceDefinition.
        safety: spec.crdUpgradeSafety.
    """
    level = _weaker(finding.level, safety.enforcement)
    for rule in safety.rules:
        if _matches(rule, finding, crd):
            level = rule.enforcement if finding.check in rule.checks else _weaker(finding.level, rule.enforcement)
    return level


def is_off(crd: str, safety: CrdUpgradeSafety, check: CrdCheck | None = None) -> bool:
    """Whether no finding about a definition, or by one check, would be reported."""
    levels = {safety.enforcement}
    for rule in safety.rules:
        if rule.crd in ("*", crd) and (check is None or not rule.checks or check in rule.checks):
            replaces = not rule.paths and (check is not None or not rule.checks)
            levels = {rule.enforcement} if replaces else levels | {rule.enforcement}
    return levels == {"None"}


def _weaker(level: Enforcement, other: Enforcement) -> Enforcement:
    return min(level, other, key=_ORDER.index)


def _matches(rule: CrdUpgradeRule, finding: CheckFinding, crd: str) -> bool:
    return (
        rule.crd in ("*", crd)
        and (not rule.checks or finding.check in rule.checks)
        and (not rule.paths or any(_is_below(finding.path, path) for path in rule.paths))
    )


def _is_below(path: str, beginning: str) -> bool:
    return path == beginning or path.startswith((f"{beginning}.", f"{beginning}["))


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding of a check."""

    check: CrdCheck
    text: str
    level: Enforcement = "Error"
    """Unless a rule names its check."""
    path: str = ""
    """Path of the node in the schema, such as `^.spec.color`; may be empty."""
    version: str = ""
    """`v1`, or `v1 -> v2` between two versions; empty for the whole definition."""

    @property
    def line(self) -> str:
        """The line of a message."""
        where = f"{self.version}: {self.path}: " if self.check not in _UNPLACED else ""
        return f"{where}{self.check}: {self.text}"


def tell(findings: Iterable[CheckFinding], characters: int) -> list[str]:
    """Return the lines of findings, sorted by version, path and check, existing objects last.

    At most `LINES` lines and about so many characters; the last line counts the others.
    """
    lines = list(dict.fromkeys(finding.line for finding in sorted(findings, key=_order)))
    shown: list[str] = []
    for line in lines[:LINES]:
        if shown and sum(map(len, shown)) + len(line) > characters:
            break
        shown.append(line if len(line) <= characters else f"{line[: characters - 1]}…")
    return shown if len(shown) == len(lines) else [*shown, f"{len(lines) - len(shown)} more"]


def _order(finding: CheckFinding) -> tuple[object, ...]:
    return (finding.check == "existingResources", finding.version, finding.path, finding.check, finding.text)


def compact(value: Any) -> str:
    """Return a value as JSON, on one line, numbers without needless decimals."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def listed(values: Iterable[Any]) -> str:
    """Return values in the form of lists in messages: `["a" "b"]`, sorted."""
    return f"[{' '.join(sorted(map(compact, values)))}]"


def canonical(value: Any) -> str:
    """Return a text that is equal for equal JSON values, for fast lookups."""
    return json.dumps(_plain(value), sort_keys=True)


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, but not true as in Python."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def compare_schemas(old: Schema, new: Schema, version: str = "") -> list[CheckFinding]:
    """Return what is narrower, or otherwise different, in the new schema.

    Args:
        old: the schema before.
        new: the schema after.
        version: the version that has both; empty: they are those of two versions.
    """
    return list(_compare(old, new, ROOT, version))


def _removal(path: str, schema: Schema, version: str) -> CheckFinding:
    if version:
        return CheckFinding("existingFieldRemoval", f"removed field : {version}.{path}", path=path)
    if schema.get("type"):
        return CheckFinding("type", f'type changed : {compact(schema["type"])} -> ""', path=path)
    return CheckFinding("unhandled", "unhandled changes found (node without type removed)", path=path)


def narrows_unknown_fields(old: Schema, new: Schema) -> bool:
    """Whether there are new nodes where the old schema allowed anything: stored values may not match them."""
    took_anything = bool(old.get(PRESERVE)) or old.get("additionalProperties") is True
    before, after = _children(old), _children(new)
    if took_anything and after.keys() - before.keys():
        return True
    return any(narrows_unknown_fields(child, after[path]) for path, child in before.items() if path in after)


def _compare(old: Schema, new: Schema, path: str, version: str) -> Iterator[CheckFinding]:
    for change in compare_fields(old, new):
        yield replace(change, path=path)
    before, after = old.get("additionalProperties"), new.get("additionalProperties")
    if before is True and after is not True:
        text = f"unhandled changes found (additionalProperties true -> {compact(after)})"
        yield CheckFinding("unhandled", text, path=path)
    yield from _compare_combinations(old, new, path)
    kept = _children(new)
    for suffix, child in _children(old).items():
        if suffix in kept:
            yield from _compare(child, kept[suffix], path_below(path, suffix), version)
        else:
            yield _removal(path_below(path, suffix), child, version)


def _children(schema: Schema) -> dict[str, Schema]:
    children = {f".{name}": mapping(value) for name, value in mapping(schema, "properties").items()}
    if isinstance(schema.get("items"), dict):
        children[".items"] = schema["items"]
    if isinstance(schema.get("additionalProperties"), dict):
        children[".additionalProperties"] = schema["additionalProperties"]
    return children


# allOf and anyOf


def _compare_combinations(old: Schema, new: Schema, path: str) -> Iterator[CheckFinding]:
    yield from _compare_lists("anyOf", _any_of(old), _any_of(new), path)
    yield from _compare_lists("allOf", sequence(old, "allOf"), sequence(new, "allOf"), path)


def _any_of(schema: Schema) -> Sequence[Any]:
    # Some generators only repeat int-or-string there.
    alternatives = sequence(schema, "anyOf")
    return [] if schema.get(INT_OR_STRING) and alternatives == _INT_OR_STRING_ALTERNATIVES else alternatives


def _compare_lists(check: CrdCheck, old: Sequence[Any], new: Sequence[Any], path: str) -> Iterator[CheckFinding]:
    if not old and new:
        text = f"{check} constraint added when there was none previously: {compact(new)}"
        yield CheckFinding(check, text, path=path)
    if not old or not new:
        return
    lost, gained = without_equal(old, new), without_equal(new, old)
    places = {id(schema): index for index, schema in enumerate(old)}
    for before, after in zip(lost, gained, strict=False):
        below = path_below(path, f".{check}[{places[id(before)]}]")
        yield from _compare_constraints(mapping(before), mapping(after), below)
    # One more narrows allOf, and one less anyOf.
    change, rest = ("required allOf schemas added", gained[len(lost) :])
    if check == "anyOf":
        change, rest = ("allowed anyOf schemas removed", lost[len(gained) :])
    if rest:
        yield CheckFinding(check, f"{change}: {compact(rest)}", path=path)


def _compare_constraints(old: Schema, new: Schema, path: str) -> Iterator[CheckFinding]:
    for change in compare_fields(old, new):
        yield replace(change, path=path)
    yield from _compare_combinations(old, new, path)
    before, after = _children(old), _children(new)
    for suffix in dict.fromkeys((*before, *after)):
        below = path_below(path, suffix)
        yield from _compare_constraints(before.get(suffix, {}), after.get(suffix, {}), below)


def compare(old: CustomResourceDefinition, new: CustomResourceDefinition) -> list[CheckFinding]:
    """Return what an upgrade changes for users, from the definition on the cluster to the one to be applied."""
    return [*_compare_whole(old, new), *_compare_versions(old, new), *_compare_served(old, new)]


# A: the whole definition


def _compare_whole(old: CustomResourceDefinition, new: CustomResourceDefinition) -> Iterator[CheckFinding]:
    if old.scope != new.scope:
        yield CheckFinding("scope", f"scope changed : {compact(old.scope)} -> {compact(new.scope)}")
    stored = [name for name in old.stored if name not in new.versions]
    if stored:
        yield CheckFinding("storedVersionRemoval", f"stored versions removed : [{' '.join(sorted(stored))}]")
    still_served = {version.name for version in new.served}
    served = [v.name for v in old.served if v.name not in still_served and v.name not in stored]
    if served:
        text = f"served versions removed : [{' '.join(sorted(served))}]"
        yield CheckFinding("servedVersionRemoval", text, "Warn")


# B: each version with itself


def _compare_versions(old: CustomResourceDefinition, new: CustomResourceDefinition) -> Iterator[CheckFinding]:
    for name, version in old.versions.items():
        if name in new.versions:
            found = compare_schemas(version.schema, new.versions[name].schema, name)
            yield from (replace(finding, version=name) for finding in found)


# C: served versions with each other


def _compare_served(old: CustomResourceDefinition, new: CustomResourceDefinition) -> list[CheckFinding]:
    known = {(finding.version, finding.line) for finding in _compare_pairs(old)}
    return [finding for finding in _compare_pairs(new) if (finding.version, finding.line) not in known]


def _compare_pairs(definition: CustomResourceDefinition) -> Iterator[CheckFinding]:
    if definition.converts:
        return
    served = definition.served
    for lower, higher in combinations(served, 2) if len(served) <= MOST_PAIRED else pairwise(served):
        found = compare_schemas(lower.schema, higher.schema)
        yield from (replace(finding, version=f"{lower.name} -> {higher.name}") for finding in found)


Rule = Callable[[Schema, Schema], Iterator[CheckFinding]]


def compare_fields(old: Schema, new: Schema) -> Iterator[CheckFinding]:
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
        yield CheckFinding("unhandled", _unhandled(old, new, unhandled))


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


def _type(old: Schema, new: Schema) -> Iterator[CheckFinding]:
    before, after = old.get("type", ""), new.get("type", "")
    if before != after:
        yield CheckFinding("type", f"type changed : {compact(before)} -> {compact(after)}")


def _required(old: Schema, new: Schema) -> Iterator[CheckFinding]:
    before = set(map(text, sequence(old, "required")))
    after = filter(None, map(text, sequence(new, "required")))
    added = [name for name in after if name not in before and mapping(new, "properties", name).get("default") is None]
    if added:
        yield CheckFinding("required", f"new required fields: [{' '.join(sorted(added))}]")


def _default(old: Schema, new: Schema) -> Iterator[CheckFinding]:
    before, after = old.get("default"), new.get("default")
    if same(before, after):
        return
    if before is None:
        yield CheckFinding("default", f"default added when there was none previously : {_quoted(after)}")
    elif after is None:
        yield CheckFinding("default", f"default value removed : {_quoted(before)}")
    else:
        yield CheckFinding("default", f"default value changed : {_quoted(before)} -> {_quoted(after)}")


def _quoted(value: Any) -> str:
    return compact(compact(value))


def _enum(old: Schema, new: Schema) -> Iterator[CheckFinding]:
    before, after = sequence(old, "enum"), sequence(new, "enum")
    allowed = set(map(canonical, after))
    removed = [value for value in before if canonical(value) not in allowed]
    if after and not before:
        yield CheckFinding("enum", f"enum constraint added when there was none previously : {listed(after)}")
    elif removed:
        level: Enforcement = "Error" if after else "Warn"
        yield CheckFinding("enum", f"allowed enum values removed : {listed(removed)}", level)


def _bound(check: CrdCheck, floor: float | None = None) -> Rule:
    # Bounds up to `floor` have no effect.
    is_upper = check.startswith("max")

    def _rule(old: Schema, new: Schema) -> Iterator[CheckFinding]:
        before, after = number(old.get(check)), number(new.get(check))
        if after is None or (floor is not None and after <= floor):
            return
        if before is None:
            yield CheckFinding(check, _added(check, after))
        elif after < before if is_upper else after > before:
            change = "decreased" if is_upper else "increased"
            yield CheckFinding(check, f"{check} {change} : {compact(before)} -> {compact(after)}")

    return _rule


def _added(check: str, value: Any) -> str:
    return f"{check} constraint added when there was none previously : {compact(value)}"


def _multiple_of(old: Schema, new: Schema) -> Iterator[CheckFinding]:
    before, after = number(old.get("multipleOf")), number(new.get("multipleOf"))
    if after and not before:
        yield CheckFinding("multipleOf", _added("multipleOf", after))
    elif after and before and not is_multiple(before, after):
        yield CheckFinding("multipleOf", f"multipleOf changed : {compact(before)} -> {compact(after)}")


def is_multiple(value: float, step: float) -> bool:
    """Whether a number is a multiple of another one, which is not 0: of 0.1 as written, not as stored."""
    return not Fraction(str(value)) % Fraction(str(step))


def _flag(check: CrdCheck, field: str, *, added: Enforcement | None = None, removed: Enforcement | None = None) -> Rule:
    """Return the rule of a field that is true or false.

    Args:
        check: its name.
        field: its name in schemas.
        added: the level if it becomes true; None: nothing is found.
        removed: the level if it becomes false.
    """

    def _rule(old: Schema, new: Schema) -> Iterator[CheckFinding]:
        before, after = bool(old.get(field)), bool(new.get(field))
        level, change = (added, "added : false -> true") if after else (removed, "removed : true -> false")
        if level and before != after:
            yield CheckFinding(check, f"{check} {change}", level)

    return _rule


def _any_change(check: CrdCheck, field: str, absent: Any = "", loosened: Enforcement = "Error") -> Rule:
    """Return the rule of a field that may not change; the order of a list means nothing.

    Args:
        check: its name.
        field: its name in schemas.
        absent: the value that a missing field stands for.
        loosened: the level if the field is removed.
    """

    def _rule(old: Schema, new: Schema) -> Iterator[CheckFinding]:
        before, after = old.get(field) or absent, new.get(field) or absent
        if same(_sorted(before), _sorted(after)):
            return
        verb = "added" if field not in old else "removed" if field not in new else "changed"
        level = "Error" if after else loosened
        yield CheckFinding(check, f"{check} {verb} : {compact(before)} -> {compact(after)}", level)

    return _rule


def _one_of(old: Schema, new: Schema) -> Iterator[CheckFinding]:
    before, after = sequence(old, "oneOf"), sequence(new, "oneOf")
    removed, added = without_equal(before, after), without_equal(after, before)
    if after and not before:
        yield CheckFinding("oneOf", f"oneOf constraint added when there was none previously: {compact(added)}")
        return
    if removed:
        yield CheckFinding("oneOf", f"allowed oneOf schemas removed: {compact(removed)}", "Error" if after else "Warn")
    if added:
        yield CheckFinding("oneOf", f"allowed oneOf schemas added: {compact(added)}")


def _not(old: Schema, new: Schema) -> Iterator[CheckFinding]:
    before, after = old.get("not"), new.get("not")
    if after is None or same(meaning(before), meaning(after)):
        return
    if before is None:
        yield CheckFinding("not", f"not constraint added when there was none previously : {compact(after)}")
    else:
        yield CheckFinding("not", f"not changed : {compact(before)} -> {compact(after)}")


def _validations(old: Schema, new: Schema) -> Iterator[CheckFinding]:
    before, after = _rules_of(old), _rules_of(new)
    known, kept = set(before), set(after)
    if added := [rule for rule in after if rule not in known]:
        yield CheckFinding("xvalidations", f"rules added : {listed(rule[0] for rule in added)}")
    if removed := [rule for rule in before if rule not in kept]:
        yield CheckFinding("xvalidations", f"rules removed : {listed(rule[0] for rule in removed)}", "Warn")


def _rules_of(schema: Schema) -> list[tuple[str, str, bool]]:
    # A new message makes no new rule.
    rules = map(mapping, sequence(schema, "x-kubernetes-validations"))
    return [
        (str(r.get("rule", "")), str(r.get("reason") or "FieldValueInvalid"), r.get("optionalOldSelf") is True)
        for r in rules
    ]


def _documentation(field: str) -> Rule:
    def _rule(old: Schema, new: Schema) -> Iterator[CheckFinding]:
        if not same(old.get(field), new.get(field)):
            text = f"{field} changed : {compact(old.get(field, ''))} -> {compact(new.get(field, ''))}"
            yield CheckFinding("description", text, "None")

    return _rule


def _sorted(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, list) else value


_RULES: Mapping[str, Rule] = {
    "type": _type,
    "required": _required,
    "default": _default,
    "enum": _enum,
    "maximum": _bound("maximum"),
    "maxLength": _bound("maxLength"),
    "maxItems": _bound("maxItems"),
    "maxProperties": _bound("maxProperties"),
    "minimum": _bound("minimum"),
    "minLength": _bound("minLength", 0),
    "minItems": _bound("minItems", 0),
    "minProperties": _bound("minProperties", 0),
    "exclusiveMaximum": _flag("exclusiveMaximum", "exclusiveMaximum", added="Error"),
    "exclusiveMinimum": _flag("exclusiveMinimum", "exclusiveMinimum", added="Error"),
    "multipleOf": _multiple_of,
    "uniqueItems": _flag("uniqueItems", "uniqueItems", added="Error"),
    "pattern": _any_change("pattern", "pattern", loosened="Warn"),
    "format": _any_change("format", "format"),
    "nullable": _flag("nullable", "nullable", added="Warn", removed="Error"),
    "oneOf": _one_of,
    "not": _not,
    "x-kubernetes-validations": _validations,
    PRESERVE: _flag("preserveUnknownFields", PRESERVE, removed="Error"),
    INT_OR_STRING: _any_change("intOrString", INT_OR_STRING, absent=False),
    "x-kubernetes-embedded-resource": _any_change("embeddedResource", "x-kubernetes-embedded-resource", absent=False),
    "x-kubernetes-list-type": _any_change("listType", "x-kubernetes-list-type", absent="atomic"),
    "x-kubernetes-list-map-keys": _any_change("listMapKeys", "x-kubernetes-list-map-keys", absent=[]),
    "x-kubernetes-map-type": _any_change("mapType", "x-kubernetes-map-type", absent="granular"),
    **{name: _documentation(name) for name in _DOCUMENTATION},
}
