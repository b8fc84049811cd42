from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from rukpak.controller.manager.process import LONGEST_SECONDS, StartCollector


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    callbacks = list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks
    gc.unfreeze()


def _is_visited(value: object) -> bool:
    return any(each is value for each in gc.get_objects())


def test_what_was_visited_during_the_start_is_not_visited_again() -> None:
    known: list[object] = []
    collector = StartCollector()
    collector.begin()
    gc.collect()
    assert not _is_visited(known)
    later: list[object] = []
    collector.end_once(lambda: True)
    assert not _is_visited(later)


def test_what_is_created_after_the_start_is_visited_each_time() -> None:
    collector = StartCollector()
    collector.begin()
    collector.end_once(lambda: False)
    collector.end_once(lambda: True)
    later: list[object] = []
    gc.collect()
    collector.end_once(lambda: True)
    assert _is_visited(later)


def test_a_start_that_does_not_end_is_over_after_a_while() -> None:
    now = 0.0
    collector = StartCollector(clock=lambda: now)
    callbacks = len(gc.callbacks)
    collector.begin()
    now = LONGEST_SECONDS - 1
    collector.end_once(lambda: False)
    assert len(gc.callbacks) == callbacks + 1
    now = LONGEST_SECONDS
    collector.end_once(lambda: False)
    assert len(gc.callbacks) == callbacks
