from __future__ import annotations

from pathlib import Path

import pytest

from hack.control_plane.progress import Durations, Progress, estimate_left

USUAL = {"control-plane": 330.0, "registry": 45.0, "kwok": 20.0}


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(tmp_path: Path, told: list[str], clock: Clock) -> Progress:
    return Progress(Durations(tmp_path / "cache", USUAL), list(USUAL), told.append, clock)


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "left"),
    [
        pytest.param(10, 100, 60, 270, id="at first the expected duration counts"),
        pytest.param(50, 100, 200, 200, id="later the pace counts"),
        pytest.param(10, 100, 400, 0, id="a build that takes longer than expected has no negative rest"),
        pytest.param(120, 100, 50, 0, id="more packages than expected are all packages"),
        pytest.param(0, 0, 5, 0, id="nothing to compile is linked immediately"),
    ],
)
def test_what_is_left(done: int, total: int, elapsed: float, left: float) -> None:
    assert estimate_left(done, total, elapsed, expected=330) == left


def test_a_build_begins_with_its_usual_duration_and_what_follows(progress: Progress, told: list[str]) -> None:
    progress.begin("control-plane", "etcd")
    assert told == [
        "building etcd from Go modules, once: takes about 5 min 30 s; then registry, kwok (about 1 min 5 s)"
    ]


def test_progress_is_reported_every_15_seconds(progress: Progress, told: list[str], clock: Clock) -> None:
    progress.begin("registry", "registry")
    for package in range(31):
        clock.seconds += 1
        progress.report("registry", package, 60)
    assert told[1:] == [
        "building registry: 14 of 60 packages after 15 s, about 30 s left; then kwok (about 20 s)",
        "building registry: 29 of 60 packages after 30 s, about 32 s left; then kwok (about 20 s)",
    ]


def test_the_next_build_says_how_long_the_last_one_took(progress: Progress, told: list[str], clock: Clock) -> None:
    progress.begin("kwok", "kwok")
    clock.seconds += 75
    progress.end("kwok")
    progress.begin("kwok", "kwok")
    assert told[1:] == ["built kwok in 1 min 15 s", "building kwok from Go modules, once: took 1 min 15 s last time"]


def test_a_damaged_record_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / ".kwok.seconds").write_text("soon")
    assert Durations(tmp_path, USUAL).expected("kwok") == 20.0
