"""Each check as a table: what stood at `^.spec.color`, what is to stand there, and what is said about that."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.apply.crd_upgrade.definition import read_definition
from controller.apply.crd_upgrade.schemas import compare, compare_fields
from tests.support.definitions import definition, on_cluster, schema, version

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
LIST = {"type": "array", "items": TEXT}
MAP = {"type": "object", "additionalProperties": TEXT}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
PRESERVE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
RULE = {"rule": "self > 1", "message": "too small"}


class Case(NamedTuple):
    name: str
    old: dict[str, Any]
    new: dict[str, Any]
    errors: tuple[str, ...] = ()
    """What is said, after `v1: ^.spec.color: ` where nothing else stands."""
    warns: tuple[str, ...] = ()


def bounds(check: str, base: dict[str, Any]) -> list[Case]:
    most = check.startswith("max")
    less, more = ("decreased : 10 -> 5", "is increased") if most else ("increased : 5 -> 10", "is decreased")
    low, high = {**base, check: 5}, {**base, check: 10}
    narrow, wide = (low, high) if most else (high, low)
    added = f"{check}: {check} constraint added when there was none previously : 5"
    return [
        Case(f"{check} is added", base, low, (added,)),
        Case(f"{check} is narrowed", wide, narrow, (f"{check}: {check} {less}",)),
        Case(f"{check} {more}", narrow, wide),
        Case(f"{check} is removed", low, base),
        Case(f"{check} stays", low, low),
    ]


def flag(check: str, base: dict[str, Any]) -> list[Case]:
    return [
        Case(f"{check} is set", base, {**base, check: True}, (f"{check}: {check} added : false -> true",)),
        Case(f"{check} is not set any more", {**base, check: True}, base),
        Case(f"{check} is set to what it is anyway", base, {**base, check: False}),
    ]


def any_change(
    check: str, field: str, base: dict[str, Any], values: tuple[Any, Any], shown: tuple[str, ...]
) -> list[Case]:
    none, first, second = shown
    a, b = ({**base, field: value} for value in values)
    return [
        Case(f"{check} is added", base, a, (f"{check}: {check} added : {none} -> {first}",)),
        Case(f"{check} is changed", a, b, (f"{check}: {check} changed : {first} -> {second}",)),
        Case(f"{check} is removed", a, base, (f"{check}: {check} removed : {first} -> {none}",)),
        Case(f"{check} stays", a, a),
    ]


# fmt: off
CASES = [
    Case("nothing changes", TEXT, TEXT),
    # type
    Case("another type", TEXT, NUMBER, ('type: type changed : "string" -> "integer"',)),
    Case("a type where there was none", INT_OR_STRING, {**INT_OR_STRING, **TEXT},
         ('type: type changed : "" -> "string"',)),
    # required
    Case("fields become required", {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
         {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["b", "a"]},
         ("required: new required fields: [a b]",)),
    Case("a new field is required", {"type": "object", "properties": {}},
         {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, ("required: new required fields: [a]",)),
    Case("a new field is required and has a default", {"type": "object", "properties": {}},
         {"type": "object", "properties": {"a": {**TEXT, "default": ""}}, "required": ["a"]}),
    Case("a field is not required any more", {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
         {"type": "object", "properties": {"a": TEXT}}),
    # default
    Case("a default is added", NUMBER, {**NUMBER, "default": 1},
         ('default: default added when there was none previously : "1"',)),
    Case("a default is removed", {**TEXT, "default": "x"}, TEXT, (r'default: default value removed : "\"x\""',)),
    Case("a default is changed", {**NUMBER, "default": 1}, {**NUMBER, "default": 2},
         ('default: default value changed : "1" -> "2"',)),
    Case("a default is false", {"type": "boolean", "default": True}, {"type": "boolean", "default": False},
         ('default: default value changed : "true" -> "false"',)),
    Case("a default is written in another way", {"type": "number", "default": 1}, {"type": "number", "default": 1.0}),
    Case("a default has its fields in another order", {**PRESERVE, "default": {"a": 1, "b": 2}},
         {**PRESERVE, "default": {"b": 2, "a": 1}}),
    Case("a default of 1 is true", {"default": 1}, {"default": True},
         ('default: default value changed : "1" -> "true"',)),
    # enum
    Case("values are enumerated", TEXT, {**TEXT, "enum": ["b", "a"]},
         ('enum: enum constraint added when there was none previously : ["a" "b"]',)),
    Case("a value is not allowed any more", {**TEXT, "enum": ["a", "b"]}, {**TEXT, "enum": ["b"]},
         ('enum: allowed enum values removed : ["a"]',)),
    Case("another value is allowed", {**TEXT, "enum": ["a"]}, {**TEXT, "enum": ["b", "a"]}),
    Case("the values are in another order", {**TEXT, "enum": ["a", "b"]}, {**TEXT, "enum": ["b", "a"]}),
    Case("a value is written in another way", {"type": "number", "enum": [1.0]}, {"type": "number", "enum": [1]}),
    Case("every value is allowed", {**TEXT, "enum": ["b", "a"]}, TEXT,
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
    Case("minLength says what is so anyway", TEXT, {**TEXT, "minLength": 0}),
    Case("maximum is 0", NUMBER, {**NUMBER, "maximum": 0},
         ("maximum: maximum constraint added when there was none previously : 0",)),
    Case("a bound is written in another way", {**NUMBER, "maximum": 5.0}, {**NUMBER, "maximum": 5}),
    *flag("exclusiveMaximum", {**NUMBER, "maximum": 5}),
    *flag("exclusiveMinimum", {**NUMBER, "minimum": 5}),
    *flag("uniqueItems", LIST),
    Case("multipleOf is added", NUMBER, {**NUMBER, "multipleOf": 2},
         ("multipleOf: multipleOf constraint added when there was none previously : 2",)),
    Case("multipleOf is narrowed", {**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 4},
         ("multipleOf: multipleOf changed : 2 -> 4",)),
    Case("multipleOf is widened", {"type": "number", "multipleOf": 0.3}, {"type": "number", "multipleOf": 0.1}),
    Case("multipleOf is removed", {**NUMBER, "multipleOf": 2}, NUMBER),
    # texts
    Case("a pattern is added", TEXT, {**TEXT, "pattern": "^a$"}, ('pattern: pattern added : "" -> "^a$"',)),
    Case("a pattern is changed", {**TEXT, "pattern": "^a$"}, {**TEXT, "pattern": "^b$"},
         ('pattern: pattern changed : "^a$" -> "^b$"',)),
    Case("a pattern is removed", {**TEXT, "pattern": "^a$"}, TEXT, warns=('pattern: pattern removed : "^a$" -> ""',)),
    *any_change("format", "format", TEXT, ("email", "uri"), ('""', '"email"', '"uri"')),
    # null
    Case("null is allowed", TEXT, {**TEXT, "nullable": True}, warns=("nullable: nullable added : false -> true",)),
    Case("null is not allowed any more", {**TEXT, "nullable": True}, TEXT,
         ("nullable: nullable removed : true -> false",)),
    Case("null is still not allowed", TEXT, {**TEXT, "nullable": False}),
    # several schemas
    Case("oneOf is added", PRESERVE, {**PRESERVE, "oneOf": [{"required": ["a"]}]},
         ('oneOf: oneOf constraint added when there was none previously: [{"required":["a"]}]',)),
    Case("a schema of oneOf is removed", {**PRESERVE, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         {**PRESERVE, "oneOf": [{"required": ["b"]}]}, ('oneOf: allowed oneOf schemas removed: [{"required":["a"]}]',)),
    Case("a schema of oneOf is added", {**PRESERVE, "oneOf": [{"required": ["b"]}]},
         {**PRESERVE, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         ('oneOf: allowed oneOf schemas added: [{"required":["a"]}]',)),
    Case("a schema of oneOf is described", {**PRESERVE, "oneOf": [{"properties": {"title": {"minLength": 1}}}]},
         {**PRESERVE, "oneOf": [{"title": "T", "properties": {"title": {"minLength": 1, "description": "x"}}}]}),
    Case("oneOf is removed", {**PRESERVE, "oneOf": [{"required": ["a"]}]}, PRESERVE,
         warns=('oneOf: allowed oneOf schemas removed: [{"required":["a"]}]',)),
    Case("anyOf is added", TEXT, {**TEXT, "anyOf": [{"minLength": 1}]},
         ('anyOf: anyOf constraint added when there was none previously: [{"minLength":1}]',)),
    Case("a schema of anyOf is removed", {**TEXT, "anyOf": [{"minLength": 1}, {"pattern": "a"}]},
         {**TEXT, "anyOf": [{"pattern": "a"}]}, ('anyOf: allowed anyOf schemas removed: [{"minLength":1}]',)),
    Case("a schema of anyOf is narrowed", {**TEXT, "anyOf": [{"pattern": "a"}, {"minLength": 1}]},
         {**TEXT, "anyOf": [{"pattern": "a"}, {"minLength": 2}]},
         ("v1: ^.spec.color.anyOf[1]: minLength: minLength increased : 1 -> 2",)),
    Case("a schema of anyOf is widened", {**TEXT, "anyOf": [{"minLength": 2}]}, {**TEXT, "anyOf": [{"minLength": 1}]}),
    Case("the schemas of anyOf are in another order", {**TEXT, "anyOf": [{"minLength": 1}, {"pattern": "a"}]},
         {**TEXT, "anyOf": [{"pattern": "a"}, {"minLength": 1}]}),
    Case("another schema is in anyOf", {**TEXT, "anyOf": [{"minLength": 1}]},
         {**TEXT, "anyOf": [{"minLength": 1}, {}]}),
    Case("anyOf is removed", {**TEXT, "anyOf": [{"minLength": 1}]}, TEXT),
    Case("anyOf says again what int-or-string says", INT_OR_STRING,
         {**INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    Case("allOf is added", TEXT, {**TEXT, "allOf": [{"minLength": 1}]},
         ('allOf: allOf constraint added when there was none previously: [{"minLength":1}]',)),
    Case("a schema is added to allOf", {**TEXT, "allOf": [{"minLength": 1}]},
         {**TEXT, "allOf": [{"minLength": 1}, {"pattern": "a"}]},
         ('allOf: required allOf schemas added: [{"pattern":"a"}]',)),
    Case("a schema of allOf constrains one field more",
         {**PRESERVE, "allOf": [{"properties": {"a": {"minLength": 1}}}]},
         {**PRESERVE, "allOf": [{"properties": {"a": {"minLength": 1}, "b": {"maxLength": 1}}}]},
         ("v1: ^.spec.color.allOf[0].b: maxLength: maxLength constraint added when there was none previously : 1",)),
    Case("a schema of allOf constrains one field less",
         {**PRESERVE, "allOf": [{"properties": {"a": {"minLength": 1}, "b": {"maxLength": 1}}}]},
         {**PRESERVE, "allOf": [{"properties": {"a": {"minLength": 1}}}]}),
    Case("a schema of allOf is removed", {**TEXT, "allOf": [{"minLength": 1}, {"pattern": "a"}]},
         {**TEXT, "allOf": [{"pattern": "a"}]}),
    Case("not is added", TEXT, {**TEXT, "not": {"enum": ["a"]}},
         ('not: not constraint added when there was none previously : {"enum":["a"]}',)),
    Case("not is changed", {**TEXT, "not": {"enum": ["a"]}}, {**TEXT, "not": {"enum": ["b"]}},
         ('not: not changed : {"enum":["a"]} -> {"enum":["b"]}',)),
    Case("not is described", {**TEXT, "not": {"enum": ["a"]}}, {**TEXT, "not": {"enum": ["a"], "description": "x"}}),
    Case("not is removed", {**TEXT, "not": {"enum": ["a"]}}, TEXT),
    # rules
    Case("a rule is added", NUMBER, {**NUMBER, "x-kubernetes-validations": [RULE]},
         ('xvalidations: rules added : ["self > 1"]',)),
    Case("a rule gives another reason", {**NUMBER, "x-kubernetes-validations": [RULE]},
         {**NUMBER, "x-kubernetes-validations": [{**RULE, "reason": "FieldValueForbidden"}]},
         ('xvalidations: rules added : ["self > 1"]',), ('xvalidations: rules removed : ["self > 1"]',)),
    Case("a rule has another message", {**NUMBER, "x-kubernetes-validations": [RULE]},
         {**NUMBER, "x-kubernetes-validations": [{**RULE, "message": "x", "reason": "FieldValueInvalid"}]}),
    Case("a rule is removed", {**NUMBER, "x-kubernetes-validations": [RULE]}, NUMBER,
         warns=('xvalidations: rules removed : ["self > 1"]',)),
    # the dialect of Kubernetes
    Case("unknown fields are not kept any more", PRESERVE, {"type": "object"},
         ("preserveUnknownFields: preserveUnknownFields removed : true -> false",)),
    Case("unknown fields are kept", {"type": "object"}, PRESERVE),
    Case("int-or-string is added", {}, INT_OR_STRING, ("intOrString: intOrString added : false -> true",)),
    Case("int-or-string is removed", INT_OR_STRING, {}, ("intOrString: intOrString removed : true -> false",)),
    Case("an embedded resource is one no more", {**PRESERVE, "x-kubernetes-embedded-resource": True}, PRESERVE,
         ("embeddedResource: embeddedResource removed : true -> false",)),
    *any_change("listType", "x-kubernetes-list-type", LIST, ("set", "map"), ('"atomic"', '"set"', '"map"')),
    Case("listType says what is so anyway", LIST, {**LIST, "x-kubernetes-list-type": "atomic"}),
    *any_change("listMapKeys", "x-kubernetes-list-map-keys", LIST, (["a"], ["b"]), ("[]", '["a"]', '["b"]')),
    Case("listMapKeys are in another order", {**LIST, "x-kubernetes-list-map-keys": ["a", "b"]},
         {**LIST, "x-kubernetes-list-map-keys": ["b", "a"]}),
    Case("mapType is added", MAP, {**MAP, "x-kubernetes-map-type": "atomic"},
         ('mapType: mapType added : "granular" -> "atomic"',)),
    Case("mapType says what is so anyway", MAP, {**MAP, "x-kubernetes-map-type": "granular"}),
    # documentation
    Case("a description changes", {**TEXT, "description": "a"}, {**TEXT, "description": "b"}),
    Case("a title, an example and a link are added", TEXT,
         {**TEXT, "title": "T", "example": "x", "externalDocs": {"url": "https://example.com"}}),
    # what nobody knows
    Case("a field that is not known changes", {**TEXT, "x-kubernetes-new": 1, "discriminator": "a"},
         {**TEXT, "x-kubernetes-new": 2},
         ('unhandled: unhandled changes found (discriminator "a" -> null; x-kubernetes-new 1 -> 2)',)),
    # what is below
    Case("a map of anything takes only texts", {"type": "object", "additionalProperties": True}, MAP,
         ('unhandled: unhandled changes found (additionalProperties true -> {"type":"string"})',)),
    Case("a map takes anything", {"type": "object", "additionalProperties": False}, MAP),
    Case("the values of a map are narrowed", MAP, {"type": "object", "additionalProperties": {**TEXT, "enum": ["a"]}},
         ('v1: ^.spec.color.additionalProperties: enum: enum constraint added when there was none previously : ["a"]',
         )),
    Case("a field is added below a map",
         {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
         {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}}),
    Case("a description changes below a map", MAP,
         {"type": "object", "additionalProperties": {**TEXT, "description": "x"}}),
    Case("the items of a list are narrowed", LIST, {"type": "array", "items": {**TEXT, "maxLength": 5}},
         ("v1: ^.spec.color.items: maxLength: maxLength constraint added when there was none previously : 5",)),
    Case("a field is removed with all that is below it",
         {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {**TEXT, "default": "x"}}}}},
         {"type": "object", "properties": {}}, ("existingFieldRemoval: removed field : v1.^.spec.color.a",)),
    Case("a map is one no more", MAP, {"type": "object"},
         ("existingFieldRemoval: removed field : v1.^.spec.color.additionalProperties",)),
    Case("an optional field is added", {"type": "object", "properties": {}},
         {"type": "object", "properties": {"a": {**TEXT, "enum": ["x"], "default": "x", "pattern": "x"}}}),
    # what is malformed: the API server refuses it
    Case("what is no schema reads as none", {"properties": ["a"], "enum": "a", "maximum": "1"},
         {"anyOf": 1, "not": None}),
]
# fmt: on


def found(case: Case, level: str) -> tuple[str, ...]:
    old, new = (definition(version(value=schema(color=node))) for node in (case.old, case.new))
    findings = compare(read_definition(on_cluster(old)), read_definition(new))
    lines = sorted(finding.line for finding in findings if finding.level == level)
    return tuple(line.removeprefix("v1: ^.spec.color: ") for line in lines)


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_said_about_a_change(case: Case) -> None:
    assert found(case, "Error") == case.errors
    assert found(case, "Warn") == case.warns


def test_documentation_is_found_for_those_who_ask_for_it() -> None:
    changes = list(compare_fields({"description": "a"}, {"description": "b", "title": "T"}))
    assert [(change.check, change.text, change.level) for change in changes] == [
        ("description", 'description changed : "a" -> "b"', "None"),
        ("description", 'title changed : "" -> "T"', "None"),
    ]
