from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import UNPACKED_REASONS, ConditionType, Reason, Retry
from rukpak.api.v1alpha2.types import Status
from rukpak.controller.apply.drift import DriftedField, DriftedObject
from rukpak.controller.apply.removal import Removal
from rukpak.controller.status.history import digest_of_pins
from rukpak.controller.status.report import Deletion, Report
from rukpak.controller.status.summary import summarize
from tests.support.deployments import deployment
from tests.support.reports import (
    CHANGED,
    COLLISION,
    CRASHING,
    DONE,
    GOOD,
    HELD,
    IMMUTABLE,
    INVALID,
    KEY,
    LATE,
    LATER,
    NEW,
    NOT_FOUND,
    NOW,
    OLD,
    REFUSED,
    ROLLING,
    SURPLUS,
    UNAVAILABLE,
    WEB,
    after,
    outcome,
)


def conditions(
    report: Report, spec: Mapping[str, Any] | None = None, status: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return each condition as `status reason`."""
    made = summarize(deployment(spec=spec or {}, status=status or {}), report, NOW)
    assert len({condition.type for condition in made.conditions}) == len(made.conditions)
    return {condition.type: f"{condition.status} {condition.reason}" for condition in made.conditions}


class Case(NamedTuple):
    name: str
    report: Report
    expect: dict[str, str]
    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}


def waiting(unpacked: str, installed: str, healthy: str, ready: str, **others: str) -> dict[str, str]:
    return {"Unpacked": unpacked, "Installed": installed, "Healthy": healthy, "Ready": ready, **others}


OK = waiting("True Unpacked", "True Installed", "True Healthy", "True Ready")
BEFORE = {"installedRevision": OLD, "conditions": []}
HEALTHY_BEFORE = {
    "installedRevision": OLD,
    "conditions": [
        {
            "type": "Healthy",
            "status": "True",
            "reason": "Healthy",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "message": "every object is healthy",
        }
    ],
}

# fmt: off
ROWS = [
    Case("all is well", DONE, OK),
    Case("the sources are being fetched, and nothing was installed", Report(fetching="resolving the sources"),
         waiting("False Fetching", "False Fetching", "Unknown NotInstalled", "False Fetching",
         Reconciling="True Fetching")),
    Case("a source failed, and what is installed is looked after",
         Report(failure=NOT_FOUND, revision=OLD, applied=True, progress=GOOD),
         waiting("False NotFound", "False NotFound", "True Healthy", "False NotFound", Stalled="True NotFound"),
         status=BEFORE),
    Case("the bundle cannot be rendered", Report(failure=INVALID),
         waiting("True Unpacked", "False InvalidBundle", "Unknown NotInstalled", "False InvalidBundle",
         Stalled="True InvalidBundle")),
    Case("an object is refused", replace(DONE, applied=False, outcomes=(outcome(None), outcome(REFUSED))),
         waiting("True Unpacked", "False Refused", "True Healthy", "False Refused", Stalled="True Refused")),
    Case("an object has another owner", replace(DONE, applied=False, outcomes=(outcome(COLLISION),)),
         waiting("True Unpacked", "False Collision", "True Healthy", "False Collision", Reconciling="True Collision")),
    Case("kinds are not known yet", replace(DONE, applied=False, revision="", unknown=("Widget",), progress=None),
         waiting("True Unpacked", "False Applying", "Unknown NotInstalled", "False Applying",
         Reconciling="True Applying")),
    Case("it is applied, and a workload is on its way", replace(DONE, progress=ROLLING),
         waiting("True Unpacked", "True Installed", "False Progressing", "False Progressing",
         Reconciling="True Progressing")),
    Case("a revision is pinned", DONE, {**OK, "Pinned": "True Pinned"}, spec={"pinnedRevision": NEW}),
    Case("the spec was changed after that", DONE,
         {**OK, "Installed": "False PinnedWithChanges", "Ready": "False PinnedWithChanges", "Pinned": "True Pinned"},
         spec={"pinnedRevision": NEW}, status={"pinned": {"revision": NEW, "content": OLD}}),
    Case("it is another revision that was pinned then", DONE, {**OK, "Pinned": "True Pinned"},
         spec={"pinnedRevision": NEW}, status={"pinned": {"revision": OLD, "content": OLD}}),
    Case("what is installed is resolved once more", replace(DONE, fetching="resolving the sources"),
         {**OK, "Reconciling": "True Fetching"}),
    Case("a workload has failed", replace(DONE, progress=CRASHING),
         waiting("True Unpacked", "True Installed", "False Failed", "False Failed", Stalled="True Failed")),
    Case("a workload is late", replace(DONE, progress=LATE),
         waiting("True Unpacked", "True Installed", "False ProgressDeadlineExceeded", "False ProgressDeadlineExceeded",
         Stalled="True ProgressDeadlineExceeded")),
    Case("only prune waits", replace(DONE, awaiting_prune=SURPLUS), {**OK, "Reconciling": "True PrunePending"}),
    Case("prune waits for a workload that has failed", replace(DONE, progress=CRASHING, awaiting_prune=SURPLUS),
         waiting("True Unpacked", "True Installed", "False Failed", "False Failed", Stalled="True Failed",
         Reconciling="True PrunePending")),
    Case("prune waits for a workload that is on its way", replace(DONE, progress=ROLLING, awaiting_prune=SURPLUS),
         waiting("True Unpacked", "True Installed", "False Progressing", "False Progressing",
         Reconciling="True PrunePending")),
    Case("prune does not wait for a revision that cannot be had",
         replace(DONE, wanted="", failure=NOT_FOUND, awaiting_prune=SURPLUS),
         waiting("False NotFound", "False NotFound", "True Healthy", "False NotFound", Stalled="True NotFound"),
         status=BEFORE),
    Case("what is never pruned is not waited for", replace(DONE, awaiting_prune=SURPLUS), OK, spec={"prune": "Never"}),
    Case("nothing was compared: health stays as it was said last", Report(failure=NOT_FOUND),
         waiting("False NotFound", "False NotFound", "True Healthy", "False NotFound", Stalled="True NotFound"),
         status=HEALTHY_BEFORE),
    Case("a poll that failed takes nothing away from what is installed, and is tried again",
         replace(DONE, poll_failure=BundleError(Reason.UNREACHABLE, "spec.sources[0].image: no answer")),
         {**OK, "Unpacked": "False Unreachable", "Reconciling": "True Unreachable"}),
    Case("a poll that failed while prune waits",
         replace(DONE, poll_failure=BundleError(Reason.UNREACHABLE, "spec.sources[0].image: no answer"),
                 awaiting_prune=SURPLUS),
         {**OK, "Unpacked": "False Unreachable", "Reconciling": "True Unreachable"}),
    Case("an upgrade was rolled back", DONE,
         waiting("True Unpacked", "False RolledBack", "True Healthy", "False RolledBack", Stalled="True RolledBack",
         RolledBack="True Failed"),
         status={"installedRevision": NEW, "history": [{"revision": NEW, "outcome": "Healthy"}], "rollback": {
             "fromRevision": OLD, "toRevision": NEW, "reason": "Failed", "message": "bad", "generation": 1,
             "pins": digest_of_pins(())}}),
    Case("a poll that somebody has to see to", replace(DONE, poll_failure=NOT_FOUND),
         {**OK, "Unpacked": "False NotFound", "Stalled": "True NotFound"}),
    Case("of a poll that failed and an object that is refused the poll is told first",
         replace(DONE, poll_failure=NOT_FOUND, outcomes=(outcome(REFUSED),), applied=False),
         waiting("False NotFound", "False Refused", "True Healthy", "False NotFound", Stalled="True NotFound")),
    Case("paused, and nothing has changed", replace(DONE, applied=False, wanted=OLD, revision=OLD),
         {**OK, "Paused": "True Paused"}, spec={"paused": True}, status=BEFORE),
    Case("paused, and another revision waits", replace(DONE, applied=False, revision=OLD),
         waiting("True Unpacked", "False PausedWithChanges", "True Healthy", "False PausedWithChanges",
         Reconciling="True PausedWithChanges", Paused="True Paused"), spec={"paused": True}, status=BEFORE),
    Case("paused, and somebody has changed an object",
         replace(DONE, applied=False, wanted=OLD, revision=OLD, drifted=(CHANGED,)),
         {**OK, "Paused": "True Paused", "Drifted": "True Paused"}, spec={"paused": True}, status=BEFORE),
    Case("somebody has changed an object, and that is only told", replace(DONE, drifted=(CHANGED,)),
         {**OK, "Drifted": "True ReportOnly"}),
    Case("somebody keeps changing an object", replace(DONE, conflicts=(CHANGED,)),
         {**OK, "Drifted": "True DriftConflict"}),
]
# fmt: on


@pytest.mark.parametrize("case", ROWS, ids=attrgetter("name"))
def test_which_conditions_a_pass_leads_to(case: Case) -> None:
    assert conditions(case.report, case.spec, case.status) == case.expect


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.retry is not Retry.NONE])
def test_a_failure_stalls_if_a_person_has_to_act_and_concerns_the_content_if_it_is_not_at_hand(reason: Reason) -> None:
    # Without it no Secret of a source can be read.
    of_account = (
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        Reason.NAMESPACE_NOT_FOUND,
        Reason.SERVICE_ACCOUNT_REPLACED,
        Reason.NAMESPACE_REPLACED,
    )
    found = conditions(Report(failure=BundleError(reason, "it failed")))
    stalls = reason.retry in (Retry.PERMANENT, Retry.SLOW)
    assert ("Stalled" in found, "Reconciling" in found) == (stalls, not stalls)
    assert (found["Unpacked"] == f"False {reason}") is (
        reason in (*UNPACKED_REASONS, *of_account, Reason.INTERNAL_ERROR)
    )
    assert found["Installed"] == found["Ready"] == f"False {reason}"


@pytest.mark.parametrize(
    ("place", "expected"),
    [("spec.sources[1].parameters", "False PluginFailed"), ("spec.format", "True Unpacked")],
)
def test_a_plug_in_that_fails_concerns_the_content_if_it_is_a_source(place: str, expected: str) -> None:
    failure = BundleError(Reason.PLUGIN_FAILED, 'plug-in "a.b/c" of d 1 hangs', place=place)
    found = conditions(Report(failure=failure))
    assert (found["Unpacked"], found["Installed"]) == (expected, "False PluginFailed")


class Worst(NamedTuple):
    name: str
    errors: list[BundleError]
    expect: BundleError


SEVERITY = [
    Worst("one that needs a person before one that ends automatically", [UNAVAILABLE, COLLISION, REFUSED], REFUSED),
    Worst("one that stays before one that is tried slowly", [REFUSED, IMMUTABLE], IMMUTABLE),
    Worst("one that is tried soon before one that waits", [COLLISION, UNAVAILABLE], UNAVAILABLE),
    Worst("any of them before what only waits for it", [HELD, COLLISION], COLLISION),
    Worst("of equal ones the first", [REFUSED, BundleError(Reason.FORBIDDEN, "no")], REFUSED),
]


def message(made: Status, kind: str) -> str:
    return next(condition.message for condition in made.conditions if condition.type == kind)


@pytest.mark.parametrize("case", SEVERITY, ids=attrgetter("name"))
def test_which_of_several_failures_speaks(case: Worst) -> None:
    report = replace(DONE, applied=False, outcomes=tuple(map(outcome, case.errors)))
    made = summarize(deployment(), report, NOW)
    more = len(case.errors) - 1
    assert conditions(report)["Installed"] == f"False {case.expect.reason}"
    assert message(made, "Installed") == f"{case.expect.message} (and {more} more)"


class Text(NamedTuple):
    name: str
    report: Report
    kind: str
    expect: str
    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}


HOOK_FAILURE = BundleError(Reason.HOOK_FAILED, "Job shop/up (post-upgrade hook): failed; correct it")
PEACE = "stop that client, or leave the field to it with spec.drift.ignore"
MANY = tuple(KEY._replace(name=name) for name in "edcba")
WIDE = DriftedObject(key=KEY, fields=tuple(DriftedField(f"data.{'x' * 70}{index}", "edit") for index in range(9)))
# fmt: off
TEXTS = [
    Text("Ready names the revision", DONE, "Ready", "revision bbbbbbbbbbbb is installed and healthy"),
    Text("Installed says what is installed while something else is wanted", Report(failure=NOT_FOUND), "Installed",
         'revision aaaaaaaaaaaa is installed; spec.sources[0].image.ref: no tag "1"', status=BEFORE),
    Text(
        "Installed names the revision that is wanted, too, where that could be applied only in part",
        replace(DONE, applied=False, outcomes=(outcome(REFUSED),)),
        "Installed",
        "revision aaaaaaaaaaaa is installed; revision bbbbbbbbbbbb is only partly applied: "
        + REFUSED.message,
        status=BEFORE,
    ),
    Text("Installed names the revision that is applied, too, where a hook after it fails",
         replace(DONE, applied=False, failure=HOOK_FAILURE, outcomes=(outcome(None),)), "Installed",
         "revision aaaaaaaaaaaa is installed; all objects of revision bbbbbbbbbbbb are applied: "
         + HOOK_FAILURE.message,
         status=BEFORE),
    Text("and does not where one before it fails", Report(failure=HOOK_FAILURE, wanted=NEW), "Installed",
         "revision aaaaaaaaaaaa is installed; " + HOOK_FAILURE.message, status=BEFORE),
    Text("a repair that is refused names one revision", replace(DONE, applied=False, outcomes=(outcome(REFUSED),)),
         "Installed", f"revision bbbbbbbbbbbb is installed; {REFUSED.message}", status={"installedRevision": NEW}),
    Text("what is never pruned is named", replace(DONE, awaiting_prune=SURPLUS), "Installed",
         "revision bbbbbbbbbbbb is applied; kept from older revisions (spec.prune is Never): ConfigMap shop/old",
         spec={"prune": "Never"}),
    Text("Installed names the revision", DONE, "Installed", "revision bbbbbbbbbbbb is applied"),
    Text("a wait for kinds names them", Report(wanted=NEW, unknown=("Widget", "Gadget")), "Installed",
         "waiting for the first list of Gadget, Widget"),
    Text("prune says what stays, and which option ends the wait", replace(DONE, awaiting_prune=SURPLUS), "Reconciling",
         "ConfigMap shop/old: will be pruned when the new revision is healthy; set spec.prune to AfterApply "
         "to prune now"),
    Text("prune that fails says why",
         replace(DONE, awaiting_prune=SURPLUS, removals=(Removal(record=SURPLUS[0], error=REFUSED),)), "Reconciling",
         REFUSED.message),
    Text("of many objects three are named, always the same",
         replace(DONE, conflicts=tuple(DriftedObject(key=key) for key in MANY),
                 outcomes=tuple(replace(outcome(None, key), postponed=True) for key in MANY)), "Drifted",
         "ConfigMap shop/a, ConfigMap shop/b, ConfigMap shop/c and 2 more: "
         f"the object is repaired repeatedly, but another client keeps changing it; {PEACE}"),
    Text("a conflict says whether the object is repaired now", replace(DONE, conflicts=(CHANGED,)), "Drifted",
         f"{CHANGED}: another client has changed the object repeatedly; it is repaired; {PEACE}"),
    Text(
        "drift is told with the field and who holds it",
        replace(DONE, drifted=(CHANGED, DriftedObject(key=WEB, state="deleted"))),
        "Drifted",
        'ConfigMap shop/a (data.color, owned by "kubectl-edit"), Deployment shop/web (deleted): '
        "modified; not repaired (spec.drift.mode is Report)",
        spec={"drift": {"mode": "Report"}},
    ),
    Text("of many fields as many are told as leave room for the remedy",
         replace(DONE, drifted=tuple(replace(WIDE, key=key) for key in MANY)), "Drifted",
         f"{', '.join(replace(WIDE, key=key).describe(2) for key in sorted(MANY)[:3])} and 2 more: "
         "modified; will be repaired when spec.paused is false", spec={"paused": True}),
    Text("drift that the account cannot repair is not blamed on the mode", replace(DONE, drifted=(CHANGED,)), "Drifted",
         f"{CHANGED}: modified; not repaired"),
    Text("drift while paused says when it is repaired", replace(DONE, drifted=(CHANGED,)), "Drifted",
         f"{CHANGED}: modified; will be repaired when spec.paused is false", spec={"paused": True}),
    Text("a change that has to wait says for what", replace(DONE, applied=False, revision=OLD), "Installed",
         "revision aaaaaaaaaaaa is installed; revision bbbbbbbbbbbb will be applied when spec.paused is false",
         spec={"paused": True}, status=BEFORE),
    Text("a message is one line of at most 1,000 characters",
         Report(failure=BundleError(Reason.INVALID_BUNDLE, "a\n b" + "c" * 2000)), "Installed",
         f"a b{'c' * 496} … {'c' * 498}"),
    Text("a long message keeps its remedy",
         Report(failure=BundleError(Reason.REFUSED, f"a{' b' * 2000}; use another image")), "Installed",
         f"a{' b' * 489} … use another image"),
]
# fmt: on


@pytest.mark.parametrize("case", TEXTS, ids=attrgetter("name"))
def test_what_a_condition_says(case: Text) -> None:
    made = summarize(deployment(spec=case.spec, status=case.status), case.report, NOW)
    assert message(made, case.kind) == case.expect


def test_a_transition_is_when_the_status_of_a_condition_changes_not_its_reason() -> None:
    failed = replace(DONE, applied=False, outcomes=(outcome(REFUSED),))
    first = after(failed, deployment(), NOW)
    second = after(replace(failed, outcomes=(outcome(COLLISION),)), first, LATER)
    times = {condition.type: condition.last_transition_time for condition in second.status.conditions}
    assert times["Ready"] == times["Installed"] == NOW
    assert times["Reconciling"] == LATER
    third = after(DONE, second, LATER)
    assert {c.type: c.last_transition_time for c in third.status.conditions}["Ready"] == LATER


def test_every_condition_is_about_this_generation() -> None:
    made = summarize(deployment(metadata={"generation": 7}), DONE, NOW)
    assert made.observed_generation == 7
    assert {condition.observed_generation for condition in made.conditions} == {7}


class Going(NamedTuple):
    name: str
    deletion: Deletion
    reason: Reason
    message: str


# fmt: off
GOING = [
    Going("what is left is counted", Deletion(remaining=3), Reason.DELETING, "3 objects left to delete"),
    Going("a slow one says what it waits for", Deletion(remaining=9, awaited=tuple("edcba")), Reason.DELETING,
          "9 objects left to delete; waiting for a, b, c and 2 more"),
    Going("what does not go is named", Deletion(remaining=1, awaited=("Widget shop/w (x)",), blocked=True),
          Reason.DELETION_BLOCKED, "waiting for Widget shop/w (x); resolve what holds them to continue"),
    Going("a long one that waits for nothing is not blocked", Deletion(remaining=1, blocked=True), Reason.DELETING,
          "1 object left to delete"),
    Going("a failure speaks first", Deletion(remaining=1, awaited=("x",), blocked=True, error=REFUSED), Reason.REFUSED,
          REFUSED.message),
]
# fmt: on


@pytest.mark.parametrize("case", GOING, ids=attrgetter("name"))
def test_what_is_said_while_it_is_taken_away(case: Going) -> None:
    installed = after(DONE, deployment(), NOW)
    made = summarize(installed, case.deletion, LATER)
    found = {condition.type: condition for condition in made.conditions}
    assert set(found) == {"Unpacked", "Installed", "Healthy", "Ready", "Reconciling"}
    assert (found["Ready"].status, found["Reconciling"].status) == ("False", "True")
    assert (found["Ready"].reason, found["Ready"].message) == (case.reason.value, case.message)
    assert found["Installed"].last_transition_time == NOW


def test_every_condition_type_is_in_the_rows() -> None:
    assert {kind for case in ROWS for kind in case.expect} == {kind.value for kind in ConditionType}
