from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.controller.kube.cache import Cache, Change, Continuity, key_of, parse_version


@dataclass(frozen=True, slots=True)
class Thing:
    version: int
    name: str = "a"
    uid: str = "u"
    namespace: str = "ns"

    @property
    def resource_version(self) -> str:
        return str(self.version)


KEY = ("ns", "a")


def listed(*things: Thing, version: int = 10) -> Cache[Thing]:
    """Return a cache after its first list."""
    cache: Cache[Thing] = Cache({"letter": lambda thing: (thing.name[0],)})
    cache.begin_listing()
    cache.replace({key_of(thing): thing for thing in things}, str(version))
    return cache


def test_a_list_tells_what_it_brings() -> None:
    cache: Cache[Thing] = Cache()
    assert cache.replace({KEY: Thing(5)}, "10") == [Change(None, Thing(5))]
    assert cache.get(KEY) == Thing(5)
    assert cache.records() == [Thing(5)]


def test_a_list_is_compared_with_what_was_known_deletions_first() -> None:
    cache = listed(Thing(5), Thing(6, "b"), Thing(7, "c"))
    fresh = {key_of(thing): thing for thing in (Thing(12, "d"), Thing(6, "b"), Thing(11, "c"))}
    changes = cache.replace(fresh, "12")
    assert changes == [
        Change(Thing(5), None),
        Change(None, Thing(12, "d")),
        Change(Thing(7, "c"), Thing(11, "c")),
    ]


def test_deleted_and_created_again_is_two_changes_in_a_list_and_in_an_event() -> None:
    new = Thing(11, uid="v")
    assert listed(Thing(5)).replace({KEY: new}, "12") == [Change(Thing(5), None), Change(None, new)]
    assert listed(Thing(5)).put(new) == [Change(Thing(5), None), Change(None, new)]


def test_events_change_what_is_known() -> None:
    cache = listed(Thing(5))
    assert cache.put(Thing(11)) == [Change(Thing(5), Thing(11))]
    assert cache.remove(Thing(12)) == [Change(Thing(11), None)]
    assert cache.get(KEY) is None
    assert cache.records() == []


def test_what_is_told_twice_is_one_change() -> None:
    cache = listed(Thing(5))
    assert cache.put(Thing(5)) == []
    cache.remove(Thing(11))
    assert cache.remove(Thing(11)) == []


def test_what_was_learned_is_known_at_once() -> None:
    cache = listed(Thing(5), Thing(6, "b"))
    cache.learn(Thing(11))
    cache.learn(Thing(12, "c"))
    assert cache.get(KEY) == Thing(11)
    assert sorted(thing.version for thing in cache.records()) == [6, 11, 12]


def test_an_older_event_does_not_hide_what_was_learned() -> None:
    cache = listed(Thing(5))
    cache.learn(Thing(15))
    assert cache.put(Thing(11)) == [Change(Thing(5), Thing(11))]
    assert cache.get(KEY) == Thing(15)


def test_the_history_has_no_gap_where_something_was_learned() -> None:
    cache = listed(Thing(5))
    cache.learn(Thing(15))
    assert cache.put(Thing(15)) == [Change(Thing(5), Thing(15))]
    assert cache.get(KEY) == Thing(15)


def test_a_newer_event_ends_what_was_learned() -> None:
    cache = listed(Thing(5))
    cache.learn(Thing(15))
    cache.put(Thing(16))
    assert cache.get(KEY) == Thing(16)
    cache.remove(Thing(17))
    assert cache.get(KEY) is None


def test_an_object_that_was_deleted_meanwhile_does_not_come_back() -> None:
    cache = listed()
    cache.put(Thing(15))
    cache.remove(Thing(16))
    cache.learn(Thing(15))
    assert cache.get(KEY) is None


def test_a_late_reply_does_not_hide_an_earlier_one() -> None:
    cache = listed(Thing(5))
    cache.learn(Thing(15))
    cache.learn(Thing(14))
    assert cache.get(KEY) == Thing(15)


def test_an_apply_that_changed_nothing_teaches_nothing() -> None:
    cache = listed(Thing(5))
    cache.learn(Thing(5, uid="other"))
    assert cache.get(KEY) == Thing(5)


def test_a_bookmark_ends_what_the_watch_does_not_see() -> None:
    cache = listed()
    cache.learn(Thing(15))
    cache.advance("14")
    assert cache.get(KEY) == Thing(15)
    cache.advance("15")
    assert cache.get(KEY) is None


