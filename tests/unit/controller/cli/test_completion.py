"""What may come next on a command line, and the scripts in real shells: zsh and fish if installed.

Mistakes name the nearest valid word, help fits the terminal, and completion finds every word.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from rukpak.controller.cli import main
from rukpak.controller.cli.completion import SCRIPTS, Directive, complete, list_flags, list_verbs
from rukpak.controller.cli.verbs import VERBS, make_parser

NAMES = ("shop", "shop-test", "web")
FILES, NO_FILES = Directive.FILES, Directive.NO_FILES
ASKED = {
    "bash": 'source "$0"; COMP_WORDS=({line}); COMP_CWORD={index}; _rukpak; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": "source $argv[1]; complete -C '{line}'",
}


@pytest.mark.parametrize(
    ("line", "words", "directive"),
    [
        (["st"], ["status"], NO_FILES),
        (["re"], ["resume", "reconcile", "render"], NO_FILES),
        (["help", "sta"], ["status"], NO_FILES),
        (["nonsense", ""], [], NO_FILES),
        (["status", "shop"], ["shop", "shop-test"], NO_FILES),
        (["status", "shop", ""], ["shop-test", "web"], NO_FILES),
        (["pause", "--wait", "w"], ["web"], NO_FILES),
        (["logs", "w"], ["web"], NO_FILES),
        (["status", "--obj"], ["--objects"], NO_FILES),
        (["crd", "-o", ""], ["yaml", "json", "name"], NO_FILES),
        (["crd", "--output", "j"], ["json"], NO_FILES),
        (["crd", "--output=j"], ["--output=json"], NO_FILES),
        (["crd", "--output", "=", "j"], ["json"], NO_FILES),
        (["crd", "--output", "="], ["yaml", "json", "name"], NO_FILES),
        (["run", "--log-level", "d"], ["debug"], NO_FILES),
        (["run", "--kubeconfig", "~/"], [], FILES),
        (["status", "--kubeconfig="], [], FILES),
        (["render", "./b"], [], FILES),
        (["install", "w"], ["web"], NO_FILES),
        (["install", "web", "--values", "v.yaml", "./b"], [], FILES),
        (["push", "./b"], [], FILES),
        (["push", "./bundle", "w"], ["web"], NO_FILES),
        (["tree", "web", ""], [], NO_FILES),
        (["render", "-f", ""], [], FILES),
        (["completion", ""], ["bash", "zsh", "fish"], NO_FILES),
        (["version", ""], [], NO_FILES),
    ],
    ids=str,
)
def test_what_may_come_next(line: list[str], words: list[str], directive: Directive) -> None:
    found = complete(line, lambda: NAMES)
    assert (list(found.words), found.directive) == (words, directive)


@pytest.mark.parametrize("line", [[], [""]], ids=["nothing", "an empty word"])
def test_every_verb_is_offered(line: list[str]) -> None:
    assert complete(line, lambda: NAMES).words == list_verbs()


@pytest.mark.parametrize("line", [["run", ""], ["status", "--"], ["cr"], ["crd", "-o", ""]], ids=" ".join)
def test_the_cluster_is_only_asked_for_names(line: list[str]) -> None:
    complete(line, lambda: pytest.fail("asked"))


def test_lines_are_those_that_kubectl_reads() -> None:
    assert list(complete(["sta"], lambda: NAMES).lines()) == ["status\tshow the state of BundleDeployments", ":4"]


def run(*words: str) -> str:
    output = io.StringIO()
    with redirect_stdout(output):
        assert main(words) == 0
    return output.getvalue()


def test_the_command_answers() -> None:
    assert run("__complete", "crd", "-o", "j") == "json\n:4\n"


def test_a_cluster_that_does_not_answer_completes_nothing(tmp_path: pytest.TempPathFactory) -> None:
    assert run("__complete", "status", "--kubeconfig", f"{tmp_path}/missing", "s") == ":4\n"


@pytest.mark.parametrize("shell", SCRIPTS)
def test_scripts_are_printed(shell: str) -> None:
    assert run("completion", shell) == SCRIPTS[shell]


def ask(shell: str, line: str, folder: Path) -> list[str]:
    """Return what a shell offers for the last word of a line."""
    if not (program := shutil.which(shell)):
        pytest.skip(f"no {shell} on PATH")
    script, rukpak = folder / "script", folder / "rukpak"
    script.write_text(SCRIPTS[shell])
    rukpak.write_text(f'#!/bin/sh\nexec {sys.executable} -m rukpak "$@"\n')
    rukpak.chmod(0o755)
    command = ASKED[shell].format(line=line, index=len(line.split()) - 1)
    done = subprocess.run(
        [program, "-c", command, script],
        env=os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [each.partition("\t")[0] for each in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ASKED)
@pytest.mark.parametrize(("line", "words"), [("rukpak crd -o j", ["json"]), ("rukpak version x", [])], ids=str)
def test_a_shell_offers_what_may_come_next(shell: str, line: str, words: list[str], tmp_path: Path) -> None:
    assert [each for each in ask(shell, line, tmp_path) if each] == words


def test_zsh_reads_its_script(tmp_path: Path) -> None:
    if not (program := shutil.which("zsh")):
        pytest.skip("no zsh on PATH")
    (tmp_path / "script").write_text(SCRIPTS["zsh"])
    subprocess.run([program, "-n", tmp_path / "script"], check=True)


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
    Mistake("a word that is nearly another", "install", ["a", "--sat"], 'unknown flag "--sat"; did you mean "--set"?'),
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
    before, _, rest = make_parser(verb).format_help(is_whole=True).partition("\nexamples:\n")
    examples, _, after = rest.partition("\n\n")
    help_ = before + after
    assert max(map(len, help_.splitlines())) <= min(columns, 100)
    assert examples.count("  rukpak ") == len(VERBS[verb].examples) > 0
    for odd in ("['']", "; ''", "==SUPPRESS==", "None"):
        assert odd not in help_


MOST_LINES_BEFORE, MOST_LINES = 11, 90
"""Lines of help before the first example, and in all, on a terminal of 80 columns."""


@pytest.mark.parametrize("verb", VERBS)
def test_help_begins_with_examples_and_says_where_the_rest_is(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parser, output = make_parser(verb), io.StringIO()
    lines = parser.format_help().splitlines()
    assert lines.index("examples:") <= MOST_LINES_BEFORE
    assert len(lines) <= MOST_LINES or verb == "run"
    with redirect_stdout(output), pytest.raises(SystemExit, match="0"):
        parser.read(["--help=all"])
    whole = output.getvalue()
    assert all(flag.lstrip("-") in whole for action in parser.actions() for flag in action.option_strings)
    assert ("--help=all" in " ".join(lines)) is (len(whole.splitlines()) > len(lines))


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
    found = {
        verb
        for verb in VERBS
        if any(action.metavar == "NAME" and not action.option_strings for action in make_parser(verb).actions())
    }
    changes = {"pause", "resume", "reconcile", "approve", "deny", "push", "install", "adopt"}
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
        "verify",
        *changes,
    }
