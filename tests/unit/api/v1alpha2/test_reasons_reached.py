"""Every reason is reached by a test on a real API server."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from rukpak.api.v1alpha2.conditions import Reason

TESTS = Path(__file__).parents[3]
REAL = ("integration", "e2e")


@cache
def sources(places: Iterable[str]) -> str:
    return "\n".join(path.read_text() for place in places for path in sorted((TESTS / place).rglob("*.py")))


NAMED = re.compile(r"""\bReason\.([A-Z_]+)\b|["'](?:\w+=)?([A-Za-z]+)(?=["':])""")
"""A member, a whole text, or the first word of one: "<reason>: message"."""


def test_each_reason_is_reached_by_a_test() -> None:
    found = {word for words in NAMED.findall(sources(REAL)) for word in words}
    assert [reason for reason in Reason if not {reason.name, reason.value} & found] == []
