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


def is_named(reason: Reason, text: str) -> bool:
    """Whether a reason stands there as a member, as a whole text, or as the first word of one: "<reason>: message"."""
    return bool(re.search(rf"""\bReason\.{reason.name}\b|["'](?:\w+=)?{reason.value}["':]""", text))


def test_each_reason_is_reached_by_a_test() -> None:
    text = sources(REAL)
    assert [reason for reason in Reason if not is_named(reason, text)] == []
