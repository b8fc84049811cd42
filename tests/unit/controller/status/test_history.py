from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.status import HISTORY_LENGTH, HistoryEntry
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.health.verdict import Health
from rukpak.controller.observe.progress import Progress
from rukpak.controller.status.history import choose
from rukpak.controller.status.report import Report, short
from rukpak.controller.status.summary import summarize
from tests.support.deployments import deployment
from tests.support.reports import REFUSED, UNAVAILABLE, outcome

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
A, B, C, D = (f"sha256:{letter * 64}" for letter in "abcd")


def entry(revision: str, outcome: Any = None, **fields: Any) -> HistoryEntry:
    return HistoryEntry(revision=revision, outcome=outcome, **fields)


def progress(reason: Reason, failed: int = 0) -> Progress:
    health: Health[ObjectKey] = Health(
        status="True" if reason is Reason.HEALTHY else "False",
        reason=reason,
        message=f"it is {reason}",
        total=2,
        healthy=0,
        progressing=0,
        failed=failed,
        not_ready=(),
        truncated=False,
        settled=True,
    )
    return Progress(health=health, shown=health, next_change=None)


class Case(NamedTuple):
    name: str
    before: dict[str, Any]
    """The status before."""
    report: dict[str, Any]
    expect: list[tuple[str, str | None]]
    """Revision and outcome of each entry."""


KINDS = ("v1/ConfigMap",)
HEALTHY = {"revision": A, "installedRevision": A, "managedState": "v2:x", "history": [entry(A, "Healthy")]}
BEGUN = {"revision": B, "installedRevision": A, "history": [entry(B), entry(A, "Healthy")]}
FAILED = BundleError(Reason.HOOK_FAILED, "Job a: post-upgrade hook failed")
APPLIED = {"wanted": B, "revision": B, "applied": True, "managed_kinds": KINDS}

CASES = [
    Case("a revision that is prepared has no entry", {}, {"wanted": A}, []),
    Case("one that is about to be applied has one", {}, {"wanted": A, "managed_kinds": KINDS}, [(A, None)]),
    Case("it comes before the installed one", HEALTHY, {"wanted": B, "managed_kinds": KINDS},
         [(B, None), (A, "Healthy")]),
    Case("one that only prunes has one when it is installed", HEALTHY,
         {**APPLIED, "managed_state": "v2:y", "progress": progress(Reason.HEALTHY)}, [(B, "Healthy"), (A, "Healthy")]),
    Case("it is healthy once all its objects are", BEGUN, {**APPLIED, "progress": progress(Reason.HEALTHY)},
         [(B, "Healthy"), (A, "Healthy")]),
    Case("not before all of them are applied", BEGUN,
         {**APPLIED, "applied": False, "progress": progress(Reason.HEALTHY)}, [(B, None), (A, "Healthy")]),
    Case("an object that has failed makes it a failure", BEGUN, {**APPLIED, "progress": progress(Reason.FAILED, 1)},
         [(B, "Failed"), (A, "Healthy")]),
    Case("so does one that is not healthy in time", BEGUN,
         {**APPLIED, "progress": progress(Reason.PROGRESS_DEADLINE_EXCEEDED, 1)}, [(B, "Failed"), (A, "Healthy")]),
    Case("so does one that is refused, before its deadline", BEGUN,
         {**APPLIED, "applied": False, "outcomes": (outcome(REFUSED),)}, [(B, "Failed"), (A, "Healthy")]),
    Case("but not one that is only late", BEGUN, {**APPLIED, "applied": False, "outcomes": (outcome(UNAVAILABLE),)},
         [(B, None), (A, "Healthy")]),
    Case("and a hook that has failed", BEGUN, {**APPLIED, "applied": False, "failure": FAILED},
         [(B, "Failed"), (A, "Healthy")]),
    Case("a failure of its successor is none of its own", HEALTHY,
         {"revision": A, "failure": FAILED, "managed_state": "v2:x", "managed_kinds": KINDS}, [(A, "Healthy")]),
    Case("one that has recovered is healthy", {**BEGUN, "history": [entry(B, "Failed", message="it was bad")]},
         {**APPLIED, "progress": progress(Reason.HEALTHY)}, [(B, "Healthy")]),
    Case("one that was healthy does not fail later", HEALTHY,
         {"wanted": A, "revision": A, "applied": True, "managed_kinds": KINDS, "managed_state": "v2:x",
          "progress": progress(Reason.FAILED, 1)}, [(A, "Healthy")]),
    Case("unless its containers do not stay", HEALTHY,
         {"wanted": A, "revision": A, "applied": True, "managed_kinds": KINDS, "managed_state": "v2:x",
          "progress": replace(progress(Reason.FAILED, 1), crashes=True)}, [(A, "Failed")]),
    Case("one that was replaced before that is known is superseded", BEGUN, {"wanted": C, "managed_kinds": KINDS},
         [(C, None), (B, "Superseded"), (A, "Healthy")]),
    Case("one that is applied again has one entry", {**HEALTHY, "history": [entry(A, "Healthy"), entry(B, "Failed")]},
         {"wanted": B, "managed_kinds": KINDS}, [(B, None), (A, "Healthy")]),
    Case("one whose entry was lost gets it again with the next",
         {"revision": A, "installedRevision": A, "managedState": "v2:x", "conditions": [
             {"type": "Healthy", "status": "True", "reason": "Healthy", "lastTransitionTime": NOW.isoformat()}]},
         {"wanted": B, "managed_kinds": KINDS}, [(B, None), (A, "Healthy")]),
    Case("but not before", {"revision": A, "installedRevision": A, "managedState": "v2:x"},
         {"wanted": A, "revision": A, "managed_kinds": KINDS, "managed_state": "v2:x"}, []),
    Case("one that is not stored any more is dropped", {**HEALTHY, "history": [entry(A, "Healthy"), entry(B)]},
         {"wanted": A, "managed_kinds": KINDS, "managed_state": "v2:x", "lost": frozenset({B})}, [(A, "Healthy")]),
    Case("but never the installed one", HEALTHY,
         {"wanted": A, "managed_kinds": KINDS, "managed_state": "v2:x", "lost": frozenset({A})}, [(A, "Healthy")]),
]  # fmt: skip


