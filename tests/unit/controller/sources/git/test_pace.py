"""Which repositories come too slowly."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from operator import attrgetter

import pytest

from api.plugins import KIBIBYTE, Network
from controller.sources.git.process import GitPace, processor_seconds
from hack.control_plane.waiting import wait_for
from tests.support.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    growth: float = 0
    """KiB/s, from the beginning on."""
    starts: float = 0
    """Seconds until it grows."""
    computing: float = 0
    """Processor seconds a second."""
    slow_after: int | None = None
    """Seconds; None: it keeps up."""


CASES = [
    Case(name="a quick one", growth=1000),
    Case(name="one that is just quick enough", growth=16),
    Case(name="one that drips", growth=1, slow_after=30),
    Case(name="one that drips, once it begins", growth=1, starts=50, slow_after=51),
    Case(name="one that is silent", slow_after=120),
    Case(name="one that thinks for a minute, and is quick then", growth=1000, starts=60),
    Case(name="one that has come, and is worked on", growth=0, computing=0.5),
    Case(name="one that is waited for by a busy loop of a few ticks", growth=1, computing=0.02, slow_after=30),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_a_repository_grows_or_is_worked_on(case: Case) -> None:
    clock = Clock()
    pace = GitPace(1, Network(), clock, lambda _: case.computing * (clock.now - 1000))
    found: int | None = None
    for second in range(300):
        clock.now = 1000.0 + second
        size = 5000 + int(max(0, second - case.starts) * case.growth * KIBIBYTE)
        if pace.problem(size):
            found = second
            break
    assert found == case.slow_after


def test_the_limits_are_the_administrators() -> None:
    clock = Clock()
    pace = GitPace(1, Network(idle_seconds=30, bytes_per_second=2048), clock, lambda _: 0.0)
    assert pace.problem(0) == ""
    clock.now += 30
    assert pace.problem(30 * 2048) == ""
    clock.now += 30
    assert pace.problem(60 * 2048 - 1) == "it sends less than 2 KiB/s"


def test_the_processor_time_of_a_session() -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True) as child:
        wait_for(lambda: processor_seconds(child.pid) >= 0.1, 60.0, "a tenth of a second")
        child.kill()
    assert processor_seconds(os.getpid() + (1 << 30)) == 0
