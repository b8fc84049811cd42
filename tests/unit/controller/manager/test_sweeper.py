from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from rukpak.controller.kube.errors import ApiError
from rukpak.controller.revisions import store as module
from rukpak.controller.revisions.store import Sweeper

SECONDS = 60.0


class Sweeps:
    """Counts sweeps, the first of which fails by `failure`."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.times, self.changed = failure, 0, threading.Condition()

    def __call__(self) -> None:
        with self.changed:
            self.times += 1
            self.changed.notify_all()
        if self.failure and self.times == 1:
            raise self.failure

    def wait_for(self, times: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.times >= times, SECONDS)


def ignore(_error: Exception) -> None:
    pass


def run(sweeper: Sweeper, check: Callable[[], None]) -> None:
    thread = threading.Thread(target=sweeper.run)
    thread.start()
    try:
        check()
    finally:
        sweeper.stop()
        thread.join(SECONDS)
    assert not thread.is_alive()


def test_there_is_a_sweep_at_the_start_and_one_when_asked() -> None:
    sweeps = Sweeps()
    sweeper = Sweeper(sweeps, ignore, lull=0.0)

    def check() -> None:
        sweeps.wait_for(1)
        sweeper.request()
        sweeps.wait_for(2)

    run(sweeper, check)


def test_there_is_one_now_and_then() -> None:
    sweeps = Sweeps()
    run(Sweeper(sweeps, ignore, period=0.01), lambda: sweeps.wait_for(3))


@pytest.mark.parametrize("failure", [ApiError(503, "ServiceUnavailable", "down"), ZeroDivisionError("bug")])
def test_one_that_fails_is_tried_again(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAILED_SECONDS", 0.01)
    sweeps, died = Sweeps(failure), list[Exception]()
    run(Sweeper(sweeps, died.append), lambda: sweeps.wait_for(2))
    assert died == ([] if isinstance(failure, ApiError) else [failure])


def test_after_the_end_nothing_is_swept() -> None:
    sweeps = Sweeps()
    sweeper = Sweeper(sweeps, ignore)
    sweeper.stop()
    sweeper.run()
    assert sweeps.times == 0


def test_who_goes_at_the_same_time_is_swept_up_at_once() -> None:
    sweeps = Sweeps()
    sweeper = Sweeper(sweeps, ignore, lull=0.1)

    def check() -> None:
        sweeps.wait_for(1)
        for _ in range(10):
            sweeper.request()
        sweeps.wait_for(2)

    run(sweeper, check)
    assert sweeps.times <= 3
