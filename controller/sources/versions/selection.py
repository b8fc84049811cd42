"""The highest version of some names, such as tags, or the nearest ones if none is in the range."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import re2

from controller.content.limits import quote
from controller.sources.versions.ranges import Range
from controller.sources.versions.version import Version, parse_version

_NEAREST = 3
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20


def highest(names: Iterable[str], within: Range) -> str | None:
    """Return the name with the highest version in a range; None if there is none.

    Args:
        names: those that are no versions are ignored; `_` stands for `+`, which no tag may contain.
        within: the range.
    """
    found = [(version, name) for version, name in _versions(names) if within.contains(version)]
    return max(found)[1] if found else None


def describe_nearest(names: Iterable[str], within: Range) -> str:
    """Return for a message what there is instead of a version in the range."""
    found = sorted(_versions(names))
    if not found:
        return "none of them is a version like 1.2.3"
    versions = [version for version, _ in found]
    bounds = [bisect_left(versions, named) for named in within.versions]
    # A version next to a bound, on either side of it, is the nearest one; the higher of two counts first.
    near = sorted(range(len(found)), key=lambda place: (min(_distance(place, bound) for bound in bounds), -place))
    nearest = sorted(near[:_NEAREST], reverse=True)
    return f"the nearest are {', '.join(quote(found[place][1]) for place in nearest)}"


def _distance(place: int, bound: int) -> int:
    return bound - place if place < bound else place - bound + 1


def _versions(names: Iterable[str]) -> list[tuple[Version, str]]:
    pairs = ((parse_version(name.replace("_", "+")), name) for name in names)
    return [(version, name) for version, name in pairs if version]


def filtered(names: Iterable[str], pattern: str) -> list[str]:
    """Return the names in which a pattern is found; all without one.

    Raises: ValueError for a pattern that is not RE2.
    """
    if not pattern:
        return list(names)
    try:
        expression = re2.compile(pattern, _OPTIONS)
    except re2.error:
        raise ValueError("is not a regular expression (RE2); correct it") from None
    return [name for name in names if expression.search(name)]
