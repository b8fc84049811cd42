from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.ledger import Left
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.explanations import Inquiries, Question, _Inquiry
from rukpak.controller.observe.health.stability import OUTDATED, Answer
from rukpak.controller.observe.health.verdict import HEALTHY, State, Verdict
from rukpak.controller.observe.kinds import OwnedObjects
from rukpak.controller.observe.progress import HealthTracker, Progress
from rukpak.controller.observe.records import Journal, Record

START = 1_000_000.0
DEADLINE = 600.0
WEB = ObjectKey("apps", "Deployment", "shop", "web")
CONFIG = ObjectKey("", "ConfigMap", "shop", "a")
WANTED = {WEB: Left("d", ""), CONFIG: Left("d", "")}
ROLLING = Verdict(State.PROGRESSING, "Rolling", "1 of 3 replicas")
NO_ADDRESS = Verdict(State.PROGRESSING, "LoadBalancerPending", "no address yet", deadline=False)
BROKEN = Verdict(State.FAILED, "CrashLoopBackOff", "it crashes")


class Tracker:
    """A tracker, its clock and what it sees."""

    def __init__(self) -> None:
        self.now = START
        self.ahead = 0.0
        self.tracker = HealthTracker(now=lambda: self.now, clock=lambda: self.now + self.ahead)
        self.pods = ""
        self.known: dict[ObjectKey, Verdict] = {}
        self.asked: list[ObjectKey] = []
        self.applied(at=START)

    def applied(self, at: float) -> None:
        when = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
        self.records = {
            key: Record(key=key, applied_digest="d", applied_at=when, verdict=HEALTHY if key == WEB else None)
            for key in WANTED
        }

    def see(
        self,
        verdict: Verdict | None,
        *,
        revision: str = "r1",
        refusals: dict[ObjectKey, BundleError] | None = None,
        recreates: bool = True,
        awaited: frozenset[ObjectKey] = frozenset(),
    ) -> Progress:
        """Say how the Deployment is: None if it does not exist."""
        if verdict is None:
            seen = {key: record for key, record in self.records.items() if key != WEB}
        else:
            seen = {**self.records, WEB: replace(self.records[WEB], verdict=verdict, pods=self.pods)}
        return self.tracker.summarize(
            WANTED,
            seen,
            revision,
            DEADLINE,
            refusals=refusals,
            recreates=recreates,
            awaited=awaited,
            explain=self.explain,
        )

    def explain(self, inquiries: Inquiries, questions: Sequence[Question]) -> float | None:
        self.asked = [question.record.key for question in questions]
        answers = {key: Answer(asked=self.now, verdict=verdict) for key, verdict in self.known.items()}
        inquiries.known = {key: _Inquiry(answer=answer) for key, answer in answers.items()}
        return 30.0 if questions else None


@pytest.fixture
def tracker() -> Tracker:
    return Tracker()


def test_all_are_healthy(tracker: Tracker) -> None:
    progress = tracker.see(HEALTHY)
    assert (progress.health.reason, progress.health.healthy, progress.health.total) == (Reason.HEALTHY, 2, 2)
    assert progress.next_change is None


@pytest.mark.parametrize("when", ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "soon", ""])
def test_whatever_time_an_object_bears_is_no_bug(when: str, tracker: Tracker) -> None:
    tracker.records = {key: replace(record, applied_at=when) for key, record in tracker.records.items()}
    assert tracker.see(HEALTHY).health.healthy == 2
    assert tracker.see(None).health.total == 2


def test_an_object_that_calls_itself_outdated_is_no_bug(tracker: Tracker) -> None:
    tracker.records = {key: replace(record, applied_at="") for key, record in tracker.records.items()}
    assert tracker.see(OUTDATED).health.reason is Reason.PROGRESSING


@pytest.mark.parametrize(("awaited", "reason"), [((), Reason.PROGRESSING), ((WEB,), Reason.PROGRESS_DEADLINE_EXCEEDED)])
def test_what_has_no_deadline_has_one_while_a_wave_waits_for_it(
    awaited: tuple[ObjectKey, ...], reason: Reason, tracker: Tracker
) -> None:
    tracker.see(NO_ADDRESS, awaited=frozenset(awaited))
    tracker.now += DEADLINE
    assert tracker.see(NO_ADDRESS, awaited=frozenset(awaited)).health.reason is reason


