from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import pytest

from rukpak.controller.manager.serving import ConnectionLimiter, ConnectionLimits

LIMITS = ConnectionLimits(total=4, per_peer=2)


class Case(NamedTuple):
    name: str
    admitted: str
    """Connections in their order: the letter is the peer; a capital one is being answered."""
    comes: str
    expect: str | None
    """Which one is closed; '' for none; None if there is no room for the new one."""


CASES = [
    Case("the first one", "", "a", ""),
    Case("one more of a peer", "a", "a", ""),
    Case("one too many of a peer takes the place of its oldest", "aa", "a", "a0"),
    Case("and of no other peer's", "baa", "a", "a1"),
    Case("and not of one that is answered", "Aa", "a", "a1"),
    Case("a peer whose connections are all answered has to wait", "AA", "a", None),
    Case("another peer need not", "AA", "b", ""),
    Case("one too many in all takes the place of the oldest", "abcd", "e", "a0"),
    Case("and not of one that is answered in all", "Abcd", "e", "b1"),
    Case("where all are answered all others have to wait", "ABCD", "e", None),
    Case("a peer that has its share replaces one of its own if there is no room", "bcaa", "a", "a2"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_who_has_to_leave(case: Case) -> None:
    limiter: ConnectionLimiter[str] = ConnectionLimiter(LIMITS)
    for number, letter in enumerate(case.admitted):
        connection = f"{letter.lower()}{number}"
        assert limiter.admit(connection, letter.lower()) == (True, None)
        assert not letter.isupper() or limiter.mark_heard(connection)
    is_admitted, evicted = limiter.admit("new", case.comes)
    assert (evicted or "" if is_admitted else None) == case.expect
    assert len(limiter._peers) <= LIMITS.total


def test_who_had_to_leave_is_not_heard() -> None:
    limiter: ConnectionLimiter[str] = ConnectionLimiter(LIMITS)
    for connection in ("first", "second", "third"):
        limiter.admit(connection, "a")
    assert [limiter.mark_heard(connection) for connection in ("first", "second", "third")] == [False, True, True]


def test_who_goes_makes_room() -> None:
    limiter: ConnectionLimiter[str] = ConnectionLimiter(LIMITS)
    for connection in ("first", "second"):
        limiter.admit(connection, "a")
        limiter.mark_heard(connection)
    limiter.release("first")
    limiter.release("first")
    assert limiter.admit("third", "a") == (True, None)
