"""Reading JSON values that anybody may have written, and accounting for what it costs.

Content, a spec and the cluster have such values: also objects of the kinds of others, and replies of the API servers
that serve them. What has another type than expected counts as missing; the functions for that take a value and the path
of keys to what they return. Not here: what refuses a value, with a message (`formats/`), and the spec and the status of
BundleDeployments (`api/v1alpha2`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from pydantic_core import from_json

LEVELS = 500
"""Levels of nesting that are kept of a value that is nested deeper."""
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)
_STEPS = bytes.maketrans(b"{[}]", b"\1\1\xff\xff")
_NO_STRUCTURE = bytes(set(range(256)) - set(b'"{[}]'))
_STRING = frozenset({str})
_OBJECT_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?").fullmatch


def decode(data: bytes) -> Any:
    """Return the value of JSON. The API server accepts ten thousand levels of nesting, which Python code cannot walk.

    A user must not hide all objects of a kind by writing such a one, so values below `LEVELS` become null; content and
    spec are never nested that deeply (formats/composer.py, building/request.py). How deep json itself reads is
    another matter in each version of Python.

    pydantic's parser takes half the time, and refuses deep nesting, half a surrogate pair and a byte order mark, which
    json reads.

    Raises: ValueError for invalid JSON.
    """
    try:
        return from_json(data)
    except ValueError:
        return json.loads(_cut(data) if _is_deep(data) else data)


def _is_deep(data: bytes) -> bool:
    # A single object rarely has that many brackets, and a list of them is walked by bytes' own methods only.
    if data.count(b"{") + data.count(b"[") <= LEVELS:
        return False
    marks = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(_STEPS, _NO_STRUCTURE)
    # Removing two quotes in a row changes nothing of what is within others.
    structure = b"".join(marks.replace(b'""', b"").split(b'"')[::2])
    return max(accumulate(memoryview(structure).cast("b")), default=0) > LEVELS


def _cut(data: bytes) -> bytes:
    kept, depth, pieces = 0, 0, []
    for match in _STRUCTURE.finditer(data):
        mark = match[0]
        if mark in (b"{", b"["):
            depth += 1
            if depth == LEVELS + 1:
                pieces += [data[kept : match.start()], b"null"]
        elif mark in (b"}", b"]"):
            if depth == LEVELS + 1:
                kept = match.end()
            depth -= 1
    return b"".join([*pieces, data[kept:]])


def field(value: Any, *path: str) -> Any:
    """Return the value at a path, or None."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path, or an empty one."""
    found = field(value, *path) if path else value
    return found if isinstance(found, dict) else {}


def sequence(value: Any, *path: str) -> Sequence[Any]:
    """Return the list at a path, or an empty one."""
    found = field(value, *path) if path else value
    return found if isinstance(found, list | tuple) else ()


def mappings(value: Any, *path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings in the list at a path."""
    return (item for item in sequence(value, *path) if isinstance(item, dict))


def text(value: Any, *path: str) -> str:
    """Return the text at a path, or an empty one."""
    found = field(value, *path) if path else value
    return found if isinstance(found, str) else ""


def texts(value: Any, *path: str) -> list[str]:
    """Return the texts in the list at a path."""
    return [item for item in sequence(value, *path) if isinstance(item, str)]


def strings(value: Any, *path: str) -> Mapping[str, str]:
    """Return the members of the mapping at a path that are texts, as labels and annotations are."""
    found = mapping(value, *path)
    if _STRING.issuperset(map(type, found.values())):
        return found
    return {key: member for key, member in found.items() if isinstance(member, str)}


def integer(value: Any, *path: str) -> int | None:
    """Return the integer at a path, or None."""
    found = field(value, *path) if path else value
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def number(value: Any, *path: str) -> float | None:
    """Return the number at a path, or None."""
    found = field(value, *path) if path else value
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


LONGEST_STEP, LONGEST_PATH = 120, 400
"""Characters of a step of a path, and of a path that gets another step."""


def path_below(path: str, step: str) -> str:
    """Return the path of a value below another one, for messages. Others choose the names, and how many there are.

    Args:
        path: of the value around it.
        step: what leads from there to the value, with its dot or brackets.
    """
    step = step if len(step) <= LONGEST_STEP else f"{step[:LONGEST_STEP]}…"
    return f"{path}{step}" if len(path) <= LONGEST_PATH else path


class TooManyStepsError(Exception):
    """Something takes more work than a `Steps` has left."""


class Steps:
    """Work that may be done where all of one thing meet all of another, and others decide how many both are.

    Args:
        left: how many steps; one takes one or two microseconds.
    """

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, steps: int) -> None:
        """Account for some steps, before they are done.

        Raises: TooManyStepsError.
        """
        self.left -= steps
        if self.left < 0:
            raise TooManyStepsError


def is_object_name(text: str) -> bool:
    """Return whether an object of Kubernetes can have a name (RFC 1123)."""
    return bool(_OBJECT_NAME(text))
