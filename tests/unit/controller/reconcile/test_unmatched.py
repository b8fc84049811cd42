"""Warnings about selectors of a spec that match no object end when they match one, although nothing is sent then."""

from __future__ import annotations

from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from rukpak.controller.reconcile.installation import _is_any_over
from rukpak.controller.reconcile.memory import Memory


class Case(NamedTuple):
    name: str
    told: set[str]
    """What status has."""
    unmatched: tuple[str, ...]
    """What matches nothing now."""
    known: frozenset[str] | None
    """What this process has told."""
    expect: bool
    observed: int = 2
    """The generation that status is about, of 2."""


A, B, OTHER = "spec.a: matches nothing", "spec.b: matches nothing", "v1beta1 is deprecated"
CASES = [
    Case("nothing was told", set(), (), frozenset(), expect=False),
    Case("it still matches nothing", {A, OTHER}, (A,), frozenset({A}), expect=False),
    Case("it matches", {A, OTHER}, (), frozenset({A}), expect=True),
    Case("another one does not", {A, B}, (B,), frozenset({A, B}), expect=True),
    Case("what was told is not in status any more", {OTHER}, (), frozenset({A}), expect=False),
    Case("what the API server has said is not about selectors", {OTHER}, (), frozenset(), expect=False),
    Case("after a restart what status has may be over if the spec has changed", {A}, (), None, expect=True, observed=1),
    Case("and else is not", {A}, (A,), None, expect=False),
    Case("after a restart there was nothing", set(), (), None, expect=False, observed=1),
]


def work(case: Case, memory: Memory) -> Any:
    context = SimpleNamespace(
        memory=memory,
        status=SimpleNamespace(observed_generation=case.observed),
        metadata=SimpleNamespace(generation=2),
    )
    return SimpleNamespace(context=context, unmatched=case.unmatched)


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_whether_a_warning_is_over(case: Case) -> None:
    memory = Memory(uid="u", unmatched=case.known)
    assert _is_any_over(work(case, memory), case.told) == case.expect


def test_a_warning_is_over_until_status_does_not_have_it_any_more() -> None:
    memory = Memory(uid="u")
    told, over = Case("", {A}, (A,), None, expect=False), Case("", {A}, (), None, expect=True)
    found = [_is_any_over(work(case, memory), case.told) for case in (told, over, over, over._replace(told=set()))]
    assert found == [False, True, True, False]
