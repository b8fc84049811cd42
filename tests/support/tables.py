"""Tables: the cases of a rule are one test, which runs all of them even if one fails.

A rule may need a folder, change attributes or print: each case has a folder of its own, what it has changed is set back
after it, and it reads only what it has printed itself. Fixtures that outlive a test are there once for the table, as
are those that a file uses for all its tests; they must not have parameters. Rules that need others are no tables.

pytest takes longer to collect, set up and report a test than most cases take to run. Of a rule with several tables each
row is tried once, not with each row of the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, cast

import pytest

PARAMETERS = type(pytest.param())
APART = frozenset({"repeats"})
"""Marks that are about single cases."""
FOR_EACH_CASE = frozenset({"tmp_path", "monkeypatch"})
"""Fixtures that each case has for itself."""
EMPTIED = "capsys"
"""The fixture that is emptied before each case."""


class Column(NamedTuple):
    """What one `parametrize` says."""

    names: tuple[str, ...]
    rows: tuple[Sequence[Any], ...]
    names_of_rows: Any
    """The argument `ids`."""

    def position(self, arguments: Mapping[str, Any]) -> int:
        """Return which row a case has."""
        given = tuple(arguments[name] for name in self.names)
        same = [number for number, row in enumerate(self.rows) if [*map(id, row)] == [*map(id, given)]]
        return same[0] if same else [tuple(row) for row in self.rows].index(given)  # numbers of a range are made anew

    def describe(self, position: int) -> str:
        """Return what a case is called."""
        row, ids = self.rows[position], self.names_of_rows
        if callable(ids):
            return "-".join(str(ids(value)) for value in row)
        return str(list(ids)[position] if ids is not None else "-".join(map(repr, row)))


def combine(lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """Return which rows of several tables are tried together, by position, so that each is tried once."""
    return [tuple(number % length for length in lengths) for number in range(max(lengths))] if all(lengths) else []


def is_combined(test: pytest.Function) -> bool:
    """Whether a case of a test with several tables is among those that try each row once."""
    columns = [_read(mark) for mark in test.iter_markers("parametrize")]
    read = [column for column in columns if column is not None]
    if len(read) < 2 or len(read) < len(columns):
        return True
    return tuple(column.position(test.callspec.params) for column in read) in combine([len(each.rows) for each in read])


def as_table(module: pytest.Module, name: str, function: object) -> pytest.Function | None:
    """Return the test that runs all cases of a parametrized function; None if its cases are tests of their own."""
    if not isinstance(function, FunctionType) or not module.funcnamefilter(name):
        return None
    marks: list[pytest.Mark] = getattr(function, "pytestmark", [])
    columns = [_read(mark) for mark in marks if mark.name == "parametrize"]
    read = [column for column in columns if column is not None]
    given = [name for column in read for name in column.names]
    if not read or len(read) < len(columns) or {mark.name for mark in marks} & APART:
        return None
    fixtures = set(inspect.signature(function).parameters) - set(given)
    if hasattr(function, "hypothesis"):
        return None
    run = _make_test(function, read, fixtures)
    cast("Any", run).pytestmark = [mark for mark in marks if mark.name != "parametrize"]
    made: pytest.Function = pytest.Function.from_parent(module, name=name, callobj=run)
    definitions = made._fixtureinfo.name2fixturedefs
    lasting = fixtures - FOR_EACH_CASE - {EMPTIED}
    is_lasting = all(name in definitions and definitions[name][-1].scope != "function" for name in lasting)
    takes_values = set(given) & set(made._fixtureinfo.names_closure)
    has_parameters = any(each.params for found in definitions.values() for each in found)
    return made if is_lasting and not takes_values and not has_parameters else None


def _read(mark: pytest.Mark) -> Column | None:
    """Read `parametrize`; None if fixtures take its values, if cases have marks, or if they can be read only once."""
    if len(mark.args) != 2 or mark.kwargs.keys() - {"ids"} or not isinstance(mark.args[1], Collection):
        return None
    given, values = mark.args
    names = tuple(name.strip() for name in given.split(",")) if isinstance(given, str) else tuple(given)
    is_alone = isinstance(given, str) and len(names) == 1
    rows = []
    for value in values:
        if isinstance(value, PARAMETERS) and (value.marks or value.id):
            return None
        row = value.values if isinstance(value, PARAMETERS) else (value,) if is_alone else value
        rows.append(row)
    return Column(names, tuple(rows), mark.kwargs.get("ids"))


def _make_test(
    function: Callable[..., object], columns: Sequence[Column], fixtures: Collection[str]
) -> Callable[..., None]:
    def run(tmp_path: Path | None = None, **lasting: Any) -> None:
        __tracebackhide__ = True
        failures: dict[str, BaseException] = {}
        skipped: list[BaseException] = []
        cases = combine([len(column.rows) for column in columns])
        for number, positions in enumerate(cases):
            arguments = {**lasting, **dict(_arguments(columns, positions))}
            try:
                with pytest.MonkeyPatch.context() as monkeypatch:
                    if "monkeypatch" in fixtures:
                        arguments["monkeypatch"] = monkeypatch
                    if tmp_path:
                        arguments["tmp_path"] = tmp_path / str(number)
                        arguments["tmp_path"].mkdir()
                    if EMPTIED in lasting:
                        lasting[EMPTIED].readouterr()
                    function(**arguments)
            except pytest.skip.Exception as error:
                skipped.append(error)
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised below
                failures["-".join(map(Column.describe, columns, positions))] = error
        if failures:
            names, first = [*failures], next(iter(failures.values()))
            first.add_note("\n".join([f"the case: {names[0]}", *(f"also: {name}" for name in names[1:])]))
            raise first
        if cases and len(skipped) == len(cases):
            raise skipped[0]

    run.__name__ = run.__qualname__ = function.__name__
    run.__module__, run.__doc__ = function.__module__, function.__doc__
    asked = sorted(name for name in fixtures if name != "monkeypatch")
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in asked]
    cast("Any", run).__signature__ = inspect.Signature(parameters)  # what pytest reads
    return run


def _arguments(columns: Sequence[Column], positions: Sequence[int]) -> Iterator[tuple[str, Any]]:
    for column, position in zip(columns, positions, strict=True):
        yield from zip(column.names, column.rows[position], strict=True)
