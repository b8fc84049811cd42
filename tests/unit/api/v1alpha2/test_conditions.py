"""Condition types and reasons are told apart, explained, and written as Kubernetes wants them."""

from __future__ import annotations

import re

import pytest

from rukpak.api.v1alpha2.conditions import UNPACKED_REASONS, ConditionType, Reason, Retry

# Reasons that say that something goes well, or goes on: there is nothing to do.
WITHOUT_REMEDY = {
    Reason.UNPACKED,
    Reason.FETCHING,
    Reason.INSTALLED,
    Reason.APPLYING,
    Reason.HEALTHY,
    Reason.PROGRESSING,
    Reason.NOT_INSTALLED,
    Reason.READY,
    Reason.DELETING,
}


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_one_word_that_says_what_it_means_and_what_to_do(reason: Reason) -> None:
    assert re.fullmatch("[A-Z][A-Za-z]+", reason.value)
    assert reason.meaning
    assert bool(reason.remedy) is (reason not in WITHOUT_REMEDY)


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_the_same_by_name_and_as_text(reason: Reason) -> None:
    assert Reason(reason.value) is reason
    assert f"{reason}" == str(reason) == reason.value == reason
    assert reason.name == re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", reason.value).upper()


@pytest.mark.parametrize("reason", Reason)
def test_a_text_is_one_line_without_full_stop(reason: Reason) -> None:
    for text in (reason.meaning, reason.remedy):
        assert "\n" not in text
        assert not text.endswith(".")


@pytest.mark.parametrize("kind", ConditionType)
def test_a_condition_type_says_what_true_means(kind: ConditionType) -> None:
    assert ConditionType(kind.value) is kind
    assert kind.meaning


def test_a_person_has_to_act_on_permanent_and_slow_failures_only() -> None:
    assert {retry for retry in Retry if retry.stalls} == {Retry.PERMANENT, Retry.SLOW}


def test_what_goes_wrong_before_rendering_is_told_by_unpacked() -> None:
    assert {Reason.FETCHING, Reason.NOT_FOUND, Reason.UNKNOWN_SOURCE_KIND} <= UNPACKED_REASONS
    assert not {Reason.INSTALLED, Reason.NO_CONTENT, Reason.FORBIDDEN, Reason.READY} & UNPACKED_REASONS