def test_an_object_that_is_not_seen_as_it_was_applied_is_not_healthy_yet(tracker: Tracker) -> None:
    tracker.records[CONFIG] = replace(tracker.records[CONFIG], applied_digest="of before")
    health = tracker.see(HEALTHY).health
    assert (health.reason, health.progressing) == (Reason.PROGRESSING, 1)


def test_an_object_that_is_being_deleted_is_not_healthy(tracker: Tracker) -> None:
    tracker.records[CONFIG] = replace(tracker.records[CONFIG], deleting=True, finalizers=("example.com/hold",))
    assert tracker.see(HEALTHY).health.message == "ConfigMap shop/a: Terminating: finalizers: example.com/hold"


def test_the_deadline_runs_from_the_apply_and_says_when_it_ends(tracker: Tracker) -> None:
    tracker.now += 200
    assert tracker.see(ROLLING).next_change == pytest.approx(400)
    tracker.now += 399
    assert tracker.see(ROLLING).health.reason is Reason.PROGRESSING
    tracker.now += 1
    late = tracker.see(ROLLING)
    assert late.health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED
    assert late.health.message == "Deployment shop/web: ProgressDeadlineExceeded: Rolling: 1 of 3 replicas"
    assert late.next_change == pytest.approx(60)  # the object has been seen for 400 s only
    tracker.now += 199
    assert tracker.see(ROLLING).next_change == pytest.approx(1)
    tracker.now += 1
    assert tracker.see(ROLLING).next_change is None


def test_a_restart_does_not_give_an_object_more_time(tracker: Tracker) -> None:
    tracker.now += DEADLINE
    assert Tracker.see(tracker, ROLLING).health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


def test_an_object_that_was_healthy_has_the_whole_deadline_again(tracker: Tracker) -> None:
    tracker.see(HEALTHY)
    tracker.now += 10_000
    assert tracker.see(ROLLING).health.reason is Reason.PROGRESSING
    tracker.now += DEADLINE
    assert tracker.see(ROLLING).health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


def test_an_object_that_is_gone_has_the_whole_deadline_again(tracker: Tracker) -> None:
    tracker.now += 10_000
    assert tracker.see(None).health.reason is Reason.PROGRESSING
    tracker.now += DEADLINE
    assert tracker.see(None).health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


def test_a_clock_of_the_server_that_is_ahead_does_not_matter(tracker: Tracker) -> None:
    tracker.applied(at=START + 1000)
    tracker.now += 1
    assert tracker.see(ROLLING).next_change == pytest.approx(DEADLINE)


@pytest.mark.parametrize("jump", [-86_400, 86_400], ids=["back", "ahead"])
def test_a_clock_that_is_set_changes_no_deadline(tracker: Tracker, jump: float) -> None:
    assert tracker.see(ROLLING).next_change == pytest.approx(DEADLINE)
    tracker.ahead, tracker.now = jump, tracker.now + 599
    assert tracker.see(ROLLING).health.reason is Reason.PROGRESSING
    tracker.now += 1
    assert tracker.see(ROLLING).health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


TEN_YEARS = 10 * 365.25 * 86_400


def test_a_deadline_that_expired_only_by_the_clock_has_not_once_that_is_right(tracker: Tracker) -> None:
    tracker.ahead = TEN_YEARS
    tracker.now += 10
    early = tracker.see(ROLLING)
    assert early.health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED
    assert early.next_change == pytest.approx(60)
    tracker.ahead, tracker.now = 0, tracker.now + 60
    assert tracker.see(ROLLING).health.reason is Reason.PROGRESSING
    tracker.ahead = TEN_YEARS
    assert tracker.see(ROLLING).next_change == pytest.approx(DEADLINE - 70)


def test_a_clock_that_was_behind_delays_a_deadline_once(tracker: Tracker) -> None:
    tracker.ahead, tracker.now = -TEN_YEARS, tracker.now + 10
    assert tracker.see(ROLLING).next_change == pytest.approx(DEADLINE)
    tracker.ahead, tracker.now = 0, tracker.now + DEADLINE
    assert tracker.see(ROLLING).health.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


