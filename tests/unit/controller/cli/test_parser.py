"""Mistakes name the nearest valid word, help fits the terminal, and completion finds every word."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import pytest

from controller.cli.completion import list_flags, list_verbs, takes_names
from controller.cli.verbs import VERBS, make_parser


class Mistake(NamedTuple):
    name: str
    verb: str
    words: list[str]
    says: str


MISTAKES = [
    Mistake("a mistyped flag", "status", ["--wiat"], 'unknown flag "--wiat"; did you mean "--wait"?'),
    Mistake("with a value", "status", ["--timeuot=5m"], 'unknown flag "--timeuot"; did you mean "--timeout"?'),
    Mistake("a mistyped switch", "run", ["--no-leader-elct"], 'did you mean "--no-leader-elect"?'),
    Mistake("a flag like no other", "status", ["--frobnicate"], 'unknown flag "--frobnicate"\n'),
    Mistake("a shortened flag", "status", ["--obj"], 'unknown flag "--obj"; did you mean "--objects"?'),
    Mistake("one that is only a little like another", "history", ["shop", "--yes"], 'unknown flag "--yes"\n'),
    Mistake("a word with a start like another", "install", ["shop", "--set"], 'unknown flag "--set"\n'),
    Mistake("an empty word", "run", [""], 'unexpected argument ""\n'),
    Mistake("one word too many", "crd", ["now"], 'unexpected argument "now"\n'),
    Mistake("a form that does not exist", "status", ["-o", "jsno"],
            '-o/--output: "jsno" is not one of json, yaml, name, wide; did you mean "json"?'),
    Mistake("a template, which is kubectl's", "status", ["-o", "jsonpath={.status}"],
            'one of json, yaml, name, wide; use "kubectl get bd NAME -o jsonpath=TEMPLATE"\n'),
    Mistake("a flag without its value", "status", ["--timeout"], "--timeout: expected one argument"),
    Mistake("no duration", "status", ["--timeout=soon"], "--timeout: "),
    Mistake("a switch with another word", "run", ["--leader-elect=perhaps"], '"perhaps" is neither true nor false'),
]  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES, ids=attrgetter("name"))
def test_a_mistake_is_named_with_the_nearest_word(case: Mistake, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser(case.verb).read(case.words)
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 2)
    assert err.startswith(f"rukpak {case.verb}: ")
    assert case.says in err
    assert err.endswith(f'See "rukpak {case.verb} --help" for usage\n')


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_the_terminal_and_has_examples(verb: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    help_, _, examples = make_parser(verb).format_help().partition("\nexamples:\n")
    assert max(map(len, help_.splitlines())) <= min(columns, 100)
    assert examples.count("  rukpak ") == len(VERBS[verb].examples) > 0
    for odd in ("['']", "; ''", "==SUPPRESS==", "None"):
        assert odd not in help_


@pytest.mark.parametrize("verb", VERBS)
def test_the_first_flags_of_an_example_are_valid(verb: str) -> None:
    flags = {name for flag in list_flags(verb) for name in flag.names}
    words = [
        word for example in VERBS[verb].examples for word in example.partition(" | ")[0].partition(" > ")[0].split()
    ]
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= flags


# completion


def test_every_verb_is_listed_with_its_summary() -> None:
    assert list_verbs() == {name: verb.summary for name, verb in VERBS.items()}


def test_flags_are_listed_with_their_values() -> None:
    flags = {flag.names[-1]: flag for flag in list_flags("status")}
    assert flags["--output"].names == ("-o", "--output")
    assert flags["--output"].values == ("json", "yaml", "name", "wide")
    assert flags["--timeout"].takes_value
    assert not flags["--wait"].takes_value


def test_a_switch_is_listed_with_its_opposite() -> None:
    flags = {flag.names[-1]: flag for flag in list_flags("run")}
    assert not flags["--leader-elect"].takes_value
    assert not flags["--no-leader-elect"].takes_value
    assert flags["--log-format"].values == ("auto", "json", "text")


def test_completion_knows_which_verbs_take_names() -> None:
    found = {verb for verb in VERBS if takes_names(verb)}
    changes = {"pause", "resume", "reconcile", "approve", "deny", "push", "adopt"}
    assert found == {
        "status",
        "tree",
        "events",
        "logs",
        "history",
        "prune",
        "rollback",
        "diff",
        "permissions",
        "rights",
        *changes,
    }