def history(before: dict[str, Any], report: dict[str, Any], **spec: Any) -> tuple[HistoryEntry, ...]:
    found = deployment(status={"managedKinds": KINDS, **before}, spec=spec)
    return summarize(found, Report(**{"managed_state": "", "managed_kinds": (), **report}), NOW).history


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_a_pass_adds_to_the_history(case: Case) -> None:
    assert [(each.revision, each.outcome) for each in history(case.before, case.report)] == case.expect


def test_an_entry_says_when_and_what_from() -> None:
    pins = [
        {
            "kind": "image",
            "resolved": f"x@{C}",
            "digest": C,
            "specDigest": D,
            "origin": D,
            "resolvedAt": NOW.isoformat(),
        }
    ]
    found = deployment(status={"sources": pins})
    begun = summarize(found, Report(wanted=A, managed_state="", managed_kinds=KINDS, bundle="shop 1.2.0"), NOW)
    (first,) = begun.history
    assert (first.sources, first.started_at, first.installed_at) == ("image:cccccccccccc", NOW, None)
    assert first.bundle == "shop 1.2.0"
    later = NOW + timedelta(seconds=5)
    (second,) = summarize(
        found.model_copy(update={"status": begun}),
        Report(wanted=A, revision=A, applied=True, managed_kinds=KINDS, managed_state="v2:x"),
        later,
    ).history
    assert (second.started_at, second.installed_at, second.bundle) == (NOW, later, "shop 1.2.0")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "Progressing: web: FailedMount"),
        ({"pinnedRevision": A}, f"spec.pinnedRevision names revision {short(A)}; Progressing: web: FailedMount"),
    ],
    ids=["replaced", "rolled back by hand"],
)
def test_what_a_replaced_revision_waited_for_is_kept(spec: dict[str, Any], said: str) -> None:
    waiting = {"type": "Healthy", "status": "False", "reason": "Progressing", "message": "web: FailedMount"}
    before = {**BEGUN, "conditions": [{**waiting, "lastTransitionTime": NOW.isoformat()}]}
    found = history(before, {"wanted": A if spec else C, "managed_kinds": KINDS}, **spec)
    assert [each.message for each in found if each.revision == B] == [said]


def test_a_message_is_short_and_stays() -> None:
    failure = BundleError(Reason.HOOK_FAILED, f"Job a: {'x' * 2000}")
    (first, _) = history(BEGUN, {**APPLIED, "applied": False, "failure": failure})
    assert len(first.message) == HISTORY_LENGTH
    again = {**BEGUN, "history": [entry(B, "Failed", message="the first one")]}
    (second,) = history(again, {**APPLIED, "applied": False, "failure": failure})
    assert second.message == "the first one"


def texts(entries: Sequence[HistoryEntry]) -> str:
    return "".join(each.revision[7] for each in entries)


@pytest.mark.parametrize(
    ("limit", "expect"), [(0, "ab"), (1, "abe"), (2, "abce"), (3, "abcde"), (4, "abcdef"), (50, "abcdefg")]
)
def test_the_newest_are_kept_and_one_that_was_healthy(limit: int, expect: str) -> None:
    outcomes = [None, "Healthy", "Failed", "Superseded", "Healthy", "Failed", "Healthy"]
    entries = [entry(f"sha256:{letter * 64}", what) for letter, what in zip("abcdefg", outcomes, strict=True)]
    assert texts(choose(entries, (A, B), limit)) == expect
    assert texts(history({**HEALTHY, "installedRevision": B, "history": entries},
                         {"wanted": A, "managed_kinds": KINDS}, revisionHistoryLimit=limit)) == expect  # fmt: skip
