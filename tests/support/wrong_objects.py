"""Custom objects that `rukpak lint` finds something wrong with, and others that it accepts; for both tests.

What is wrong is refused by a real API server, too (tests/integration/test_lint.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Wrong:
    name: str
    item: Manifest
    expect: tuple[str, ...]
    """What is found: path and problem."""


def changed(item: Any, path: str, value: Any = None) -> Any:
    """Return an object with another value at a path (`spec/ports/0/name`); without it, if that is None."""
    step, _, rest = path.partition("/")
    key: Any = int(step) if isinstance(item, list) else step
    copy: Any = list(item) if isinstance(item, list) else dict(item)
    if rest:
        copy[key] = changed(copy[key], rest, value)
    elif value is None:
        del copy[key]
    else:
        copy[key] = value
    return copy


def made(kind: str, name: str, api_version: str = "v1", **fields: Any) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


SHELVES: Manifest = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["width", "material"],
            "properties": {
                "width": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10},
                "depth": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                "color": {"type": "string", "enum": ["red", "green"]},
                "code": {"type": "string", "pattern": "^(?i)[a-z]+$", "minLength": 2, "maxLength": 4},
                "port": {"x-kubernetes-int-or-string": True},
                "owner": {"type": "string", "nullable": True},
                "material": {"type": "string", "default": "oak"},
                "since": {"type": "string", "format": "date-time"},
                "books": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {"type": "object", "properties": {"title": {"type": "string"}}},
                },
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "extra": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"count": {"type": "integer"}},
                },
                "nothing": {"type": "object"},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}},
                },
                "either": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                },
            },
        }
    },
}
DEFINITION = made(
    "CustomResourceDefinition",
    "shelves.lint.example.com",
    "apiextensions.k8s.io/v1",
    spec={
        "group": "lint.example.com",
        "names": {"kind": "Shelf", "plural": "shelves"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SHELVES}},
            {"name": "v1alpha1", "served": False, "storage": False, "schema": {"openAPIV3Schema": SHELVES}},
        ],
    },
)
SHELF = made(
    "Shelf",
    "shelf",
    "lint.example.com/v1",
    spec={
        "width": 3,
        "depth": 0.5,
        "color": "red",
        "code": "AbC",
        "port": "http",
        "since": "2026-01-02T03:04:05Z",
        "books": [{"title": "Emma"}],
        "labels": {"any/thing": "1"},
        "extra": {"anything": [1], "count": 1},
        "nothing": {},
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}},
        "either": {"a": "x"},
    },
)

GOOD: Mapping[str, Manifest] = {
    "all fields": SHELF,
    "a number where text is allowed, too": changed(SHELF, "spec/port", 8080),
    "what is dropped from an object without fields": changed(SHELF, "spec/nothing/a", 1),
    "null where it is allowed": SHELF | {"spec": {**SHELF["spec"], "owner": None}},
    "null where there is a default": SHELF | {"spec": {**SHELF["spec"], "material": None}},
}
WRONG = [
    Wrong("an unknown field", changed(SHELF, "spec/colour", "red"),
          ('spec.colour: unknown field; did you mean "color"?',)),
    Wrong("an unknown field in a list", changed(SHELF, "spec/books/0/pages", 1),
          ("spec.books[0].pages: unknown field",)),
    Wrong("a misspelt field of metadata", changed(SHELF, "metadata/lables", {}),
          ('metadata.lables: unknown field; did you mean "labels"?',)),
    Wrong("a label that is a number", changed(SHELF, "metadata/labels", {"a": 1}),
          ("metadata.labels.a: must be of type string",)),
    Wrong("a finalizer that is a mapping", changed(SHELF, "metadata/finalizers", [{}]),
          ("metadata.finalizers[0]: must be of type string",)),
    Wrong("a misspelt field of an embedded object's metadata", changed(SHELF, "spec/template/metadata/nam", "x"),
          ('spec.template.metadata.nam: unknown field; did you mean "name"?',)),
    Wrong("a kind of an embedded object that is a number", changed(SHELF, "spec/template/kind", 1),
          ("spec.template.kind: must be of type string",)),
    Wrong("a missing field", changed(SHELF, "spec/width"), ("spec.width: is required",)),
    Wrong("null in a list", changed(SHELF, "spec/books", [None]), ("spec.books[0]: must be of type object",)),
    Wrong("a quoted number", changed(SHELF, "spec/width", "3"), ("spec.width: must be of type integer",)),
    Wrong("a number that is no integer", changed(SHELF, "spec/width", 1.5), ("spec.width: must be of type integer",)),
    Wrong("a mapping instead of a list", changed(SHELF, "spec/books", {}), ("spec.books: must be of type array",)),
    Wrong("a number below its minimum", changed(SHELF, "spec/width", 0), ("spec.width: is below the minimum 1",)),
    Wrong("a number above its maximum", changed(SHELF, "spec/width", 11), ("spec.width: is above the maximum 10",)),
    Wrong("a number that must be above its minimum", changed(SHELF, "spec/depth", 0), ("spec.depth: is not above 0",)),
    Wrong("a word that is not in the list", changed(SHELF, "spec/color", "gren"),
          ('spec.color: must be one of ["green" "red"]',)),
    Wrong("a text that does not match", changed(SHELF, "spec/code", "a1"),
          ('spec.code: does not match the pattern "^(?i)[a-z]+$"',)),
    Wrong("a text that is too short", changed(SHELF, "spec/code", "a"), ("spec.code: has fewer than 2 characters",)),
    Wrong("a text that is too long", changed(SHELF, "spec/code", "abcde"), ("spec.code: has more than 4 characters",)),
    Wrong("a list that is too long", changed(SHELF, "spec/books", [{}, {}, {}]),
          ("spec.books: has more than 2 items",)),
    Wrong("neither a number nor a text", changed(SHELF, "spec/port", True),
          ("spec.port: must be an integer or a string",)),
    Wrong("a value of a mapping", changed(SHELF, "spec/labels/a", 1), ("spec.labels.a: must be of type string",)),
    Wrong("a known field where others are kept", changed(SHELF, "spec/extra/count", "1"),
          ("spec.extra.count: must be of type integer",)),
    Wrong("an unknown field of an embedded object", changed(SHELF, "spec/template/dta", {}),
          ('spec.template.dta: unknown field; did you mean "data"?',)),
    Wrong("an embedded object without a kind", changed(SHELF, "spec/template/kind"),
          ("spec.template.kind: is required",)),
    Wrong("a time that is none", changed(SHELF, "spec/since", "2026-13-01T00:00:00Z"),
          ("spec.since: does not have the format date-time",)),
    Wrong("two of which one is allowed", changed(SHELF, "spec/either/b", "y"),
          ("spec.either: must match one schema of oneOf, but matches 2",)),
    Wrong("several problems", changed(changed(SHELF, "spec/width"), "spec/colour", 1),
          ('spec.colour: unknown field; did you mean "color"?', "spec.width: is required")),
]  # fmt: skip
