"""Taking values out of a text, in a time that neither the values nor the text can draw out.

Only as much of the text is looked at as a message may show. A value counts as found where its beginning is, so that one
that goes on behind the end is not shown in part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from controller.formats.helm.values import scalars_of

HIDDEN = "…"
_LEAST = 4  # characters of a value that is taken out: what is shorter is no secret, and is part of many words
_LONGEST = 1000  # characters of a value that are compared; with a longer one goes all that follows
_READ = 16 * 1024  # characters of a text, and of a value, before blanks are taken together
_MOST = 250_000  # values
_WITHHELD = "Helm failed; what it says is not shown, since there are too many or too long values to take out of it"


class Redactor:
    """Takes values out of texts.

    Args:
        values: with all that is below them.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._scalars = list(islice((scalar for each in values for scalar in scalars_of(each)), _MOST + 1))
        self._is_possible = len(self._scalars) <= _MOST and not any(map(_is_blank, self._scalars))

    def redact(self, text: str) -> str:
        """Return the beginning of a text, on one line and without the values."""
        if not self._is_possible:
            return _WITHHELD
        line = one_line(text[:_READ])[: 2 * _LONGEST]
        is_whole = len(text) <= _READ and len(line) < 2 * _LONGEST
        # A value that begins before the end is in the line with all that is compared.
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
    """How values may look in one line; of those only that begin like something in it."""

    def __init__(self, scalars: Iterable[str], line: str) -> None:
        self._line = line
        beginnings = {line[place : place + _LEAST] for place in range(len(line))}
        self._forms: dict[str, bool] = {}
        """To whether the value goes on behind what is compared."""
        lengths: dict[str, set[int]] = {}
        for form, goes_on in (each for scalar in scalars for each in _forms(scalar)):
            if form[:_LEAST] in beginnings and len(form) >= _LEAST:
                self._forms[form] = goes_on or self._forms.get(form, False)
                lengths.setdefault(form[:_LEAST], set()).add(len(form))
        self._lengths = {beginning: sorted(found, reverse=True) for beginning, found in lengths.items()}

    def longest_at(self, place: int) -> int:
        """Return the length of the longest value that begins at a place of the line; 0: none does."""
        for length in self._lengths.get(self._line[place : place + _LEAST], ()):
            goes_on = self._forms.get(self._line[place : place + length])
            if goes_on is not None:
                return len(self._line) - place if goes_on else length
        return 0


def _is_blank(scalar: str) -> bool:
    """Return whether a long value shows too little at its beginning to be found by it."""
    return len(scalar) > _READ and len(one_line(scalar[:_READ])) < _LEAST


def _forms(scalar: str) -> Iterator[tuple[str, bool]]:
    """Yield how a value may look in a message on one line: as it is, and as Go quotes it."""
    beginning = scalar[:_READ]
    for form in (one_line(beginning), one_line(json.dumps(beginning, ensure_ascii=False)[1:-1])):
        yield form[:_LONGEST], len(form) > _LONGEST or len(scalar) > _READ


def one_line(text: str) -> str:
    """Return a text with its blanks, line ends and control characters taken together."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return " ".join("".join(character if character.isprintable() else " " for character in line).split())
