"""What is compared with what: the whole definition, each version with itself, served versions with each other.

Each check as a table: what stood at `^.spec.color`, what is to stand there, and what is said about that.

Whether what was found holds a definition back, as spec.crdUpgradeSafety says.

What holds for every schema: nothing is said of the same and of more fields, and nothing narrower is missed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from operator import attrgetter
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rukpak.api.v1alpha2.policies import CrdUpgradeSafety
from rukpak.controller.apply.crd_changes import (
    CheckFinding,
    compare,
    compare_fields,
    is_off,
    level_of,
    priority,
    read_definition,
    tell,
)
from rukpak.controller.apply.crd_upgrade import admit, validate
from tests.support.definitions import definition, on_cluster, schema, version

TEXT = {"type": "string"}
BOTH = {"type": "string", "enum": ["blue", "red"]}
BLUE = {"type": "string", "enum": ["blue"]}
WEBHOOK = {"strategy": "Webhook"}


def of(name: str = "v1", /, *, served: bool = True, **properties: Any) -> Any:
    return version(name, schema(**properties), served=served)


class Case(NamedTuple):
    name: str
    old: Any
    new: Any
    errors: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()


CASES = [
    Case("the same", definition(of(color=BOTH)), definition(of(color=BOTH))),
    # the whole definition
    Case(
        "another scope",
        definition(),
        definition(scope="Cluster"),
        ('scope: scope changed : "Namespaced" -> "Cluster"',),
    ),
    Case(
        "a stored version is removed",
        on_cluster(definition(of(), of("v1alpha1"), of("v1beta1")), "v1beta1", "v1alpha1", "v1"),
        definition(of()),
        ("storedVersionRemoval: stored versions removed : [v1alpha1 v1beta1]",),
    ),
    Case(
        "a served version is removed that is not stored",
        definition(of(), of("v1alpha1")),
        definition(of()),
        warns=("servedVersionRemoval: served versions removed : [v1alpha1]",),
    ),
    Case(
        "a version is not served any more, stored or not",
        on_cluster(definition(of(), of("v1alpha1")), "v1", "v1alpha1"),
        definition(of(), of("v1alpha1", served=False)),
        warns=("servedVersionRemoval: served versions removed : [v1alpha1]",),
    ),
    Case(
        "a version is removed that nobody could use",
        definition(of(), of("v1alpha1", served=False)),
        definition(of()),
    ),
    Case(
        "a field is removed in one version",
        definition(of(a=TEXT, b=TEXT), of("v2", a=TEXT, b=TEXT), conversion=WEBHOOK),
        definition(of(a=TEXT, b=TEXT), of("v2", b=TEXT), conversion=WEBHOOK),
        ("existingFieldRemoval: removed field : v2.^.spec.a",),
    ),
    # each version with itself
    Case(
        "a version that is not served is compared as well",
        definition(of(), of("v2", served=False, color=BOTH)),
        definition(of(), of("v2", served=False, color=BLUE)),
        ('v2: ^.spec.color: enum: allowed enum values removed : ["red"]',),
    ),
    Case("a version is added", definition(of(color=BOTH)), definition(of(color=BOTH), of("v2", color=BOTH))),
    # served versions with each other
    Case(
        "a version is added that the one before does not fit",
        definition(of(color=BOTH)),
        definition(of(color=BOTH), of("v2", color=BLUE)),
        ('v1 -> v2: ^.spec.color: enum: allowed enum values removed : ["red"]',),
    ),
    Case(
        "a version is added that lacks a field",
        definition(of(color={"type": "object", "properties": {"name": TEXT}})),
        definition(of(color={"type": "object", "properties": {"name": TEXT}}), of("v2")),
        ('v1 -> v2: ^.spec.color: type: type changed : "object" -> ""',),
    ),
    Case(
        "a version is added that lacks a field of any type",
        definition(of(color={"x-kubernetes-preserve-unknown-fields": True})),
        definition(of(color={"x-kubernetes-preserve-unknown-fields": True}), of("v2")),
        ("v1 -> v2: ^.spec.color: unhandled: unhandled changes found (node without type removed)",),
    ),
    Case(
        "a version is added that has a field more",
        definition(of(color=BOTH)),
        definition(of(color=BOTH), of("v2", color=BOTH, text=TEXT)),
    ),
    Case(
        "a lower version is added, which has a field less",
        on_cluster(definition(of("v2", color=BOTH, text=TEXT)), "v2"),
        definition(of("v2", color=BOTH, text=TEXT), of("v1beta1", color=BOTH)),
    ),
    Case(
        "a webhook converts to the version that is added",
        definition(of(color=BOTH)),
        definition(of(color=BOTH), of("v2", color=BLUE), conversion=WEBHOOK),
    ),
    Case(
        "nobody is served the version that is added",
        definition(of(color=BOTH)),
        definition(of(color=BOTH), of("v2", served=False, color=BLUE)),
    ),
    Case(
        "what two versions have against each other is no news",
        definition(of(color=BOTH), of("v2", color=BLUE)),
        definition(of(color=BOTH, text=TEXT), of("v2", color=BLUE, text=TEXT)),
    ),
    Case(
        "it is where no webhook converts any more",
        definition(of(color=BOTH), of("v2", color=BLUE), conversion=WEBHOOK),
        definition(of(color=BOTH), of("v2", color=BLUE)),
        ('v1 -> v2: ^.spec.color: enum: allowed enum values removed : ["red"]',),
    ),
    Case(
        "something else about the same field is news",
        definition(of(color=BOTH), of("v2", color=BLUE)),
        definition(of(color=BOTH), of("v2", color={**BLUE, "maxLength": 9})),
        (
            "v1 -> v2: ^.spec.color: maxLength: maxLength constraint added when there was none previously : 9",
            "v2: ^.spec.color: maxLength: maxLength constraint added when there was none previously : 9",
        ),
    ),
    # what the API server refuses
    Case("a definition without versions", definition(), {"metadata": {"name": "x"}, "spec": []}, (
        'scope: scope changed : "Namespaced" -> ""', "storedVersionRemoval: stored versions removed : [v1]",
    )),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_an_upgrade_changes(case: Case) -> None:
    old = case.old if "status" in case.old else on_cluster(case.old)
    findings = compare(read_definition(old), read_definition(case.new))
    assert tuple(sorted(f.line for f in findings if f.level == "Error")) == case.errors
    assert tuple(sorted(f.line for f in findings if f.level == "Warn")) == case.warns


def test_versions_are_sorted_as_kubernetes_sorts_them() -> None:
    names = ["foo10", "foo1", "v11alpha2", "v12alpha1", "v3beta1", "v10beta3", "v11beta2", "v1", "v2", "v10"]
    assert sorted(set(names), key=priority) == names


# how findings are told


def finding(version: str, path: str, text: str = "text") -> CheckFinding:
    return CheckFinding(check="enum", text=text, version=version, path=path)


def test_findings_are_told_by_version_path_and_check_and_existing_objects_last() -> None:
    existing = CheckFinding(check="existingResources", text="a/b", version="v1")
    scope = CheckFinding(check="scope", text="changed")
    found = [existing, finding("v2", "^.a"), finding("v1", "^.b"), finding("v1", "^.a"), scope]
    lines = ["scope: changed", "v1: ^.a: enum: text", "v1: ^.b: enum: text", "v2: ^.a: enum: text"]
    assert tell(found, 500) == [*lines, "existingResources: a/b"]
    assert tell(reversed(found), 500) == tell(found, 500)


def test_ten_lines_are_told_and_a_count() -> None:
    told = tell([finding("v1", f"^.f{index:02}") for index in range(15)], 500)
    assert told[:1] == ["v1: ^.f00: enum: text"]
    assert len(told) == 11
    assert told[-1] == "5 more"


def test_fewer_are_told_where_they_are_long() -> None:
    told = tell([finding("v1", f"^.f{index}", "x" * 200) for index in range(4)], 500)
    assert [len(line) for line in told] == [216, 216, 6]
    assert told[-1] == "2 more"


def test_a_line_that_is_too_long_is_cut() -> None:
    assert [len(line) for line in tell([finding("v1", "^.a", "x" * 5000)], 500)] == [500]


NUMBER = {"type": "integer"}
LIST = {"type": "array", "items": TEXT}
MAP = {"type": "object", "additionalProperties": TEXT}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
PRESERVE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
RULE = {"rule": "self > 1", "message": "too small"}


class Rule(NamedTuple):
    name: str
    old: dict[str, Any]
    new: dict[str, Any]
    errors: tuple[str, ...] = ()
    """What is said, after `v1: ^.spec.color: ` where nothing else stands."""
    warns: tuple[str, ...] = ()


def bounds(check: str, base: dict[str, Any]) -> list[Rule]:
    most = check.startswith("max")
    less, more = ("decreased : 10 -> 5", "is increased") if most else ("increased : 5 -> 10", "is decreased")
    low, high = {**base, check: 5}, {**base, check: 10}
    narrow, wide = (low, high) if most else (high, low)
    added = f"{check}: {check} constraint added when there was none previously : 5"
    return [
        Rule(f"{check} is added", base, low, (added,)),
        Rule(f"{check} is narrowed", wide, narrow, (f"{check}: {check} {less}",)),
        Rule(f"{check} {more}", narrow, wide),
        Rule(f"{check} is removed", low, base),
        Rule(f"{check} stays", low, low),
    ]


def flag(check: str, base: dict[str, Any]) -> list[Rule]:
    return [
        Rule(f"{check} is set", base, {**base, check: True}, (f"{check}: {check} added : false -> true",)),
        Rule(f"{check} is not set any more", {**base, check: True}, base),
        Rule(f"{check} is set to what it is anyway", base, {**base, check: False}),
    ]


def any_change(
    check: str, field: str, base: dict[str, Any], values: tuple[Any, Any], shown: tuple[str, ...]
) -> list[Rule]:
    none, first, second = shown
    a, b = ({**base, field: value} for value in values)
    return [
        Rule(f"{check} is added", base, a, (f"{check}: {check} added : {none} -> {first}",)),
        Rule(f"{check} is changed", a, b, (f"{check}: {check} changed : {first} -> {second}",)),
        Rule(f"{check} is removed", a, base, (f"{check}: {check} removed : {first} -> {none}",)),
        Rule(f"{check} stays", a, a),
    ]


# fmt: off
RULES = [
    Rule("nothing changes", TEXT, TEXT),
    # type
    Rule("another type", TEXT, NUMBER, ('type: type changed : "string" -> "integer"',)),
    Rule("a type where there was none", INT_OR_STRING, {**INT_OR_STRING, **TEXT},
         ('type: type changed : "" -> "string"',)),
    # required
    Rule("fields become required", {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
         {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["b", "a"]},
         ("required: new required fields: [a b]",)),
    Rule("a new field is required", {"type": "object", "properties": {}},
         {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, ("required: new required fields: [a]",)),
    Rule("a new field is required and has a default", {"type": "object", "properties": {}},
         {"type": "object", "properties": {"a": {**TEXT, "default": ""}}, "required": ["a"]}),
    Rule("a field is not required any more", {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
         {"type": "object", "properties": {"a": TEXT}}),
    # default
    Rule("a default is added", NUMBER, {**NUMBER, "default": 1},
         ('default: default added when there was none previously : "1"',)),
    Rule("a default is removed", {**TEXT, "default": "x"}, TEXT, (r'default: default value removed : "\"x\""',)),
    Rule("a default is changed", {**NUMBER, "default": 1}, {**NUMBER, "default": 2},
         ('default: default value changed : "1" -> "2"',)),
    Rule("a default is false", {"type": "boolean", "default": True}, {"type": "boolean", "default": False},
         ('default: default value changed : "true" -> "false"',)),
    Rule("a default is written in another way", {"type": "number", "default": 1}, {"type": "number", "default": 1.0}),
    Rule("a default has its fields in another order", {**PRESERVE, "default": {"a": 1, "b": 2}},
         {**PRESERVE, "default": {"b": 2, "a": 1}}),
    Rule("a default of 1 is true", {"default": 1}, {"default": True},
         ('default: default value changed : "1" -> "true"',)),
    # enum
    Rule("values are enumerated", TEXT, {**TEXT, "enum": ["b", "a"]},
         ('enum: enum constraint added when there was none previously : ["a" "b"]',)),
    Rule("a value is not allowed any more", {**TEXT, "enum": ["a", "b"]}, {**TEXT, "enum": ["b"]},
         ('enum: allowed enum values removed : ["a"]',)),
    Rule("another value is allowed", {**TEXT, "enum": ["a"]}, {**TEXT, "enum": ["b", "a"]}),
    Rule("the values are in another order", {**TEXT, "enum": ["a", "b"]}, {**TEXT, "enum": ["b", "a"]}),
    Rule("a value is written in another way", {"type": "number", "enum": [1.0]}, {"type": "number", "enum": [1]}),
    Rule("every value is allowed", {**TEXT, "enum": ["b", "a"]}, TEXT,
         warns=('enum: allowed enum values removed : ["a" "b"]',)),
    # bounds
    *bounds("maximum", NUMBER),
    *bounds("maxLength", TEXT),
    *bounds("maxItems", LIST),
    *bounds("maxProperties", MAP),
    *bounds("minimum", NUMBER),
    *bounds("minLength", TEXT),
    *bounds("minItems", LIST),
    *bounds("minProperties", MAP),
    Rule("minLength says what is so anyway", TEXT, {**TEXT, "minLength": 0}),
    Rule("maximum is 0", NUMBER, {**NUMBER, "maximum": 0},
         ("maximum: maximum constraint added when there was none previously : 0",)),
    Rule("a bound is written in another way", {**NUMBER, "maximum": 5.0}, {**NUMBER, "maximum": 5}),
    *flag("exclusiveMaximum", {**NUMBER, "maximum": 5}),
    *flag("exclusiveMinimum", {**NUMBER, "minimum": 5}),
    *flag("uniqueItems", LIST),
    Rule("multipleOf is added", NUMBER, {**NUMBER, "multipleOf": 2},
         ("multipleOf: multipleOf constraint added when there was none previously : 2",)),
    Rule("multipleOf is narrowed", {**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 4},
         ("multipleOf: multipleOf changed : 2 -> 4",)),
    Rule("multipleOf is widened", {"type": "number", "multipleOf": 0.3}, {"type": "number", "multipleOf": 0.1}),
    Rule("multipleOf is removed", {**NUMBER, "multipleOf": 2}, NUMBER),
    # texts
    Rule("a pattern is added", TEXT, {**TEXT, "pattern": "^a$"}, ('pattern: pattern added : "" -> "^a$"',)),
    Rule("a pattern is changed", {**TEXT, "pattern": "^a$"}, {**TEXT, "pattern": "^b$"},
         ('pattern: pattern changed : "^a$" -> "^b$"',)),
    Rule("a pattern is removed", {**TEXT, "pattern": "^a$"}, TEXT, warns=('pattern: pattern removed : "^a$" -> ""',)),
    *any_change("format", "format", TEXT, ("email", "uri"), ('""', '"email"', '"uri"')),
    # null
    Rule("null is allowed", TEXT, {**TEXT, "nullable": True}, warns=("nullable: nullable added : false -> true",)),
    Rule("null is not allowed any more", {**TEXT, "nullable": True}, TEXT,
         ("nullable: nullable removed : true -> false",)),
    Rule("null is still not allowed", TEXT, {**TEXT, "nullable": False}),
    # several schemas
    Rule("oneOf is added", PRESERVE, {**PRESERVE, "oneOf": [{"required": ["a"]}]},
         ('oneOf: oneOf constraint added when there was none previously: [{"required":["a"]}]',)),
    Rule("a schema of oneOf is removed", {**PRESERVE, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         {**PRESERVE, "oneOf": [{"required": ["b"]}]}, ('oneOf: allowed oneOf schemas removed: [{"required":["a"]}]',)),
    Rule("a schema of oneOf is added", {**PRESERVE, "oneOf": [{"required": ["b"]}]},
         {**PRESERVE, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         ('oneOf: allowed oneOf schemas added: [{"required":["a"]}]',)),
    Rule("a schema of oneOf is described", {**PRESERVE, "oneOf": [{"properties": {"title": {"minLength": 1}}}]},
         {**PRESERVE, "oneOf": [{"title": "T", "properties": {"title": {"minLength": 1, "description": "x"}}}]}),
    Rule("oneOf is removed", {**PRESERVE, "oneOf": [{"required": ["a"]}]}, PRESERVE,
         warns=('oneOf: allowed oneOf schemas removed: [{"required":["a"]}]',)),
    Rule("anyOf is added", TEXT, {**TEXT, "anyOf": [{"minLength": 1}]},
         ('anyOf: anyOf constraint added when there was none previously: [{"minLength":1}]',)),
    Rule("a schema of anyOf is removed", {**TEXT, "anyOf": [{"minLength": 1}, {"pattern": "a"}]},
         {**TEXT, "anyOf": [{"pattern": "a"}]}, ('anyOf: allowed anyOf schemas removed: [{"minLength":1}]',)),
    Rule("a schema of anyOf is narrowed", {**TEXT, "anyOf": [{"pattern": "a"}, {"minLength": 1}]},
         {**TEXT, "anyOf": [{"pattern": "a"}, {"minLength": 2}]},
         ("v1: ^.spec.color.anyOf[1]: minLength: minLength increased : 1 -> 2",)),
    Rule("a schema of anyOf is widened", {**TEXT, "anyOf": [{"minLength": 2}]}, {**TEXT, "anyOf": [{"minLength": 1}]}),
    Rule("the schemas of anyOf are in another order", {**TEXT, "anyOf": [{"minLength": 1}, {"pattern": "a"}]},
         {**TEXT, "anyOf": [{"pattern": "a"}, {"minLength": 1}]}),
    Rule("another schema is in anyOf", {**TEXT, "anyOf": [{"minLength": 1}]},
         {**TEXT, "anyOf": [{"minLength": 1}, {}]}),
    Rule("anyOf is removed", {**TEXT, "anyOf": [{"minLength": 1}]}, TEXT),
    Rule("anyOf says again what int-or-string says", INT_OR_STRING,
         {**INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    Rule("allOf is added", TEXT, {**TEXT, "allOf": [{"minLength": 1}]},
         ('allOf: allOf constraint added when there was none previously: [{"minLength":1}]',)),
    Rule("a schema is added to allOf", {**TEXT, "allOf": [{"minLength": 1}]},
         {**TEXT, "allOf": [{"minLength": 1}, {"pattern": "a"}]},
         ('allOf: required allOf schemas added: [{"pattern":"a"}]',)),
    Rule("a schema of allOf constrains one field more",
         {**PRESERVE, "allOf": [{"properties": {"a": {"minLength": 1}}}]},
         {**PRESERVE, "allOf": [{"properties": {"a": {"minLength": 1}, "b": {"maxLength": 1}}}]},
         ("v1: ^.spec.color.allOf[0].b: maxLength: maxLength constraint added when there was none previously : 1",)),
    Rule("a schema of allOf constrains one field less",
         {**PRESERVE, "allOf": [{"properties": {"a": {"minLength": 1}, "b": {"maxLength": 1}}}]},
         {**PRESERVE, "allOf": [{"properties": {"a": {"minLength": 1}}}]}),
    Rule("a schema of allOf is removed", {**TEXT, "allOf": [{"minLength": 1}, {"pattern": "a"}]},
         {**TEXT, "allOf": [{"pattern": "a"}]}),
    Rule("not is added", TEXT, {**TEXT, "not": {"enum": ["a"]}},
         ('not: not constraint added when there was none previously : {"enum":["a"]}',)),
    Rule("not is changed", {**TEXT, "not": {"enum": ["a"]}}, {**TEXT, "not": {"enum": ["b"]}},
         ('not: not changed : {"enum":["a"]} -> {"enum":["b"]}',)),
    Rule("not is described", {**TEXT, "not": {"enum": ["a"]}}, {**TEXT, "not": {"enum": ["a"], "description": "x"}}),
    Rule("not is removed", {**TEXT, "not": {"enum": ["a"]}}, TEXT),
    # rules
    Rule("a rule is added", NUMBER, {**NUMBER, "x-kubernetes-validations": [RULE]},
         ('xvalidations: rules added : ["self > 1"]',)),
    Rule("a rule gives another reason", {**NUMBER, "x-kubernetes-validations": [RULE]},
         {**NUMBER, "x-kubernetes-validations": [{**RULE, "reason": "FieldValueForbidden"}]},
         ('xvalidations: rules added : ["self > 1"]',), ('xvalidations: rules removed : ["self > 1"]',)),
    Rule("a rule has another message", {**NUMBER, "x-kubernetes-validations": [RULE]},
         {**NUMBER, "x-kubernetes-validations": [{**RULE, "message": "x", "reason": "FieldValueInvalid"}]}),
    Rule("a rule is removed", {**NUMBER, "x-kubernetes-validations": [RULE]}, NUMBER,
         warns=('xvalidations: rules removed : ["self > 1"]',)),
    # the dialect of Kubernetes
    Rule("unknown fields are not kept any more", PRESERVE, {"type": "object"},
         ("preserveUnknownFields: preserveUnknownFields removed : true -> false",)),
    Rule("unknown fields are kept", {"type": "object"}, PRESERVE),
    Rule("int-or-string is added", {}, INT_OR_STRING, ("intOrString: intOrString added : false -> true",)),
    Rule("int-or-string is removed", INT_OR_STRING, {}, ("intOrString: intOrString removed : true -> false",)),
    Rule("an embedded resource is one no more", {**PRESERVE, "x-kubernetes-embedded-resource": True}, PRESERVE,
         ("embeddedResource: embeddedResource removed : true -> false",)),
    *any_change("listType", "x-kubernetes-list-type", LIST, ("set", "map"), ('"atomic"', '"set"', '"map"')),
    Rule("listType says what is so anyway", LIST, {**LIST, "x-kubernetes-list-type": "atomic"}),
    *any_change("listMapKeys", "x-kubernetes-list-map-keys", LIST, (["a"], ["b"]), ("[]", '["a"]', '["b"]')),
    Rule("listMapKeys are in another order", {**LIST, "x-kubernetes-list-map-keys": ["a", "b"]},
         {**LIST, "x-kubernetes-list-map-keys": ["b", "a"]}),
    Rule("mapType is added", MAP, {**MAP, "x-kubernetes-map-type": "atomic"},
         ('mapType: mapType added : "granular" -> "atomic"',)),
    Rule("mapType says what is so anyway", MAP, {**MAP, "x-kubernetes-map-type": "granular"}),
    # documentation
    Rule("a description changes", {**TEXT, "description": "a"}, {**TEXT, "description": "b"}),
    Rule("a title, an example and a link are added", TEXT,
         {**TEXT, "title": "T", "example": "x", "externalDocs": {"url": "https://example.com"}}),
    # what nobody knows
    Rule("a field that is not known changes", {**TEXT, "x-kubernetes-new": 1, "discriminator": "a"},
         {**TEXT, "x-kubernetes-new": 2},
         ('unhandled: unhandled changes found (discriminator "a" -> null; x-kubernetes-new 1 -> 2)',)),
    # what is below
    Rule("a map of anything takes only texts", {"type": "object", "additionalProperties": True}, MAP,
         ('unhandled: unhandled changes found (additionalProperties true -> {"type":"string"})',)),
    Rule("a map takes anything", {"type": "object", "additionalProperties": False}, MAP),
    Rule("the values of a map are narrowed", MAP, {"type": "object", "additionalProperties": {**TEXT, "enum": ["a"]}},
         ('v1: ^.spec.color.additionalProperties: enum: enum constraint added when there was none previously : ["a"]',
         )),
    Rule("a field is added below a map",
         {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
         {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}}),
    Rule("a description changes below a map", MAP,
         {"type": "object", "additionalProperties": {**TEXT, "description": "x"}}),
    Rule("the items of a list are narrowed", LIST, {"type": "array", "items": {**TEXT, "maxLength": 5}},
         ("v1: ^.spec.color.items: maxLength: maxLength constraint added when there was none previously : 5",)),
    Rule("a field is removed with all that is below it",
         {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {**TEXT, "default": "x"}}}}},
         {"type": "object", "properties": {}}, ("existingFieldRemoval: removed field : v1.^.spec.color.a",)),
    Rule("a map is one no more", MAP, {"type": "object"},
         ("existingFieldRemoval: removed field : v1.^.spec.color.additionalProperties",)),
    Rule("an optional field is added", {"type": "object", "properties": {}},
         {"type": "object", "properties": {"a": {**TEXT, "enum": ["x"], "default": "x", "pattern": "x"}}}),
    # what is malformed: the API server refuses it
    Rule("what is no schema reads as none", {"properties": ["a"], "enum": "a", "maximum": "1"},
         {"anyOf": 1, "not": None}),
]
# fmt: on


def found(case: Rule, level: str) -> tuple[str, ...]:
    old, new = (definition(version(value=schema(color=node))) for node in (case.old, case.new))
    findings = compare(read_definition(on_cluster(old)), read_definition(new))
    lines = sorted(finding.line for finding in findings if finding.level == level)
    return tuple(line.removeprefix("v1: ^.spec.color: ") for line in lines)


@pytest.mark.parametrize("case", RULES, ids=attrgetter("name"))
def test_what_is_said_about_a_change(case: Rule) -> None:
    assert found(case, "Error") == case.errors
    assert found(case, "Warn") == case.warns


def test_documentation_is_found_for_those_who_ask_for_it() -> None:
    changes = list(compare_fields({"description": "a"}, {"description": "b", "title": "T"}))
    assert [(change.check, change.text, change.level) for change in changes] == [
        ("description", 'description changed : "a" -> "b"', "None"),
        ("description", 'title changed : "" -> "T"', "None"),
    ]


CRD = "greetings.example.com"
ENUM = CheckFinding(check="enum", text="", version="v1", path="^.status.color")
PATTERN = CheckFinding(check="pattern", text="", version="v1", path="^.spec.text", level="Warn")
DESCRIPTION = CheckFinding(check="description", text="", version="v1", path="^.spec", level="None")
SCOPE = CheckFinding(check="scope", text="")


def rule(enforcement: str, *checks: str, crd: str = CRD, paths: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"crd": crd, "checks": checks, "enforcement": enforcement, "paths": paths}


def safety(*rules: dict[str, Any], default: str = "Error") -> CrdUpgradeSafety:
    return CrdUpgradeSafety.model_validate({"enforcement": default, "rules": rules})


class Level(NamedTuple):
    name: str
    finding: CheckFinding
    safety: CrdUpgradeSafety
    level: str


LEVELS = [
    Level("an error is one by default", ENUM, safety(), "Error"),
    Level("the default may warn", ENUM, safety(default="Warn"), "Warn"),
    Level("the default may be silent", ENUM, safety(default="None"), "None"),
    Level("a warning is not raised by the default", PATTERN, safety(), "Warn"),
    Level("a warning may be silenced by the default", PATTERN, safety(default="None"), "None"),
    Level("a description is never told by default", DESCRIPTION, safety(), "None"),
    Level("a rule for the check", ENUM, safety(rule("Warn", "enum")), "Warn"),
    Level("a rule for several checks", ENUM, safety(rule("Warn", "type", "enum")), "Warn"),
    Level("a rule for another check", ENUM, safety(rule("Warn", "type")), "Error"),
    Level("a rule for all checks", ENUM, safety(rule("None")), "None"),
    Level("a rule for another definition", ENUM, safety(rule("Warn", "enum", crd="x.example.com")), "Error"),
    Level("a rule for all definitions", ENUM, safety(rule("Warn", "enum", crd="*")), "Warn"),
    Level("a rule for a node above", ENUM, safety(rule("Warn", paths=("^.status",))), "Warn"),
    Level("a rule for the node itself", ENUM, safety(rule("Warn", paths=("^.spec", "^.status.color"))), "Warn"),
    Level("a rule for a node below", ENUM, safety(rule("Warn", paths=("^.status.color.x",))), "Error"),
    Level("a rule for a node whose name begins alike", ENUM, safety(rule("Warn", paths=("^.stat",))), "Error"),
    Level("a rule for a place, and a finding without one", SCOPE, safety(rule("Warn", paths=("^",))), "Error"),
    Level("the last rule counts", ENUM, safety(rule("None", "enum"), rule("Error", crd="*")), "Error"),
    Level("a rule makes an exception from silence", ENUM, safety(rule("Error", "enum"), default="None"), "Error"),
    Level("a rule that names a check raises its warning", PATTERN, safety(rule("Error", "pattern")), "Error"),
    Level("a rule for all checks raises no warning", PATTERN, safety(rule("Error"), default="None"), "Warn"),
    Level("a rule lets a description be told", DESCRIPTION, safety(rule("Warn", "description")), "Warn"),
]


@pytest.mark.parametrize("case", LEVELS, ids=attrgetter("name"))
def test_the_level_of_a_finding(case: Level) -> None:
    assert level_of(case.finding, CRD, case.safety) == case.level


class Off(NamedTuple):
    name: str
    safety: CrdUpgradeSafety
    everything: bool
    existing: bool


OFF = [
    Off("by default nothing is off", safety(), False, False),
    Off("all is off", safety(default="None"), True, True),
    Off("one check is off", safety(rule("None", "existingResources")), False, True),
    Off("all is off for this definition", safety(rule("None")), True, True),
    Off("all is off for another definition", safety(rule("None", crd="x.example.com")), False, False),
    Off("a check is off in one place", safety(rule("None", "existingResources", paths=("^.spec",))), False, False),
    Off("a check is on in one place", safety(rule("Warn", "enum", paths=("^.spec",)), default="None"), False, True),
    Off("a rule turns all on again", safety(rule("None"), rule("Warn", crd="*")), False, False),
]


@pytest.mark.parametrize("case", OFF, ids=attrgetter("name"))
def test_what_is_off_costs_no_request(case: Off) -> None:
    assert is_off(CRD, case.safety) is case.everything
    assert is_off(CRD, case.safety, "existingResources") is case.existing


Node = dict[str, Any]

NAMES = ("a", "b", "c.d", "items", "properties", "description", "title")
DEPTH = 3


def make(chance: Random, depth: int = DEPTH) -> Node:
    """Return a structural schema; drawn by hand, since strategies take a hundred times as long."""
    kinds = [make_text, make_number, make_other]
    node = chance.choice([*kinds, make_object, make_map, make_list] if depth else kinds)(chance, depth)
    return {**node, **chance.choice([{}, {"description": "x"}, {"title": "x"}])}


def some(chance: Random, optional: Node) -> Node:
    return {name: value for name, value in optional.items() if chance.random() < 0.3}


def make_text(chance: Random, depth: int) -> Node:
    optional = {
        "enum": chance.sample(["a", "b", "aab"], 2),
        "maxLength": chance.randint(5, 9),
        "minLength": chance.randint(0, 2),
        "pattern": chance.choice(["^a", "b$"]),
        "nullable": chance.random() < 0.5,
        "default": chance.choice(["a", "b"]),
        "anyOf": chance.choice([[{"minLength": 1}], [{"minLength": 1}, {"pattern": "a"}]]),
    }
    return {"type": "string", **some(chance, optional)}


def make_number(chance: Random, depth: int) -> Node:
    optional = {"maximum": chance.randint(50, 90), "minimum": chance.randint(-9, 9), "multipleOf": chance.randint(1, 3)}
    return {"type": chance.choice(["integer", "number"]), **some(chance, optional)}


def make_other(chance: Random, depth: int) -> Node:
    unknown = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return dict(chance.choice([{"type": "boolean"}, {"x-kubernetes-int-or-string": True}, unknown]))


def make_object(chance: Random, depth: int = DEPTH) -> Node:
    names = chance.sample(NAMES, chance.randint(0, 4))
    required = {"required": chance.sample(names, chance.randint(0, len(names)))}
    return {"type": "object", "properties": {name: make(chance, depth - 1) for name in names}, **some(chance, required)}


def make_map(chance: Random, depth: int) -> Node:
    return {"type": "object", "additionalProperties": make(chance, depth - 1)}


def make_list(chance: Random, depth: int) -> Node:
    return {"type": "array", "items": make(chance, depth - 1), **some(chance, {"maxItems": chance.randint(3, 5)})}


chances = given(st.integers(0, 2**64).map(Random))


def findings(old: Node, new: Node) -> list[CheckFinding]:
    before, after = definition(version(value=old)), definition(version(value=new))
    return [f for f in compare(read_definition(on_cluster(before)), read_definition(after)) if f.level != "None"]


def nodes(schema: Node) -> Iterator[Node]:
    yield schema
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for child in below:
        if child:
            yield from nodes(child)


@chances
def test_a_definition_is_safe_against_itself(chance: Random) -> None:
    schema = make_object(chance)
    assert findings(schema, copy.deepcopy(schema)) == []


@chances
def test_a_definition_with_more_optional_fields_is_safe(chance: Random) -> None:
    schema = make_object(chance)
    more = copy.deepcopy(schema)
    for node in [node for node in nodes(more) if "properties" in node]:
        node["properties"] = {"x": make(chance), **node["properties"], "y": make(chance)}
    assert findings(schema, more) == []


# what is narrower


def remove_field(node: Node, chance: Random) -> bool:
    names = sorted(node.get("properties", {}))
    return bool(names) and bool(node["properties"].pop(chance.choice(names)))


def change_type(node: Node, chance: Random) -> bool:
    others = {"string", "boolean", "integer", "object"} - {node.get("type")}
    node["type"] = chance.choice(sorted(others))
    return True


def require(node: Node, chance: Random) -> bool:
    names = [
        name
        for name, child in sorted(node.get("properties", {}).items())
        if name not in node.get("required", []) and "default" not in child
    ]
    if names:
        node["required"] = [*node.get("required", []), chance.choice(names)]
    return bool(names)


def enumerate_less(node: Node, chance: Random) -> bool:
    node["enum"] = node["enum"][1:] if node.get("enum") else [1]
    return True


def lower(field: str) -> Callable[[Node, Random], bool]:
    def change(node: Node, chance: Random) -> bool:
        node[field] = node.get(field, 100) - chance.randint(1, 3)
        return True

    return change


def raise_(field: str) -> Callable[[Node, Random], bool]:
    def change(node: Node, chance: Random) -> bool:
        node[field] = node.get(field, 0) + chance.randint(1, 3)
        return True

    return change


def add_pattern(node: Node, chance: Random) -> bool:
    node["pattern"] = "other"
    return True


def forbid_null(node: Node, chance: Random) -> bool:
    return bool(node.pop("nullable", False))


def demand(field: str) -> Callable[[Node, Random], bool]:
    def change(node: Node, chance: Random) -> bool:
        node[field] = {"maxLength": 99} if field == "not" else [{"maxLength": 99}]
        return True

    return change


def forget_unknown(node: Node, chance: Random) -> bool:
    return bool(node.pop("x-kubernetes-preserve-unknown-fields", False))


TIGHTENINGS = [
    remove_field,
    change_type,
    require,
    enumerate_less,
    lower("maximum"),
    lower("maxLength"),
    lower("maxItems"),
    lower("maxProperties"),
    raise_("minimum"),
    raise_("minLength"),
    raise_("minItems"),
    raise_("minProperties"),
    add_pattern,
    forbid_null,
    demand("allOf"),
    demand("oneOf"),
    demand("not"),
    forget_unknown,
]


@chances
def test_what_is_narrower_is_found(chance: Random) -> None:
    schema = make_object(chance)
    narrow = copy.deepcopy(schema)
    assume(chance.choice(TIGHTENINGS)(chance.choice(list(nodes(narrow))), chance))
    assert any(finding.level == "Error" for finding in findings(schema, narrow))


# what is not narrower


def loosen(node: Node, chance: Random) -> None:
    """Remove a field of a node, or raise a bound, whether that is safe or not."""
    name = chance.choice(sorted(node))
    if isinstance(node[name], int) and not isinstance(node[name], bool):
        node[name] += chance.randint(-2, 2)
    elif name not in ("properties", "items", "additionalProperties"):
        del node[name]


def sample(schema: Node, chance: Random) -> Any:
    """Return a value that fits a schema more often than not."""
    if "enum" in schema or "default" in schema:
        return chance.choice([*schema.get("enum", []), schema.get("default"), "a"])
    match schema.get("type"):
        case "object":
            named = schema.get("properties", {}) | {"x": schema.get("additionalProperties") or {"type": "boolean"}}
            return {name: sample(child, chance) for name, child in named.items() if chance.random() < 0.7}
        case "array":
            return [sample(schema["items"], chance) for _ in range(chance.randint(0, 3))]
        case "string":
            return chance.choice(["ab", "aab", "aaaaaab", None])
        case "boolean":
            return True
    return chance.choice([6, 12, 60])


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@chances
def test_what_fits_a_schema_fits_every_one_that_is_not_narrower(chance: Random) -> None:
    schema = make_object(chance)
    looser = copy.deepcopy(schema)
    loosen(chance.choice(list(nodes(looser))), chance)
    assume(not any(finding.level == "Error" for finding in findings(schema, looser)))
    stored = admit(sample(schema, chance), schema)
    assume(not any(validate(stored, schema)))
    assert not any(validate(admit(stored, looser), looser))
