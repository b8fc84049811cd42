from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.apply.removal import Removal
from rukpak.controller.observe.records import Record
from rukpak.controller.status.notes import NAMED, notes, notes_on_pruning, notes_on_removals, notes_on_teardown
from rukpak.controller.status.report import Report
from rukpak.controller.status.summary import summarize
from tests.support.deployments import deployment
from tests.support.reports import (
    CHANGED,
    CRASHING,
    DONE,
    HOOK,
    INVALID,
    KEY,
    LATE,
    LATER,
    NOT_FOUND,
    NOW,
    OLD,
    PULLING,
    ROLLING,
    STUCK,
    WEB,
    after,
)


class Told(NamedTuple):
    name: str
    before: Report | None
    now: Report
    expect: list[tuple[str, str]]
    spec: Mapping[str, Any] = {}


PAUSED = replace(DONE, applied=False, wanted=OLD, revision=OLD)
EVENTS = [
    Told("it is ready", None, DONE, [("Normal", "Ready")]),
    Told("it stays ready", DONE, DONE, []),
    Told("work begins", None, Report(fetching="resolving the sources"), []),
    Told("a source fails", DONE, Report(failure=NOT_FOUND), [("Warning", "NotFound")]),
    Told("the same failure goes on", Report(failure=NOT_FOUND), Report(failure=NOT_FOUND), []),
    Told("it fails otherwise", Report(failure=NOT_FOUND), Report(failure=INVALID), [("Warning", "InvalidBundle")]),
    Told("a hook is waited for", None, Report(failure=HOOK), [("Normal", "WaitingForHook")]),
    Told("a workload is on its way", DONE, replace(DONE, progress=ROLLING), []),
    Told("its pods do not run", DONE, replace(DONE, progress=STUCK), [("Warning", "NotReady")]),
    Told("they go on so", replace(DONE, progress=STUCK), replace(DONE, progress=STUCK), []),
    Told("they do so otherwise", replace(DONE, progress=PULLING), replace(DONE, progress=STUCK), []),
    Told("a workload fails", DONE, replace(DONE, progress=CRASHING), [("Warning", "Failed")]),
    Told("a workload is late", DONE, replace(DONE, progress=LATE), [("Warning", "ProgressDeadlineExceeded")]),
    Told("drift is seen", DONE, replace(DONE, drifted=(CHANGED,)), [("Warning", "Drifted")]),
    Told("it goes on", replace(DONE, drifted=(CHANGED,)), replace(DONE, drifted=(CHANGED,)), []),
    Told("it is over", replace(DONE, drifted=(CHANGED,)), DONE, []),
    Told("the server warns", DONE, replace(DONE, warnings=("a", "b")), [("Warning", "Warnings")]),
    Told("it warns of the same", replace(DONE, warnings=("a", "b")), replace(DONE, warnings=("b",)), []),
    Told("it recovers", Report(failure=NOT_FOUND), DONE, [("Normal", "Ready")]),
]


@pytest.mark.parametrize("case", EVENTS, ids=attrgetter("name"))
def test_events_tell_transitions_only(case: Told) -> None:
    before = after(case.before, deployment(), NOW) if case.before else deployment()
    told = notes(before.status, summarize(before, case.now, LATER))
    assert [(note.type, note.reason) for note in told] == case.expect


def test_pausing_and_resuming_are_told_with_what_is_put_right() -> None:
    status = {"revision": OLD, "installedRevision": OLD}
    running = after(replace(DONE, wanted=OLD, revision=OLD), deployment(status=status), NOW)
    paused = deployment(spec={"paused": True}).model_copy(update={"status": running.status})
    told = notes(running.status, summarize(paused, PAUSED, NOW))
    assert [(note.reason, note.text) for note in told] == [
        ("Paused", "no object is changed until spec.paused is false")
    ]
    for drifted, text in (
        ((), "no object was modified while paused"),
        ((CHANGED,), f"repairing what has drifted: {CHANGED}: modified; will be repaired when spec.paused is false"),
    ):
        rested = after(replace(PAUSED, drifted=drifted), paused, NOW)
        resumed = summarize(
            deployment().model_copy(update={"status": rested.status}), replace(DONE, wanted=OLD, revision=OLD), LATER
        )
        assert [(note.reason, note.text) for note in notes(rested.status, resumed)] == [("Resumed", text)]


def test_what_is_kept_is_told() -> None:
    kept = Removal(record=Record(key=KEY), kept="kept because a Pod still exists")
    removals = [kept, Removal(record=Record(key=WEB))]
    assert [note.text for note in notes_on_removals(removals)] == ["ConfigMap shop/a: kept because a Pod still exists"]


def test_what_is_deleted_is_told_once_with_how_many_more() -> None:
    keys = [KEY._replace(name=f"a{number:02}") for number in range(NAMED + 5)]
    removals = [Removal(record=Record(key=key), deleted=True) for key in keys]
    removals += [Removal(record=Record(key=WEB), kept="kept"), Removal(record=Record(key=WEB))]
    listed = ", ".join(map(str, keys[:NAMED]))
    [told] = notes_on_teardown(removals)
    assert (told.reason, told.text) == ("Deleted", f"{listed} and 5 more: deleted with the BundleDeployment")
    [told] = notes_on_pruning(removals[:1], "v1:sha256:0123456789abcdef")
    assert (told.reason, told.text) == (
        "Pruned",
        f"{keys[0]}: deleted because revision 0123456789ab does not contain it",
    )
    assert notes_on_pruning(removals[-2:], "") == []
