"""What is generated from the API is up to date."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_the_generated_files_are_those_that_would_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # which the program changes
    program = runpy.run_path(str(ROOT / "hack/generate"), run_name="generate")
    assert (program["main"](["--check"]), capsys.readouterr().err) == (0, "")
