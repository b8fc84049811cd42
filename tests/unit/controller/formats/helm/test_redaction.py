"""Values are removed from the messages of Helm, in time that a chart cannot prolong."""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.formats.helm.failures import HIDDEN, Redactor, explain
from controller.formats.helm.program import RunResult

MOST_SECONDS = 15.0
"""Of what took most of a minute or more; some tenths of a second where nothing else goes on."""


class Case(NamedTuple):
    name: str
    text: str
    values: Any
    expect: str


CASES = [
    Case("a value", "x hunter2 y", ["hunter2"], "x … y"),
    Case("a value within a word", "xhunter2y", ["hunter2"], "x…y"),
    Case("a value that is no secret for being short", "x abc y", ["abc"], "x abc y"),
    Case("the longer of two values that begin alike", "x tiger33 y", ["tiger", "tiger33"], "x … y"),
    Case("values that overlap", "x tigerlily y", ["tigerl", "erlily"], "x … y"),
    Case("values side by side", "tigerlily", ["tiger", "lily"], "……"),
    Case("a value of several lines", "x one two y", ["one\n  two"], "x … y"),
    Case("a value as Go quotes it", r"x say \"hi\"\n y", ['say "hi"\n'], "x … y"),
    Case("a number", "x 1234567 y", [{"a": 1234567}], "x … y"),
    Case("a number as a float64", "x 1.234567e+06 y", [{"a": 1234567}], "x … y"),
    Case("digits that Python does not write", "x y", [10**5000], "x y"),
    Case("a value that goes on behind what is shown", "x " + "long" * 1000, ["long" * 1000], "x …"),
    Case("a value that goes on behind what is read", "x " + "long" * 9000, ["long" * 9000], "x …"),
    Case("a value that begins with many blanks", "x secret", ["a" + " " * 20000 + "secret"], "withheld"),
    Case("a value that is nested deep", "x hunter2", [[[[[{"a": [{"b": "hunter2"}]}]]]]], "x …"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_redacted(case: Case) -> None:
    shown = Redactor([case.values]).redact(case.text)
    if case.expect == "withheld":
        assert "is not shown" in shown
    else:
        assert shown.rstrip(HIDDEN) == case.expect.rstrip(HIDDEN)


@given(
    st.text(st.characters(categories=["L", "N"]), min_size=4, max_size=3000),
    st.integers(0, 2500),
    st.integers(0, 3000),
)
def test_the_start_of_a_value_is_not_shown_at_the_end_of_the_text(secret: str, before: int, after: int) -> None:
    shown = Redactor([secret]).redact("." * before + secret + "." * after)
    assert secret[:4] not in shown


def many() -> list[str]:
    return [f"value-{number:06}" for number in range(200_000)]


def alike() -> list[str]:
    return ["a" * length for length in range(4, 3000)]


def long() -> list[str]:
    return [f"{number}" + "b" * 500_000 for number in range(30)]


def wild() -> list[str]:
    return ["\x01\n" * 300_000 + str(number) for number in range(20)]


@pytest.mark.parametrize("values", [many, alike, long, wild])
@pytest.mark.parametrize(
    "piece",
    [
        *("a", "value-", "template: a:1: ", "a: ", "x\n", ": error at (", "\x01", "- (root): value-000001 \n"),
        *(":1", "a:1\n", 'a:1:1\n  executing "a" at <b>:\n    value-000001\n', "\n  executing "),
    ],
)
def test_no_complaint_takes_long(piece: str, values: Callable[[], list[str]]) -> None:
    complaint = "Error: " + piece * (256 * 1024 // len(piece))
    given_values = values()
    started = time.process_time()
    message = explain(RunResult(status=1, output=b"", stderr=complaint), "c", [{"a": given_values}]).message
    assert time.process_time() - started < MOST_SECONDS
    assert len(message) < 2000


def test_a_message_about_a_schema_is_short() -> None:
    head = "Error: values don't meet the specifications of the schema(s) in the following chart(s):\n"
    complaint = head + "c" * 100_000 + ":\n" + "x\n" * 50_000
    assert len(explain(RunResult(status=1, output=b"", stderr=complaint), "c", []).message) < 2000


def test_with_too_many_values_the_message_is_withheld() -> None:
    assert "is not shown" in Redactor([["x"] * 300_000]).redact("x")
