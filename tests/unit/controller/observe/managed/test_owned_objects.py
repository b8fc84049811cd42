from __future__ import annotations

from dataclasses import replace

import pytest

from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.kinds import OwnedObjects
from rukpak.controller.observe.records import UNREAD, Record

KEY = ObjectKey("", "ConfigMap", "shop", "a")
ROLE = ObjectKey("rbac.authorization.k8s.io", "Role", "shop", "a")
OURS = Record(key=KEY, owner="shop")


@pytest.fixture
def index() -> OwnedObjects:
    made = OwnedObjects()
    made.put(KEY, OURS)
    made.put(ROLE, Record(key=ROLE, owner="shop"))
    return made


def test_an_object_is_filed_under_one_owner_at_a_time(index: OwnedObjects) -> None:
    theirs = replace(OURS, owner="other")
    assert index.put(KEY, theirs) is OURS
    assert (set(index.of("shop")), index.of("other")) == ({ROLE}, {KEY: theirs})


@pytest.mark.parametrize("record", [None, replace(OURS, owner="")])
def test_what_is_gone_or_has_no_owner_is_not_kept(index: OwnedObjects, record: Record | None) -> None:
    assert index.put(KEY, record) is OURS
    assert index.put(KEY, record) is None
    assert (set(index.of("shop")), index.of("")) == ({ROLE}, {})


def test_a_snapshot_stays_as_it_is(index: OwnedObjects) -> None:
    snapshot = index.of("shop")
    index.put(KEY, None)
    assert set(snapshot) == {KEY, ROLE}


def test_a_kind_is_dropped_from_all_owners_and_no_other_kind(index: OwnedObjects) -> None:
    index.put(KEY._replace(name="b"), replace(OURS, key=KEY._replace(name="b"), owner="other"))
    index.drop(("", "ConfigMap"))
    assert (index.kinds_of("shop"), index.of("other")) == ({(ROLE.group, ROLE.kind)}, {})
    assert (index.of_kind(("", "ConfigMap")), index.of_kind((ROLE.group, ROLE.kind))) == (set(), {ROLE})


def test_all_can_be_dropped(index: OwnedObjects) -> None:
    seen = index.look("shop", UNREAD).number
    index.drop()
    assert (index.of("shop"), index.look("shop", seen).changed) == ({}, None)


def test_a_look_says_what_has_changed_since_the_previous_one(index: OwnedObjects) -> None:
    first = index.look("shop", UNREAD)
    assert (set(first.records), first.changed) == ({KEY, ROLE}, None)
    assert index.look("shop", first.number).changed == set()
    index.put(KEY, replace(OURS, entry_hash="h"))
    assert index.look("shop", first.number).changed == {KEY}
    index.drop((ROLE.group, ROLE.kind))
    assert index.look("shop", first.number).changed == {KEY, ROLE}


def test_an_object_that_changes_hands_has_changed_for_both(index: OwnedObjects) -> None:
    ours, theirs = index.look("shop", UNREAD).number, index.look("other", UNREAD).number
    index.put(KEY, replace(OURS, owner="other"))
    assert (index.look("shop", ours).changed, index.look("other", theirs).changed) == ({KEY}, {KEY})


def test_an_owner_without_objects_leaves_nothing_behind(index: OwnedObjects) -> None:
    for number in range(10):
        key = KEY._replace(name=f"a{number}")
        index.put(key, Record(key=key, owner=f"shop-{number}"))
        index.put(key, None)
        assert index.look(f"never-seen-{number}", UNREAD).records == {}
    assert set(index._journals) == set(index._records.entries("owner")) == {"shop"}


def test_a_reader_misses_nothing_when_all_objects_were_gone_meanwhile(index: OwnedObjects) -> None:
    seen = index.look("shop", UNREAD).number
    for key in (KEY, ROLE):
        index.put(key, None)
    gone = index.look("shop", seen)
    assert (gone.records, gone.changed) == ({}, None)
    index.put(KEY, OURS)
    back = index.look("shop", seen)
    assert (set(back.records), back.changed) == ({KEY}, None)
    assert index.look("shop", gone.number).changed in (None, {KEY})
    assert index.look("shop", back.number).changed == set()
