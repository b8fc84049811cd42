from __future__ import annotations

from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.records import LONGEST, SHORTEST, UNREAD, Journal, Look, Reader

A, B = (ObjectKey("", "ConfigMap", "shop", name) for name in "ab")


def test_a_reader_gets_what_came_after_it() -> None:
    journal = Journal[str]()
    assert (journal.since(UNREAD), journal.since(journal.end)) == (None, set())
    journal.add("a", 1)
    after_a = journal.end
    journal.add("b", 2)
    journal.add("b", 2)
    assert (journal.since(0), journal.since(after_a), journal.since(journal.end)) == ({"a", "b"}, {"b"}, set())


def test_a_journal_stays_short_and_says_so() -> None:
    journal = Journal[int]()
    ends = []
    for number in range(3 * LONGEST):
        ends.append(journal.end)
        journal.add(number, LONGEST)
    assert journal.since(ends[0]) is None
    for back in (1, 10, LONGEST // 2):
        assert journal.since(ends[-back]) == set(range(3 * LONGEST - back, 3 * LONGEST))
    assert all(found is None or len(found) <= LONGEST for found in map(journal.since, ends))


def test_a_journal_has_one_entry_for_a_key_however_often_it_changes() -> None:
    journal = Journal[str]()
    journal.add("a", 1)
    start = journal.end
    for _ in range(2 * LONGEST):
        journal.add("b", 2)
        journal.add("c", 3)
    assert (journal.since(0), journal.since(start)) == ({"a", "b", "c"}, {"b", "c"})
    assert journal.since(journal.end - 1) == {"c"}
    assert len(journal._last) == 3


def test_a_journal_of_a_small_collection_forgets_what_is_gone() -> None:
    journal = Journal[int]()
    for number in range(3 * SHORTEST):
        start = journal.end
        journal.add(number, 1)
    assert (journal.since(0), journal.since(start)) == (None, {number})
    assert len(journal._last) <= SHORTEST


def test_a_reader_of_two_journals_misses_nothing() -> None:
    expectations, reader = Journal[ObjectKey](), Reader()
    assert reader.read(Look(records={}, number=5, since=UNREAD, changed=None), expectations) is None
    expectations.add(A, 1)
    assert reader.read(Look(records={}, number=6, since=5, changed={B}), expectations) == {A, B}
    assert reader.read(Look(records={}, number=7, since=6, changed=()), expectations) == set()


def test_a_reader_whose_look_is_another_ones_reads_everything() -> None:
    expectations, reader = Journal[ObjectKey](), Reader()
    reader.read(Look(records={}, number=5, since=UNREAD, changed=None), expectations)
    assert reader.read(Look(records={}, number=9, since=8, changed=()), expectations) is None
