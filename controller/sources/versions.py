"""Semantic versions (https://semver.org), ranges of them, and the highest one of some names, such as tags.

Ranges: `>=1.2 <2`, `~1.4`, `^0.3`, `1.x`, `1.2 - 1.4`, `>=1 || <0.5`. As Masterminds' semver 3.5 (constraints.go),
which Helm uses: pre-releases are only in the alternatives of a range that name one. The expressions are RE2, as there:
others would take exponential time for some ranges. If no name is in a range, the nearest ones are told.
"""

from __future__ import annotations

import re
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, total_ordering
from operator import add
from typing import TypeAlias, TypeVar

import re2

from rukpak.controller.content.limits import quote

_LONGEST = 256
_NUMBER = r"0|[1-9][0-9]{0,18}"
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


@total_ordering
@dataclass(frozen=True, kw_only=True)
class Version:
    """A semantic version; build metadata counts for nothing."""

    major: int
    minor: int
    patch: int
    pre_release: str = ""

    def __lt__(self, other: Version) -> bool:
        return self._order < other._order

    @cached_property
    def _order(self) -> tuple[object, ...]:
        # A release is higher than its pre-releases; numbers are lower than words.
        parts = self.pre_release.split(".") if self.pre_release else []
        order = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
        return self.major, self.minor, self.patch, not parts, order


def parse_version(text: str) -> Version | None:
    """Return a version, which may start with v and must have three numbers; None for any other text."""
    return _parse(_VERSION, text)


def _parse(form: re.Pattern[str], text: str) -> Version | None:
    found = form.fullmatch(text) if len(text) <= _LONGEST else None
    if not found:
        return None
    major, minor, patch, pre_release = found.groups()
    return Version(major=int(major), minor=int(minor or 0), patch=int(patch or 0), pre_release=pre_release or "")


