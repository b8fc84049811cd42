"""The tables of what servers do, and of attacks: each row has a test, and the test is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_security import TEST, has_test

PAGE = Path(__file__).parents[4] / "controller/sources/README.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| what servers", "| attack"))
]


def test_there_are_rows() -> None:
    assert len(ROWS) > 40


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_each_row_names_tests_that_there_are(row: list[str]) -> None:
    named = TEST.findall(row[-1])
    assert named
    assert [f"{file}::{name}" for file, name in named if not has_test(file, name)] == []
