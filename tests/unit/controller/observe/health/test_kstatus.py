"""We judge as kstatus does, but for differences that have a name (differences.py)."""

from __future__ import annotations

from operator import attrgetter

import pytest
from hypothesis import given, settings

from rukpak.controller.observe.health import rules
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import Context, State
from tests.support import kstatus
from tests.unit.controller.observe.health.arbitrary import OBJECTS
from tests.unit.controller.observe.health.corpus import CORPUS, Sample
from tests.unit.controller.observe.health.differences import DIFFERENCES
from tests.unit.controller.observe.health.objects import Manifest, deployment

STATES = {
    kstatus.CURRENT: State.HEALTHY,
    kstatus.IN_PROGRESS: State.PROGRESSING,
    kstatus.FAILED: State.FAILED,
    kstatus.TERMINATING: State.TERMINATING,
}
CLASSES = {"disk": "Immediate", "late": "WaitForFirstConsumer"}
CONTEXT = Context(binding_mode=lambda name: CLASSES.get(name or "", ""), reports_status=True)


def group_of(subject: Manifest) -> str:
    group: str = subject["apiVersion"].rpartition("/")[0]
    return group


def judge_both(subject: Manifest) -> tuple[State, State]:
    return assess(subject, CONTEXT).state, STATES[kstatus.compute(subject)[0]]


@pytest.mark.parametrize("sample", CORPUS, ids=attrgetter("name"))
def test_an_object_is_judged_as_kstatus_does_or_as_a_difference_says(sample: Sample) -> None:
    ours, theirs = judge_both(sample.given)
    covering = [difference.name for difference in DIFFERENCES if difference.covers(sample.given, ours, theirs)]

    assert (sample.difference in covering) if sample.difference else (ours is theirs), (ours, theirs)


def test_each_difference_is_met_by_an_object() -> None:
    assert {difference.name for difference in DIFFERENCES} == {sample.difference for sample in CORPUS} - {""}


def test_each_rule_of_either_is_met_by_an_object() -> None:
    met = {(group_of(sample.given), sample.given["kind"]) for sample in CORPUS}
    theirs = {tuple(rule.rpartition("/")[::2]) for rule in kstatus._RULES}

    assert theirs <= met
    assert {rule for kind, rule in rules._RULES.items() if kind in met} == set(rules._RULES.values())


def test_pods_that_are_refused_give_a_reason_that_kstatus_hides() -> None:
    subject = deployment("ReplicaFailure=True/FailedCreate", counts=(0, 0, 0, 0))

    assert (assess(subject, CONTEXT).reason, kstatus.compute(subject)[1]) == ("FailedCreate", "LessReplicas")


@settings(deadline=None, database=None)
@given(OBJECTS)
def test_any_object_is_judged_as_kstatus_does_or_as_a_difference_says(subject: Manifest) -> None:
    ours, theirs = judge_both(subject)

    assert ours is theirs or any(difference.covers(subject, ours, theirs) for difference in DIFFERENCES)
