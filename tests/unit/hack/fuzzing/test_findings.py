"""A defect is reported once, minimized, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.fuzzing.corpus import kept_inputs
from hack.fuzzing.findings import Findings, draw_until, failure, shrink, signature
from hack.fuzzing.target import BrokenError, Target, check_message, expect, refusals
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason


def check(data: bytes) -> None:
    expect(b"bad" not in data, "it is bad")
    if b"worse" in data:
        raise KeyError(data)


TARGET = Target(name="made-up", check=check, covers="nothing", words=(b"worse", b"bad"))


def test_a_finding_is_made_small_and_kept(tmp_path: Path) -> None:
    told: list[str] = []
    findings = Findings(TARGET, told.append, tmp_path)
    findings.try_input(b"x" * 1000 + b"bad" + b"y" * 1000)
    assert list(kept_inputs("made-up", tmp_path).values()) == [b"bad"]
    assert "BrokenError: it is bad" in told[0]


def test_the_same_defect_is_told_once_and_another_one_too(tmp_path: Path) -> None:
    findings = Findings(TARGET, lambda text: None, tmp_path)
    for data in (b"bad", b"a bad one", b"worse", b"fine"):
        findings.try_input(data)
    assert len(findings) == 2
    assert sorted(kept_inputs("made-up", tmp_path).values()) == [b"bad", b"worse"]


def test_a_smaller_input_fails_in_the_same_way() -> None:
    error = failure(TARGET, b"worse, and worse")
    assert error
    assert shrink(TARGET, b"worse, and worse", signature(error)) == b"worse"


def test_inputs_that_are_drawn_find_what_words_lead_to(tmp_path: Path) -> None:
    findings = Findings(TARGET, lambda text: None, tmp_path)
    assert draw_until(lambda: len(findings) == 2, TARGET, findings) > 1


@pytest.mark.parametrize("message", ["", "two\rlines", "x" * 40_000])
def test_a_message_that_no_condition_holds_is_a_defect(message: str) -> None:
    with pytest.raises(BrokenError):
        check_message(message)


def test_a_refusal_is_none_and_its_message_is_looked_at() -> None:
    with refusals(ValueError):
        raise BundleError(Reason.NO_CONTENT, "nothing is there")
    with pytest.raises(BrokenError), refusals():
        raise BundleError(Reason.NO_CONTENT, "nothing\0is there")


def count(data: bytes) -> None:
    expect(sum(range(1_000_000)) > 0, "counted")


def test_work_that_is_more_than_linear_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hack.fuzzing.target.BASE_SECONDS", 0.0)
    with pytest.raises(BrokenError, match="CPU time for 1 bytes"):
        Target(name="slow", check=count, covers="nothing").run(b"x")
