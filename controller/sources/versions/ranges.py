"""Ranges of versions: `>=1.2 <2`, `~1.4`, `^0.3`, `1.x`, `1.2 - 1.4`, `>=1 || <0.5`.

As Masterminds' semver 3.5 (constraints.go), which Helm uses: pre-releases are only in the alternatives of a range that
name one. The expressions are RE2, as there: others would take exponential time for some ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import re2

from controller.sources.versions.version import Version, parse_version

_LONGEST, _MOST_ALTERNATIVES, _MOST_BOUNDS = 512, 32, 32
_WILDCARDS = ("x", "X", "*")
_OPERATORS = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^"
_VERSION = (
    r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?"
    r"(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?"
)
_ONE = re2.compile(rf"\s*({_OPERATORS})\s*({_VERSION})\s*")
_HYPHEN = re2.compile(rf"\s*({_VERSION})\s+-\s+({_VERSION})\s*")
_ALTERNATIVE = re2.compile(rf"(\s*({_OPERATORS})\s*({_VERSION})\s*)((?:\s+|,\s*)({_OPERATORS})\s*({_VERSION})\s*)*")
_EACH = re2.compile(rf"({_OPERATORS})\s*({_VERSION})")
_GROUPS_OF_VERSION = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """One comparison; numbers that are missing or wildcards are 0 in `version`."""

    operator: str
    version: Version
    any_major: bool = False
    any_minor: bool = False
    any_patch: bool = False
    """Whether this number is the first one that is missing or a wildcard."""

    @property
    def is_open(self) -> bool:
        return self.any_major or self.any_minor or self.any_patch

    def contains(self, version: Version, *, with_pre_releases: bool) -> bool:
        if version.pre_release and not with_pre_releases:
            return False
        return _CHECKS[self.operator](self, version)


class Range:
    """A range of versions.

    Raises: ValueError with the problem and the remedy.
    """

    def __init__(self, text: str) -> None:
        alternatives = _rewrite_hyphens(text or "*").split("||")
        if len(text) > _LONGEST or len(alternatives) > _MOST_ALTERNATIVES:
            limits = f"{_LONGEST} characters and {_MOST_ALTERNATIVES} alternatives"
            raise ValueError(f"has more than {limits}; shorten it")
        parsed = [_parse_alternative(each) for each in alternatives]
        self._alternatives = [(bounds, _names_pre_release(bounds)) for bounds in parsed]
        if len(self.versions) > _MOST_BOUNDS:  # each is compared with each version that there is
            raise ValueError(f"has more than {_MOST_BOUNDS} comparisons; shorten it")

    def contains(self, version: Version) -> bool:
        """Return whether a version is in the range."""
        return any(
            all(bound.contains(version, with_pre_releases=with_pre_releases) for bound in bounds)
            for bounds, with_pre_releases in self._alternatives
        )

    @property
    def versions(self) -> list[Version]:
        """The versions that the range names."""
        return [bound.version for bounds, _ in self._alternatives for bound in bounds]


def _names_pre_release(bounds: Sequence[_Bound]) -> bool:
    return any(bound.version.pre_release for bound in bounds)


def _rewrite_hyphens(text: str) -> str:
    """Replace each `a - b` by two comparisons."""
    result = text
    for found in _HYPHEN.finditer(text):
        low, high = found[1], found[2 + _GROUPS_OF_VERSION - 1]
        result = result.replace(found[0], f">= {low}, <= {high} ", 1)
    return result


def _parse_alternative(text: str) -> list[_Bound]:
    if not _ALTERNATIVE.fullmatch(text):
        raise ValueError('is not a range of versions; write it like ">=1.2.0 <2.0.0", "~1.4" or "1.x"')
    return [_parse_bound(found[0]) for found in _EACH.finditer(text)]


def _parse_bound(text: str) -> _Bound:
    found = _ONE.fullmatch(text)
    operator, written, major = found[1], found[2], found[3]
    minor, patch, pre_release = (found[4] or "")[1:], (found[5] or "")[1:], found[6] or ""
    missing = {"any_major": major, "any_minor": minor, "any_patch": patch}
    first = next((name for name, number in missing.items() if number in ("", *_WILDCARDS)), "")
    numbers = {"": written, "any_major": "0.0.0", "any_minor": f"{major}.0.0", "any_patch": f"{major}.{minor}.0"}[first]
    version = parse_version(numbers + pre_release if first else numbers)
    if version is None:
        raise ValueError(f'has a version "{written}" that is none; correct it')
    return _Bound(operator=operator, version=version, **({first: True} if first else {}))


# comparisons


def _is_equal(bound: _Bound, version: Version) -> bool:
    return _is_like(bound, version) if bound.is_open else version == bound.version


def _is_not_equal(bound: _Bound, version: Version) -> bool:
    named = bound.version
    if bound.any_minor:
        return named.major != version.major
    if bound.any_patch:
        same = (named.major, named.minor) == (version.major, version.minor)
        return not same or named.pre_release != version.pre_release
    return version != named


def _is_greater(bound: _Bound, version: Version) -> bool:
    named = bound.version
    if version.major == named.major and bound.any_minor:
        return False
    if version.major == named.major and bound.any_patch:
        return version.minor > named.minor
    return version > named


def _is_not_greater(bound: _Bound, version: Version) -> bool:
    named = bound.version
    if not bound.is_open:
        return version <= named
    if version.major != named.major or bound.any_minor:
        return version.major <= named.major
    return version.minor <= named.minor


def _is_like(bound: _Bound, version: Version) -> bool:
    named = bound.version
    if version < named:
        return False
    if not (named.major or named.minor or named.patch or bound.any_minor or bound.any_patch):
        return True  # ~0.0.0 is everything from 0.0.0 on
    return named.major == version.major and (named.minor == version.minor or bound.any_minor)


def _is_compatible(bound: _Bound, version: Version) -> bool:
    named = bound.version
    if version < named or version.major != named.major:
        return False
    if named.major or bound.any_minor:
        return True
    if named.minor or bound.any_patch:
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