def test_what_is_learned_while_a_list_is_on_its_way_outlives_an_older_list() -> None:
    cache = listed(Thing(5))
    cache.begin_listing()
    cache.learn(Thing(15))
    assert cache.replace({KEY: Thing(11)}, "12") == [Change(Thing(5), Thing(11))]
    assert cache.get(KEY) == Thing(15)


def test_what_is_learned_while_a_list_is_on_its_way_yields_to_a_newer_list() -> None:
    cache = listed(Thing(5))
    cache.begin_listing()
    cache.learn(Thing(15))
    cache.replace({}, "16")
    assert cache.get(KEY) is None


def test_what_was_learned_and_is_gone_before_the_first_list_is_told_as_deleted() -> None:
    cache: Cache[Thing] = Cache()
    cache.learn(Thing(5))
    cache.begin_listing()
    assert cache.replace({}, "10") == [Change(Thing(5), None)]
    assert cache.get(KEY) is None


def test_a_list_after_a_restored_etcd_ends_what_was_learned_before() -> None:
    cache = listed(Thing(50), version=60)
    cache.learn(Thing(70))
    cache.begin_listing()
    cache.replace({KEY: Thing(20)}, "30")
    assert cache.get(KEY) == Thing(20)
    cache.learn(Thing(31))
    assert cache.get(KEY) == Thing(31)


def test_what_was_deleted_is_hidden_until_the_watch_says_so() -> None:
    cache = listed(Thing(5), Thing(6, "b"))
    cache.hide(KEY, "u")
    assert cache.get(KEY) is None
    assert cache.records() == [Thing(6, "b")]
    assert cache.remove(Thing(11)) == [Change(Thing(5), None)]


def test_what_was_created_and_deleted_stays_hidden_when_the_watch_tells_of_the_creation() -> None:
    cache = listed()
    cache.learn(Thing(15))
    cache.hide(KEY, "u")
    assert cache.put(Thing(15)) == [Change(None, Thing(15))]
    assert cache.get(KEY) is None


def test_a_later_event_shows_what_was_forgotten() -> None:
    cache = listed(Thing(5))
    cache.hide(KEY, "u")
    cache.put(Thing(11, uid="v"))
    assert cache.get(KEY) == Thing(11, uid="v")


def test_another_object_of_the_name_is_not_forgotten() -> None:
    cache = listed(Thing(5))
    cache.hide(KEY, "other")
    assert cache.get(KEY) == Thing(5)
    cache.hide(("ns", "none"), "u")
    assert len(cache.records()) == 1


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("", 0), ("abc", 0), ("-1", 0), ("²", 0)])
def test_versions_are_numbers(text: str, number: int) -> None:
    assert parse_version(text) == number


@given(st.randoms(use_true_random=False))
def test_after_any_interleaving_of_events_and_replies_the_server_s_state_is_known(chance: random.Random) -> None:
    """Writes happen in one order; their events come in that order, their replies whenever they like."""
    versions = count(11)
    server: dict[str, Thing] = {}
    events: list[tuple[Thing, bool]] = []
    replies: list[Thing] = []
    for _ in range(12):
        name = chance.choice(["a", "b", "bb", "c"])
        thing = Thing(next(versions), name, uid=server[name].uid if name in server else str(len(events)))
        deleting = name in server and chance.random() < 0.4
        server.pop(name, None)
        if deleting:
            events.append((thing, True))
        else:
            server[name] = thing
            events.append((thing, False))
            replies.append(thing)
    cache = listed()
    chance.shuffle(replies)
    while events or replies:
        if events and (not replies or chance.random() < 0.5):
            thing, gone = events.pop(0)
            known = cache.get(key_of(thing))
            (cache.remove if gone else cache.put)(thing)
            after = cache.get(key_of(thing))
            assert known is None or after is None or after.version >= known.version
        else:
            cache.learn(replies.pop())
    assert {thing.name: thing for thing in cache.records()} == server
    for letter in "abc":
        assert sorted(cache.index("letter", letter), key=key_of) == [
            server[name] for name in sorted(server) if name[0] == letter
        ]


def test_an_index_has_the_records_of_the_list_of_events_and_of_replies() -> None:
    cache = listed(Thing(5, "a1"), Thing(6, "b1"))
    cache.put(Thing(11, "a2"))
    cache.learn(Thing(12, "a3"))
    cache.hide(("ns", "a1"), "u")
    assert sorted(cache.index("letter", "a"), key=key_of) == [Thing(11, "a2"), Thing(12, "a3")]
    cache.remove(Thing(13, "a2"))
    cache.begin_listing()
    cache.replace({key_of(thing): thing for thing in (Thing(12, "a3"), Thing(14, "a4"))}, "15")
    assert sorted(cache.index("letter", "a"), key=key_of) == [Thing(12, "a3"), Thing(14, "a4")]
    assert cache.index("letter", "b") == cache.index("letter", "none") == []


