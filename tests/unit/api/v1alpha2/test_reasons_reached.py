"""Every reason is reached by a test: most of them on a real API server, the others where the list here says why."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from api.v1alpha2.conditions import Reason

TESTS = Path(__file__).parents[3]
REAL, PURE = ("integration", "e2e"), ("unit/controller",)
# What no test provokes on a real API server, and why a test of the rule alone says enough.
PURE_ONLY = {
    Reason.RENDER_LIMIT_EXCEEDED: "rendering asks no API server, and its budgets take long to use up",
}


@cache
def sources(places: Iterable[str]) -> str:
    return "\n".join(path.read_text() for place in places for path in sorted((TESTS / place).rglob("*.py")))


def is_named(reason: Reason, text: str) -> bool:
    """Whether a reason stands there as a member, as a whole text, or as the first word of one: "<reason>: message"."""
    return bool(re.search(rf"""\bReason\.{reason.name}\b|["'](?:\w+=)?{reason.value}["':]""", text))


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_reached_by_a_test(reason: Reason) -> None:
    assert is_named(reason, sources(PURE if reason in PURE_ONLY else REAL))


@pytest.mark.parametrize("reason", PURE_ONLY)
def test_the_list_of_exceptions_has_no_reason_too_many(reason: Reason) -> None:
    assert not is_named(reason, sources(REAL))
