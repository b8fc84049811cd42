"""Tables: which cases are one test, and what it says if some of them fail."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import as_table, is_combined

NUMBERS = pytest.mark.parametrize("number", [1, 2, 3], ids=["one", "two", "three"])


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Callable[..., list[str]]:
    """Run the cases of a function. Returns: what is said about those that fail."""

    def run(function: object, **fixtures: object) -> list[str]:
        table = as_table(request.node.getparent(pytest.Module), "test_it", function)
        assert table
        assert table._fixtureinfo.argnames == tuple(fixtures)
        try:
            table.obj(**fixtures)
        except AssertionError as error:
            return error.__notes__
        return []

    return run


def test_all_cases_run_and_those_that_fail_are_named(run: Callable[..., list[str]]) -> None:
    ran = []

    @NUMBERS
    def function(number: int) -> None:
        ran.append(number)
        assert number == 2

    assert run(function) == ["the case: one\nalso: three"]
    assert ran == [1, 2, 3]


def test_each_row_of_several_tables_is_tried_once(run: Callable[..., list[str]]) -> None:
    ran = []

    @pytest.mark.parametrize(("letter", "word"), [("a", "apple"), pytest.param("b", "berry"), ("c", "cherry")])
    @pytest.mark.parametrize("number", range(2), ids=str)
    def function(number: int, letter: str, word: str) -> None:
        ran.append((number, letter, word))
        assert word == "apple"

    assert run(function) == ["the case: 1-'b'-'berry'\nalso: 0-'c'-'cherry'"]
    assert ran == [(0, "a", "apple"), (1, "b", "berry"), (0, "c", "cherry")]


@pytest.mark.parametrize("letter", ["a", "b", "c"])
@pytest.mark.parametrize("number", range(2))
def test_so_it_is_with_fixtures(number: int, letter: str, request: pytest.FixtureRequest) -> None:
    is_tried = (number, letter) in {(0, "a"), (1, "b"), (0, "c")}
    assert is_combined(request.node) == is_tried
    assert is_tried or request.config.getoption("--all")


def test_a_table_is_skipped_if_all_cases_are(run: Callable[..., list[str]]) -> None:
    @NUMBERS
    def some(number: int) -> None:
        if number == 1:
            pytest.skip("no")
        assert number == 2

    assert run(some) == ["the case: three"]
    with pytest.raises(pytest.skip.Exception):
        run(NUMBERS(skipped))


def skipped(number: int) -> None:
    pytest.skip(f"not {number}")


def test_each_case_has_a_folder_and_changes_of_its_own(run: Callable[..., list[str]], tmp_path: Path) -> None:
    @NUMBERS
    def function(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert list(tmp_path.iterdir()) == []
        assert SHARED == {}
        (tmp_path / "file").touch()
        monkeypatch.setitem(SHARED, "number", number)

    assert run(function, tmp_path=tmp_path) == []
    assert SHARED == {}


SHARED: dict[str, int] = {}


def test_each_case_reads_what_it_has_printed(run: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    @NUMBERS
    def function(number: int, capsys: pytest.CaptureFixture[str]) -> None:
        sys.stdout.write(f"{number}\n")
        assert number == 3 or capsys.readouterr().out == f"{number}\n"

    assert run(function, capsys=capsys) == []


def test_a_fixture_of_the_file_is_there_for_all_cases(run: Callable[..., list[str]], lasting: list[int]) -> None:
    @NUMBERS
    def function(number: int, lasting: list[int]) -> None:
        lasting.append(number)

    assert run(function, lasting=lasting) == []
    assert lasting == [1, 2, 3]


@pytest.fixture(scope="module")
def lasting() -> list[int]:
    return []


@pytest.fixture
def taking(number: int) -> int:
    return number


def with_a_fixture(number: int, each_test: None) -> None: ...


def with_one_that_takes_a_value(number: int, taking: int) -> None: ...


@pytest.fixture
def each_test() -> None: ...


def without_one(number: int) -> None: ...


@given(st.integers())
def drawn(number: int, drawn: int) -> None: ...


def marked(*marks: pytest.MarkDecorator, function: Callable[..., None] = without_one) -> Callable[..., None]:
    """Return a function like another one, with marks."""

    @wraps(function)
    def made(*given: object, **named: object) -> None:
        function(*given, **named)

    for mark in marks:
        mark(made)
    return made


MARKS = {
    "a case with a mark": pytest.mark.parametrize("number", [pytest.param(1, marks=pytest.mark.thorough)]),
    "values that a fixture takes": pytest.mark.parametrize("number", [1], indirect=True),
    "values that can be read once": pytest.mark.parametrize("number", iter([1])),
}


@pytest.fixture(params=["a", "b"])
def each_letter() -> None: ...


APART = {
    "no parameters": with_a_fixture,
    "a fixture": marked(NUMBERS, function=with_a_fixture),
    "a fixture that takes a value": marked(NUMBERS, function=with_one_that_takes_a_value),
    "a fixture with parameters": marked(NUMBERS, pytest.mark.usefixtures("each_letter")),
    "cases that repeat each other": marked(NUMBERS, pytest.mark.repeats),
    "drawn inputs": marked(NUMBERS, function=drawn),
    **{name: marked(mark) for name, mark in MARKS.items()},
}


@pytest.mark.parametrize("which", APART)
def test_what_remains_as_it_is(which: str, request: pytest.FixtureRequest) -> None:
    assert as_table(request.node.getparent(pytest.Module), "test_it", APART[which]) is None