@pytest.mark.parametrize("jump", [-86_400, 86_400], ids=["back", "ahead"])
def test_a_clock_that_is_set_does_not_change_when_a_fall_is_shown(tracker: Tracker, jump: float) -> None:
    tracker.see(HEALTHY)
    tracker.see(ROLLING)
    tracker.ahead, tracker.now = jump, tracker.now + 14
    assert tracker.see(ROLLING).shown.reason is Reason.HEALTHY
    tracker.now += 1
    assert tracker.see(ROLLING).shown.reason is Reason.PROGRESSING


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


# why


IMMUTABLE = BundleError(Reason.IMMUTABLE, "spec.selector: field is immutable", place="Deployment shop/web")
COLLISION = BundleError(Reason.COLLISION, "has another owner", place="Deployment shop/web")
CRASHING = Verdict(State.FAILED, "CrashLoopBackOff", 'container "main"')
PULLING = Verdict(State.PROGRESSING, "ImagePullBackOff", 'container "main"')


def test_an_object_that_was_refused_says_so_and_not_how_the_one_is_that_is_there(tracker: Tracker) -> None:
    for seen in (HEALTHY, None):
        ((key, verdict),) = tracker.see(seen, refusals={WEB: IMMUTABLE}).health.not_ready
        assert (key, verdict.state, verdict.reason) == (WEB, State.FAILED, "Immutable")
        assert verdict.message == "spec.selector: field is immutable"


def test_what_ails_an_object_says_more_than_that_its_repair_was_refused(tracker: Tracker) -> None:
    assert tracker.see(BROKEN, refusals={WEB: IMMUTABLE}).health.not_ready == ((WEB, BROKEN),)


def test_a_refusal_that_an_event_may_end_is_no_failure_before_the_deadline(tracker: Tracker) -> None:
    assert tracker.see(None, refusals={WEB: COLLISION}).health.reason is Reason.PROGRESSING
    tracker.now += DEADLINE
    late = tracker.see(None, refusals={WEB: COLLISION}).health
    assert late.message == "Deployment shop/web: ProgressDeadlineExceeded: Collision: has another owner"


def test_what_is_missing_is_kept_back_like_any_fall_since_a_repair_brings_it_back_at_once(tracker: Tracker) -> None:
    tracker.see(HEALTHY)
    assert tracker.see(None).shown.reason is Reason.HEALTHY
    tracker.now += 15
    assert tracker.see(None).shown.message == "Deployment shop/web: Missing: not found on the cluster"


WAITS = BundleError(Reason.NAMESPACE_TERMINATING, "its namespace is being deleted", place="Deployment shop/web")
LOST = [
    pytest.param(None, {"recreates": False}, Reason.PROGRESSING, id="missing, and nobody creates it again"),
    pytest.param(None, {"refusals": {WEB: WAITS}}, Reason.PROGRESSING, id="missing and refused"),
    pytest.param(None, {"refusals": {CONFIG: WAITS}}, Reason.HEALTHY, id="missing while another is refused"),
    pytest.param(ROLLING, {"recreates": False}, Reason.HEALTHY, id="there and rolling out"),
    pytest.param(ROLLING, {"refusals": {WEB: WAITS}}, Reason.HEALTHY, id="there, rolling out and refused"),
]


@pytest.mark.parametrize(("verdict", "about", "shown"), LOST)
def test_a_fall_that_lasts_is_shown_at_once(
    tracker: Tracker, verdict: Verdict | None, about: dict[str, Any], shown: Reason
) -> None:
    tracker.see(HEALTHY)
    progress = tracker.see(verdict, **about)
    assert progress.shown.reason is shown
    assert progress.shown.healthy == (2 if shown is Reason.HEALTHY else 1)


def test_why_is_asked_after_fifteen_seconds_and_not_before(tracker: Tracker) -> None:
    tracker.pods = "app=web"
    assert tracker.see(ROLLING).next_change == pytest.approx(15)
    assert tracker.asked == []
    tracker.now += 15
    assert tracker.see(ROLLING).next_change == pytest.approx(30)
    assert tracker.asked == [WEB]


def test_what_the_pods_say_stands_before_what_the_workload_says(tracker: Tracker) -> None:
    tracker.pods, tracker.known = "app=web", {WEB: PULLING}
    tracker.now += 15
    health = tracker.see(ROLLING).health
    assert health.reason is Reason.PROGRESSING
    assert health.message == 'Deployment shop/web: ImagePullBackOff: container "main"; 1 of 3 replicas'


