"""Who may share an index, for how long, and what one call's failure is to others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api.errors import BundleError
from api.plugins import Access
from api.v1alpha2.conditions import Reason
from controller.sources import chart_index
from controller.sources.chart_index import Index, SharedAnswers


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def access(path: str = "spec.sources[0].chart", seconds: float = 20.0) -> Access:
    deadline = time.monotonic() + seconds
    return Access(path=path, deadline=deadline, cancelled=threading.Event(), scratch=Path("/nonexistent"))


class Repository:
    """Counts questions; answers with a new index each time, once it is allowed to."""

    def __init__(self) -> None:
        self.known: list[Index | None] = []
        self.failure: BundleError | None = None
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()

    def __call__(self, known: Index | None) -> Index:
        self.known.append(known)
        self.asked.set()
        assert self.answers.wait(10)
        if self.failure:
            raise self.failure
        return Index({"web": b"x" * 10}, f"sha256:{len(self.known)}", "")


def raised(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as caught:
        call()
    return caught.value


def test_a_call_gets_what_is_young_enough_for_it() -> None:
    clock, repository = Clock(), Repository()
    indexes = SharedAnswers[Index](clock)
    first = indexes.get("a", access(), 0.0, repository)
    clock.now += 10
    assert indexes.get("a", access(), 10.0, repository) is first
    clock.now += 1
    second = indexes.get("a", access(), 10.0, repository)
    assert repository.known == [None, first]
    assert indexes.get("a", access(), 5.0, repository) is second


def test_other_keys_share_nothing() -> None:
    repository, other = Repository(), Repository()
    indexes = SharedAnswers[Index](Clock())
    indexes.get("a", access(), 60.0, repository)
    indexes.get("b", access(), 60.0, other)
    assert (repository.known, other.known) == ([None], [None])


def test_many_calls_at_once_are_one_question() -> None:
    repository, indexes = Repository(), SharedAnswers[Index]()
    repository.answers.clear()
    with ThreadPoolExecutor(20) as pool:
        found = [pool.submit(indexes.get, "a", access(), 60.0, repository) for _ in range(20)]
        assert repository.asked.wait(10)
        repository.answers.set()
        assert len({future.result() for future in found}) == 1
    assert len(repository.known) == 1


def test_a_call_that_wants_the_present_does_not_get_what_was_asked_before_it() -> None:
    clock, repository = Clock(), Repository()
    indexes = SharedAnswers[Index](clock)
    repository.answers.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(indexes.get, "a", access(), 0.0, repository)
        assert repository.asked.wait(10)
        clock.now += 1
        second = pool.submit(indexes.get, "a", access(), 0.0, repository)
        repository.answers.set()
        assert first.result() is not second.result()
    assert len(repository.known) == 2


def failing_together(reason: Reason, *, cancelled: bool = False) -> tuple[list[BundleError], Repository]:
    """Return how two calls fail, the second of which waits for the first, by which time it would succeed."""
    repository, indexes = Repository(), SharedAnswers[Index]()
    repository.answers.clear()
    repository.failure = BundleError(reason, "spec.sources[0].chart.repository: no", retry_after=7)
    first, second = access(), access("spec.sources[3].chart")
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(indexes.get, "a", first, 60.0, repository)
        assert repository.asked.wait(10)
        two = pool.submit(indexes.get, "a", second, 60.0, repository)
        time.sleep(0.2)
        if cancelled:
            first.cancelled.set()
        repository.answers.set()
        return [raised(one.result), raised(two.result)], repository


def test_who_waits_for_a_server_that_is_down_gets_its_failure_in_its_own_words() -> None:
    failures, repository = failing_together(Reason.UNREACHABLE)
    assert [each.message for each in failures] == [f"spec.sources[{n}].chart.repository: no" for n in (0, 3)]
    assert failures[1].retry_after == 7
    assert len(repository.known) == 1


@pytest.mark.parametrize(("reason", "cancelled"), [(Reason.STORAGE_FULL, False), (Reason.UNREACHABLE, True)])
def test_what_concerns_only_the_one_that_asked_is_asked_again(reason: Reason, *, cancelled: bool) -> None:
    assert len(failing_together(reason, cancelled=cancelled)[1].known) == 2


def test_who_waits_does_not_wait_longer_than_its_own_deadline() -> None:
    repository, indexes = Repository(), SharedAnswers[Index]()
    repository.answers.clear()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(indexes.get, "a", access(), 60.0, repository)
        assert repository.asked.wait(10)
        error = raised(lambda: indexes.get("a", access(seconds=0.2), 60.0, repository))
        repository.answers.set()
    assert (error.reason, "timed out" in error.message) == (Reason.UNREACHABLE, True)


def test_a_failure_keeps_what_is_known_and_its_age() -> None:
    clock, repository = Clock(), Repository()
    indexes = SharedAnswers[Index](clock)
    first = indexes.get("a", access(), 0.0, repository)
    clock.now += 30
    repository.failure = BundleError(Reason.UNREACHABLE, "spec.sources[0].chart.repository: no")
    raised(lambda: indexes.get("a", access(), 20.0, repository))
    repository.failure = None
    assert indexes.get("a", access(), 40.0, repository) is first
    indexes.get("a", access(), 20.0, repository)
    assert repository.known == [None, first, first]


@pytest.mark.parametrize("limit", ["_KEPT_ANSWERS", "_SHARED_BYTES"])
def test_those_that_were_not_used_for_longest_are_dropped(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_index, limit, 2 if limit == "_KEPT_ANSWERS" else 30)
    repository, indexes = Repository(), SharedAnswers[Index](Clock())
    for key in ("a", "b", "a", "c"):
        indexes.get(key, access(), 60.0, repository)
    assert len(repository.known) == 3
    indexes.get("a", access(), 60.0, repository)
    assert len(repository.known) == 3
    indexes.get("b", access(), 60.0, repository)
    assert len(repository.known) == 4
