from __future__ import annotations

import math
import threading
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import bounds

NOW = 1_700_000_000.0


class Case(NamedTuple):
    name: str
    text: str
    expect: float | None


RETRY_AFTER = [
    Case("seconds", "17", 17),
    Case("none at all", "0", 0),
    Case("seconds with zeros in front", "0017", 17),
    Case("white space around them", " 17 ", 17),
    Case("an hour", "3600", 3600),
    Case("more than an hour", "3601", 3600),
    Case("what overflows a wait", "99999999999", 3600),
    Case("more than a float holds", "9" * 400, 3600),
    Case("more digits than Python reads", "9" * 5000, 3600),
    Case("zeros beyond number", "0" * 5000, 0),
    Case("less than none", "-5", None),
    Case("a fraction", "1.5", None),
    Case("an exponent", "1e99", None),
    Case("infinity", "inf", None),
    Case("no number", "nan", None),
    Case("digits of another script", "\u0661\u0667", None),
    Case("a digit that is none", "\u00b2", None),
    Case("nothing", "", None),
    Case("a word", "soon", None),
    Case("a date", "Tue, 14 Nov 2023 22:14:20 GMT", 60),
    Case("a date that has passed", "Tue, 14 Nov 2023 22:13:00 GMT", 0),
    Case("a date in two hours", "Wed, 15 Nov 2023 00:13:20 GMT", 3600),
    Case("the last date", "Fri, 31 Dec 9999 23:59:59 GMT", 3600),
    Case("a date after the last", "Fri, 31 Dec 99999 23:59:59 GMT", None),
    Case("the first date", "Mon, 01 Jan 0001 00:00:00 GMT", 0),
    Case("the first date without a zone", "Mon, 01 Jan 0001 00:00:00 -0000", 0),
    Case("a date with a zone beyond the world", "Fri, 31 Dec 9999 23:59:59 -9999", None),
    Case("a date cut short", "Tue, 14 Nov", None),
    Case("a month that is none", "Tue, 14 Foo 2023 22:14:20 GMT", None),
]


@pytest.mark.parametrize("case", RETRY_AFTER, ids=attrgetter("name"))
def test_what_a_retry_after_asks_for(case: Case) -> None:
    assert bounds.read_retry_after(case.text, NOW) == case.expect


WAVES = [
    Case("none of the others", "0", 0),
    Case("a late one", "12", 12),
    Case("an early one", "-3", -3),
    Case("one with a sign", "+3", 3),
    Case("one with zeros in front", "007", 7),
    Case("the last one", "999999", bounds.HIGHEST_WAVE),
    Case("one beyond the last", "1000000", None),
    Case("more digits than Python reads", "9" * 5000, None),
    Case("a fraction", "1.5", None),
    Case("white space around it", " 1", None),
    Case("a line break behind it", "1\n", None),
    Case("digits of another script", "\u0661", None),
    Case("an underscore", "1_0", None),
    Case("nothing", "", None),
    Case("two signs", "--1", None),
]


@pytest.mark.parametrize("case", WAVES, ids=attrgetter("name"))
def test_the_wave_that_an_annotation_names(case: Case) -> None:
    assert bounds.read_wave(case.text) == case.expect


class Number(NamedTuple):
    name: str
    value: Any
    expect: float | None


NUMBERS = [
    Number("within", 17, 17),
    Number("a fraction", 0.5, 0.5),
    Number("too large", 99999999999, 3600),
    Number("larger than a float", 10**400, 3600),
    Number("infinite", math.inf, 3600),
    Number("negative", -5, 0),
    Number("infinitely negative", -math.inf, 0),
    Number("not a number", math.nan, None),
    Number("a text", "17", None),
    Number("true", True, None),
    Number("a list", [17], None),
    Number("nothing", None, None),
]


@pytest.mark.parametrize("case", NUMBERS, ids=attrgetter("name"))
def test_what_is_left_of_a_number(case: Number) -> None:
    assert bounds.clamp_retry_after(case.value) == case.expect


COUNTS = [
    Case("a number", "42", 42),
    Case("more than there may be", "101", 100),
    Case("more digits than Python reads", "9" * 5000, 100),
    Case("a sign", "+42", None),
    Case("an underscore", "4_2", None),
    Case("digits of another script", "\u0664\u0662", None),
    Case("a digit that is none", "\u00b2", None),
    Case("nothing", "", None),
]


@pytest.mark.parametrize("case", COUNTS, ids=attrgetter("name"))
def test_what_is_left_of_a_count(case: Case) -> None:
    assert bounds.read_count(case.text, 100) == case.expect


@pytest.mark.parametrize("seconds", [-math.inf, -1.0, 0.0, 5.0, 1e11, 1e308, math.inf, math.nan])
def test_no_wait_overflows(seconds: float) -> None:
    over = threading.Event()
    over.set()
    waited = bounds.clamp_wait(seconds)
    assert waited is not None
    assert over.wait(waited)


@pytest.mark.parametrize(("seconds", "expect"), [(5.0, 5.0), (math.nan, 0.0), (-1.0, 0.0), (math.inf, 31622400.0)])
def test_how_far_ahead_something_is_planned(seconds: float, expect: float) -> None:
    assert bounds.clamp_delay(seconds) == expect


def test_who_waits_for_an_event_alone_waits_for_ever() -> None:
    assert bounds.clamp_wait(None) is None


TIMES = [
    Case("a time", "2023-11-14T22:13:20Z", NOW),
    Case("a time elsewhere", "2023-11-15T00:13:20+02:00", NOW),
    Case("the last year", "9999-12-31T23:59:59Z", 253402300799),
    Case("the last year west of Greenwich", "9999-12-31T23:59:59-14:00", 253402351199),
    Case("the year before the first", "0000-01-01T00:00:00Z", None),
    Case("a year of five digits", "99999-01-01T00:00:00Z", None),
    Case("the first year, nowhere", "0001-01-01T00:00:00", None),
    Case("a word", "now", None),
    Case("nothing", "", None),
]


@pytest.mark.parametrize("case", TIMES, ids=attrgetter("name"))
def test_what_a_time_says(case: Case) -> None:
    assert bounds.read_time(case.text) == case.expect
