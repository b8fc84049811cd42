"""The threat model: each claim has a test, and the test is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "config" / "SECURITY.md"
TEST = re.compile(r"`((?:unit|integration|e2e)/[\w/]+\.py)::(test_\w+)`")


def claims() -> list[tuple[str, str, str]]:
    """Attack, what holds, and tests of each row; rows that only begin a group are left out."""
    section = MODEL.read_text().partition("\n## Attacks\n")[2].partition("\n##")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line[:2] == "| "
    ]
    return [(row[0], row[1], row[2]) for row in rows[2:] if not re.fullmatch(r"\*[^*]+\*", row[0])]


CLAIMS = claims()


@pytest.mark.parametrize(("attack", "holds", "tests"), CLAIMS)
def test_each_claim_names_tests_that_there_are(attack: str, holds: str, tests: str) -> None:
    named = TEST.findall(tests)
    assert named
    assert ", ".join(f"`{file}::{name}`" for file, name in named) == tests
    assert [f"{file}::{name}" for file, name in named if not has_test(file, name)] == []
    assert holds


def test_each_loop_has_a_bound_and_a_test_that_there_is() -> None:
    section = MODEL.read_text().partition("\n### Loops and lists whose size others set\n")[2].partition("\n##")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line[:2] == "| "][1:]
    assert len(rows) > 10
    assert [row for row in rows if len(row) != 4 or not all(cell.strip() for cell in row)] == []
    assert [row[0] for row in rows if not TEST.findall(row[3])] == []
    assert [named for row in rows for named in TEST.findall(row[3]) if not has_test(*named)] == []


def has_test(file: str, name: str) -> bool:
    path = ROOT / "tests" / file
    return path.is_file() and bool(re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE))


@pytest.mark.parametrize("file", ["README.md", "config/README.md", ".github/SECURITY.md"])
def test_it_is_linked_from(file: str) -> None:
    assert re.search(r"\]\((?:\.\./)?(?:config/)?SECURITY\.md\)", (ROOT / file).read_text())
