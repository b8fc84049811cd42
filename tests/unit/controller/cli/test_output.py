"""The forms of results: what is written is read by Kubernetes as what it was made from."""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.views.texts import Color, Painted, is_colored, name_of, to_table, to_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def read(text: str) -> Any:
    (document,) = read_documents(text.encode(), "x")
    return document.value


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3))
def test_yaml_is_read_as_what_it_was_made_from(value: dict[str, Any]) -> None:
    assert read(to_yaml(value)) == value


ODD = ["on", "y", "NULL", "~", "1e3", "0o14", "0x1f", "1_000", ".5", "2001-01-01", "a: b", "a #b", "- a", "<<", "=", ""]
ODD += [
    "a\nb\n",
    " a\nb\n",
    "a\nb",
    "a\n\n",
    "\n",
    "a \nb\n",
    "a\tb",
    "a\r\nb\n",
    "\ufeffa",
    "{{ .x }}",
    "%a",
    "@a",
    "a ",
]


@pytest.mark.parametrize("text", ODD)
def test_a_string_stays_a_string(text: str) -> None:
    assert read(to_yaml({"a": text, text: [text]})) == {"a": text, text: [text]}


def test_words_and_scripts_are_readable() -> None:
    assert to_yaml({"kind": "ConfigMap", "image": "a/b", "run": "set -e\necho\n"}) == (
        "kind: ConfigMap\nimage: a/b\nrun: |\n  set -e\n  echo\n"
    )


def test_a_part_that_is_there_twice_is_written_twice() -> None:
    part = {"a": "b"}
    assert to_yaml({"x": part, "z": part}) == "x:\n  a: b\nz:\n  a: b\n"


def test_names_are_kubectls() -> None:
    assert name_of({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}) == "pod/a"
    assert name_of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}) == "deployment.apps/a"


def test_columns_of_a_table_are_as_wide_as_their_widest_cell() -> None:
    assert (
        to_table(("A", "B", "C"), [("long", "", "x y"), ("s", "b", "")]) == "A      B   C\nlong       x y\ns      b\n"
    )


def test_a_cell_is_on_one_line_and_its_control_characters_are_written_out() -> None:
    table = to_table(("NAME", "MESSAGE"), [("a\x1b[2J", "b\nc\u202ed\x7f")])
    assert table.splitlines()[1] == "a\\u001b[2J   b c\\u202ed\\u007f"


def test_colors_move_no_column() -> None:
    rows = [(Painted("True", Color.GREEN), "x"), (Painted("Unknown", Color.NONE), "y"), (Painted("", Color.RED), "z")]
    shown = to_table(("READY", "NAME"), rows)
    assert "\x1b[32mTrue\x1b[0m" in shown
    plain = shown.replace("\x1b[32m", "").replace("\x1b[0m", "")
    assert plain == to_table(("READY", "NAME"), [["True", "x"], ["Unknown", "y"], ["", "z"]])


def test_only_the_last_column_is_cut_at_the_width_of_a_terminal() -> None:
    shown = to_table(("NAME", "MESSAGE"), [("shop", "a" * 100), ("till", "b" * 33)], width=40).splitlines()
    assert shown == ["NAME   MESSAGE", f"shop   {'a' * 32}…", f"till   {'b' * 33}"]
    assert to_table(("NAME", "MESSAGE"), [("shop", "a" * 100)]).splitlines()[1].endswith("a" * 100)


class Choice(NamedTuple):
    name: str
    choice: str = "auto"
    is_terminal: bool = True
    variables: dict[str, str] = {}  # noqa: RUF012 - never changed
    colored: bool = False


CHOICES = [
    Choice("a terminal is colored", colored=True),
    Choice("a pipe is not", is_terminal=False),
    Choice("nor is a terminal with NO_COLOR", variables={"NO_COLOR": "1"}),
    Choice("which has to have a value", variables={"NO_COLOR": ""}, colored=True),
    Choice("nor is one that knows no colors", variables={"TERM": "dumb"}),
    Choice("always is always", "always", is_terminal=False, variables={"NO_COLOR": "1"}, colored=True),
    Choice("never is never", "never"),
]


@pytest.mark.parametrize("case", CHOICES, ids=attrgetter("name"))
def test_where_output_is_colored(case: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: case.is_terminal)
    for name, value in {"NO_COLOR": "", "TERM": "xterm", **case.variables}.items():
        monkeypatch.setenv(name, value)
    assert is_colored(case.choice) is case.colored
