"""The sections of api/README.md on types, and their examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import jsonschema
import pytest
from pydantic import Field

from hack.reference.sections import EXAMPLES as FILE
from hack.reference.sections import Block, find_sections, read_block, read_examples, write_sections
from rukpak.api.v1alpha2.fields import Api
from rukpak.api.v1alpha2.schema import open_api_schema, structural
from rukpak.api.v1alpha2.types import Spec, Status
from rukpak.controller.formats.manifests import read_documents

Schema = Mapping[str, Any]
MEMBERS: Mapping[str, Any] = open_api_schema()["properties"]
EXAMPLES = read_examples()
ROOTS = [read_block("spec", MEMBERS["spec"], Spec), read_block("status", MEMBERS["status"], Status)]


class Login(Api):
    """Credentials."""

    name: Annotated[str, Field(max_length=63, description="The user.")]
    token: Annotated[str, Field(description="The token.")] = "none"


class Commit(Api):
    """A commit of git."""

    login: Annotated[Login | None, Field(description="Who reads it.")] = None
    paths: Annotated[tuple[str, ...], Field(description="Its folders.")] = ()
    logins: Annotated[tuple[Login, ...], Field(description="Who else does.", max_length=4)] = ()


class Limit(Api):
    """A limit, which occurs twice but has one field."""

    bytes: Annotated[int, Field(description="How many.")]


class Fetch(Api):
    """All of it."""

    commits: Annotated[tuple[Commit, ...], Field(description="What to read.")]
    soft: Annotated[Limit | None, Field(description="To warn at.")] = None
    hard: Annotated[Limit | None, Field(description="To stop at.")] = None


def fetch() -> Block:
    emitted = Fetch.model_json_schema(by_alias=True)
    return read_block("x", structural(emitted, emitted["$defs"]), Fetch)


def table(_heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    return (" | ".join(row) for row in rows)


def test_a_type_has_a_section_and_one_that_is_small_and_occurs_once_is_part_of_another() -> None:
    assert list(write_sections(fetch(), table)) == [
        "`commits` | []object | required | What to read.",
        "`commits[].login` | [Login](#login) |  | Who reads it.",
        "`commits[].paths` | []string |  | Its folders.",
        "`commits[].logins` | [[]Login](#login) |  | Who else does. At most 4 items.",
        "`soft` | object |  | To warn at.",
        "`soft.bytes` | int64 | required | How many.",
        "`hard` | object |  | To stop at.",
        "`hard.bytes` | int64 | required | How many.",
        "### Login\n",
        "Credentials. In `x.commits[].login`, `x.commits[].logins[]`.\n",
        "`name` | string | required | The user. At most 63 characters.",
        '`token` | string | `"none"` | The token.',
    ]


class Marked(Api):
    """What several types have."""

    label: Annotated[str, Field(description="Its label.")]
    color: Annotated[str, Field(description="Its color.")]


class Door(Marked):
    """A door."""


class Window(Marked):
    """A window."""

    glass: Annotated[str, Field(description="Its glass.")]


class House(Api):
    """A house."""

    door: Annotated[Door, Field(description="Its door.")]
    windows: Annotated[tuple[Window, ...], Field(description="All of them.")]
    roof: Annotated[Window, Field(description="The one above.")]


def test_fields_that_types_have_from_one_base_are_shown_once() -> None:
    emitted = House.model_json_schema(by_alias=True)
    assert list(write_sections(read_block("x", structural(emitted, emitted["$defs"]), House), table)) == [
        "`door` | object | required | Its door.",
        "`door.label` | string | required | Its label.",
        "`door.color` | string | required | Its color.",
        "`windows` | [[]Window](#window) | required | All of them.",
        "`roof` | [Window](#window) | required | The one above.",
        "### Window\n",
        "A window. In `x.windows[]`, `x.roof`. It also has `label` and `color` as in `x.door`.\n",
        "`glass` | string | required | Its glass.",
    ]


def test_every_type_of_spec_is_shown_and_every_example_has_a_section() -> None:
    shown = [example_of(name) for name in EXAMPLES if name != "Status"]
    places: dict[str, list[str]] = {}
    for block in ROOTS[0].walk():
        places.setdefault(block.type, []).append(block.path)
    missing = [
        name
        for name, paths in places.items()
        if not any(shows(example, steps(path)) for path in paths for example in shown)
    ]
    assert missing == []
    assert EXAMPLES.keys() <= {name for root in ROOTS for name in find_sections(root)}, FILE


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_shows_its_type_and_fits_the_schema(name: str) -> None:
    [root] = [root for root in ROOTS if name in find_sections(root)]
    assert any(shows(example_of(name), steps(block.path)) for block in find_sections(root)[name])
    whole = {"format": "plain", "sources": [{"kind": "git"}], **example_of(name)}
    jsonschema.validate(whole if root.path == "spec" else example_of(name), closed(MEMBERS[root.path]))


def example_of(name: str) -> Any:
    [example] = (document.value for document in read_documents(EXAMPLES[name].encode(), name))
    return example


def steps(path: str) -> list[str]:
    return path.replace("[]", "").split(".")[1:]


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


def test_links_of_the_page_lead_to_its_headings() -> None:
    text = "\n".join(line for root in ROOTS for line in write_sections(root, table))
    headings = [line.removeprefix("### ").lower() for line in text.splitlines() if line.startswith("### ")]
    assert sorted(headings) == sorted(set(re.findall(r"\]\(#([^)]*)\)", text)))
