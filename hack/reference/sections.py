"""A section for each block of the API, from the schema of the CRD. Blocks that are equal share a section."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rukpak.controller.formats.manifests import read_documents

Schema = Mapping[str, Any]
Table = Callable[[tuple[str, ...], Iterable[tuple[str, ...]]], Iterator[str]]

EXAMPLES = Path(__file__).with_name("examples.yaml")
HEADING = ("field", "type", "default", "description")


@dataclass(frozen=True, slots=True)
class Block:
    """An object with fields."""

    paths: tuple[str, ...]
    """All places where it occurs, such as spec.sources[].git.auth."""
    schema: Schema

    @property
    def anchor(self) -> str:
        """Return the fragment of its heading in GitHub's spelling."""
        return "".join(letter for letter in "-".join(self.paths).lower() if letter.isalnum() or letter in "-_")


def find_blocks(path: str, schema: Schema) -> list[Block]:
    """Return the block at a path and all blocks below it, each once, in the order of the fields."""
    paths: dict[str, list[str]] = {}
    schemas: dict[str, Schema] = {}
    for each, found in _walk(path, schema):
        key = json.dumps(found.get("properties"), sort_keys=True)
        paths.setdefault(key, []).append(each)
        schemas.setdefault(key, found)
    return [Block(tuple(paths[key]), schemas[key]) for key in paths]


def _walk(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        below, inner = f"{path}.{name}", member
        while inner.get("type") == "array":
            below, inner = f"{below}[]", inner["items"]
        if inner.get("properties"):
            yield from _walk(below, inner)


def read_examples() -> dict[str, str]:
    """Return the YAML below spec or status that shows a block, by the first path of the block."""
    [examples] = read_documents(EXAMPLES.read_bytes(), EXAMPLES.name)
    found: dict[str, str] = examples.value
    return found


def write_sections(path: str, schema: Schema, table: Table) -> Iterator[str]:
    """Yield the lines of all sections at and below a path: heading, description, example, fields."""
    blocks = find_blocks(path, schema)
    anchors = {each: block.anchor for block in blocks for each in block.paths}
    examples = read_examples()
    for block in blocks:
        if block.paths != (path,):
            yield "### " + ", ".join(f"`{each}`" for each in block.paths) + "\n"
            yield block.schema["description"] + "\n"
        if example := examples.get(block.paths[0]):
            yield f"```yaml\n{example}```\n"
        yield from table(HEADING, _rows(block, anchors))


def _rows(block: Block, anchors: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    required = block.schema.get("required", [])
    for name, member in block.schema.get("properties", {}).items():
        below, kind = f"{block.paths[0]}.{name}", _type(member)
        anchor = anchors.get(below) or anchors.get(f"{below}[]")
        shown = f"[{kind}](#{anchor})" if anchor else kind
        yield f"`{name}`", shown, _default(member, required=name in required), _description(member)


def _type(schema: Schema) -> str:
    if schema.get("type") == "array":
        return f"[]{_type(schema['items'])}"
    return "enum" if "enum" in schema else str(schema.get("format", schema.get("type", "any")))


def _default(schema: Schema, *, required: bool) -> str:
    if required:
        return "required"
    return "" if schema.get("default", {}) == {} else f"`{json.dumps(schema['default'])}`"


def _description(schema: Schema) -> str:
    """Return the description, the values of an enum and the maximum."""
    limits = {"maxLength": "characters", "maxItems": "items", "maxProperties": "keys"}
    values = " One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "." if "enum" in schema else ""
    maxima = "".join(f" At most {schema[key]:,} {noun}." for key, noun in limits.items() if key in schema)
    return f"{schema['description']}{values}{maxima}"