_LOOSE = re.compile(
    r"v?([0-9]{1,19})(?:\.([0-9]{1,19}))?(?:\.([0-9]{1,19}))?(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def is_version(name: str, version: str) -> bool:
    """Whether a name, such as a tag, says a version: without regard to "v" before it, and with `_` or `+`."""
    return _plain(name) == _plain(version)


def _plain(name: str) -> str:
    return name.removeprefix("v").replace("_", "+")


def parse_loosely(text: str) -> Version | None:
    """Return a version as Helm reads those of an index: it may lack numbers, which are 0, and start with zeros."""
    return _parse(_LOOSE, text)


_LONGEST_RANGE, _MOST_ALTERNATIVES, _MOST_BOUNDS = 512, 32, 32
_WILDCARDS = ("x", "X", "*")
_MAJOR, _MINOR, _PATCH = "major", "minor", "patch"
_OPERATORS = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^"
_WRITTEN = (
    r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?"
    r"(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?"
)
_ONE = re2.compile(rf"\s*({_OPERATORS})\s*({_WRITTEN})\s*")
_HYPHEN = re2.compile(rf"\s*({_WRITTEN})\s+-\s+({_WRITTEN})\s*")
_ALTERNATIVE = re2.compile(rf"(\s*({_OPERATORS})\s*({_WRITTEN})\s*)((?:\s+|,\s*)({_OPERATORS})\s*({_WRITTEN})\s*)*")
_EACH = re2.compile(rf"({_OPERATORS})\s*({_WRITTEN})")
_GROUPS_OF_VERSION = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """One comparison; numbers that are missing or wildcards are 0 in `version`."""

    operator: str
    version: Version
    open_from: str
    """Which number is the first one that is missing or a wildcard: major, minor or patch; '' for none."""


class Range:
    """A range of versions.

    Raises: ValueError with the problem and the remedy.
    """

    def __init__(self, text: str) -> None:
        alternatives = _rewrite_hyphens(text or "*").split("||")
        if len(text) > _LONGEST_RANGE or len(alternatives) > _MOST_ALTERNATIVES:
            limits = f"{_LONGEST_RANGE} characters and {_MOST_ALTERNATIVES} alternatives"
            raise ValueError(f"has more than {limits}; shorten it")
        if not all(map(_ALTERNATIVE.fullmatch, alternatives)):
            raise ValueError('is not a range of versions; write it like ">=1.2.0 <2.0.0", "~1.4" or "1.x"')
        parsed = [[_parse_bound(found[0]) for found in _EACH.finditer(each)] for each in alternatives]
        self._alternatives = [(bounds, any(bound.version.pre_release for bound in bounds)) for bounds in parsed]
        if len(self.versions) > _MOST_BOUNDS:  # each is compared with each version that there is
            raise ValueError(f"has more than {_MOST_BOUNDS} comparisons; shorten it")

    def contains(self, version: Version) -> bool:
        """Return whether a version is in the range."""
        return any(
            (with_pre_releases or not version.pre_release)
            and all(_CHECKS[bound.operator](bound, version) for bound in bounds)
            for bounds, with_pre_releases in self._alternatives
        )

    @property
    def versions(self) -> list[Version]:
        """The versions that the range names."""
        return [bound.version for bounds, _ in self._alternatives for bound in bounds]


def _rewrite_hyphens(text: str) -> str:
    result = text
    for found in _HYPHEN.finditer(text):
        low, high = found[1], found[2 + _GROUPS_OF_VERSION - 1]
        result = result.replace(found[0], f">= {low}, <= {high} ", 1)
    return result


def _parse_bound(text: str) -> _Bound:
    found = _ONE.fullmatch(text)
    operator, written, major = found[1], found[2], found[3]
    minor, patch, pre_release = (found[4] or "")[1:], (found[5] or "")[1:], found[6] or ""
    numbers = {_MAJOR: major, _MINOR: minor, _PATCH: patch}
    first = next((name for name, number in numbers.items() if number in ("", *_WILDCARDS)), "")
    rest = {"": written, _MAJOR: "0.0.0", _MINOR: f"{major}.0.0", _PATCH: f"{major}.{minor}.0"}[first]
    version = parse_version(rest + pre_release if first else rest)
    if version is None:
        raise ValueError(f'has a version "{written}" that is none; correct it')
    return _Bound(operator=operator, version=version, open_from=first)


# comparisons


def _is_equal(bound: _Bound, version: Version) -> bool:
    return _is_like(bound, version) if bound.open_from else version == bound.version


def _is_not_equal(bound: _Bound, version: Version) -> bool:
    named = bound.version
    if bound.open_from == _MINOR:
        return named.major != version.major
    if bound.open_from == _PATCH:
        same = (named.major, named.minor) == (version.major, version.minor)
        return not same or named.pre_release != version.pre_release
    return version != named


def _is_greater(bound: _Bound, version: Version) -> bool:
    named = bound.version
    if version.major == named.major and bound.open_from == _MINOR:
        return False
    if version.major == named.major and bound.open_from == _PATCH:
        return version.minor > named.minor
    return version > named


def _is_not_greater(bound: _Bound, version: Version) -> bool:
    named = bound.version
    if not bound.open_from:
        return version <= named
    if version.major != named.major or bound.open_from == _MINOR:
        return version.major <= named.major
    return version.minor <= named.minor


def _is_like(bound: _Bound, version: Version) -> bool:
    named = bound.version
    if version < named:
        return False
    if not (named.major or named.minor or named.patch or bound.open_from in (_MINOR, _PATCH)):
        return True  # ~0.0.0 is everything from 0.0.0 on
    return named.major == version.major and (named.minor == version.minor or bound.open_from == _MINOR)


def _is_compatible(bound: _Bound, version: Version) -> bool:
    named = bound.version
    if version < named or version.major != named.major:
        return False
    if named.major or bound.open_from == _MINOR:
        return True
    if named.minor or bound.open_from == _PATCH:
        return version.minor == named.minor
    return (version.minor, version.patch) == (0, named.patch)


_CHECKS: dict[str, Callable[[_Bound, Version], bool]] = {
    "": _is_equal,
    "=": _is_equal,
    "!=": _is_not_equal,
    ">": _is_greater,
    "<": lambda bound, version: version < bound.version,
    ">=": lambda bound, version: version >= bound.version,
    "=>": lambda bound, version: version >= bound.version,
    "<=": _is_not_greater,
    "=<": _is_not_greater,
    "~": _is_like,
    "~>": _is_like,
    "^": _is_compatible,
}


Item = TypeVar("Item")
Check: TypeAlias = Callable[[], None]
Parse: TypeAlias = Callable[[str], Version | None]
_Found: TypeAlias = tuple[Version, str]
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
        self._near: list[tuple[Version, list[_Found], list[_Found]]] = [(bound, [], []) for bound in within.versions]
        """The versions next to each bound of the range, below and above it."""
        self._best: _Found | None = None
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
            for bound, below, above in self._near:
                insort(below if version < bound else above, (version, name))
                del below[:-_NEAREST], above[_NEAREST:]

    @property
    def highest(self) -> str | None:
        """The name with the highest version in the range; None if there is none."""
        return self._best[1] if self._best else None

    def describe_nearest(self) -> str:
        """Return for a message what there is instead of a version in the range."""
        if not self._is_any:
            return "none of them is a version like 1.2.3"
        distances: dict[_Found, int] = {}
        for _, below, above in self._near:
            for distance, found in (*enumerate(reversed(below), 1), *enumerate(above, 1)):
                distances[found] = min(distance, distances.get(found, distance))
        # The higher of two counts first.
        near = sorted(sorted(distances, reverse=True), key=lambda found: distances[found])
        nearest = sorted(near[:_NEAREST], reverse=True)
        return f"the nearest are {', '.join(quote(name) for _, name in nearest)}"


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
    text = f" {name.lower()} "
    return Counter(text), Counter(map(add, text, text[1:]))


def _share(one: Counter[str], other: Counter[str]) -> float:
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
