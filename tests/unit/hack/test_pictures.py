"""The pictures of README.md: valid SVG, with everything inside the frame, and shown by README.md."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from hack.demonstration.picture import COLUMNS, STEPS, excerpt, picture_files

ROOT = Path(__file__).parents[3]
FILES = picture_files()
SVG = "{http://www.w3.org/2000/svg}"
FULL = "\n".join(f"== {heading}\n$ kubectl delete bd demo\n" for heading in STEPS)


@pytest.mark.parametrize("name", FILES)
def test_everything_is_inside_the_frame(name: str) -> None:
    picture = ElementTree.fromstring(FILES[name])
    width, height = (float(picture.attrib[key]) for key in ("width", "height"))
    for part in picture.iter(f"{SVG}rect"):
        x, y, w, h = (float(part.attrib[key]) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    for part in picture.iter(f"{SVG}text"):
        assert 0 < float(part.attrib["y"]) < height


@pytest.mark.parametrize("name", FILES)
def test_it_has_a_title_and_is_shown(name: str) -> None:
    assert ElementTree.fromstring(FILES[name]).findtext(f"{SVG}title")
    assert f".github/pictures/{name}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_recording_shows_a_line_of_each_step_and_no_wide_one() -> None:
    lines = excerpt(FULL.replace("bd demo", "bd " + "x" * 200))
    assert [line.removeprefix("== ") for line in lines if line.startswith("== ")] == list(STEPS)
    assert max(map(len, lines)) == COLUMNS


def test_a_step_that_the_demonstration_no_longer_has_is_refused() -> None:
    with pytest.raises(ValueError, match="no step"):
        excerpt(FULL.replace(next(iter(STEPS)), "Other"))
