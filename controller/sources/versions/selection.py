"""The highest version of some names, such as tags, or the nearest ones if none is in the range."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import add
from typing import TypeAlias, TypeVar

import re2

from controller.content.limits import quote
from controller.sources.versions.ranges import Range
from controller.sources.versions.version import Version, parse_version

Item = TypeVar("Item")
Check: TypeAlias = Callable[[], None]
Parse: TypeAlias = Callable[[str], Version | None]
_NEAREST = 3
_LIKE = 0.6
"""Which share of letters and pairs of letters similar names have in common."""
_MOST_COMPARED = 200_000
"""Characters of names; repositories with more of them are few, and this takes a fifth of a second."""
_CHECKED_NAMES = 256
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20


def proceed() -> None:
    """Let a computation continue."""


class Choice:
    """The highest version in a range, or the nearest ones if none is in it, of names that are seen once, one by one.

    It keeps a few of the names, whatever their number.

    Args:
        within: the range.
        parse: returns the version that a name stands for.
    """

    def __init__(self, within: Range, parse: Parse = parse_version) -> None:
        self._within, self._parse = within, parse
        self._neighbours = [_Neighbours(bound) for bound in within.versions]
        self._best: tuple[Version, str] | None = None
        self._is_any = False

    def see(self, name: str) -> None:
        """Consider a name; those that are no versions are ignored; `_` stands for `+`, which no tag may contain."""
        version = self._parse(name.replace("_", "+"))
        if version is None:
            return
        self._is_any = True
        if self._within.contains(version):
            self._best = max(self._best or (version, name), (version, name))
        elif self._best is None:
            for each in self._neighbours:
                each.add((version, name))

    @property
    def highest(self) -> str | None:
        """The name with the highest version in the range; None if there is none."""
        return self._best[1] if self._best else None

    def describe_nearest(self) -> str:
        """Return for a message what there is instead of a version in the range."""
        if not self._is_any:
            return "none of them is a version like 1.2.3"
        distances: dict[tuple[Version, str], int] = {}
        for each in self._neighbours:
            for distance, found in each.ranked():
                distances[found] = min(distance, distances.get(found, distance))
        # The higher of two counts first.
        near = sorted(sorted(distances, reverse=True), key=lambda found: distances[found])
        nearest = sorted(near[:_NEAREST], reverse=True)
        return f"the nearest are {', '.join(quote(name) for _, name in nearest)}"


def choose(names: Iterable[str], within: Range, check: Check = proceed, parse: Parse = parse_version) -> Choice:
    """Return the choice among names.

    Args:
        names: read once, and not kept.
        within: the range.
        check: called often; raises to stop.
        parse: returns the version that a name stands for.
    """
    choice = Choice(within, parse)
    for name in checked(names, check):
        choice.see(name)
    return choice


class _Neighbours:
    """The versions next to a bound of a range, on either side of it."""

    def __init__(self, bound: Version) -> None:
        self._bound = bound
        self._below: list[tuple[Version, str]] = []
        self._above: list[tuple[Version, str]] = []

    def add(self, found: tuple[Version, str]) -> None:
        """Remember a version if it is one of the nearest."""
        is_below = found[0] < self._bound
        side = self._below if is_below else self._above
        if len(side) == _NEAREST and (found < side[0] if is_below else found > side[-1]):
            return
        insort(side, found)
        if len(side) > _NEAREST:
            del side[0 if is_below else -1]

    def ranked(self) -> Iterator[tuple[int, tuple[Version, str]]]:
        """Yield how far each is from the bound, counted in versions."""
        yield from enumerate(reversed(self._below), 1)
        yield from enumerate(self._above, 1)


def similar(name: str, names: Iterable[str], check: Check = proceed) -> list[str]:
    """Return the names that are most like a name, at most three, the best first: by letters and pairs of letters.

    This takes time in proportion to the size of the names, unlike an edit distance, and of long lists only the
    beginning is compared. For `check` see `choose`.
    """
    letters, pairs = _parts(name)
    best: list[tuple[float, str]] = []
    left = _MOST_COMPARED
    for each in checked(names, check):
        left -= len(each)
        if left < 0:
            break
        others, other_pairs = _parts(each)
        likeness = (_share(letters, others) + _share(pairs, other_pairs)) / 2
        if likeness >= _LIKE:
            insort(best, (-likeness, each))
            del best[_NEAREST:]
    return [each for _, each in best]


def _parts(name: str) -> tuple[Counter[str], Counter[str]]:
    """Return how often a name has each letter, and each pair of letters."""
    text = f" {name.lower()} "
    return Counter(text), Counter(map(add, text, text[1:]))


def _share(one: Counter[str], other: Counter[str]) -> float:
    """Return the share that two have in common: 1 if they are equal."""
    return 2 * (one & other).total() / (one.total() + other.total())


def checked(names: Iterable[Item], check: Check) -> Iterator[Item]:
    """Yield names, and check often whether to continue."""
    for number, name in enumerate(names):
        if number % _CHECKED_NAMES == 0:
            check()
        yield name


def compile_filter(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a pattern is found in a name; it is in each if it is empty.

    Raises: ValueError for a pattern that is not RE2.
    """
    try:
        expression = re2.compile(pattern, _OPTIONS)
    except re2.error:
        raise ValueError("is not a regular expression (RE2); correct it") from None
    return lambda name: not pattern or bool(expression.search(name))
