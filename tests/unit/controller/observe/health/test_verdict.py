from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.observe.health.rules import assess_absent
from rukpak.controller.observe.health.verdict import HEALTHY, State, Verdict, failed, stable
from rukpak.controller.observe.progress import judge_object
from rukpak.controller.observe.records import Record
from tests.unit.controller.observe.health.objects import job, manifest

SEEN, BROKEN = Record(key=ObjectKey("", "ConfigMap", "foo", "a")), failed("Broken")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("two\n  lines\tand tabs ", "two lines and tabs"),
        ("since 2026-11-21T14:07:00Z it fails", "since … it fails"),
        ("at 2026-11-21 14:07:00.123456 +0000 UTC m=+0.12: no", "at …: no"),
        (
            "missing request for cpu in container app of Pod web-68c9c7c5f5-w9cvt",
            "missing request for cpu in container app of Pod web-…",
        ),
        ("my-web-https is a name of a user", "my-web-https is a name of a user"),
        ("a\x1b[31mred\x00", "a[31mred"),
        ("x" * 301, "x" * 299 + "…"),
        ("x" * 300, "x" * 300),
    ],
)
def test_a_message_is_one_stable_line(said: str, kept: str) -> None:
    assert Verdict(State.FAILED, "Broken", said).message == kept


@settings(deadline=None, database=None)
@given(st.text(max_size=3000))
def test_a_stable_message_stays_as_it_is(said: str) -> None:
    assert stable(stable(said)) == stable(said)


def test_what_is_being_deleted_is_terminating_however_it_was_applied() -> None:
    found = replace(SEEN, deleting=True, applied_digest="old")

    assert judge_object(found, "new") == Verdict(State.TERMINATING, "Terminating")


def test_what_is_seen_as_it_was_applied_is_judged() -> None:
    assert judge_object(replace(SEEN, applied_digest="new", verdict=BROKEN), "new") is BROKEN
    assert judge_object(replace(SEEN, applied_digest="new"), "new") is HEALTHY


@pytest.mark.parametrize(
    "desired",
    [
        job(),
        manifest("example.com/v1 Job", spec={"ttlSecondsAfterFinished": 60}),
        manifest("v1 ConfigMap"),
    ],
    ids=["a Job without TTL", "a Job of another group", "no Job"],
)
def test_what_nothing_removes_by_itself_is_missing(desired: dict[str, object]) -> None:
    assert assess_absent(desired, started=True).state is State.MISSING
