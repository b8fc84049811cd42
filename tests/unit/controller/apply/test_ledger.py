from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.apply.drift import DELETED, DriftedField, DriftedObject
from rukpak.controller.apply.ledger import NOTICED_SECONDS, Ledger, Left
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.kinds import OwnedObjects
from rukpak.controller.observe.records import UNREAD, Look, Record
from tests.support.clock import Clock

KEY = ObjectKey("", "ConfigMap", "shop", "a")
OTHER = KEY._replace(name="b")
RECORD = Record(key=KEY, applied_digest="v1", entry_hash="h1")


def _look(*records: Record | None) -> Look:
    """Return a first look."""
    seen = {record.key: record for record in records if record}
    return Look(records=seen, number=0, since=UNREAD, changed=None)


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
    assert ledger.drifted(_look(case.seen)) == ({KEY} if case.drifted else set())


def test_what_is_learnt_is_added_and_what_is_expected_replaces_all(ledger: Ledger) -> None:
    other = replace(RECORD, key=OTHER, entry_hash="h2")
    ledger.learn([RECORD])
    ledger.learn([other])
    assert ledger.left == {KEY: Left("v1", "h1"), OTHER: Left("v1", "h2")}
    ledger.expect_all([other])
    assert ledger.left == {OTHER: Left("v1", "h2")}


def test_nothing_is_expected_of_what_was_taken_away(ledger: Ledger) -> None:
    ledger.learn([RECORD])
    ledger.drop([KEY, OTHER])
    assert ledger.drifted(_look(None)) == set()


def test_only_what_has_changed_is_compared(ledger: Ledger) -> None:
    ledger.learn([RECORD])
    assert ledger.drifted(_look(RECORD)) == set()
    unnoticed = Look(records={}, number=1, since=0, changed=())
    assert ledger.drifted(unnoticed) == set()
    assert ledger.drifted(replace(unnoticed, number=2, since=1, changed={KEY})) == {KEY}


MISSED = [
    pytest.param(Look(records={}, number=2, since=1, changed=()), id="the reader was elsewhere"),
    pytest.param(Look(records={}, number=9, since=0, changed=None), id="the journal is too short"),
]


@pytest.mark.parametrize("look", MISSED)
def test_everything_is_compared_when_it_is_not_known_what_has_changed(look: Look, ledger: Ledger) -> None:
    ledger.learn([RECORD])
    ledger.drifted(_look(RECORD))
    assert ledger.drifted(look) == {KEY}


def test_drift_is_the_same_as_from_scratch_after_any_changes(ledger: Ledger) -> None:
    chance, objects = random.Random(3), OwnedObjects()
    keys = [KEY._replace(name=f"object-{number}") for number in range(30)]
    for step in range(3000):
        key = chance.choice(keys)
        record = Record(key=key, owner="shop", applied_digest="d", entry_hash=chance.choice("abc"))
        match chance.randrange(8):
            case 0:
                objects.put(key, None)
            case 1:
                ledger.drop([key])
            case 2:
                ledger.learn([record])
            case 3 if step % 10 == 0:
                ledger.expect_all(objects.of("shop").values())
            case _:
                objects.put(key, replace(record, deleting=chance.random() < 0.1))
        look = objects.look("shop", ledger.reader.seen)
        fresh = Ledger(left=dict(ledger.left))
        if step % 3 == 0:
            assert ledger.drifted(look) == fresh.drifted(replace(look, changed=None))
        fresh = Ledger()
        fresh.learn(
            Record(key=k, applied_digest=left.digest, entry_hash=left.entry_hash) for k, left in ledger.left.items()
        )
        assert ledger.managed_state == fresh.managed_state


