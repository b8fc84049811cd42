from __future__ import annotations

from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.ledger import Left
from rukpak.controller.apply.plan import Action, ApplyOptions, Outcome
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.reconcile.memory import DriftCounter

KEY = ObjectKey("", "ConfigMap", "shop", "settings")
REFUSED = BundleError(Reason.REFUSED, "no")


def outcome(action: Action, **changes: Any) -> Outcome:
    target = SimpleNamespace(key=KEY, bare=False)
    task = cast("Any", SimpleNamespace(target=target, action=action))
    return Outcome(**{"task": task, "tried": True, **changes})


def options(*, left: bool) -> ApplyOptions:
    ledger = SimpleNamespace(left={KEY: Left("d", "h")} if left else {})
    return cast("ApplyOptions", SimpleNamespace(ledger=ledger))


class Case(NamedTuple):
    name: str
    outcome: Outcome
    left: bool
    expect: tuple[int, int]


CASES = [
    Case("an edit that is repaired", outcome(Action.REPAIR), True, (1, 1)),
    Case("a repair that is refused", outcome(Action.REPAIR, error=REFUSED), True, (1, 0)),
    Case("a repair that waits", outcome(Action.REPAIR, postponed=True, tried=False), True, (1, 0)),
    Case("an object that was deleted", outcome(Action.CREATE), True, (1, 1)),
    Case("an object that is new", outcome(Action.CREATE), False, (0, 0)),
    Case("an object of another revision", outcome(Action.APPLY), True, (0, 0)),
    Case("an object as it was left", outcome(Action.NONE, tried=False), True, (0, 0)),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_counts_as_drift(case: Case) -> None:
    assert DriftCounter().repair([case.outcome], options(left=case.left)) == case.expect


def test_a_repair_that_fails_again_and_again_is_detected_once() -> None:
    counter = DriftCounter()
    found = [counter.repair([outcome(Action.REPAIR, error=REFUSED)], options(left=True)) for _ in range(3)]
    assert found == [(1, 0), (0, 0), (0, 0)]
    assert counter.repair([outcome(Action.REPAIR)], options(left=True)) == (0, 1)
    assert counter.repair([outcome(Action.REPAIR)], options(left=True)) == (1, 1)


def test_what_is_seen_while_paused_is_not_detected_anew_when_it_is_repaired() -> None:
    counter = DriftCounter()
    assert [counter.see([KEY]), counter.see([KEY])] == [1, 0]
    assert counter.repair([outcome(Action.REPAIR)], options(left=True)) == (0, 1)
