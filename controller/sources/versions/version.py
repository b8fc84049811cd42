"""Semantic versions (https://semver.org), and which one is higher."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, total_ordering

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
    found = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if not found:
        return None
    major, minor, patch, pre_release = found.groups()
    return Version(major=int(major), minor=int(minor), patch=int(patch), pre_release=pre_release or "")


_LOOSE = re.compile(
    r"v?([0-9]{1,19})(?:\.([0-9]{1,19}))?(?:\.([0-9]{1,19}))?(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def parse_loosely(text: str) -> Version | None:
    """Return a version as Helm reads those of an index: it may lack numbers, which are 0, and start with zeros."""
    found = _LOOSE.fullmatch(text) if len(text) <= _LONGEST else None
    if not found:
        return None
    major, minor, patch, pre_release = found.groups()
    return Version(major=int(major), minor=int(minor or 0), patch=int(patch or 0), pre_release=pre_release or "")