def test_a_restart_resumes_what_status_says_and_nothing_else(ledger: Ledger, clock: Clock) -> None:
    ledger.learn([RECORD])
    successor = Ledger(clock=clock)
    assert successor.resume([RECORD], ledger.managed_state)
    assert (successor.left, successor.managed_state) == (ledger.left, ledger.managed_state)
    stranger = Ledger(clock=clock)
    stranger.learn([replace(RECORD, key=OTHER)])
    assert not stranger.resume([replace(RECORD, entry_hash="h2")], ledger.managed_state)
    assert (set(stranger.left), stranger.complete, successor.complete) == ({OTHER}, False, True)


def test_repairs_of_one_object_wait_longer_and_longer(ledger: Ledger, clock: Clock) -> None:
    assert ledger.seconds_to_repair(KEY) == 0
    delays = []
    for _ in range(8):
        ledger.repaired(DriftedObject(key=KEY))
        delays.append(ledger.seconds_to_repair(KEY))
        clock.now += delays[-1]
        assert ledger.seconds_to_repair(KEY) == 0
    assert delays == pytest.approx([2, 6, 18, 54, 162, 300, 300, 300])


def test_other_objects_are_repaired_at_once(ledger: Ledger) -> None:
    ledger.repaired(DriftedObject(key=KEY))
    assert ledger.seconds_to_repair(OTHER) == 0


def test_ten_quiet_minutes_are_forgiven(ledger: Ledger, clock: Clock) -> None:
    for _ in range(5):
        ledger.repaired(DriftedObject(key=KEY))
    clock.now += 601
    assert ledger.seconds_to_repair(KEY) == 0
    assert ledger.conflicts() == []
    ledger.repaired(DriftedObject(key=KEY))
    assert ledger.seconds_to_repair(KEY) == 2


def test_what_is_forgiven_is_forgotten(ledger: Ledger, clock: Clock) -> None:
    for number in range(100):
        ledger.repaired(DriftedObject(key=KEY._replace(name=f"config-{number}")))
        clock.now += 60
    ledger.repaired(DriftedObject(key=OTHER))
    assert ledger.conflicts() == []
    assert len(ledger._repairs) == 11


def test_threads_of_a_pass_record_repairs_at_once(ledger: Ledger, clock: Clock) -> None:
    keys = [KEY._replace(name=f"config-{number}") for number in range(20_000)]
    for key in keys:
        ledger.repaired(DriftedObject(key=key))
    clock.now += 601
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ledger.repaired, [DriftedObject(key=key) for key in keys]))
    assert set(ledger._repairs) == set(keys)


def test_from_the_third_repair_on_it_is_a_conflict(ledger: Ledger) -> None:
    seen = []
    for _ in range(4):
        ledger.repaired(DriftedObject(key=OTHER))
        seen.append([conflict.key for conflict in ledger.conflicts()])
    assert seen == [[], [], [OTHER], [OTHER]]


def changed(*paths: str, holder: str = "") -> DriftedObject:
    return DriftedObject(key=KEY, fields=tuple(DriftedField(path, holder) for path in paths))


FOUGHT_OVER: list[tuple[str, list[DriftedObject], str]] = [
    ("a field that is modified each time", [changed("data.a")] * 3, "data.a"),
    ("a field that is modified twice, and one in between", [changed("data.a", "data.b"), changed("data.a")], "data.a"),
    ("another field each time", [changed("data.a"), changed("data.b"), changed("data.c")], "data.c, data.b, data.a"),
    ("its latest owner", [changed("data.a"), changed("data.a", holder="x")], 'data.a, owned by "x"'),
    ("an object that is deleted twice", [DriftedObject(key=KEY, state=DELETED)] * 2, DELETED),
    ("an object that is deleted once", [changed("data.a"), DriftedObject(key=KEY, state=DELETED)], "deleted, data.a"),
    ("nobody knows what", [DriftedObject(key=KEY)], ""),
]


@pytest.mark.parametrize("case", FOUGHT_OVER, ids=lambda case: str(case[0]))
def test_a_conflict_names_what_was_modified_more_than_once_or_else_all(
    case: tuple[str, list[DriftedObject], str], clock: Clock
) -> None:
    _, drifts, expected = case
    ledger = Ledger(clock=clock)
    for each in [*drifts, *[DriftedObject(key=KEY)] * 3]:
        ledger.repaired(each)
    [conflict] = ledger.conflicts()
    assert conflict.describe_fields() == expected


