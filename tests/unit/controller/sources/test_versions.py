"""Ranges: the table of Masterminds' documentation. tests/integration/test_versions.py compares ranges with Helm's."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.controller.content.limits import quote
from rukpak.controller.sources.versions import (
    Check,
    Choice,
    Parse,
    Range,
    Version,
    checked,
    compile_filter,
    parse_loosely,
    parse_version,
    proceed,
    similar,
)

NUMBERS = st.integers(0, 3)


def choose(names: Iterable[str], within: Range, check: Check = proceed, parse: Parse = parse_version) -> Choice:
    choice = Choice(within, parse)
    for name in checked(names, check):
        choice.see(name)
    return choice


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
    before = time.thread_time()
    with pytest.raises(ValueError, match="is not a range"):
        Range("1   " * 120 + "!")
    assert time.thread_time() - before < 1


RANGES = st.sampled_from([">5", "<0.0.1", "1.1.x", ">1.2 <2 || >4", "~0.5", "=2.1.0"])
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
    assert choose(TAGS, Range(text)).highest == expect


def test_of_equal_versions_one_is_chosen_whatever_the_order() -> None:
    assert choose(["1.0.0", "v1.0.0"], Range("1")).highest == choose(["v1.0.0", "1.0.0"], Range("1")).highest


@pytest.mark.parametrize(
    ("text", "expect"),
    [
        (">=3", '"2.0.0_build.1", "2.0.0-rc.1", "1.10.0"'),
        ("<1", '"1.9.0", "v1.2.0", "1.0.0"'),
        ("~1.9.5", '"2.0.0-rc.1", "1.10.0", "1.9.0"'),
    ],
)
def test_the_nearest_three(text: str, expect: str) -> None:
    assert choose(TAGS, Range(text)).describe_nearest() == f"the nearest are {expect}"


def test_without_versions_there_is_nothing_near() -> None:
    assert choose(["latest"], Range("1")).describe_nearest() == "none of them is a version like 1.2.3"


def test_a_filter() -> None:
    assert list(filter(compile_filter(""), TAGS)) == TAGS
    assert list(filter(compile_filter("^v|rc"), TAGS)) == ["v1.2.0", "2.0.0-rc.1"]
    with pytest.raises(ValueError, match="is not a regular expression"):
        compile_filter("(?=a)")


def test_similar_names_are_found_in_time_in_proportion_to_their_size() -> None:
    names = ["ingress-nginx", "postgresql", "cert-manager", "web", *("ab" * 125 for _ in range(20_000))]
    before = time.process_time()
    assert similar("ingres-nginx", names) == ["ingress-nginx"]
    assert similar("ba" * 100, names)
    assert time.process_time() - before < 10


def test_what_takes_long_stops_when_it_has_to() -> None:
    def stop() -> None:
        raise TimeoutError

    for compute in (
        lambda: choose(TAGS, Range("1"), stop),
        lambda: list(checked(TAGS, stop)),
        lambda: similar("a", TAGS, stop),
    ):
        with pytest.raises(TimeoutError):
            compute()


@given(st.lists(st.sampled_from(["1.0.0", "1.2.0", "2.0.0-rc.1", "2.0.0", "3.1.4", "0.1.0", "x"]), max_size=8), RANGES)
def test_the_nearest_versions_are_those_next_to_a_bound(names: list[str], text: str) -> None:
    """As by sorting all of them."""
    within = Range(text)
    found = sorted((version, name) for name in set(names) if (version := parse_version(name)))
    bounds = [sum(version < bound for version, _ in found) for bound in within.versions]

    def distance(place: int) -> int:
        return min(bound - place if place < bound else place - bound + 1 for bound in bounds)

    near = sorted(sorted(range(len(found)), key=lambda place: (distance(place), -place))[:3], reverse=True)
    expect = f"the nearest are {', '.join(quote(found[place][1]) for place in near)}"
    said = choose(set(names), within).describe_nearest()
    assert said == (expect if found else "none of them is a version like 1.2.3")


def test_a_range_with_more_comparisons_than_may_be_made_is_refused() -> None:
    Range(" ".join([">1"] * 32))
    with pytest.raises(ValueError, match="more than 32 comparisons"):
        Range(" ".join([">1"] * 33))


@pytest.mark.parametrize(
    ("text", "name"),
    [("1.4.x", "1.4"), (">=1.2 <1.3", "01.2.3"), ("2", "v2"), (">=3.0.0-0", "3-rc.1"), ("<0.9", "0.08.1")],
)
def test_an_index_may_have_versions_as_helm_reads_them(text: str, name: str) -> None:
    names = ["1.4", "01.2.3", "v2", "3-rc.1", "0.08.1", "x", "1.2.3.4", "1..2", ""]
    assert choose(names, Range(text), parse=parse_loosely).highest == name
    assert choose(names, Range(text)).highest is None
