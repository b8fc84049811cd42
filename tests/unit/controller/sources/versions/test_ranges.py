"""Ranges: the table of Masterminds' documentation. tests/integration/test_versions.py compares ranges with Helm's."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.sources.versions import Range, Version, parse_version

NUMBERS = st.integers(0, 3)
VERSIONS = st.builds(Version, major=NUMBERS, minor=NUMBERS, patch=NUMBERS)
EQUAL = {
    "1.2 - 1.4.5": ">=1.2, <=1.4.5",
    "2.3.4 - 4.5": ">=2.3.4 <=4.5",
    "1.2.x": ">=1.2.0, <1.3.0",
    ">=1.2.x": ">=1.2.0",
    "<=2.x": "<3",
    "*": ">=0.0.0",
    "": ">=0.0.0",
    "~1.2.3": ">=1.2.3, <1.3.0",
    "~1": ">=1, <2",
    "~2.3": ">=2.3, <2.4",
    "~1.x": ">=1, <2",
    "~>1.2": ">=1.2 <1.3",
    "^1.2.3": ">=1.2.3, <2.0.0",
    "^2.x": ">=2.0.0, <3",
    "^0.2.3": ">=0.2.3 <0.3.0",
    "^0.0.3": ">=0.0.3 <0.0.4",
    "^0.0": ">=0.0.0 <0.1.0",
    "^0": ">=0.0.0 <1.0.0",
    "=1.2": "1.2.x",
    "v1.2.3": "=1.2.3",
    "=>1 =<2.1.0": ">=1.0.0,<=2.1.0",
    "!=1.x": "<1 || >1",
    "!=1.2": "<1.2 || >1.2",
}


@pytest.mark.parametrize("text", EQUAL)
@given(version=VERSIONS)
def test_a_range_means_the_same_as_its_long_form(text: str, version: Version) -> None:
    assert Range(text).contains(version) is Range(EQUAL[text]).contains(version)


PRE_RELEASES = {
    ">=1.0.0": [],
    ">=1.0.0-0": ["1.0.0-alpha", "1.0.0-alpha.2", "1.0.0-alpha.10", "1.1.0-1"],
    ">=1.0.0-alpha.3": ["1.0.0-alpha.10", "1.1.0-1"],
    "~1.0.0-0": ["1.0.0-alpha", "1.0.0-alpha.2", "1.0.0-alpha.10"],
    ">=1.1 || <1.0.0-b": ["1.0.0-alpha", "1.0.0-alpha.2", "1.0.0-alpha.10"],
    "*": [],
}


@pytest.mark.parametrize("text", PRE_RELEASES)
def test_pre_releases_are_only_in_alternatives_that_name_one(text: str) -> None:
    versions = ["1.0.0-alpha", "1.0.0-alpha.2", "1.0.0-alpha.10", "1.1.0-1"]
    found = [name for name in versions if (version := parse_version(name)) and Range(text).contains(version)]
    assert found == PRE_RELEASES[text]


def test_the_order_of_the_specification() -> None:
    names = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0 v1.0.1"
    versions = [parse_version(name) for name in names.split()]
    assert None not in versions
    assert versions == sorted(each for each in versions if each)
    assert parse_version("1.0.0+build.1") == parse_version("1.0.0")


@pytest.mark.parametrize(
    "name", ["1", "1.2", "latest", "1.2.3.4", "01.2.3", "1.2.3-01", "1.2.3-", "1.2.3+", "x1.2.3", ""]
)
def test_names_that_are_no_versions(name: str) -> None:
    assert parse_version(name) is None


@pytest.mark.parametrize("text", ["foo", ">=a", ">==1", "= =1", "1 2 b", "1||", ">1.2.3.4", "1,,2", "~ >1", "1.2.3-"])
def test_a_malformed_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a range of versions"):
        Range(text)


@pytest.mark.parametrize("text", ["xx", "1.|.3", "1.01.2"])
def test_a_range_with_a_version_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="that is none; correct it"):
        Range(text)


@pytest.mark.parametrize("text", [">=1.0.0 " * 100, "1 || " * 40 + "1"])
def test_a_long_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="more than 512 characters and 32 alternatives"):
        Range(text)


def test_a_range_made_to_be_slow_is_not() -> None:
    before = time.monotonic()
    with pytest.raises(ValueError, match="is not a range"):
        Range("1   " * 120 + "!")
    assert time.monotonic() - before < 1
