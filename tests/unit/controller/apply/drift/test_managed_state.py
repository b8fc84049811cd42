from __future__ import annotations

import random
from functools import reduce
from typing import Any

import pytest

from controller.apply.drift import Row, add, describe, is_state_of, subtract
from controller.observe.records import ObjectKey

KEY = ObjectKey("", "ConfigMap", "shop", "a")
ROW = Row(KEY, "d", "h")
ROWS = [Row(KEY._replace(name=f"object-{number}"), f"d{number % 3}", f"h{number % 5}") for number in range(40)]
# Written by the release before v2, for ROW and for nothing.
FIRST = "v1:sha256:2439578313975ca78c4d9d9117b973a7eda2fa24d9e6f54b58094947399bef57"
FIRST_OF_NONE = "v1:sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"


def total_of(rows: list[Row]) -> int:
    return reduce(add, rows, 0)


def test_the_state_does_not_depend_on_order() -> None:
    shuffled = random.Random(1).sample(ROWS, len(ROWS))
    assert describe(total_of(shuffled)) == describe(total_of(ROWS))
    assert describe(total_of([])).startswith("v2:sha256:")


CHANGES = [
    pytest.param({"key": KEY._replace(group="apps")}, id="another group"),
    pytest.param({"key": KEY._replace(kind="Secret")}, id="another kind"),
    pytest.param({"key": KEY._replace(namespace="shop2")}, id="another namespace"),
    pytest.param({"key": KEY._replace(name="b")}, id="another name"),
    pytest.param({"digest": "e"}, id="another digest"),
    pytest.param({"entry_hash": ""}, id="another entry"),
    pytest.param({"digest": "dh", "entry_hash": ""}, id="the same texts, divided elsewhere"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_state_differs_with(change: dict[str, Any]) -> None:
    assert describe(total_of([ROW._replace(**change)])) != describe(total_of([ROW]))


def test_an_object_that_is_subtracted_leaves_no_trace_and_another_of_equal_ones_stays() -> None:
    assert subtract(total_of([*ROWS, ROW]), ROW) == total_of(ROWS)
    assert subtract(total_of([ROW, ROW]), ROW) == total_of([ROW]) != 0
    assert subtract(0, ROW) != 0


def test_any_sequence_of_changes_gives_the_sum_of_what_is_left() -> None:
    chance, left, total = random.Random(2), list[Row](), 0
    for _ in range(500):
        if left and chance.random() < 0.4:
            row = left.pop(chance.randrange(len(left)))
            total = subtract(total, row)
        else:
            left.append(chance.choice(ROWS))
            total = add(total, left[-1])
        assert total == total_of(left)


def test_the_states_of_this_and_the_previous_version_are_recognized() -> None:
    assert is_state_of(describe(total_of(ROWS)), ROWS)
    assert is_state_of(FIRST, [ROW])
    assert is_state_of(FIRST_OF_NONE, [])
    assert not is_state_of(FIRST, [ROW._replace(entry_hash="x")])
    assert not is_state_of("", [])
