"""Which servers are too slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import pytest

from rukpak.api.plugins import Network
from rukpak.controller.sources.pace import Pace
from tests.support.clock import Clock

KIBIBYTE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    name: str
    pieces: Sequence[tuple[float, float]]
    """Seconds of waiting, and KiB that came then."""
    slow_after: int | None = None
    """Pieces; None: it keeps up."""


CASES = [
    Reads(name="a quick one", pieces=[(0.1, 1000)] * 1000),
    Reads(name="one that is just quick enough", pieces=[(1, 16)] * 300),
    Reads(name="one that is a little slower", pieces=[(1, 15.9)] * 300, slow_after=30),
    Reads(name="one that drips", pieces=[(0.05, 0)] * 1000, slow_after=600),
    Reads(name="one that is silent for half a minute", pieces=[(30, 1)], slow_after=1),
    Reads(name="one that pauses, and is quick again", pieces=[(29, 0), (1, 480)] * 10),
    Reads(name="one that was quick, and drips now", pieces=[(1, 1000)] * 30 + [(1, 1)] * 30, slow_after=60),
    Reads(name="a short answer, though slow", pieces=[(1, 1)] * 29),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_the_rate_counts_over_half_a_minute(case: Reads) -> None:
    clock = Clock()
    pace = Pace(Network(), clock)
    found: int | None = None
    for number, (seconds, size) in enumerate(case.pieces, 1):
        pace.begin_read()
        clock.now += seconds
        pace.end_read(int(size * KIBIBYTE))
        clock.now += 100  # processing time does not count
        if pace.problem():
            found = number
            break
    assert found == case.slow_after


def test_many_slow_answers_count_as_one() -> None:
    clock = Clock()
    pace = Pace(Network(), clock)
    for _ in range(6):
        pace.ask()
        pace.answered()
        pace.begin_read()
        clock.now += 5
        pace.end_read(1)
    assert pace.problem() == "it sends less than 16 KiB/s"


def test_who_looks_sees_a_read_that_does_not_end() -> None:
    clock = Clock()
    pace = Pace(Network(), clock)
    pace.begin_read()
    clock.now += 29.9
    assert pace.problem() == ""
    clock.now += 0.1
    assert pace.problem() == "it sends less than 16 KiB/s"


def test_an_answer_may_take_two_minutes() -> None:
    clock = Clock()
    pace = Pace(Network(), clock)
    pace.ask()
    clock.now += 119.9
    assert pace.problem() == ""
    clock.now += 0.1
    assert pace.problem() == "it timed out"
    pace.answered()
    assert pace.problem() == "it timed out"  # it has been cut


def test_the_limits_are_the_administrators() -> None:
    clock = Clock()
    pace = Pace(Network(idle_seconds=1, bytes_per_second=1 << 20), clock)
    pace.begin_read()
    clock.now += 30
    pace.end_read(29 << 20)
    assert pace.problem() == "it sends less than 1 MiB/s"


HURRIED = [
    Reads(
        name="a header in time, and then a quick body", pieces=[(8, 0), (0.5, 1000)] + [(20, 500)] * 10, slow_after=None
    ),
    Reads(name="a header that is late", pieces=[(9, 0)], slow_after=1),
    Reads(name="a header in time, and then nothing", pieces=[(8, 0), (1, 0)], slow_after=2),
    Reads(name="a body that drips from the start", pieces=[(1, 0)] + [(1, 1)] * 20, slow_after=9),
    Reads(name="a body that drips later", pieces=[(1, 0), (8, 200)] + [(1, 1)] * 40, slow_after=32),
    Reads(name="a short answer", pieces=[(8, 0), (0.5, 1)]),
]


@pytest.mark.parametrize("case", HURRIED, ids=attrgetter("name"))
def test_the_header_and_the_first_bytes_may_have_to_arrive_sooner(case: Reads) -> None:
    clock = Clock()
    pace = Pace(Network(), clock, until=clock() + 9)
    found: int | None = None
    for number, (seconds, size) in enumerate(case.pieces, 1):
        pace.ask() if number == 1 else pace.begin_read()
        clock.now += seconds
        is_late = number == 1 and pace.problem()  # as who looks sees it
        pace.answered() if number == 1 else pace.end_read(int(size * KIBIBYTE))
        if is_late or pace.problem():
            found = number
            break
    assert found == case.slow_after
