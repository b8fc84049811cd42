"""What pages say was measured: each figure of ours is written by hack/bench/run."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hack.bench import growth
from hack.bench.figures import CITED, CITING, END, PAGE, VALUES, cite
from hack.bench.rows import read_usage

KNOWN = json.loads(VALUES.read_text(encoding="utf-8"))
TABLES = re.compile(r"<!-- ([a-z]+): written by hack/bench/run -->")
PARTS = ["installation", "private", "growth", "crowd", "rest"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("page", CITING, ids=lambda page: page.parent.name)
def test_pages_cite_the_last_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert CITED.search(text)
    assert cite(text, KNOWN) == text
    assert len(CITED.findall(text)) == text.count("<!-- figure "), "a figure without an end"


def test_a_figure_that_is_not_written_is_refused() -> None:
    with pytest.raises(KeyError):
        cite("<!-- figure installation.one.guessed -->7<!-- -->", KNOWN)


def test_the_page_has_a_place_for_each_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert TABLES.findall(text) == PARTS
    assert text.count(END) == len(PARTS)


@pytest.mark.parametrize("is_dark", [False, True])
def test_the_picture_of_growth_is_within_its_frame(is_dark: bool) -> None:
    points = [
        growth.Point(series=series, size=size, cpu=size / 300, requests=size if series == "objects" else 0, memory=70)
        for series in growth.SERIES
        for size in growth.SIZES
    ]
    picture = ElementTree.fromstring(growth.draw(points, is_dark=is_dark))
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    circles = list(picture.iter(f"{SVG}circle"))
    assert len(circles) == len(points) * len(growth.MEASURES)
    for circle in circles:
        assert 0 < float(circle.attrib["cx"]) < width
        assert 0 < float(circle.attrib["cy"]) < height


def test_usage_is_read_of_a_process_that_runs() -> None:
    used = read_usage(os.getpid())
    assert used.resident > 1
    assert used.cpu > 0
