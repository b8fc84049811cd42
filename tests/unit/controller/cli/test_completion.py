"""What may come next on a command line, and the scripts in real shells: zsh and fish if installed."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from controller.cli import main
from controller.cli.completion import SCRIPTS, Directive, complete, list_verbs

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
    rukpak.write_text(f'#!/bin/sh\nexec {sys.executable} -m controller "$@"\n')
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
@pytest.mark.parametrize(
    ("line", "words"), [("rukpak sta", ["status"]), ("rukpak crd -o j", ["json"]), ("rukpak version x", [])], ids=str
)
def test_a_shell_offers_what_may_come_next(shell: str, line: str, words: list[str], tmp_path: Path) -> None:
    assert [each for each in ask(shell, line, tmp_path) if each] == words


def test_zsh_reads_its_script(tmp_path: Path) -> None:
    if not (program := shutil.which("zsh")):
        pytest.skip("no zsh on PATH")
    (tmp_path / "script").write_text(SCRIPTS["zsh"])
    subprocess.run([program, "-n", tmp_path / "script"], check=True)
