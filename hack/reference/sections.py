"""A section for each type of the API: its fields, as the CRD describes them.

A type with few fields that occurs once has no section. Its fields are in the table of the type that contains it.
Fields that several types have from one base are in the table of the first of them.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rukpak.controller.formats.manifests import read_documents

Schema = Mapping[str, Any]
Table = Callable[[tuple[str, ...], Iterable[tuple[str, ...]]], Iterator[str]]

EXAMPLES = Path(__file__).with_name("examples.yaml")
HEADING = ("field", "type", "default", "description")
FEW = 5
"""The most fields of a type that has no section because it occurs once."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a block; `block` is set if its values, or the items of its list, are objects with known fields."""

    name: str
    schema: Schema
    required: bool
    block: Block | None
    owner: str
    """The type that declares it: that of its block, or a base of it."""


@dataclass(frozen=True, slots=True)
class Block:
    """A type of the API at one of its places."""

    type: str
    description: str
    path: str
    """Such as spec.sources[].git.auth."""
    fields: tuple[Field, ...]

    def walk(self) -> Iterator[Block]:
        """Yield this block and all blocks below it, in the order of the fields."""
        yield self
        for field in self.fields:
            if field.block:
                yield from field.block.walk()


def read_block(path: str, schema: Schema, model: type[BaseModel]) -> Block:
    """Return a block with all blocks below it.

    Args:
        path: where it is.
        schema: what the CRD has there.
        model: the type from which the CRD was generated.
    """
    required = schema.get("required", [])
    members = schema.get("properties", {}).items()
    inner = {field.alias: _model_in(field.annotation) for field in model.model_fields.values()}
    owners = {field.alias: _owner_of(name, model) for name, field in model.model_fields.items()}
    fields = (
        Field(name, member, name in required, _block_of(f"{path}.{name}", member, inner[name]), owners[name])
        for name, member in members
    )
    description = " ".join((inspect.getdoc(model) or "").split())
    return Block(model.__name__, description, path, tuple(fields))


def _block_of(path: str, schema: Schema, model: type[BaseModel] | None) -> Block | None:
    if model is None:
        return None
    while schema.get("type") == "array":
        path, schema = f"{path}[]", schema["items"]
    return read_block(path, schema, model)


def _owner_of(name: str, model: type[BaseModel]) -> str:
    return next(base.__name__ for base in reversed(model.__mro__) if name in inspect.get_annotations(base))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation such as `Annotated[tuple[Source, ...], ...]` or `Drift | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in typing.get_args(annotation) if (found := _model_in(each))), None)


def read_examples() -> dict[str, str]:
    """Return YAML below spec or status, by the type whose section shows it."""
    [examples] = read_documents(EXAMPLES.read_bytes(), EXAMPLES.name)
    found: dict[str, str] = examples.value
    return found


def write_sections(root: Block, table: Table) -> Iterator[str]:
    """Yield the lines of all sections of a block: heading, description, places, example, fields."""
    sections = find_sections(root)
    examples = read_examples()
    for name, blocks in sections.items():
        block, elsewhere = _divide(blocks[0], root)
        if name != root.type:
            places = ", ".join(f"`{each.path}`" for each in blocks)
            yield f"### {name}\n"
            yield f"{block.description} In {places}.{elsewhere}\n"
        if example := examples.get(name):
            yield f"```yaml\n{example}```\n"
        yield from table(HEADING, _rows(block, sections))


def _divide(block: Block, root: Block) -> tuple[Block, str]:
    """Return a block without the fields that an earlier table has, and a sentence that says where they are."""
    firsts: dict[str, Block] = {}
    for each in root.walk():
        for field in each.fields:
            firsts.setdefault(field.owner, each)
    origins = {field.name: firsts[field.owner] for field in block.fields if firsts[field.owner].type != block.type}
    if not origins:
        return block, ""
    listed = [f"`{name}`" for name in origins]
    names = " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))
    places = " and ".join(dict.fromkeys(f"`{origin.path}`" for origin in origins.values()))
    own = tuple(field for field in block.fields if field.name not in origins)
    return replace(block, fields=own), f" It also has {names} as in {places}."


def find_sections(root: Block) -> dict[str, list[Block]]:
    """Return the blocks of each type that has a section, in the order of the fields."""
    blocks: dict[str, list[Block]] = {}
    for block in root.walk():
        blocks.setdefault(block.type, []).append(block)
    uses = [field.block.type for [first, *_] in blocks.values() for field in first.fields if field.block]
    return {
        name: found
        for name, found in blocks.items()
        if name == root.type or len(found[0].fields) > (FEW if uses.count(name) == 1 else 1)
    }


def _rows(block: Block, sections: Mapping[str, list[Block]], within: str = "") -> Iterator[tuple[str, ...]]:
    for field in block.fields:
        name = f"{within}{field.name}"
        linked = field.block.type if field.block and field.block.type in sections else ""
        kind = f"[{_type(field.schema, linked)}](#{linked.lower()})" if linked else _type(field.schema)
        yield f"`{name}`", kind, _default(field), _description(field.schema)
        if field.block and not linked:
            items = field.block.path.removeprefix(f"{block.path}.{field.name}")
            yield from _rows(field.block, sections, f"{name}{items}.")


def _type(schema: Schema, name: str = "") -> str:
    if schema.get("type") == "array":
        return f"[]{_type(schema['items'], name)}"
    return name or ("enum" if "enum" in schema else str(schema.get("format", schema.get("type", "any"))))


def _default(field: Field) -> str:
    if field.required:
        return "required"
    return "" if field.schema.get("default", {}) == {} else f"`{json.dumps(field.schema['default'])}`"


def _description(schema: Schema) -> str:
    """Return the description, the values of an enum and the maximum."""
    limits = {"maxLength": "characters", "maxItems": "items", "maxProperties": "keys"}
    values = " One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "." if "enum" in schema else ""
    maxima = "".join(f" At most {schema[key]:,} {noun}." for key, noun in limits.items() if key in schema)
    return f"{schema['description']}{values}{maxima}"
