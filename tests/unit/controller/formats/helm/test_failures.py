"""Values are removed from the messages of Helm, in time that a chart cannot prolong."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.api.plugins import ProgramResult
from rukpak.controller.formats.helm.failures import HIDDEN, explain, make_redactor, needs_lookup
from tests.support.charts import write

MOST_SECONDS = 3.0
"""Processor time of the thread; 1.4 have been seen where the machine is busy."""


class Case(NamedTuple):
    name: str
    text: str
    values: Any
    expect: str


CASES = [
    Case("a value", "x hunter2 y", ["hunter2"], "x … y"),
    Case("a value within a word", "xhunter2y", ["hunter2"], "x…y"),
    Case("a value that is no secret for being short", "x abc y", ["abc"], "x abc y"),
    Case("the longer of two values that begin alike", "x tiger33 y", ["tiger", "tiger33"], "x … y"),
    Case("values that overlap", "x tigerlily y", ["tigerl", "erlily"], "x … y"),
    Case("values side by side", "tigerlily", ["tiger", "lily"], "……"),
    Case("a value of several lines", "x one two y", ["one\n  two"], "x … y"),
    Case("a value as Go quotes it", r"x say \"hi\"\n y", ['say "hi"\n'], "x … y"),
    Case("a number", "x 1234567 y", [{"a": 1234567}], "x … y"),
    Case("a number as a float64", "x 1.234567e+06 y", [{"a": 1234567}], "x … y"),
    Case("digits that Python does not write", "x y", [10**5000], "x y"),
    Case("a value that goes on behind what is shown", "x " + "long" * 1000, ["long" * 1000], "x …"),
    Case("a value that goes on behind what is read", "x " + "long" * 9000, ["long" * 9000], "x …"),
    Case("a value that begins with many blanks", "x secret", ["a" + " " * 20000 + "secret"], "withheld"),
    Case("a value that is nested deep", "x hunter2", [[[[[{"a": [{"b": "hunter2"}]}]]]]], "x …"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_redacted(case: Case) -> None:
    shown = make_redactor([case.values])(case.text)
    if case.expect == "withheld":
        assert "is not shown" in shown
    else:
        assert shown.rstrip(HIDDEN) == case.expect.rstrip(HIDDEN)


@given(
    st.text(st.characters(categories=["L", "N"]), min_size=4, max_size=3000),
    st.integers(0, 2500),
    st.integers(0, 3000),
)
def test_the_start_of_a_value_is_not_shown_at_the_end_of_the_text(secret: str, before: int, after: int) -> None:
    shown = make_redactor([secret])("." * before + secret + "." * after)
    assert secret[:4] not in shown


def many() -> list[str]:
    return [f"value-{number:06}" for number in range(200_000)]


def alike() -> list[str]:
    return ["a" * length for length in range(4, 3000)]


def long() -> list[str]:
    return [f"{number}" + "b" * 500_000 for number in range(30)]


def wild() -> list[str]:
    return ["\x01\n" * 300_000 + str(number) for number in range(20)]


PIECES = (
    *("a", "value-", "template: a:1: ", "a: ", "x\n", ": error at (", "\x01", "- (root): value-000001 \n"),
    *(":1", "a:1\n", 'a:1:1\n  executing "a" at <b>:\n    value-000001\n', "\n  executing "),
)
COMPLAINTS = [
    *((piece, alike) for piece in PIECES),
    *zip(("value-", "a", "\x01"), (many, long, wild), strict=True),
]


@pytest.mark.parametrize(("piece", "values"), COMPLAINTS)
def test_no_complaint_takes_long(piece: str, values: Callable[[], list[str]]) -> None:
    """One of 256 KiB, which is all that is read, takes sixteen times as long."""
    complaint = "Error: " + piece * (16 * 1024 // len(piece))
    given_values = values()
    started = time.thread_time()
    message = explain(ProgramResult(status=1, output=b"", stderr=complaint), "c", [{"a": given_values}]).message
    assert time.thread_time() - started < MOST_SECONDS
    assert len(message) < 2000


def test_a_message_about_a_schema_is_short() -> None:
    head = "Error: values don't meet the specifications of the schema(s) in the following chart(s):\n"
    complaint = head + "c" * 100_000 + ":\n" + "x\n" * 50_000
    assert len(explain(ProgramResult(status=1, output=b"", stderr=complaint), "c", []).message) < 2000


def test_with_too_many_values_the_message_is_withheld() -> None:
    assert "is not shown" in make_redactor([["x"] * 300_000])("x")


CALL = '{{ $s := lookup "v1" "Secret" "a" "b" }}'
HELPER = f'{{{{ define "h" }}}}{CALL}{{{{ end }}}}'
FAILED_IN_A = "execution error at (c/templates/a.yaml:1:3): no"


@dataclass(frozen=True)
class Lookup:
    name: str
    files: dict[str, str]
    expect: bool
    error: str = FAILED_IN_A


# fmt: off
LOOKUPS = [
    Lookup("the file that failed", {"templates/a.yaml": CALL}, True),
    Lookup("another file", {"templates/a.yaml": "", "templates/b.yaml": CALL}, False),
    Lookup("a template that it includes",
           {"templates/a.yaml": '{{ include "h" . }}', "templates/_h.tpl": HELPER}, True),
    Lookup("a template that it includes and that is not defined", {"templates/a.yaml": '{{ template "x" . }}'}, False),
    Lookup("a template of a dependency",
         {"templates/a.yaml": '{{ include "g" . }}',
          "templates/_g.tpl": '{{ define "g" }}{{ include "h" . }}{{ end }}',
          "charts/common-1.unpacked/templates/_h.tpl": HELPER}, True),
    Lookup("a template that includes itself",
         {"templates/a.yaml": '{{ define "h" }}{{ include "h" . }}{{ end }}'}, False),
    Lookup("a file of a dependency, by the path that Helm gives it",
         {"charts/d-1.unpacked/templates/s/a.yaml": CALL}, True,
         "template: c/charts/d/templates/s/a.yaml:1:3: executing"),
    Lookup("one of several files that the error names", {"templates/b.yaml": CALL}, True,
         'c/templates/a.yaml:1:3\n  executing "a" at <b>:\n    error calling include:\nc/templates/b.yaml:1:3\n  x'),
    Lookup("a value of that name", {"templates/a.yaml": "{{ .Values.lookup.x }} # lookup of names"}, False),
    Lookup("no file", {"templates/a.yaml": CALL}, False, "chart requires kubeVersion"),
    Lookup("templates that are too large", {"templates/a.yaml": CALL + " " * (8 << 20)}, False),
    Lookup("what is no template", {"files/a.yaml": CALL}, False),
]
# fmt: on


@pytest.mark.parametrize("case", LOOKUPS, ids=attrgetter("name"))
def test_lookup_is_reached_by(case: Lookup, tmp_path: Path) -> None:
    write(tmp_path, {path: text.encode() for path, text in case.files.items()})
    assert needs_lookup(tmp_path, case.error) is case.expect


@pytest.mark.parametrize("piece", ["templates/", "templates/a:", "a", ":1", "templates/a.yaml:1 "])
def test_no_error_takes_long(piece: str, tmp_path: Path) -> None:
    write(tmp_path, {"templates/b.yaml": CALL.encode()})
    started = time.thread_time()
    assert not needs_lookup(tmp_path, piece * (256 * 1024 // len(piece)))
    assert time.thread_time() - started < 5
