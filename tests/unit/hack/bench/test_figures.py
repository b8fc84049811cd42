"""What pages say was measured: each figure of ours is written by a program of hack/bench."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hack.bench import growth, private, raw
from hack.bench.figures import CITED, CITING, END, FIGURES, PAGE, SPREAD, VALUES, Measured, Results, cite
from hack.bench.figures import as_markdown as result_table
from hack.bench.rows import Row, as_markdown, read_usage
from hack.bench.scenarios import MANY
from hack.bench.workloads import make_bundle

KNOWN = json.loads(VALUES.read_text(encoding="utf-8"))
TABLES = re.compile(r"<!-- ([a-z]+): written by hack/bench -->")
PARTS = ["installation", "private", "growth", "crowd", "rest", "page", "soak"]
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
        growth.Point(
            series=series, size=size, cpu=size / 300, requests=size if series == "objects" else 0, memory=70, bare=1
        )
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


def test_a_row_has_the_factor_over_the_bare_client_if_there_is_one() -> None:
    line = as_markdown([Row(title="a, s", value=6, bare=2, at_most=5), Row(title="b", value=6, bare=0, digits=0)])
    assert line.splitlines()[2:] == ["| a, s | **6.00** (missed) | 2.00 | 3.0 | 5.00 |", "| b | 6 | 0 |  |  |"]


def test_private_sources_are_compared_with_a_bare_client_that_has_a_row_of_its_own() -> None:
    samples = {
        "one": {
            "public": [{"install_cpu": Measured(ours=6), "peak": Measured(ours=70)}],
            private.BARE: [{"install_cpu": Measured(ours=2)}],
        }
    }
    lines = private.as_markdown(samples).splitlines()
    assert lines[-2:] == ["| public |  |  | 6.00 (3.0) | 70 |", f"| {private.BARE} |  |  | 2.00 |  |"]


def test_growth_has_the_factor_over_the_bare_client() -> None:
    point = growth.Point(series="objects", size=10_000, cpu=6, requests=7, memory=70, bare=2)
    assert growth.as_markdown([point]).splitlines()[-1].endswith("| 10,000 | 6.00 | 7 | 70 | 2.00 | 3.0 |")


@pytest.mark.parametrize(("cpus", "shown"), [([4, 5, 4.4], "| 23 |  |  | 10 |"), ([4, 4], "| 0 |  |  | 10 |")])
def test_the_difference_between_runs_is_shown_and_limited(cpus: list[float], shown: str) -> None:
    of_server = {"install_server_cpu": Measured(ours=2)}
    runs = [{**dict.fromkeys((each.key for each in FIGURES), Measured(ours=cpu)), **of_server} for cpu in cpus]
    results = Results(machine={}, titles={"many": "many"}, samples={"many": runs}, limits={"many": MANY.limits})
    [line] = [each for each in result_table(results).splitlines() if each.startswith(f"| {SPREAD.title}")]
    assert line.replace("**", "").replace(" (missed)", "").endswith(shown)
    assert ("missed" in line) == (shown == "| 23 |  |  | 10 |")


def test_one_run_has_no_difference() -> None:
    runs = [dict.fromkeys((each.key for each in FIGURES), Measured(ours=1))]
    results = Results(machine={}, titles={"many": "many"}, samples={"many": runs}, limits={"many": MANY.limits})
    assert SPREAD.title not in result_table(results)


def test_a_start_lists_each_collection_once() -> None:
    api = FakeApi()
    raw.read(api, [make_bundle("a", 20)])  # type: ignore[arg-type]
    assert len(api.paths) == len(set(api.paths)) == 3 + 5  # ConfigMaps, Secrets, ServiceAccounts, Roles, RoleBindings
    assert "/apis/rbac.authorization.k8s.io/v1/roles?labelSelector=core.rukpak.io/bundle-deployment" in api.paths


class FakeApi:
    """Notes what is listed."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def request(self, _method: str, path: str) -> None:
        self.paths.append(path)

    def list_metadata(self, path: str) -> None:
        self.paths.append(path)


def test_usage_is_read_of_a_process_that_runs() -> None:
    used = read_usage(os.getpid())
    assert used.resident > 1
    assert used.cpu > 0
