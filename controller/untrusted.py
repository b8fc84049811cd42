"""Reading JSON values that anybody may have written: what has another type than expected counts as missing.

Content, a spec and the cluster have such values: also objects of the kinds of others, and replies of the API servers
that serve them. Every function takes a value and the path of keys to what it returns. Not here: what refuses a value,
with a message (`formats/`), and the spec and the status of BundleDeployments (`api/v1alpha2`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_STRING = frozenset({str})


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
