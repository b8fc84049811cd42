from __future__ import annotations

import pytest

from controller.sources.versions.ranges import Range
from controller.sources.versions.selection import describe_nearest, filtered, highest

TAGS = ["latest", "1.0.0", "v1.2.0", "1.10.0", "1.9.0", "2.0.0-rc.1", "2.0.0_build.1", "1", "sha-3f2a"]


@pytest.mark.parametrize(
    ("text", "expect"),
    [
        (">=1", "2.0.0_build.1"),
        ("<2", "1.10.0"),
        ("1.2.x", "v1.2.0"),
        (">=2.0.0-0 <2.0.0", "2.0.0-rc.1"),
        (">2", None),
    ],
)
def test_the_highest_version_in_a_range(text: str, expect: str | None) -> None:
    assert highest(TAGS, Range(text)) == expect


def test_of_equal_versions_one_is_chosen_whatever_the_order() -> None:
    assert highest(["1.0.0", "v1.0.0"], Range("1")) == highest(["v1.0.0", "1.0.0"], Range("1"))


@pytest.mark.parametrize(
    ("text", "expect"),
    [
        (">=3", '"2.0.0_build.1", "2.0.0-rc.1", "1.10.0"'),
        ("<1", '"1.9.0", "v1.2.0", "1.0.0"'),
        ("~1.9.5", '"2.0.0-rc.1", "1.10.0", "1.9.0"'),
    ],
)
def test_the_nearest_three(text: str, expect: str) -> None:
    assert describe_nearest(TAGS, Range(text)) == f"the nearest are {expect}"


def test_without_versions_there_is_nothing_near() -> None:
    assert describe_nearest(["latest"], Range("1")) == "none of them is a version like 1.2.3"


def test_a_filter() -> None:
    assert filtered(TAGS, "") == TAGS
    assert filtered(TAGS, "^v|rc") == ["v1.2.0", "2.0.0-rc.1"]
    with pytest.raises(ValueError, match="is not a regular expression"):
        filtered(TAGS, "(?=a)")
