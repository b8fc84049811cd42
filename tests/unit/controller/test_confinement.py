"""Limits of a program that is started."""

from __future__ import annotations

import resource
import subprocess

import pytest

from controller.confinement import confined

SHOWN = "import resource as r; print([r.getrlimit(x) for x in (r.RLIMIT_FSIZE, r.RLIMIT_NOFILE, r.RLIMIT_CPU)])"


def said(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_limits_are_those_of_the_program_and_cannot_be_raised_again() -> None:
    command = confined(["python3", "-S", "-c", SHOWN], fsize=1000, nofile=99, cpu=7)
    assert said(command) == "[(1000, 1000), (99, 99), (7, 7)]"


def test_what_it_starts_has_them_too() -> None:
    assert said(confined(["sh", "-c", "prlimit --output=HARD --noheadings --nofile"], nofile=99)) == "99"


def test_more_than_we_may_have_ourselves_is_not_asked_for() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert f"--nofile={hard}" in confined(["true"], nofile=hard + 1)


def test_arguments_are_not_options_of_ours() -> None:
    assert said(confined(["echo", "--version", "-p"], core=0)) == "--version -p"


@pytest.mark.parametrize(("program", "status"), [("/nonexistent", 127), ("/etc/passwd", 126)])
def test_a_program_that_cannot_be_started_is_told_by_the_status(program: str, status: int) -> None:
    assert subprocess.run(confined([program], core=0), check=False, capture_output=True).returncode == status


def test_without_prlimit_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RuntimeError, match="install util-linux"):
        confined(["true"], core=0)
