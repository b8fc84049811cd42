"""Limits of a program that is started."""

from __future__ import annotations

import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from api.plugins import Access, Credentials, Means
from controller.confinement import confined
from controller.formats.helm.child import run_guarded
from controller.sources.git_connection import connect
from controller.sources.git_process import GitRunner
from controller.sources.git_reference import parse_repository

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


@contextmanager
def again_and_again(*calls: Callable[[], object]) -> Iterator[None]:
    """Make each call on a thread of its own, over and over until the end of the block."""
    ended = threading.Event()

    def go_on(call: Callable[[], object]) -> None:
        while not ended.is_set():
            call()

    threads = [threading.Thread(target=go_on, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_what_is_written_to_be_started_can_be_while_other_programs_are(tmp_path: Path) -> None:
    access = Access(path="s", deadline=time.monotonic() + 60, cancelled=threading.Event(), scratch=tmp_path)
    repository = parse_repository("ssh://git@127.0.0.1/x")
    known = Credentials(ssh_private_key="key", known_hosts="hosts")
    ours = Access(path="s", deadline=access.deadline, cancelled=access.cancelled, scratch=tmp_path, credentials=known)

    def helm() -> object:
        return run_guarded(["/bin/true"], b"", Means(scratch=tmp_path), "c")

    def git() -> object:
        return GitRunner(access, tmp_path).run("version")

    with again_and_again(helm, helm, git, git):
        for _ in range(150):
            program = connect(repository, {}, ours).environment["GIT_SSH"]
            subprocess.run([program, "-V"], check=True, capture_output=True)