def test_pods_that_crash_make_a_workload_fail_before_its_deadline(tracker: Tracker) -> None:
    tracker.pods, tracker.known = "app=web", {WEB: CRASHING}
    tracker.now += 15
    health = tracker.see(ROLLING).health
    assert (health.reason, health.not_ready[0][1].reason) == (Reason.FAILED, "CrashLoopBackOff")


def test_a_workload_that_its_controller_gave_up_keeps_that_reason(tracker: Tracker) -> None:
    tracker.pods, tracker.known = "app=web", {WEB: PULLING}
    tracker.now += 15
    given_up = Verdict(State.FAILED, "ProgressDeadlineExceeded", "no progress")
    ((_, verdict),) = tracker.see(given_up).health.not_ready
    assert verdict.reason == "ProgressDeadlineExceeded"
    assert verdict.message == 'no progress; ImagePullBackOff: container "main"'


def test_the_deadline_tells_what_the_pods_say(tracker: Tracker) -> None:
    tracker.pods, tracker.known = "app=web", {WEB: PULLING}
    tracker.now += DEADLINE
    ((_, verdict),) = tracker.see(ROLLING).health.not_ready
    assert verdict.message == 'ImagePullBackOff: container "main"; 1 of 3 replicas'


def test_why_is_not_asked_of_an_object_that_is_not_the_one_that_was_applied(tracker: Tracker) -> None:
    tracker.pods = "app=web"
    tracker.records[WEB] = replace(tracker.records[WEB], applied_digest="of before")
    tracker.now += 100
    tracker.see(ROLLING)
    assert tracker.asked == []
    tracker.see(ROLLING, refusals={WEB: IMMUTABLE})
    assert tracker.asked == []


def test_health_is_the_same_as_from_scratch_after_any_changes() -> None:
    chance, now = random.Random(4), [0.0]
    wanted = {WEB._replace(name=f"web-{number}"): Left("d", "") for number in range(20)}
    objects, few, all_of_them = OwnedObjects(), *(HealthTracker(now=lambda: now[0], clock=lambda: START) for _ in "ab")
    verdicts = [HEALTHY, HEALTHY, HEALTHY, ROLLING, BROKEN, NO_ADDRESS, None]
    for _ in range(2000):
        key = chance.choice(list(wanted))
        digest, verdict = chance.choice("ddddx"), chance.choice(verdicts)
        record = Record(key=key, owner="shop", applied_digest=digest, verdict=verdict, deleting=chance.random() < 0.05)
        objects.put(key, chance.choice([record, record, record, None]))
        now[0] += chance.choice([0.0, 1.0, 20.0])
        look = objects.look("shop", few.reader.seen)
        changed = few.reader.read(look, Journal())
        found = few.summarize(wanted, look.records, "r", DEADLINE, changed=changed)
        assert found == all_of_them.summarize(wanted, look.records, "r", DEADLINE)


@pytest.mark.parametrize("is_told", [True, False], ids=["told what has changed", "looking at everything"])
def test_nothing_is_remembered_of_objects_that_a_revision_does_not_have(*, is_told: bool) -> None:
    tracker = HealthTracker(now=lambda: 0.0, clock=lambda: START)
    for number in range(10):
        key = WEB._replace(name=f"web-{number}")
        gone = WEB._replace(name=f"web-{number - 1}")
        for verdict in (HEALTHY, BROKEN, ROLLING, HEALTHY):
            record = Record(key=key, owner="shop", applied_digest="d", verdict=verdict)
            changed = {key, gone} if is_told else None
            tracker.summarize({key: Left("d", "")}, {key: record}, f"r{number}", DEADLINE, changed=changed)
        assert (tracker._healthy_until, tracker._applied, tracker._rollouts) == ({key: math.inf}, {}, {})


def test_only_what_has_changed_or_was_not_healthy_is_judged(tracker: Tracker) -> None:
    def see(records: Mapping[ObjectKey, Record], *changed: ObjectKey) -> int:
        return tracker.tracker.summarize(WANTED, records, "r1", DEADLINE, changed=changed).health.healthy

    assert tracker.see(HEALTHY).health.healthy == 2
    assert see({}) == 2
    assert see({}, WEB) == 1
    assert see(tracker.records) == 2
