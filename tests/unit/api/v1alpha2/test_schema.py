"""The schema is structural, bounded and explained, as far as one can tell without an API server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from rukpak.api.v1alpha2.schema import crd, open_api_schema, structural

Schema = dict[str, Any]

# What a structural schema may hold; more exists, and is not used.
KEYWORDS = {
    *("description", "type", "format", "enum", "pattern", "default", "properties", "items", "required"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-preserve-unknown-fields"),
    *("x-kubernetes-map-type", "x-kubernetes-validations", "additionalProperties"),
}


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from nodes(member, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


SCHEMA = open_api_schema()
NODES = dict(nodes(SCHEMA))
OURS = {path: node for path, node in NODES.items() if path.startswith((".spec", ".status"))}


def test_every_node_is_structural() -> None:
    assert [path for path, node in NODES.items() if node.keys() - KEYWORDS] == []
    untyped = {path: node for path, node in NODES.items() if "type" not in node}
    assert [path for path, node in untyped.items() if not node.get("x-kubernetes-preserve-unknown-fields")] == []
    assert [path for path, node in NODES.items() if node.get("default", "") is None] == []


def test_every_field_is_explained_on_one_line() -> None:
    fields = {path: node for path, node in OURS.items() if not path.endswith("[]")}
    assert [path for path, node in fields.items() if not re.fullmatch(r".+\.", node.get("description", ""))] == []


def has_maximum(node: Schema) -> bool:
    if "type" not in node:
        return True  # any value
    if node["type"] == "string":
        return "maxLength" in node or "enum" in node or node.get("format") == "date-time"
    if node["type"] == "array":
        return "maxItems" in node
    if "additionalProperties" in node and not has_maximum(node["additionalProperties"]):
        return False
    return "maxProperties" in node or "x-kubernetes-preserve-unknown-fields" not in node


def test_everything_has_a_maximum() -> None:
    assert [path for path, node in OURS.items() if not has_maximum(node)] == []


def test_every_list_says_how_it_is_merged() -> None:
    lists = {path: node for path, node in NODES.items() if node.get("type") == "array"}
    assert {node["x-kubernetes-list-type"] for node in lists.values()} == {"atomic", "set", "map"}


def test_managed_fields_name_no_member_of_an_object_in_a_status() -> None:
    status = {path: node for path, node in OURS.items() if path.startswith(".status.")}
    atomic_lists = [f"{path}[]" for path, node in status.items() if node.get("x-kubernetes-list-type") == "atomic"]
    objects = {path: node for path, node in status.items() if node["type"] == "object" and path not in atomic_lists}
    assert len(objects) >= 4
    assert [path for path, node in objects.items() if node.get("x-kubernetes-map-type") != "atomic"] == []


def test_every_key_of_a_list_map_is_always_there() -> None:
    maps = [node for node in NODES.values() if node.get("x-kubernetes-list-type") == "map"]
    keys = [(node["items"], key) for node in maps for key in node["x-kubernetes-list-map-keys"]]
    assert all(key in items["required"] or "default" in items["properties"][key] for items, key in keys)


def test_every_pattern_is_anchored_and_without_look_around() -> None:
    patterns = [node["pattern"] for node in NODES.values() if "pattern" in node]
    assert [pattern for pattern in patterns if not re.match(r"(?!.*\(\?[=!<])\^", pattern)] == []


def test_every_rule_has_a_message_on_one_line_without_full_stop() -> None:
    rules = [rule for node in NODES.values() for rule in node.get("x-kubernetes-validations", [])]
    assert [rule for rule in rules if not re.fullmatch(r"[a-z].*[^.]", rule["message"])] == []


def test_a_status_has_one_default_the_generation_that_nobody_has_seen() -> None:
    assert [path for path in OURS if path.startswith(".status") and "default" in OURS[path]] == [".status"]
    assert OURS[".status"]["default"] == {"observedGeneration": -1}


def test_the_kind_is_cluster_scoped_and_has_a_status_of_its_own() -> None:
    definition = crd()
    (version,) = definition["spec"]["versions"]
    assert definition["metadata"]["name"] == "bundledeployments.core.rukpak.io"
    assert (definition["spec"]["scope"], definition["spec"]["names"]["shortNames"]) == ("Cluster", ["bd", "bds"])
    assert version["subresources"] == {"status": {}}


class Union(BaseModel):
    member: int | str


class Pair(BaseModel):
    member: tuple[int, str]


class Single(BaseModel):
    member: Literal["only"] | None = None


@pytest.mark.parametrize("model", [Union, Pair])
def test_what_has_no_structural_form_is_an_error_rather_than_lost(model: type[BaseModel]) -> None:
    with pytest.raises(ValueError, match="no structural form"):
        structural(model.model_json_schema(), {})


def test_a_single_value_is_an_enum_of_one() -> None:
    member = structural(Single.model_json_schema(), {})["properties"]["member"]
    assert member == {"type": "string", "enum": ["only"]}


def test_no_pattern_means_other_characters_to_pydantic_than_to_the_api_server() -> None:
    rules = [rule["rule"] for node in OURS.values() for rule in node.get("x-kubernetes-validations", [])]
    patterns = [node["pattern"] for node in OURS.values() if "pattern" in node]
    assert len(patterns) > 10
    assert [text for text in (*patterns, *rules) if re.search(r"\\[sSwWdDbBpP]|\[\[:|\(\?", text)] == []


BLANKS = [chr(code) for code in range(0x3001) if chr(code).isspace()]


@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
def test_a_url_or_reference_with_any_blank_is_refused_by_both(blank: str) -> None:
    members = SCHEMA["properties"]["spec"]["properties"]["sources"]["items"]["properties"]
    taken = {("http", "url"): "http://127.0.0.1:9/a", ("image", "ref"): "quay.io/foo/bar:v1"}
    for (block, field), text in taken.items():
        pattern = members[block]["properties"][field]["pattern"]
        assert re.search(pattern, text, re.ASCII)
        assert not re.search(pattern, text + blank + "a", re.ASCII)
