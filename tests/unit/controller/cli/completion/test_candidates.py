"""What may come next on a command line."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest

from controller.cli import main
from controller.cli.completion.candidates import Directive, complete
from controller.cli.completion.scripts import SCRIPTS
from controller.cli.parsing.listing import list_verbs

NAMES = ("shop", "shop-test", "web")
FILES, NO_FILES = Directive.FILES, Directive.NO_FILES


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
