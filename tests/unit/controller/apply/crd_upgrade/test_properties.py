"""What holds for every schema: nothing is said of the same and of more fields, and nothing narrower is missed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from controller.apply.crd_upgrade.definition import CheckFinding, read_definition
from controller.apply.crd_upgrade.schemas import compare
from controller.apply.crd_upgrade.validation import admit, validate
from tests.support.definitions import definition, on_cluster, version

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
