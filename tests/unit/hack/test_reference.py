"""The sections of api/README.md on fields, and their examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jsonschema
import pytest

from hack.reference.sections import find_blocks, read_examples, write_sections
from rukpak.api.v1alpha2.schema import open_api_schema
from rukpak.controller.formats.manifests import read_documents

Schema = Mapping[str, Any]
MEMBERS: Mapping[str, Any] = open_api_schema()["properties"]
EXAMPLES = read_examples()
PATHS = {block.paths[0]: block.paths for root in ("spec", "status") for block in find_blocks(root, MEMBERS[root])}
AUTH: Schema = {
    "type": "object",
    "description": "Credentials.",
    "properties": {"name": {"type": "string", "description": "Of a Secret.", "maxLength": 63}},
    "required": ["name"],
}
SPEC: Schema = {
    "type": "object",
    "description": "All.",
    "properties": {
        "git": {"type": "object", "description": "A commit.", "properties": {"auth": AUTH}},
        "images": {
            "type": "array",
            "description": "Images.",
            "items": {"type": "object", "description": "An image.", "properties": {"auth": AUTH}},
        },
        "auths": {"type": "array", "description": "More.", "items": AUTH, "default": []},
    },
}


def table(_heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    return (" | ".join(row) for row in rows)


def test_equal_blocks_share_a_section_in_the_order_of_the_fields() -> None:
    assert [block.paths for block in find_blocks("x", SPEC)] == [
        ("x",),
        ("x.git", "x.images[]"),
        ("x.git.auth", "x.images[].auth", "x.auths[]"),
    ]


def test_a_section_has_the_fields_of_its_block_and_links_to_the_blocks_below() -> None:
    assert list(write_sections("x", SPEC, table)) == [
        "`git` | [object](#xgit-ximages) |  | A commit.",
        "`images` | [[]object](#xgit-ximages) |  | Images.",
        "`auths` | [[]object](#xgitauth-ximagesauth-xauths) | `[]` | More.",
        "### `x.git`, `x.images[]`\n",
        "A commit.\n",
        "`auth` | [object](#xgitauth-ximagesauth-xauths) |  | Credentials.",
        "### `x.git.auth`, `x.images[].auth`, `x.auths[]`\n",
        "Credentials.\n",
        "`name` | string | required | Of a Secret. At most 63 characters.",
    ]


def test_every_block_of_spec_has_an_example_and_no_example_is_left_over() -> None:
    blocks = [block.paths[0] for block in find_blocks("spec", MEMBERS["spec"])]
    assert EXAMPLES.keys() == {*blocks[1:], "status"}, "the introduction has the example of spec"


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_shows_its_block_and_fits_the_schema(path: str) -> None:
    [example] = (document.value for document in read_documents(EXAMPLES[path].encode(), path))
    root = path.replace("[]", "").partition(".")[0]
    assert any(shows(example, each.replace("[]", "").split(".")[1:]) for each in PATHS[path])
    whole = {"format": "plain", "sources": [{"kind": "git"}], **example} if root == "spec" else example
    jsonschema.validate(whole, closed(MEMBERS[root]))


def shows(value: Any, names: list[str]) -> bool:
    """Whether an example has a field; lists may have it in any item."""
    if isinstance(value, list):
        return any(shows(item, names) for item in value)
    return not names or (isinstance(value, dict) and names[0] in value and shows(value[names[0]], names[1:]))


def closed(schema: Schema) -> Schema:
    """Return a schema that refuses unknown fields, as kubectl does."""
    found = dict(schema)
    if "properties" in schema:
        found["properties"] = {name: closed(member) for name, member in schema["properties"].items()}
        found["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if "items" in schema:
        found["items"] = closed(schema["items"])
    return found


def test_links_of_the_readme_lead_to_its_headings() -> None:
    text = "\n".join(line for root in ("spec", "status") for line in write_sections(root, MEMBERS[root], table))
    headings = {
        "".join(letter for letter in line[4:].lower().replace(" ", "-") if letter.isalnum() or letter == "-")
        for line in text.splitlines()
        if line.startswith("### ")
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) == headings
