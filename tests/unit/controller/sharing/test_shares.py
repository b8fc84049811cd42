from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.sharing import Shares, Turns, share_of
from tests.support.deployments import deployment


class Case(NamedTuple):
    name: str
    spec: dict[str, Any]
    share: str
    status: dict[str, Any] = {}  # noqa: RUF012 - never changed


ACCOUNT = {"serviceAccountName": "installer"}
# fmt: off
CASES = [
    Case("with an account it is that of its namespace", {"installNamespace": "ann"} | ACCOUNT, 'namespace "ann"'),
    Case("another account is no other share", {"installNamespace": "ann", "serviceAccountName": "b"},
         'namespace "ann"'),
    Case("an administrator in that namespace has another", {"installNamespace": "ann"},
         'namespace "ann" (no serviceAccountName)'),
    Case("without a namespace all have one", {}, 'namespace "" (no serviceAccountName)'),
    Case("that of the bundle counts once it is known", {}, 'namespace "shop" (no serviceAccountName)',
         {"installNamespace": "shop"}),
    Case("but for no account", ACCOUNT, 'namespace ""', {"installNamespace": "shop"}),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_whose_share_a_bundle_deployment_is_of(case: Case) -> None:
    assert share_of(deployment(spec={"installNamespace": None, **case.spec}, status=case.status)) == case.share


@pytest.mark.parametrize(
    ("places", "shares", "most"),
    [
        (1, 1, [1]),
        (2, 1, [1]),
        (16, 1, [8]),
        (16, 2, [8, 4]),
        (16, 4, [8, 4, 2, 1]),
        (3, 9, [2, 1, 0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_how_many_places_greedy_shares_get_one_after_the_other(places: int, shares: int, most: list[int]) -> None:
    counted = Shares(places)
    assert [sum(counted.take(str(share)) for _ in range(100)) for share in range(shares)] == most


def test_a_place_that_was_given_back_is_free() -> None:
    shares = Shares(2)
    assert [shares.take("ann"), shares.take("ann"), shares.take("ben")] == [True, False, True]
    shares.give_back("ben")
    shares.give_back("ann")
    assert shares.taken == 0
    assert [shares.take("ben"), shares.take("ben")] == [True, False]


def test_shares_take_turns_whoever_came_first() -> None:
    turns: Turns[str] = Turns(1)
    for share, item in (("ANN", "a1"), ("ANN", "a2"), ("ANN", "a3"), ("BEN", "b1"), ("CAT", "c1")):
        turns.add(share, item)
    begun = []
    while each := turns.begin():
        begun.append(each)
        turns.end({"a": "ANN", "b": "BEN", "c": "CAT"}[each[0]])
    assert begun == ["a1", "b1", "c1", "a2", "a3"]


def test_what_may_wait_does_so_for_its_own_share_alone() -> None:
    turns: Turns[str] = Turns(1)
    turns.add("ANN", "poll", later=True)
    turns.add("ANN", "first")
    turns.add("BEN", "other poll", later=True)
    begun = []
    while item := turns.begin():
        begun.append(item)
        turns.end("BEN" if item.startswith("other") else "ANN")
    assert begun == ["first", "other poll", "poll"]


def test_a_share_with_all_it_may_have_is_passed_over() -> None:
    turns: Turns[str] = Turns(4)
    for number in range(5):
        turns.add("ANN", f"a{number}")
    turns.add("BEN", "b0")
    assert [turns.begin() for _ in range(4)] == ["a0", "b0", "a1", None]
    assert (turns.active, turns.waiting) == (3, 3)


def test_what_was_dropped_has_no_turn() -> None:
    turns: Turns[str] = Turns(2)
    turns.add("ANN", "a")
    for _ in range(2):
        turns.drop("ANN", "a")
    assert (turns.begin(), turns.waiting) == (None, 0)


def test_an_item_that_is_too_large_for_now_is_not_overtaken() -> None:
    turns: Turns[str] = Turns(10)
    turns.add("ANN", "a", size=4)
    assert turns.begin() == "a"
    turns.add("BEN", "large", size=8)
    turns.add("CAT", "small", size=1)
    assert turns.begin() is None
    turns.end("ANN", 4)
    assert [turns.begin(), turns.begin()] == ["large", "small"]
    assert turns.active == 9


def serve(turns: Turns[tuple[str, float]], most: int = 100) -> str:
    """Let items begin and end, one after the other; return the initials of their shares."""
    begun = ""
    while len(begun) < most and (item := turns.begin()):
        share, seconds = item[0].split()[0], item[1]
        begun += share[0]
        turns.end(share, seconds=seconds)
    return begun


def line_up(turns: Turns[tuple[str, float]], share: str, seconds: float, count: int) -> None:
    for number in range(count):
        turns.add(share, (f"{share} {number}", seconds))


def test_shares_get_equal_time_and_not_equally_many_items() -> None:
    turns: Turns[tuple[str, float]] = Turns(1)
    line_up(turns, "ANN", 5.0, 3)
    line_up(turns, "BEN", 1.0, 12)
    assert serve(turns) == "ABBBBBABBBBBABB"


def test_shares_alternate_as_long_as_their_items_cost_little() -> None:
    turns: Turns[tuple[str, float]] = Turns(1)
    line_up(turns, "ANN", 0.02, 4)
    line_up(turns, "BEN", 0.001, 4)
    assert serve(turns) == "ABABABAB"


def test_many_items_that_cost_little_count_as_well() -> None:
    turns: Turns[tuple[str, float]] = Turns(1)
    line_up(turns, "ANN", 0.04, 30)
    line_up(turns, "BEN", 0.004, 300)
    begun = serve(turns, 200)
    assert begun.count("A") < begun.count("B") / 5


def test_whoever_comes_late_has_no_claim_to_the_time_that_others_used_before() -> None:
    turns: Turns[tuple[str, float]] = Turns(1)
    line_up(turns, "ANN", 30.0, 4)
    assert serve(turns, 3) == "AAA"
    line_up(turns, "BEN", 1.0, 30)
    assert serve(turns, 12) == "BBBBBBBBBBAB"


def test_a_share_that_has_used_much_waits_for_nobody_who_has_nothing_to_do() -> None:
    turns: Turns[tuple[str, float]] = Turns(1)
    line_up(turns, "ANN", 30.0, 3)
    line_up(turns, "BEN", 1.0, 1)
    assert serve(turns) == "ABAA"
