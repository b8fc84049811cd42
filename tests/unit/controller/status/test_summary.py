from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.status import LeftField, Leftover, Status, dump
from rukpak.controller.apply.drift import DriftedObject
from rukpak.controller.observe.health.verdict import State, Verdict
from rukpak.controller.status.report import Report
from rukpak.controller.status.summary import summarize
from tests.support.deployments import deployment
from tests.support.reports import (
    CHANGED,
    CRASHING,
    DONE,
    KEY,
    LATER,
    NEW,
    NOT_FOUND,
    NOW,
    OLD,
    REFUSED,
    SURPLUS,
    WEB,
    after,
    outcome,
    progress,
)


class Recorded(NamedTuple):
    name: str
    report: Report
    wanted: str
    installed: str


RECORDED = [
    Recorded("a revision that is applied in full is installed", DONE, NEW, NEW),
    Recorded("one that is being applied is wanted", replace(DONE, applied=False), NEW, OLD),
    Recorded("one whose kinds are not known is wanted", Report(wanted=NEW), NEW, OLD),
    Recorded("a failure changes neither", Report(failure=NOT_FOUND, revision=OLD, applied=True), OLD, OLD),
    Recorded(
        "what was begun and is then applied in full is installed, although something else is wanted now",
        Report(failure=NOT_FOUND, revision=NEW, applied=True),
        OLD,
        NEW,
    ),
    Recorded("while paused the wanted one is shown", replace(DONE, applied=False, revision=OLD), NEW, OLD),
]


@pytest.mark.parametrize("case", RECORDED, ids=attrgetter("name"))
def test_which_revisions_are_recorded(case: Recorded) -> None:
    made = summarize(deployment(status={"revision": OLD, "installedRevision": OLD}), case.report, NOW)
    assert (made.revision, made.installed_revision) == (case.wanted, case.installed)


def test_counts_and_what_is_not_ready() -> None:
    report = replace(
        DONE,
        progress=CRASHING,
        awaiting_prune=SURPLUS,
        conflicts=(CHANGED, DriftedObject(key=WEB)),
        outcomes=(replace(outcome(None), postponed=True),),
        managed_kinds=("apps/v1/Deployment", "v1/ConfigMap"),
    )
    status = dump(summarize(deployment(), report, NOW))
    assert status["objects"] == {
        "total": 2, "healthy": 1, "progressing": 0, "failed": 1, "drifted": 1, "retained": 1, "strays": 0,
        "handedOver": 0,
    }  # fmt: skip
    assert status["display"] == {"revision": "bbbbbbbbbbbb", "objects": "1/2"}
    assert status["notReady"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": "shop",
            "name": "web",
            "reason": "CrashLoopBackOff",
            "message": "it crashes",
        }
    ]


def test_status_does_not_grow_with_the_bundle() -> None:
    many = [(KEY._replace(name=f"{n:04}"), Verdict(State.FAILED, "Failed")) for n in range(1000)]
    report = replace(
        DONE,
        progress=progress(*many),
        warnings=tuple(map(str, range(100))),
        outcomes=tuple(outcome(REFUSED) for _ in range(1000)),
    )
    status = summarize(deployment(), report, NOW)
    assert (len(status.not_ready), status.not_ready_truncated, len(status.warnings)) == (10, True, 20)
    Status.model_validate(dump(status))


def test_what_is_longer_than_the_schema_allows_is_cut() -> None:
    failed = KEY._replace(name="n" * 300), Verdict(State.FAILED, "Failed")
    report = replace(DONE, progress=progress(failed), warnings=("w" * 5000,))
    status = Status.model_validate(dump(summarize(deployment(), report, NOW)))
    assert (len(status.not_ready[0].name), len(status.warnings[0])) == (253, 4096)


PIN = {
    "kind": "http",
    "resolved": "x",
    "digest": OLD,
    "specDigest": f"v1:{OLD}",
    "origin": f"v1:{OLD}",
    "resolvedAt": "2026-01-01T00:00:00Z",
}


def test_the_columns_of_many_plug_ins_fit_into_the_schema() -> None:
    pin = {**PIN, "kind": "example.com/" + "k" * 300}
    status = summarize(deployment(status={"sources": [pin] * 32}), DONE, NOW)
    Status.model_validate(dump(status))


def test_a_digest_that_no_content_has_is_not_shown_as_that_of_the_source() -> None:
    before = deployment(status={"sources": [PIN]})
    assert summarize(before, Report(), NOW).display.sources == "http:aaaaaaaaaaaa"
    failure = BundleError(Reason.DIGEST_MISMATCH, "spec.sources[0].http.sha256: no")
    assert summarize(before, Report(failure=failure), NOW).display.sources == ""
    installed = deployment(status={"sources": [PIN], "installedSources": [PIN], "installedRevision": OLD})
    assert summarize(installed, Report(failure=failure), NOW).display.sources == "http:aaaaaaaaaaaa"


def test_warnings_of_the_last_apply_stay_until_something_is_sent_again() -> None:
    before = deployment(status={"warnings": ["deprecated"]})
    assert summarize(before, DONE, NOW).warnings == ("deprecated",)
    assert summarize(before, replace(DONE, warnings=()), NOW).warnings == ()


def test_a_warning_about_what_status_has_as_a_field_ends_with_it_and_leaves_the_others() -> None:
    left = Leftover(**KEY._asdict(), fields=(LeftField(path=("f:data", "f:a"), value="1"),), remedy="remove it")
    first = after(replace(DONE, warnings=("old",), leftovers=(left,), failing_groups=("x.io",)), deployment(), NOW)
    assert first.status.leftovers == (left,)
    assert first.status.warnings == (
        "old",
        'API group "x.io": discovery failed; repair or delete its APIService',
        "ConfigMap shop/a: not in the revision and set by nobody: data.a: 1; remove it",
    )
    assert summarize(first, DONE, LATER) == first.status
    assert summarize(first, replace(DONE, leftovers=(), failing_groups=()), LATER).warnings == ("old",)


def test_an_unchanged_pass_changes_nothing() -> None:
    first = after(DONE, deployment(), NOW)
    assert dump(after(DONE, first, LATER).status) == dump(first.status)


def test_control_characters_of_others_are_written_out_in_all_that_is_said() -> None:
    hostile = "a\x1b[2J\u202eb\x7f"
    failure = BundleError(Reason.INVALID_CONFIG, hostile)
    found = progress((KEY, Verdict(State.FAILED, hostile, hostile)))
    made = summarize(deployment(), replace(DONE, failure=failure, progress=found, warnings=(hostile,)), NOW)
    texts = [*(each.message for each in made.conditions), *made.warnings]
    texts += [text for each in made.not_ready for text in (each.reason, each.message)]
    assert texts.count("a\\u001b[2J\\u202eb\\u007f") >= 4
    assert not set("\x1b\u202e\x7f") & set("".join(texts))
