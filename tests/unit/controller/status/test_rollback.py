from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.status import HistoryEntry, Rollback, Wave
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.health.verdict import Health
from rukpak.controller.observe.progress import Progress
from rukpak.controller.status.history import (
    begin_rollback,
    digest_of_pins,
    find_rollback,
    find_target,
    seconds_to_rollback,
)
from rukpak.controller.status.report import Held, Report
from tests.support.deployments import deployment
from tests.support.reports import outcome

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
A, B, C, D = (f"sha256:{letter * 64}" for letter in "abcd")
REFUSED = BundleError(Reason.REFUSED, "Service shop/web: spec.ports[0].port: must be between 1 and 65535")
WAITS = BundleError(Reason.COLLISION, "Service shop/web: already exists")
HOOK_FAILED = BundleError(Reason.HOOK_FAILED, "Job shop/migrate: post-upgrade hook failed")


def entry(revision: str, result: Any = None, seconds: float = 0) -> HistoryEntry:
    return HistoryEntry(revision=revision, outcome=result, started_at=NOW - timedelta(seconds=seconds))


def wave(seconds: float) -> Wave:
    return Wave(revision=B, number=1, since=NOW - timedelta(seconds=seconds))


def progress(reason: Reason, failed: int) -> Progress:
    health: Health[ObjectKey] = Health(
        status="True" if reason is Reason.HEALTHY else "False", reason=reason, message="Deployment shop/web: bad",
        total=2, healthy=0, progressing=0, failed=failed, not_ready=(), truncated=False, settled=False,
    )  # fmt: skip
    return Progress(health=health, shown=health, next_change=None)


APPLIED: dict[str, Any] = {"wanted": B, "revision": B, "applied": True}
FAILED = {**APPLIED, "progress": progress(Reason.FAILED, 1)}
HISTORY = (entry(B), entry(A, "Healthy"))


class Case(NamedTuple):
    name: str
    report: dict[str, Any]
    to: str | None
    history: tuple[HistoryEntry, ...] = HISTORY
    spec: dict[str, Any] = {}  # noqa: RUF012 - of a tuple
    installed: str = A


CASES = [
    Case("an object has failed", FAILED, A),
    Case("an object is late", {**APPLIED, "progress": progress(Reason.PROGRESS_DEADLINE_EXCEEDED, 1)}, A),
    Case("an object is on its way", {**APPLIED, "progress": progress(Reason.PROGRESSING, 0)}, None),
    Case("a hook after it has failed", {**APPLIED, "applied": False, "failure": HOOK_FAILED}, A),
    Case("a hook before has failed", {"wanted": B, "revision": A, "failure": HOOK_FAILED}, A, (entry(A, "Healthy"),)),
    Case("an object was just refused",
         {**APPLIED, "outcomes": (outcome(REFUSED),), "progress": progress(Reason.FAILED, 1)}, None),
    Case("an object has been refused for too long", {**APPLIED, "outcomes": (outcome(REFUSED),)}, A,
         (entry(B, seconds=600), entry(A, "Healthy"))),
    Case("an object of a later wave has been refused for as long",
         {**APPLIED, "outcomes": (outcome(REFUSED),), "wave": wave(60)}, None,
         (entry(B, seconds=600), entry(A, "Healthy"))),
    Case("an object of a later wave has been refused for too long",
         {**APPLIED, "outcomes": (outcome(REFUSED),), "wave": wave(600)}, A,
         (entry(B, seconds=900), entry(A, "Healthy"))),
    Case("an object waits for something", {**APPLIED, "outcomes": (outcome(WAITS),)}, None,
         (entry(B, seconds=600), entry(A, "Healthy"))),
    Case("another object fails beside one that was just refused",
         {**APPLIED, "outcomes": (outcome(REFUSED),), "progress": progress(Reason.FAILED, 2)}, A),
    Case("it has failed before, and that is asked for now", FAILED, A, (entry(B, "Failed"), entry(A, "Healthy"))),
    Case("it was healthy once", FAILED, None, (entry(B, "Healthy"), entry(A, "Healthy"))),
    Case("it was healthy, but its containers do not stay",
         {**APPLIED, "progress": replace(progress(Reason.FAILED, 1), crashes=True)}, A,
         (entry(B, "Healthy"), entry(A, "Healthy"))),
    Case("it is the first one", FAILED, None, (entry(B),), installed=""),
    Case("nothing was ever healthy", FAILED, None, (entry(B), entry(A, "Failed"))),
    Case("the last healthy one is older", FAILED, C, (entry(B), entry(A, "Superseded"), entry(C, "Healthy"))),
    Case("one was rolled back, and the other not healthy since", FAILED, None,
         (entry(B), entry(A, "Superseded"), entry(D, "RolledBack"), entry(C, "Healthy"))),
    Case("one was rolled back, and the other healthy since", FAILED, A,
         (entry(B), entry(A, "Healthy"), entry(D, "RolledBack"))),
    Case("it is paused", FAILED, None, spec={"paused": True}),
    Case("a user has pinned it", FAILED, None, spec={"pinnedRevision": B}),
    Case("nobody asks for it", FAILED, None, spec={"onFailure": {"action": "Stay"}}),
    Case("it waits for approval", {**FAILED, "held": Held(revision=C, error=WAITS)}, None),
    Case("its content is being fetched", {**FAILED, "fetching": "fetching"}, None),
]  # fmt: skip


def upgrade(case: Case) -> Any:
    return deployment(
        spec={"onFailure": {"action": "RollBack"}, **case.spec},
        status={"revision": B, "installedRevision": case.installed, "history": case.history},
    )


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_an_upgrade_is_rolled_back_to(case: Case) -> None:
    found = begin_rollback(upgrade(case), Report(**case.report), NOW)
    assert (found and (found.from_revision, found.to_revision)) == (case.to and (B, case.to))


def test_what_is_refused_is_looked_at_again_when_its_time_is_over() -> None:
    report = Report(**APPLIED, outcomes=(outcome(REFUSED),))
    case = Case("", {}, None, (entry(B, seconds=100), entry(A, "Healthy")))
    assert seconds_to_rollback(upgrade(case), report, NOW) == 500.0
    assert seconds_to_rollback(upgrade(case), report, NOW + timedelta(seconds=501)) == 0.0
    alone = Case("", {}, None, (entry(B, seconds=100),))
    assert seconds_to_rollback(upgrade(alone), report, NOW) is None


PINS = [
    {"kind": "image", "resolved": f"x@{C}", "digest": C, "specDigest": D, "origin": D, "resolvedAt": NOW.isoformat()}
]


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({}, True),
        ({"metadata": {"generation": 2}}, False),
        ({"pins": []}, False),
        ({"spec": {"pinnedRevision": C}}, False),
        ({"spec": {"paused": True}}, False),
        ({"history": ()}, False),
    ],
    ids=["nothing", "the spec", "the pins", "a pin by hand", "a pause", "the target is lost"],
)
def test_what_ends_a_rollback(change: Any, *, counts: bool) -> None:
    pins = deployment(status={"sources": PINS}).status.sources
    recorded = Rollback(from_revision=B, to_revision=A, reason="Failed", generation=1, pins=digest_of_pins(pins))
    found = deployment(
        spec=change.get("spec"),
        metadata=change.get("metadata"),
        status={"history": change.get("history", HISTORY), "rollback": recorded},
    )
    assert (find_rollback(found, change.get("pins", pins)) is not None) == counts


def test_nothing_is_rolled_back_to_what_has_failed_itself() -> None:
    assert find_target([entry(B, "Healthy"), entry(A, "Healthy")], B) == A
