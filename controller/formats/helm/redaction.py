"""Removes values from text, in time that neither the values nor the text can prolong.

Only the part of the text that a message may show is searched. A value is found by its start, so that one that continues
after the end is not shown in part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from controller.formats.helm.values import scalars_of

HIDDEN = "…"
_LEAST = 4  # characters of a value that is removed: shorter ones are not secret, and part of many words
_LONGEST = 1000  # characters of a value that are compared; a longer value removes everything after it, too
_READ = 16 * 1024  # characters of a text, and of a value, before whitespace is collapsed
_MOST = 250_000  # values
_WITHHELD = (
    "Helm failed; its message is not shown because the values to remove from it are too many or too long; run "
    '"helm template" to see it'
)


class Redactor:
    """Removes values, and everything nested in them, from text."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._scalars = list(islice((scalar for each in values for scalar in scalars_of(each)), _MOST + 1))
        self._is_possible = len(self._scalars) <= _MOST and not any(map(_is_blank, self._scalars))

    def redact(self, text: str) -> str:
        """Return the start of a text, on one line and without the values."""
        if not self._is_possible:
            return _WITHHELD
        line = one_line(text[:_READ])[: 2 * _LONGEST]
        is_whole = len(text) <= _READ and len(line) < 2 * _LONGEST
        # A value that starts before this end is compared in full.
        end = len(line) if is_whole else max(len(line) - _LONGEST, 0)
        return "".join(self._pieces(line, end)) + ("" if is_whole else HIDDEN)

    def _pieces(self, line: str, end: int) -> Iterator[str]:
        forms = _Forms(self._scalars, line)
        hidden_until = 0
        for place in range(end):
            if length := forms.longest_at(place):
                if place >= hidden_until:
                    yield HIDDEN
                hidden_until = max(hidden_until, place + length)
            elif place >= hidden_until:
                yield line[place]


class _Forms:
    """The forms of values that may be in one line: only those whose start is in it."""

    def __init__(self, scalars: Iterable[str], line: str) -> None:
        self._line = line
        beginnings = {line[place : place + _LEAST] for place in range(len(line))}
        self._forms: dict[str, bool] = {}
        """To whether the value continues after the part that is compared."""
        lengths: dict[str, set[int]] = {}
        for form, continues in (each for scalar in scalars for each in _forms(scalar)):
            if form[:_LEAST] in beginnings and len(form) >= _LEAST:
                self._forms[form] = continues or self._forms.get(form, False)
                lengths.setdefault(form[:_LEAST], set()).add(len(form))
        self._lengths = {beginning: sorted(found, reverse=True) for beginning, found in lengths.items()}

    def longest_at(self, place: int) -> int:
        """Return the length of the longest value that starts at a position of the line; 0 if none does."""
        for length in self._lengths.get(self._line[place : place + _LEAST], ()):
            continues = self._forms.get(self._line[place : place + length])
            if continues is not None:
                return len(self._line) - place if continues else length
        return 0


def _is_blank(scalar: str) -> bool:
    """Return whether the start of a long value is too blank to find it by."""
    return len(scalar) > _READ and len(one_line(scalar[:_READ])) < _LEAST


def _forms(scalar: str) -> Iterator[tuple[str, bool]]:
    """Yield the forms of a value in a one-line message: as it is, and as Go quotes it."""
    beginning = scalar[:_READ]
    for form in (one_line(beginning), one_line(json.dumps(beginning, ensure_ascii=False)[1:-1])):
        yield form[:_LONGEST], len(form) > _LONGEST or len(scalar) > _READ


def one_line(text: str) -> str:
    """Return a text with whitespace and control characters collapsed to single spaces."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return " ".join("".join(character if character.isprintable() else " " for character in line).split())
