from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.sharing import Admission, Shares, Turns, share_of
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


SECONDS = 60.0
GOES_ON = threading.Event()


class Line:
    """What was granted, in order; asked for by keys."""

    def __init__(self, total: int) -> None:
        self.admission = Admission(total)
        self.granted: list[str] = []

    def ask(self, key: str, size: int, share: str = "") -> bool:
        return self.admission.ask(key, share or key[0], size, lambda: self.granted.append(key))

    def release(self, *keys: str) -> list[str]:
        """Release keys; return who was granted by that."""
        self.granted.clear()
        for key in keys:
            self.admission.release(key)
        return list(self.granted)


@contextmanager
def in_background(admission: Admission, share: str, size: int, cancelled: threading.Event) -> Iterator[list[str]]:
    came: list[str] = []

    def hold() -> None:
        try:
            with admission.room(share, size, cancelled):
                came.append("held")
        except BundleError as error:
            came.append(error.reason.value)

    thread = threading.Thread(target=hold)
    thread.start()
    yield came
    thread.join(SECONDS)


def test_what_there_is_room_for_is_held_at_once_and_given_back() -> None:
    admission = Admission(100)
    with admission.room("a", 60, GOES_ON), admission.room("b", 40, GOES_ON):
        assert admission._turns.active == 100
    assert (admission._turns.active, admission._turns.waiting) == (0, 0)


def test_who_finds_no_room_waits_for_it() -> None:
    admission = Admission(100)
    with admission.room("a", 60, GOES_ON):
        background = in_background(admission, "b", 50, GOES_ON)
        came = background.__enter__()
        wait_for(lambda: admission._turns.waiting == 1, SECONDS, "somebody who waits")
        assert came == []
    background.__exit__(None, None, None)
    assert (came, admission._turns.active) == (["held"], 0)


def test_a_wait_ends_when_nobody_needs_the_result_any_more() -> None:
    admission, cancelled = Admission(100), threading.Event()
    with admission.room("a", 60, GOES_ON), in_background(admission, "b", 50, cancelled) as came:
        wait_for(lambda: admission._turns.waiting == 1, SECONDS, "somebody who waits")
        cancelled.set()
        wait_for(lambda: came == ["RenderFailed"], SECONDS, "the end of the wait")
        assert admission._turns.waiting == 0


def test_what_never_fits_fails_at_once_and_says_what_to_do() -> None:
    with pytest.raises(BundleError) as caught, Admission(100 << 20).room("a", 101 << 20, GOES_ON):
        pass
    assert caught.value.reason is Reason.RENDER_LIMIT_EXCEEDED
    assert (
        "takes up to 101 MiB of memory, more than the 100 MiB available; split the bundle, or" in caught.value.message
    )


def test_a_share_leaves_room_for_whoever_comes_next() -> None:
    line = Line(100)
    assert [line.ask(f"a{index}", 20) for index in range(6)] == [True] * 3 + [False] * 3
    assert [line.ask("b0", 20), line.ask("c0", 20)] == [True, True]


def test_what_is_given_back_goes_to_who_holds_less_than_is_free() -> None:
    line = Line(100)
    for name in ("a0", "a1", "a2", "a3", "b0", "b1", "c0", "c1"):
        line.ask(name, 20)
    assert [line.release(name) for name in ("a0", "b0", "c0", "a1")] == [[], ["b1"], ["c1"], ["a3"]]


def test_while_others_wait_a_share_gets_no_more_than_half() -> None:
    line = Line(100)
    line.ask("a0", 30)
    line.ask("b0", 80)
    assert line.ask("a1", 30) is False
    assert line.release("a0") == ["b0"]


def test_shares_take_turns_whatever_they_ask_for() -> None:
    line = Line(100)
    line.ask("z", 100)
    for key in ("a0", "a1", "a2", "b0", "c0"):
        line.ask(key, 40)
    assert line.release("z") == ["a0", "b0"]
    assert line.release("a0") == ["c0"]


def test_who_asks_for_more_than_half_is_not_overtaken_for_ever() -> None:
    line = Line(100)
    line.ask("a0", 40)
    line.ask("b0", 40)
    assert not line.ask("c0", 80)
    assert not line.ask("d0", 10)
    assert line.release("a0") == []
    assert line.release("b0") == ["c0", "d0"]


def test_who_asks_again_keeps_its_place_and_who_goes_leaves_it() -> None:
    line = Line(100)
    assert line.ask("a0", 100)
    assert not line.ask("b0", 30)
    assert not line.ask("b0", 30)
    assert line.admission._turns.waiting == 1
    assert line.release("b0") == []
    assert line.release("a0") == []
    assert (line.admission._turns.active, line.admission._turns.waiting) == (0, 0)


def test_a_pass_that_needs_more_than_there_is_runs_alone() -> None:
    line = Line(100)
    assert line.ask("a0", 500)
    assert not line.ask("b0", 1)
    assert line.release("a0") == ["b0"]


def test_of_places_a_share_that_takes_all_it_gets_leaves_some_to_another() -> None:
    places = Admission(4)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(places.room("ann", 1, GOES_ON))
        with in_background(places, "ann", 1, GOES_ON) as more:
            with places.room("ben", 1, GOES_ON):
                assert places._turns.active == 3
            assert more == []
            held.close()
            wait_for(lambda: more == ["held"], SECONDS, "the place that was given back")


def test_a_cancelled_wait_for_a_place_leaves_it_free() -> None:
    places, cancelled = Admission(1), threading.Event()
    with places.room("ann", 1, GOES_ON), in_background(places, "ben", 1, cancelled) as got:
        cancelled.set()
        wait_for(lambda: got == ["RenderFailed"], SECONDS, "the end of the wait")
    with places.room("ben", 1, GOES_ON):
        assert places._turns.active == 1
