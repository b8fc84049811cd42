from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import pytest

from controller.manager.serving.seats import Places, Seats

PLACES = Places(total=4, per_peer=2)


class Case(NamedTuple):
    name: str
    seated: str
    """Guests in their order: the letter is the peer; a capital one is being answered."""
    comes: str
    expect: str | None
    """Who leaves; '' for nobody; None if who comes has no seat."""


CASES = [
    Case("the first one", "", "a", ""),
    Case("one more of a peer", "a", "a", ""),
    Case("one too many of a peer takes the place of its oldest", "aa", "a", "a0"),
    Case("and of no other peer's", "baa", "a", "a1"),
    Case("and not of one that is answered", "Aa", "a", "a1"),
    Case("a peer whose guests are all answered has to wait", "AA", "a", None),
    Case("another peer need not", "AA", "b", ""),
    Case("one too many in all takes the place of the oldest", "abcd", "e", "a0"),
    Case("and not of one that is answered in all", "Abcd", "e", "b1"),
    Case("where all are answered all others have to wait", "ABCD", "e", None),
    Case("a peer that has its share takes it of itself where all are taken", "bcaa", "a", "a2"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_who_has_to_leave(case: Case) -> None:
    seats: Seats[str] = Seats(PLACES)
    for number, letter in enumerate(case.seated):
        guest = f"{letter.lower()}{number}"
        assert seats.take(guest, letter.lower()) == (True, None)
        assert not letter.isupper() or seats.hear(guest)
    is_seated, leaves = seats.take("new", case.comes)
    assert (leaves or "" if is_seated else None) == case.expect
    assert len(seats) <= PLACES.total


def test_who_had_to_leave_is_not_heard() -> None:
    seats: Seats[str] = Seats(PLACES)
    for guest in ("first", "second", "third"):
        seats.take(guest, "a")
    assert [seats.hear(guest) for guest in ("first", "second", "third")] == [False, True, True]


def test_who_goes_makes_room() -> None:
    seats: Seats[str] = Seats(PLACES)
    for guest in ("first", "second"):
        seats.take(guest, "a")
        seats.hear(guest)
    seats.leave("first")
    seats.leave("first")
    assert seats.take("third", "a") == (True, None)
