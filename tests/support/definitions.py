"""Minimal CustomResourceDefinitions, and values and schemas that fit or do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Manifest = dict[str, Any]

NAME = "greetings.example.com"
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}


def schema(spec: Mapping[str, Any] | None = None, **properties: Any) -> Manifest:
    """Return the schema of a resource: of its spec as a whole, or with these properties."""
    given = {"type": "object", "properties": properties} if spec is None else spec
    return {"type": "object", "properties": {"spec": given}}


def version(name: str = "v1", value: Mapping[str, Any] | None = None, **changes: Any) -> Manifest:
    """Return one of spec.versions."""
    listed = {"openAPIV3Schema": schema() if value is None else value}
    return {"name": name, "served": True, "storage": name == "v1", "schema": listed, **changes}


def definition(
    *versions: Manifest, name: str = NAME, annotations: Mapping[str, str] | None = None, **changes: Any
) -> Manifest:
    """Return a CustomResourceDefinition of a namespaced kind Greeting.

    Args:
        versions: by default one without properties.
        name: plural and group.
        annotations: of the object.
        changes: of its spec.
    """
    plural, _, group = name.partition(".")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, **({"annotations": dict(annotations)} if annotations else {})},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Greeting", "plural": plural, "singular": "greeting", "listKind": "GreetingList"},
            "versions": list(versions) or [version()],
            **changes,
        },
    }


def on_cluster(manifest: Manifest, *stored: str) -> Manifest:
    """Return a definition as it is on the cluster, established and with these stored versions."""
    return {**manifest, "status": {**ESTABLISHED, "storedVersions": list(stored or ["v1"])}}


Schema = dict[str, Any]
TEXT = {"type": "string"}
NUMBER = {"type": "number"}
LIST = {"type": "array", "items": TEXT}
MAP = {"type": "object", "additionalProperties": TEXT}
PRESERVE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {**PRESERVE, "x-kubernetes-embedded-resource": True}
KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]},
}


def fields(*required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def formatted(name: str) -> Schema:
    return {"type": "string", "format": name}


class Fitting(NamedTuple):
    name: str
    schema: Schema
    value: Any
    says: str = ""
    """Where and why it does not fit; nothing if it does."""


# fmt: off
CASES = [
    # types
    Fitting("a text", TEXT, "a"),
    Fitting("a number that has to be a text", TEXT, 1, ": must be of type string"),
    Fitting("a text that has to be a number", NUMBER, "1", ": must be of type number"),
    Fitting("a flag that has to be a number", NUMBER, True, ": must be of type number"),
    Fitting("a whole number", {"type": "integer"}, 3),
    Fitting("a number that has to be whole", {"type": "integer"}, 3.5, ": must be of type integer"),
    Fitting("a flag", {"type": "boolean"}, False),
    Fitting("a list that has to be an object", {"type": "object"}, [], ": must be of type object"),
    Fitting("an object that has to be a list", LIST, {}, ": must be of type array"),
    Fitting("int-or-string with a number", {"x-kubernetes-int-or-string": True}, 1),
    Fitting("int-or-string with a text", {"x-kubernetes-int-or-string": True}, "50%"),
    Fitting("int-or-string with a flag", {"x-kubernetes-int-or-string": True}, True,
         ": must be an integer or a string"),
    Fitting("int-or-string with half", {"x-kubernetes-int-or-string": True}, 0.5, ": must be an integer or a string"),
    # null
    Fitting("null where it may be", {**TEXT, "nullable": True}, None),
    Fitting("null where it may be, and values are enumerated", {**TEXT, "nullable": True, "enum": ["a"]}, None,
         ': must be one of ["a"]'),
    Fitting("null where it may be and is enumerated", {**TEXT, "nullable": True, "enum": ["a", None]}, None,
         ': must be one of ["a" null]'),
    Fitting("null where it may not be is as nothing", TEXT, None),
    Fitting("null in a list", LIST, ["a", None], "[1]: must be of type string"),
    Fitting("null in a map is as nothing", MAP, {"a": None}),
    Fitting("null in a map where it may be",
         {"type": "object", "additionalProperties": {**TEXT, "nullable": True}, "minProperties": 1}, {"a": None}),
    # what is set
    Fitting("a field that is required", fields("a", a=TEXT), {}, ".a: is required"),
    Fitting("a field that is required and has a default", fields("a", a={**TEXT, "default": "x"}), {}),
    Fitting("null for a field that is required and has a default", fields("a", a={**TEXT, "default": "x"}),
         {"a": None}),
    Fitting("null for a field that is required", fields("a", a=TEXT), {"a": None}, ".a: is required"),
    Fitting("a field that is not known", fields(a=TEXT), {"b": 1}),
    Fitting("a default with a default in it", fields("a", a={**fields(b={**TEXT, "default": "x"}), "default": {}}), {}),
    Fitting("a field that is kept, whatever it is", PRESERVE, {"b": [1, None]}),
    Fitting("a known field beside those that are kept", {**PRESERVE, "properties": {"a": TEXT}}, {"a": 1, "b": 2},
         ".a: must be of type string"),
    Fitting("a value of a map", MAP, {"a": "b"}),
    Fitting("a wrong value of a map", MAP, {"x.y": 1}, ".x.y: must be of type string"),
    Fitting("a field in an item of a list", {"type": "array", "items": fields("a", a=TEXT)}, [{"a": "x"}, {}],
         "[1].a: is required"),
    # values
    Fitting("a value that is enumerated", {**NUMBER, "enum": [1, 2]}, 1.0),
    Fitting("a value that is not enumerated", {**TEXT, "enum": ["b", "a"]}, "c", ': must be one of ["a" "b"]'),
    Fitting("as much as may be", {**NUMBER, "maximum": 5}, 5),
    Fitting("more than may be", {**NUMBER, "maximum": 5}, 5.5, ": is above the maximum 5"),
    Fitting("as much as may be, exclusively", {**NUMBER, "maximum": 5, "exclusiveMaximum": True}, 5,
         ": is not below 5"),
    Fitting("as little as may be", {**NUMBER, "minimum": 5}, 5),
    Fitting("less than may be", {**NUMBER, "minimum": 5}, 4, ": is below the minimum 5"),
    Fitting("as little as may be, exclusively", {**NUMBER, "minimum": 5, "exclusiveMinimum": True}, 5,
         ": is not above 5"),
    Fitting("a multiple", {**NUMBER, "multipleOf": 0.1}, 0.3),
    Fitting("no multiple", {**NUMBER, "multipleOf": 2}, 3, ": must be a multiple of 2"),
    Fitting("a text of three letters", {**TEXT, "maxLength": 3, "minLength": 3}, "äöü"),
    Fitting("a text that is too long", {**TEXT, "maxLength": 3}, "abcd", ": has more than 3 characters"),
    Fitting("a text that is too short", {**TEXT, "minLength": 3}, "ab", ": has fewer than 3 characters"),
    Fitting("a pattern that is somewhere in a text", {**TEXT, "pattern": "b+"}, "abc"),
    Fitting("a pattern that is not in a text", {**TEXT, "pattern": "^b+$"}, "abc",
         ': does not match the pattern "^b+$"'),
    Fitting("a line end behind the end", {**TEXT, "pattern": "^b$"}, "b\n", ': does not match the pattern "^b$"'),
    Fitting("a pattern of RE2", {**TEXT, "pattern": r"^[[:alpha:]]\pL\z"}, "aé"),
    Fitting("a digit of another script", {**TEXT, "pattern": r"^\d$"}, "\u0663",
         r': does not match the pattern "^\\d$"'),
    Fitting("a pattern that takes others for ever", {**TEXT, "pattern": "^(a+)+$"}, "a" * 50 + "b",
         ': does not match the pattern "^(a+)+$"'),
    # lists and objects
    Fitting("as many items as may be", {**LIST, "maxItems": 1, "minItems": 1}, ["a"]),
    Fitting("too many items", {**LIST, "maxItems": 1}, ["a", "b"], ": has more than 1 items"),
    Fitting("too few items", {**LIST, "minItems": 1}, [], ": has fewer than 1 items"),
    Fitting("an item twice in a list", LIST, ["a", "a"]),
    Fitting("an item twice in a set", {**LIST, "x-kubernetes-list-type": "set"}, ["a", "a"], ": has duplicate items"),
    Fitting("two items of a map by other keys", KEYED, [{"name": "a"}, {"name": "b"}]),
    Fitting("two items of a map by the same key", KEYED, [{"name": "a"}, {"name": "a"}],
         ": has two items with the same name"),
    Fitting("too many fields", {**MAP, "maxProperties": 1}, {"a": "", "b": ""}, ": has more than 1 fields"),
    Fitting("too few fields", {**MAP, "minProperties": 1}, {}, ": has fewer than 1 fields"),
    Fitting("an object in an object", EMBEDDED,
         {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}),
    Fitting("an object in an object without its kind", EMBEDDED, {"apiVersion": "v1"}, ".kind: is required"),
    # several schemas
    Fitting("all of several", {**TEXT, "allOf": [{"minLength": 1}, {"pattern": "a"}]}, "a"),
    Fitting("not all of several", {**TEXT, "allOf": [{"minLength": 1}, {"pattern": "a"}]}, "b",
         ': does not match the pattern "a"'),
    Fitting("one of several", {**TEXT, "anyOf": [{"minLength": 5}, {"pattern": "a"}]}, "a"),
    Fitting("none of several", {**TEXT, "anyOf": [{"minLength": 5}, {"pattern": "a"}]}, "b",
         ": must match a schema of anyOf"),
    Fitting("exactly one of several", {**TEXT, "oneOf": [{"minLength": 5}, {"pattern": "a"}]}, "a"),
    Fitting("two where it may be one", {**TEXT, "oneOf": [{"minLength": 1}, {"pattern": "a"}]}, "a",
         ": must match one schema of oneOf, but matches 2"),
    Fitting("none where it has to be one", {**TEXT, "oneOf": [{"minLength": 5}, {"pattern": "a"}]}, "b",
         ": must match one schema of oneOf, but matches none"),
    Fitting("what is not excluded", {**TEXT, "not": {"pattern": "a"}}, "b"),
    Fitting("what is excluded", {**TEXT, "not": {"pattern": "a"}}, "a", ': must not match the schema of "not"'),
    Fitting("one of two fields", {**fields(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         {"a": "x", "b": "y"}, ": must match one schema of oneOf, but matches 2"),
    # formats
    Fitting("a format that nobody knows", formatted("x"), "anything"),
    Fitting("a number of 32 bits", {"type": "integer", "format": "int32"}, -(2**31)),
    Fitting("a number of more", {"type": "integer", "format": "int32"}, 2**31, ": does not have the format int32"),
    Fitting("a number of 64 bits", {"type": "integer", "format": "int64"}, 2**40),
    Fitting("a large number as float", {"type": "number", "format": "float"}, 1e39, ": does not have the format float"),
    Fitting("a large number as double", {"type": "number", "format": "double"}, 1e300),
    Fitting("a negative number as uint32", {"type": "integer", "format": "uint32"}, -1),
    Fitting("half an int32", {"type": "number", "format": "int32"}, 0.5),
    Fitting("a large number as int32", {"type": "number", "format": "int32"}, 1e12),
    *(
        Fitting(f"{text!r} as {name}", formatted(name), text)
        for name, text in [
            ("uri", "https://example.com/a?b=c"),
            ("uri", "/path"),
            ("uri", "mailto:a@example.com"),
            ("email", "a@example.com"),
            ("email", "A <a@example.com>"),
            ("hostname", "www.example.com"),
            ("hostname", "localhost"),
            ("ipv4", "10.0.0.1"),
            ("ipv6", "2001:db8::1"),
            ("cidr", "10.0.0.0/8"),
            ("cidr", "2001:db8::/32"),
            ("mac", "01:23:45:67:89:ab"),
            ("mac", "0123.4567.89ab"),
            ("uuid", "A1B2c3d4-0000-1000-8000-000000000000"),
            ("uuid3", "a1b2c3d4-0000-3000-8000-000000000000"),
            ("uuid4", "a1b2c3d4-0000-4000-8000-000000000000"),
            ("uuid5", "a1b2c3d4-0000-5000-8000-000000000000"),
            ("byte", "aGVsbG8="),
            ("password", "anything"),
            ("date", "2026-02-28"),
            ("duration", "1h30m"),
            ("duration", "-1.5s"),
            ("duration", "3 days"),
            ("date-time", "2026-02-28T12:00:00Z"),
            ("datetime", "2026-02-28T12:00:00.123+01:00"),
            ("int32", "a"),
        ]
    ),
    *(
        Fitting(f"{text!r} as {name}, which it is not", formatted(name), text, f": does not have the format {name}")
        for name, text in [
            ("uri", "example"),
            ("uri", "http://a b"),
            ("email", "example.com"),
            ("hostname", "a_b!"),
            ("ipv4", "10.0.0.256"),
            ("ipv4", "2001:db8::1"),
            ("ipv6", "10.0.0.1"),
            ("cidr", "10.0.0.1"),
            ("cidr", "10.0.0.0/33"),
            ("mac", "01:23:45"),
            ("uuid", "a1b2c3d4"),
            ("uuid3", "a1b2c3d4-0000-4000-8000-000000000000"),
            ("uuid4", "a1b2c3d4-0000-4000-0000-000000000000"),
            ("uuid5", "a1b2c3d4-0000-4000-8000-000000000000"),
            ("byte", "aGVsbG8"),
            ("date", "2026-02-30"),
            ("duration", "1x"),
            ("date-time", "2026-02-28"),
        ]
    ),
]
# fmt: on
