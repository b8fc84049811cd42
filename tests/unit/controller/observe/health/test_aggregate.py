from __future__ import annotations

import pytest

from rukpak.controller.observe.health.verdict import (
    HEALTHY,
    Health,
    Published,
    State,
    Verdict,
    aggregate,
    deadline_start,
    publish_after,
    with_deadline,
)

PROGRESSING = Verdict(State.PROGRESSING, "LessAvailable", "Available: 1/3")
FAILED = Verdict(State.FAILED, "CrashLoopBackOff", 'container "app"')
LATE = Verdict(State.FAILED, "ProgressDeadlineExceeded", "LessAvailable: Available: 1/3")
MISSING = Verdict(State.MISSING, "Missing")
TERMINATING = Verdict(State.TERMINATING, "Terminating")
WAITING = Verdict(State.PROGRESSING, "LoadBalancerPending", deadline=False)


def health(*verdicts: Verdict) -> Health[str]:
    return aggregate((f"Deployment foo/{number:02}", verdict) for number, verdict in enumerate(verdicts))


@pytest.mark.parametrize(
    ("verdicts", "status", "reason"),
    [
        ([], "True", "Healthy"),
        ([HEALTHY, HEALTHY], "True", "Healthy"),
        ([HEALTHY, PROGRESSING], "False", "Progressing"),
        ([MISSING], "False", "Progressing"),
        ([TERMINATING], "False", "Progressing"),
        ([WAITING], "False", "Progressing"),
        ([PROGRESSING, FAILED], "False", "Failed"),
        ([LATE, FAILED], "False", "Failed"),
        ([PROGRESSING, LATE], "False", "ProgressDeadlineExceeded"),
    ],
)
def test_what_the_condition_says(verdicts: list[Verdict], status: str, reason: str) -> None:
    found = health(*verdicts)

    assert (found.status, str(found.reason)) == (status, reason)


def test_objects_are_counted_by_what_becomes_of_them() -> None:
    found = health(HEALTHY, HEALTHY, PROGRESSING, MISSING, TERMINATING, FAILED, LATE)

    assert (found.total, found.healthy, found.progressing, found.failed) == (7, 2, 3, 2)


def test_the_worst_come_first() -> None:
    found = health(WAITING, PROGRESSING, LATE, HEALTHY, FAILED, PROGRESSING)

    assert [verdict for _, verdict in found.not_ready] == [FAILED, LATE, PROGRESSING, PROGRESSING, WAITING]
    assert found.message == 'Deployment foo/04: CrashLoopBackOff: container "app" (and 4 more)'


@pytest.mark.parametrize(
    ("verdicts", "message"),
    [
        ([HEALTHY], "every object is healthy"),
        ([MISSING], "Deployment foo/00: Missing"),
        ([HEALTHY, PROGRESSING], "Deployment foo/01: LessAvailable: Available: 1/3"),
        ([PROGRESSING, PROGRESSING], "Deployment foo/00: LessAvailable: Available: 1/3 (and 1 more)"),
    ],
)
def test_the_message_names_the_worst_object(verdicts: list[Verdict], message: str) -> None:
    assert health(*verdicts).message == message


def test_at_most_ten_are_listed_and_failures_among_them() -> None:
    found = health(*[PROGRESSING] * 10, FAILED)

    assert (len(found.not_ready), found.truncated) == (10, True)
    assert found.not_ready[0] == ("Deployment foo/10", FAILED)
    assert not health(*[PROGRESSING] * 10).truncated


@pytest.mark.parametrize(
    ("verdicts", "settled"),
    [
        ([HEALTHY, WAITING], True),
        ([HEALTHY, PROGRESSING], False),
        ([FAILED], False),
        ([LATE], False),
        ([MISSING], False),
        ([TERMINATING], False),
    ],
)
def test_prune_waits_for_all_but_what_no_deadline_covers(verdicts: list[Verdict], settled: bool) -> None:
    assert health(*verdicts).settled is settled


@pytest.mark.parametrize(
    ("verdict", "late"),
    [(PROGRESSING, True), (MISSING, True), (WAITING, False), (TERMINATING, False), (HEALTHY, False), (FAILED, False)],
    ids=["progressing", "missing", "without a deadline", "terminating", "healthy", "failed already"],
)
def test_what_the_deadline_turns_into_failed(verdict: Verdict, late: bool) -> None:
    assert with_deadline(verdict, since=100, now=699.9, deadline=600) == verdict

    found = with_deadline(verdict, since=100, now=700, deadline=600)

    assert (found.reason == "ProgressDeadlineExceeded" and found.state is State.FAILED) is late


def test_a_deadline_that_passed_says_what_was_waited_for() -> None:
    assert with_deadline(PROGRESSING, since=0, now=600, deadline=600) == LATE


@pytest.mark.parametrize(
    ("applied", "left_healthy", "start"),
    [(100, None, 100), (100, 300, 300), (300, 100, 300), (900, None, 500), (100, 900, 500)],
    ids=["applied", "left healthy later", "applied later", "a clock ahead of ours", "both clocks"],
)
def test_when_the_deadline_begins(applied: float, left_healthy: float | None, start: float) -> None:
    assert deadline_start(applied=applied, left_healthy=left_healthy, now=500) == start


def wait_for(
    before: Health[str],
    after: Health[str],
    *,
    since: float | None = 100,
    revision: str = "a",
    now: float = 101,
    lasts: bool = False,
) -> float | None:
    shown = Published(health=before, revision="a", at=99)
    current = Published(health=after, revision=revision, at=now)
    return publish_after(current, shown, fallen_since=since, lasts=lasts)


def test_the_first_is_published_at_once() -> None:
    assert publish_after(Published(health=health(PROGRESSING), revision="a", at=0), None, fallen_since=None) == 0


def test_what_is_published_is_not_published_again() -> None:
    assert wait_for(health(PROGRESSING), health(PROGRESSING)) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [(HEALTHY, FAILED), (HEALTHY, LATE), (PROGRESSING, HEALTHY), (PROGRESSING, FAILED), (FAILED, PROGRESSING)],
)
def test_all_but_a_fall_is_published_at_once(before: Verdict, after: Verdict) -> None:
    assert wait_for(health(before), health(after)) == 0


def test_a_fall_is_published_after_a_while() -> None:
    assert wait_for(health(HEALTHY), health(PROGRESSING)) == 14
    assert wait_for(health(HEALTHY), health(PROGRESSING), since=None) == 15
    assert wait_for(health(HEALTHY), health(PROGRESSING), since=0) == 0
    assert wait_for(health(HEALTHY), health(PROGRESSING), lasts=True) == 0


def test_a_new_revision_is_published_at_once() -> None:
    assert wait_for(health(HEALTHY), health(PROGRESSING), revision="b") == 0


def test_counts_alone_are_published_every_five_seconds() -> None:
    fewer, more = health(PROGRESSING, PROGRESSING), health(HEALTHY, PROGRESSING)

    assert [wait_for(fewer, more, now=now) for now in (101, 104, 200)] == [3, 0, 0]
