"""JSON as Go's encoding/json writes it: compact, UTF-8, with `<`, `>`, `&`, U+2028 and U+2029 escaped.

Names of RBAC objects contain hashes of it, and annotations contain it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})
_TOKEN = re.compile(r'[ \t\r\n]+|"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^ \t\r\n{}\[\]:,"]+')
_MOST_CHARACTERS = 1 << 20  # an API server allows a quarter of it for all annotations of an object
_OPENING, _CLOSING = frozenset("{["), frozenset("}]")


def write(value: Any, *, sort_keys: bool = False) -> str:
    """Return a value as json.Marshal writes it; sort keys if it was a map in Go."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)
    return escape(text)


def escape(text: str) -> str:
    """Return JSON with the escapes that Go adds; these characters occur only in strings."""
    return text.translate(_ESCAPES)


def split_list(text: str) -> list[dict[str, str]]:
    """Return the members of the objects in a list: keys to the unparsed text of their values, compact and escaped.

    Raises: ValueError if the text is not a list of objects, or longer than any annotation. RecursionError.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError("too long")
    items = json.loads(text, parse_constant=_refuse)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("not a list of objects")
    tokens = [match[0] for match in _TOKEN.finditer(text) if not match[0].isspace()]
    return [{json.loads(key): escape(value) for key, value in _members(part)} for part in _split(tokens[1:-1])]


def _members(tokens: list[str]) -> Iterator[tuple[str, str]]:
    for member in _split(tokens[1:-1]):
        yield member[0], "".join(member[2:])  # member[1] is the colon


def _split(tokens: list[str]) -> Iterator[list[str]]:
    """Yield the tokens between the commas of the outermost level."""
    depth = 0
    part: list[str] = []
    for token in tokens:
        depth += (token in _OPENING) - (token in _CLOSING)
        if token == "," and not depth:  # noqa: S105 - a token of JSON
            yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _refuse(name: str) -> NoReturn:
    raise ValueError(f'JSON has no "{name}"')
