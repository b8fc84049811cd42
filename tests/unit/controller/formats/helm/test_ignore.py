"""`.helmignore`: as Helm's package ignore and Go's filepath.Match have it."""

from __future__ import annotations

import time
from operator import attrgetter
from typing import NamedTuple

import pytest

from controller.formats.helm.chart import read_rules

PATH = "charts/old-1.2.tgz"


class Case(NamedTuple):
    name: str
    text: str
    expect: bool | None


# fmt: off
CASES = [
    Case("nothing", "", False),
    Case("comments and blank lines", "# charts/*\n\n   \n", False),
    Case("a name", "old-1.2.tgz", True),
    Case("a name with a mark and blanks", "\ufeff  old-1.2.tgz \n", True),
    Case("a pattern of names", "*.tgz", True),
    Case("a pattern of other names", "*.tar", False),
    Case("a part of the name", "old", False),
    Case("a path", "charts/old-?.?.tgz", True),
    Case("a path from the root", "/charts/old*", True),
    Case("a name at the root", "/old-1.2.tgz", False),
    Case("a star does not cross folders", "/*.tgz", False),
    Case("two stars in a row", "o*-*.tgz", True),
    Case("stars that do not fit", "*old*old*", False),
    Case("a class", "old-[0-9].[!-3].tgz", True),
    Case("a class that is negated", "old-[^2-9]*", True),
    Case("a class that does not fit", "old-[^0-9]*", False),
    Case("an escaped character", r"old\-1.2.tgz", True),
    Case("a dot is a dot", "old-1x2.tgz", False),
    Case("folders only", "charts/old*/", False),
    Case("the second rule", "a\n*.tgz", True),
    Case("all but others", "!*.zip", True),
    Case("all but this", "!*.tgz", False),
    Case("all but this, and then this", "!*.tgz\nold*", True),
    Case("a rule that Helm refuses", "*.tgz\n**/x", None),
    Case("a class that does not end", "*.tgz\n[a", None),
    Case("a range of nothing", "*.tgz\n[z-a]", None),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_rules(case: Case) -> None:
    ignores = read_rules(case.text.encode())
    assert (ignores and ignores(PATH, False)) is case.expect


FOLDERS = [
    Case("a name", "old", True),
    Case("a name of folders only", "old/", True),
    Case("a path of folders only", "files/old/", True),
    Case("a path from the root", "/files/old", True),
    Case("a name at the root", "/old/", False),
    Case("all but other folders", "!new/", True),
    Case("all but this folder", "!old/", False),
]


@pytest.mark.parametrize("case", FOLDERS, ids=attrgetter("name"))
def test_rules_about_a_folder(case: Case) -> None:
    ignores = read_rules(case.text.encode())
    assert ignores
    assert ignores("files/old", True) is case.expect


def test_a_pattern_of_many_stars_takes_linear_time() -> None:
    ignores = read_rules(b"*a" * 200 + b"b")
    started = time.process_time()
    assert ignores
    assert not ignores("charts/" + "a" * 1000, False)
    assert time.process_time() - started < 1
