"""Statements as lines that people read, the most dangerous first.

Statements that differ in one part become one line: first verbs are merged, then what they apply to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from controller.content.limits import visible
from controller.permissions.statement import Severity, Statement, Topic

MAX_ITEMS = 12
"""What a line lists; more become further lines."""
SHOWN_NAMES = 5
"""Of objects of one kind."""
MAX_CHARACTERS = 160
"""Of a single name or selector; what exceeds them is cut off."""
_ODD = re.compile(r"[\s,;()]")
_TOPICS = list(Topic)


class Line(NamedTuple):
    """Some statements as text, without line breaks and control characters."""

    topic: Topic
    severity: Severity
    text: str


class _Rest(NamedTuple):
    """What all statements of a line have in common."""

    severity: Severity
    topic: Topic
    who: str
    where: str
    mark: str


def to_lines(statements: Iterable[Statement]) -> list[Line]:
    """Return statements as lines, sorted by severity, then by topic; each text once."""
    verbs: dict[tuple[_Rest, str], set[str]] = {}
    for each in statements:
        rest = _Rest(each.severity, each.topic, each.who, each.where, each.mark)
        verbs.setdefault((rest, each.what), set()).add(each.verb)
    whats: dict[tuple[_Rest, tuple[str, ...]], list[str]] = {}
    for (rest, what), of_what in verbs.items():
        whats.setdefault((rest, tuple(sorted(of_what))), []).append(what)
    lines = {line for (rest, shared), of_rest in whats.items() for line in _write(rest, shared, sorted(of_rest))}
    return sorted(lines, key=lambda line: (-line.severity, _TOPICS.index(line.topic), line.text))


def _write(rest: _Rest, verbs: Sequence[str], whats: Sequence[str]) -> Iterator[Line]:
    if rest.topic is Topic.SCOPE and not any(verbs):
        yield Line(rest.topic, rest.severity, _count(rest, whats))
        return
    items = iter(whats)
    while part := list(islice(items, MAX_ITEMS)):
        does = ",".join(_word(verb) if rest.topic is Topic.ACCESS else verb for verb in verbs if verb)
        before, after = (
            (f"{rest.mark} {does} of", "") if rest.topic is Topic.REQUESTS and rest.mark else (does, rest.mark)
        )
        said = " ".join(filter(None, (before, ", ".join(map(_cut, part)), _cut(rest.where), after and f"({after})")))
        yield Line(rest.topic, rest.severity, f"{_cut(rest.who)}: {said}")


def _count(rest: _Rest, names: Sequence[str]) -> str:
    """Return the kind and number of objects, with the names of some."""
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f"{len(names)} {_cut(rest.who)} {rest.where}: {', '.join(map(_cut, names[:SHOWN_NAMES]))}{more}"


def _word(verb: str) -> str:
    """Return a verb, in quotes if it could be mistaken for more than one word."""
    return f'"{_cut(verb)}"' if _ODD.search(verb) else _cut(verb)


def _cut(text: str) -> str:
    text = visible(text.replace("\n", " "))
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