# which list counts


def test_a_list_counts_once_its_changes_are_handled() -> None:
    cache: Cache[Thing] = Cache()
    cache.begin_listing()
    cache.replace({}, "10")
    assert not cache.complete
    cache.end_listing()
    assert cache.complete


def test_after_outdate_only_a_list_counts_that_began_later() -> None:
    cache = known(Thing(5))
    cache.begin_listing()
    cache.outdate()
    assert (cache.complete, cache.is_current) == (False, False)
    cache.replace({}, "11")
    cache.end_listing()
    assert not cache.complete
    cache.begin_listing()
    assert (cache.complete, cache.is_current) == (False, True)
    cache.replace({KEY: Thing(5)}, "12")
    cache.end_listing()
    assert cache.complete


def test_outdated_records_remain() -> None:
    cache = known(Thing(5))
    cache.outdate()
    assert cache.records() == [Thing(5)]


@pytest.mark.parametrize(
    ("version", "went_back"), [("9", True), ("10", False), ("11", False), ("0", False), ("", False), ("x", False)]
)
def test_an_older_version_of_the_collection_requires_another_list(version: str, went_back: bool) -> None:
    cache = known(Thing(5))
    assert (cache.went_back(version), cache.complete) == (went_back, not went_back)
    assert not cache.went_back(version)


SAME, UNKNOWN, OLDER = Continuity.SAME, Continuity.UNKNOWN, Continuity.OLDER
LAST_CHANGES = [
    ("it is as it was", 12, False, Thing(12), SAME),
    ("it has an older version", 12, False, Thing(11), OLDER),
    ("it has changed again", 12, False, Thing(13), UNKNOWN),
    ("it is gone", 12, False, None, UNKNOWN),
    ("it was created again", 12, False, Thing(13, uid="v"), UNKNOWN),
    ("it is still gone", 12, True, None, SAME),
    ("what was deleted is there", 12, True, Thing(11), OLDER),
    ("what lost its label is there", 12, True, Thing(12), SAME),
    ("what lost its label has changed", 12, True, Thing(13), UNKNOWN),
    ("what was deleted was created again", 12, True, Thing(13, uid="v"), UNKNOWN),
]


@pytest.mark.parametrize(
    ("version", "is_removal", "found", "continuity"),
    [each[1:] for each in LAST_CHANGES],
    ids=[each[0] for each in LAST_CHANGES],
)
def test_how_a_state_follows_the_known_one(
    version: int, is_removal: bool, found: Thing | None, continuity: Continuity
) -> None:
    cache = known(Thing(5), Thing(6, "b"))
    (cache.remove if is_removal else cache.put)(Thing(version))
    assert (cache.last_key, cache.compare_last(found)) == (KEY, continuity)


def test_the_newest_object_of_a_list_is_its_last_change() -> None:
    cache = known(Thing(5), Thing(6, "b"))
    assert (cache.last_key, cache.compare_last(Thing(5, "b"))) == (("ns", "b"), OLDER)


def test_without_objects_nothing_can_be_compared() -> None:
    assert (known().last_key, known().compare_last(None)) == (None, SAME)


@pytest.mark.parametrize(
    ("fresh", "is_newer"), [(Thing(4), True), (Thing(5), False), (Thing(6), False), (Thing(4, uid="v"), False)]
)
def test_an_object_of_a_list_is_never_older_than_known(fresh: Thing, is_newer: bool) -> None:
    assert known(Thing(5)).is_newer_than({KEY: fresh}) is is_newer


def test_what_is_dropped_is_not_told_and_hides_nothing_older() -> None:
    cache = known(Thing(5))
    cache.learn(Thing(20))
    cache.drop()
    assert (cache.records(), cache.complete, cache.last_key) == ([], False, None)
    cache.begin_listing()
    assert cache.replace({KEY: Thing(4)}, "6") == [Change(None, Thing(4))]
    assert cache.records() == [Thing(4)]


def known(*things: Thing) -> Cache[Thing]:
    """Return a cache whose first list is complete."""
    cache = listed(*things)
    cache.end_listing()
    return cache
