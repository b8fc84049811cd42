"""Which rights include another one, as RBAC has it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from typing import TypeAlias

Right: TypeAlias = tuple[str, ...]
"""API group, resource and name (empty: all), or a single path; anything else is included only in itself."""


def including(right: Right, verb: str, wheres: Collection[str]) -> Iterator[tuple[str, str, Right]]:
    """Yield verb, scope and right of all that include a right: the same or every verb, group, resource, object or path.

    Args:
        right: that is to be included.
        verb: of the right.
        wheres: its scope, and every scope that includes it.
    """
    for each, does, where in product(_including(right), {verb, "*"}, wheres):
        yield does, where, each


def _including(right: Right) -> list[Right]:
    match right:
        case (path,):
            return [(path,), *((f"{path[:end]}*",) for end in range(len(path) + 1))]
        case (group, resource, name):
            _, slash, subresource = resource.partition("/")
            resources = {resource, "*", f"*/{subresource}" if slash else resource}
            return list(product({group, "*"}, resources, {name, ""}))
    return [right]
