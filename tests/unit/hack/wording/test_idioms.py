"""No idiom that the style guide forbids is used anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.wording.idioms import STYLE_GUIDE, find_idioms, read_idioms, read_prose

ROOT = Path(__file__).resolve().parents[4]
GUIDE = "\n| write | not |\n|---|---|\n| repaired | put right, mended |\n| available | at hand |\n\nmore\n"
IDIOMS = ["put right", "mended", "at hand"]


def test_the_idioms_are_those_of_the_style_guide() -> None:
    assert read_idioms(GUIDE) == IDIOMS


def test_a_guide_without_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no table"):
        read_idioms("# Contributing\n")


CASES = {
    "one line": ("it was put right", [(1, "put right")]),
    "another case": ("# Mended", [(1, "Mended")]),
    "two lines of a comment": ("x\n# it was put\n    # right", [(2, "put right")]),
    "two parts of a string": ('"it was put "\n  f"right"', [(1, "put right")]),
    "part of a longer word": ("recommended; input rights", []),
    "part of a name in tests": ("def test_it_is_put_right", []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_found(name: str) -> None:
    text, expected = CASES[name]
    assert list(find_idioms(text, IDIOMS)) == expected


def test_the_table_and_released_changes_are_left_out(tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / STYLE_GUIDE).write_text(GUIDE)
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\nnew\n## [0.1.0]\nmended\n")
    assert dict(read_prose(tmp_path)) == {str(STYLE_GUIDE): "\n\nmore\n", "CHANGELOG.md": "## [Unreleased]\nnew\n"}


def test_no_forbidden_idiom_is_used() -> None:
    idioms = read_idioms((ROOT / STYLE_GUIDE).read_text("utf-8"))
    this_file = Path(__file__).relative_to(ROOT).as_posix()
    found = [
        f"{path}:{line}: {idiom}"
        for path, text in read_prose(ROOT)
        if path != this_file
        for line, idiom in find_idioms(text, idioms)
    ]
    assert found == []