def test_a_repair_that_comes_too_soon_is_postponed_and_another_revision_never(ledger: Ledger, clock: Clock) -> None:
    ledger.repaired(DriftedObject(key=KEY))
    assert not ledger.postpones(KEY, "v1")  # it was never left like that: this is no repair
    ledger.learn([RECORD])
    assert ledger.postpones(KEY, "v1")
    assert not ledger.postpones(KEY, "v2")
    clock.now += 2
    assert not ledger.postpones(KEY, "v1")


# status.managedState

FORTY = [replace(RECORD, key=KEY._replace(name=f"object-{n}"), applied_digest=f"d{n % 3}") for n in range(40)]
ROW = replace(RECORD, applied_digest="d", entry_hash="h")


def state_of(*records: Record) -> str:
    ledger = Ledger()
    ledger.learn(records)
    return ledger.managed_state


def test_the_state_does_not_depend_on_order() -> None:
    assert state_of(*random.Random(1).sample(FORTY, len(FORTY))) == state_of(*FORTY)
    assert state_of().startswith("v2:sha256:")


CHANGES = [
    pytest.param({"key": KEY._replace(group="apps")}, id="another group"),
    pytest.param({"key": KEY._replace(kind="Secret")}, id="another kind"),
    pytest.param({"key": KEY._replace(namespace="shop2")}, id="another namespace"),
    pytest.param({"key": KEY._replace(name="b")}, id="another name"),
    pytest.param({"applied_digest": "e"}, id="another digest"),
    pytest.param({"entry_hash": ""}, id="another entry"),
    pytest.param({"applied_digest": "dh", "entry_hash": ""}, id="the same texts, divided elsewhere"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_state_differs_with(change: dict[str, Any]) -> None:
    assert state_of(replace(ROW, **change)) != state_of(ROW)


def test_any_sequence_of_changes_gives_the_state_of_what_is_left(ledger: Ledger) -> None:
    chance, left = random.Random(2), dict[ObjectKey, Record]()
    for _ in range(300):
        record = replace(chance.choice(FORTY), entry_hash=chance.choice("abc"))
        if chance.random() < 0.4:
            left.pop(record.key, None)
            ledger.drop([record.key])
        else:
            left[record.key] = record
            ledger.learn([record])
        assert ledger.managed_state == state_of(*left.values())


def test_the_state_of_the_same_objects_is_recognized() -> None:
    assert Ledger().resume(FORTY, state_of(*FORTY))
    assert Ledger().resume([], state_of())
    assert not Ledger().resume([replace(ROW, entry_hash="x")], state_of(ROW))
    assert not Ledger().resume([], "")


def test_what_was_deleted_for_an_object_that_is_refused_for_too_long_is_made_again(
    ledger: Ledger, clock: Clock
) -> None:
    ledger.learn([RECORD])
    ledger.note_making_way(OTHER, "first", [KEY])
    assert KEY not in ledger.left
    clock.now += 2 * NOTICED_SECONDS  # a finalizer has held it
    assert ledger.note_refusal(OTHER, "first")
    assert ledger.restored() == set()
    clock.now += NOTICED_SECONDS
    assert ledger.note_refusal(OTHER, "first")
    assert ledger.restored() == {KEY}
    assert ledger.is_in_vain(OTHER, "first")
    assert not ledger.note_refusal(OTHER, "first")


def test_another_attempt_begins_anew(ledger: Ledger) -> None:
    ledger.note_making_way(OTHER, "first", [KEY])
    assert ledger.made_way_for(OTHER, "first")
    assert not ledger.made_way_for(OTHER, "second")
    assert not ledger.note_refusal(OTHER, "second")
    ledger.note_making_way(OTHER, "second", [KEY._replace(name="c")])
    assert ledger.made_way[OTHER].keys == {KEY._replace(name="c")}
