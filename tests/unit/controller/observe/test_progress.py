from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from api.v1alpha2.conditions import Reason
from controller.observe.health import HEALTHY, State, Verdict
from controller.observe.progress import HealthTracker, Progress
from controller.observe.records import ObjectKey, Record

START = 1_000_000.0
DEADLINE = 600.0
WEB = ObjectKey("apps", "Deployment", "shop", "web")
CONFIG = ObjectKey("", "ConfigMap", "shop", "a")
DIGESTS = {WEB: "d", CONFIG: "d"}
ROLLING = Verdict(State.PROGRESSING, "Rolling", "1 of 3 replicas")
NO_ADDRESS = Verdict(State.PROGRESSING, "LoadBalancerPending", "no address yet", deadline=False)
BROKEN = Verdict(State.FAILED, "CrashLoopBackOff", "it crashes")


class Tracker:
    """A tracker, its clock and what it sees."""

    def __init__(self) -> None:
        self.now = START
        self.tracker = HealthTracker(clock=lambda: self.now)
        self.applied(at=START)

    def applied(self, at: float) -> None:
        when = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
        self.records = {
            key: Record(key=key, applied_digest="d", applied_at=when, verdict=HEALTHY if key == WEB else None)
            for key in DIGESTS
        }

    def see(self, verdict: Verdict | None, *, revision: str = "r1") -> Progress:
        """Say how the Deployment is: None, it is not there."""
        if verdict is None:
            seen = {key: record for key, record in self.records.items() if key != WEB}
        else:
            seen = {**self.records, WEB: replace(self.records[WEB], verdict=verdict)}
        return self.tracker.summarize(DIGESTS, seen, revision, DEADLINE)


@pytest.fixture
def tracker() -> Tracker:
    return Tracker()


def test_all_are_healthy(tracker: Tracker) -> None:
    progress = tracker.see(HEALTHY)
    assert (progress.health.reason, progress.health.healthy, progress.health.total) == (Reason.HEALTHY, 2, 2)
    assert progress.next_change is None


def test_an_object_that_is_not_seen_as_it_was_applied_is_not_healthy_yet(tracker: Tracker) -> None:
    tracker.records[CONFIG] = replace(tracker.records[CONFIG], applied_digest="of before")
    health = tracker.see(HEALTHY).health
    assert (health.reason, health.progressing) == (Reason.PROGRESSING, 1)


def test_an_object_that_is_being_deleted_is_not_healthy(tracker: Tracker) -> None:
    tracker.records[CONFIG] = replace(tracker.records[CONFIG], deleting=True, finalizers=("example.com/hold",))
    assert tracker.see(HEALTHY).health.message == "ConfigMap shop/a: Terminating: example.com/hold"


def test_the_deadline_runs_from_the_apply_and_says_when_it_ends(tracker: Tracker) -> None:
    tracker.now += 200
    assert tracker.see(ROLLING).next_change == pytest.approx(400)
    tracker.now += 399
    assert tracker.see(ROLLING).health.reason is Reason.PROGRESSING
    tracker.now += 1
    late = tracker.see(ROLLING)
    assert late.health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED
    assert late.health.message == "Deployment shop/web: ProgressDeadlineExceeded: Rolling: 1 of 3 replicas"
    assert late.next_change is None


def test_a_restart_does_not_give_an_object_more_time(tracker: Tracker) -> None:
    tracker.now += DEADLINE
    assert Tracker.see(tracker, ROLLING).health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


def test_an_object_that_was_healthy_has_the_whole_deadline_again(tracker: Tracker) -> None:
    tracker.see(HEALTHY)
    tracker.now += 10_000
    assert tracker.see(ROLLING).health.reason is Reason.PROGRESSING
    tracker.now += DEADLINE
    assert tracker.see(ROLLING).health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


def test_so_has_one_that_is_gone(tracker: Tracker) -> None:
    tracker.now += 10_000
    assert tracker.see(None).health.reason is Reason.PROGRESSING
    tracker.now += DEADLINE
    assert tracker.see(None).health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


def test_a_clock_of_the_server_that_is_ahead_does_not_matter(tracker: Tracker) -> None:
    tracker.applied(at=START + 1000)
    tracker.now += 1
    assert tracker.see(ROLLING).next_change == pytest.approx(DEADLINE)


def test_what_no_deadline_covers_is_never_late_and_lets_prune_go_on(tracker: Tracker) -> None:
    tracker.now += 10 * DEADLINE
    progress = tracker.see(NO_ADDRESS)
    assert (progress.health.reason, progress.next_change) == (Reason.PROGRESSING, None)
    assert progress.health.settled
    assert not tracker.see(ROLLING).health.settled


def test_a_fall_is_kept_back_for_fifteen_seconds(tracker: Tracker) -> None:
    tracker.see(HEALTHY)
    fallen = tracker.see(ROLLING)
    assert fallen.health.reason is Reason.PROGRESSING
    assert fallen.shown.reason is Reason.HEALTHY
    assert fallen.next_change == pytest.approx(15)
    tracker.now += 14
    assert tracker.see(ROLLING).shown.reason is Reason.HEALTHY
    tracker.now += 1
    assert tracker.see(ROLLING).shown.reason is Reason.PROGRESSING


def test_a_fall_that_is_over_soon_is_never_shown(tracker: Tracker) -> None:
    tracker.see(HEALTHY)
    for _ in range(5):
        tracker.see(ROLLING)
        tracker.now += 10
        assert tracker.see(HEALTHY).shown.reason is Reason.HEALTHY
        tracker.now += 10


def test_a_failure_is_shown_at_once(tracker: Tracker) -> None:
    tracker.see(HEALTHY)
    assert tracker.see(BROKEN).shown.reason is Reason.FAILED


def test_a_rise_is_shown_at_once(tracker: Tracker) -> None:
    tracker.see(ROLLING)
    assert tracker.see(HEALTHY).shown.reason is Reason.HEALTHY


def test_counts_alone_are_shown_every_five_seconds_at_most(tracker: Tracker) -> None:
    tracker.see(ROLLING)
    more = Verdict(State.PROGRESSING, "Rolling", "2 of 3 replicas")
    tracker.now += 2
    kept = tracker.see(more)
    assert kept.shown.message == "Deployment shop/web: Rolling: 1 of 3 replicas"
    assert kept.next_change == pytest.approx(3)
    tracker.now += 3
    assert tracker.see(more).shown.message == "Deployment shop/web: Rolling: 2 of 3 replicas"


def test_another_revision_is_shown_at_once(tracker: Tracker) -> None:
    tracker.see(HEALTHY)
    assert tracker.see(ROLLING, revision="r2").shown.reason is Reason.PROGRESSING


def test_an_unchanged_health_asks_for_nothing(tracker: Tracker) -> None:
    tracker.see(BROKEN)
    tracker.now += 1
    again = tracker.see(BROKEN)
    assert (again.shown.reason, again.next_change) == (Reason.FAILED, None)
