"""Reading JSON values that anybody may have written, and accounting for what it costs.

Content, a spec and the cluster have such values: also objects of the kinds of others, and replies of the API servers
that serve them. What has another type than expected counts as missing; the functions for that take a value and the path
of keys to what they return. Not here: what refuses a value, with a message (`formats/`), and the spec and the status of
BundleDeployments (`api/v1alpha2`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_STRING = frozenset({str})
_OBJECT_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?").fullmatch


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
