"""The scripts in real shells, with a program `rukpak` on PATH that runs this checkout. zsh and fish if installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controller.cli.completion.scripts import SCRIPTS

ASKED = {
    "bash": 'source "$0"; COMP_WORDS=({line}); COMP_CWORD={index}; _rukpak; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": "source $argv[1]; complete -C '{line}'",
}


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
