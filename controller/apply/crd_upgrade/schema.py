"""Compare two schemas: every node of the old one with the node at its path in the new one.

A node that only the new schema has is never a change, and a removed one is a single change, without its subtree. Inside
`allOf` and `anyOf`, where every node is a constraint, it is the other way round: a new node narrows, and a removed one
does not. `oneOf` and `not`, where wider and narrower swap, are compared as a whole by their rules, and so is
`additionalProperties` if it is true or false.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from api.v1alpha2.policies import CrdCheck
from controller.apply.crd_upgrade.checks import INT_OR_STRING, PRESERVE, SchemaChange, compare_fields, without_equal
from controller.apply.crd_upgrade.definition import Schema
from controller.apply.crd_upgrade.finding import compact
from controller.untrusted import mapping, sequence

ROOT = "^"
_INT_OR_STRING_ALTERNATIVES = [{"type": "integer"}, {"type": "string"}]


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
            yield from _compare(child, after[suffix], path + suffix)
        else:
            yield Difference(path + suffix, _removal(child), gone=True)


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
        yield from _compare_constraints(mapping(before), mapping(after), f"{path}.{check}[{places[id(before)]}]")


def _compare_constraints(old: Schema, new: Schema, path: str) -> Iterator[Difference]:
    for change in compare_fields(old, new):
        yield Difference(path, change)
    yield from _compare_combinations(old, new, path)
    before, after = _children(old), _children(new)
    for suffix in dict.fromkeys((*before, *after)):
        yield from _compare_constraints(before.get(suffix, {}), after.get(suffix, {}), path + suffix)
