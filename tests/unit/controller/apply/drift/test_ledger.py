from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import pytest

from controller.apply.drift.ledger import Ledger, Left
from controller.observe.records import ObjectKey, Record
from tests.support.clock import Clock

KEY = ObjectKey("", "ConfigMap", "shop", "a")
OTHER = KEY._replace(name="b")
RECORD = Record(key=KEY, applied_digest="v1", entry_hash="h1")


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(clock=clock)


class Case(NamedTuple):
    name: str
    seen: Record | None
    drifted: bool


CASES = [
    Case("an object as it was left", RECORD, drifted=False),
    Case("one with added fields of another client", replace(RECORD, resource_version="9"), drifted=False),
    Case("one that is gone", None, drifted=True),
    Case("one that is being deleted", replace(RECORD, deleting=True), drifted=True),
    Case("one of which somebody took a field", replace(RECORD, entry_hash="h2"), drifted=True),
    Case("one that lost our entry", replace(RECORD, entry_hash=""), drifted=True),
    Case("one that was applied for another revision", replace(RECORD, applied_digest="v2"), drifted=True),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_not_as_it_was_left(case: Case, ledger: Ledger) -> None:
    ledger.learn([RECORD])
    observed = {case.seen.key: case.seen} if case.seen else {}
    assert ledger.drifted(observed) == ([KEY] if case.drifted else [])


def test_what_is_learnt_is_added_and_what_is_expected_replaces_all(ledger: Ledger) -> None:
    other = replace(RECORD, key=OTHER, entry_hash="h2")
    ledger.learn([RECORD])
    ledger.learn([other])
    assert ledger.left == {KEY: Left("v1", "h1"), OTHER: Left("v1", "h2")}
    ledger.expect_all([other])
    assert ledger.digests() == {OTHER: "v1"}


def test_nothing_is_expected_of_what_was_taken_away(ledger: Ledger) -> None:
    ledger.learn([RECORD])
    ledger.forget([KEY, OTHER])
    assert ledger.drifted({}) == []


def test_repairs_of_one_object_wait_longer_and_longer(ledger: Ledger, clock: Clock) -> None:
    assert ledger.seconds_to_repair(KEY) == 0
    delays = []
    for _ in range(8):
        ledger.repaired(KEY)
        delays.append(ledger.seconds_to_repair(KEY))
        clock.now += delays[-1]
        assert ledger.seconds_to_repair(KEY) == 0
    assert delays == pytest.approx([2, 6, 18, 54, 162, 300, 300, 300])


def test_other_objects_are_repaired_at_once(ledger: Ledger) -> None:
    ledger.repaired(KEY)
    assert ledger.seconds_to_repair(OTHER) == 0


def test_ten_quiet_minutes_are_forgiven(ledger: Ledger, clock: Clock) -> None:
    for _ in range(5):
        ledger.repaired(KEY)
    clock.now += 601
    assert ledger.seconds_to_repair(KEY) == 0
    assert ledger.conflicts() == []
    ledger.repaired(KEY)
    assert ledger.seconds_to_repair(KEY) == 2


def test_from_the_third_repair_on_it_is_a_conflict(ledger: Ledger) -> None:
    seen = []
    for _ in range(4):
        ledger.repaired(OTHER)
        seen.append([conflict.key for conflict in ledger.conflicts()])
    assert seen == [[], [], [OTHER], [OTHER]]


def test_a_repair_that_comes_too_soon_is_postponed_and_another_revision_never(ledger: Ledger, clock: Clock) -> None:
    ledger.repaired(KEY)
    assert not ledger.postpones(KEY, "v1")  # it was never left like that: this is no repair
    ledger.learn([RECORD])
    assert ledger.postpones(KEY, "v1")
    assert not ledger.postpones(KEY, "v2")
    clock.now += 2
    assert not ledger.postpones(KEY, "v1")
