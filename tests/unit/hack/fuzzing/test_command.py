"""The command `hack/fuzz`, as it is where there is no atheris."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from hack.fuzzing import findings
from hack.fuzzing.__main__ import main
from hack.fuzzing.table import TARGETS
from hack.fuzzing.target import Target, expect


@pytest.fixture(autouse=True)
def _without_atheris(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(findings, "KEPT", tmp_path)
    monkeypatch.setattr(findings, "_BATCH", 1)


def test_a_target_that_is_unknown_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["tarr"])
    assert 'no target "tarr"; see hack/fuzz --list' in capsys.readouterr().err


@pytest.mark.parametrize("found", [0, 1])
def test_it_says_what_it_found(found: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    target = Target(name="generated", check=lambda data: expect(not found, "it is bad"), covers="nothing")
    monkeypatch.setitem(TARGETS, "generated", target)
    assert main(["generated", "--seconds", "0.01"]) == found
    said = capsys.readouterr()
    assert f"inputs in 0.01 s, {found} found" in said.out
    assert "atheris is not available" in said.err
