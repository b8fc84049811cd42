"""The guarded child: what git sees, what it may use, and that nothing of it is left."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from api.errors import BundleError
from api.plugins import Access, Limits, Network
from api.v1alpha2.conditions import Reason
from controller.sources.git import process as git_pace
from controller.sources.git import process as git_process
from controller.sources.git.connection import Connection
from controller.sources.git.process import GitFailed, GitRunner

# Git runs a command line for an alias that begins with "!": any program stands for git and its children here.
SHELL = {"alias.program": '!f() { eval "$1"; }; f'}


@pytest.fixture
def access(tmp_path: Path) -> Access:
    (tmp_path / "repository").mkdir()
    return Access(path="spec.git", deadline=time.monotonic() + 30, cancelled=threading.Event(), scratch=tmp_path)


def shell(access: Access, command: str, lines: tuple[str, ...] = ()) -> str:
    runner = GitRunner(access, access.scratch / "repository", Connection(config=SHELL))
    return runner.run("program", command, lines=lines).decode()


def stays(pid: int) -> bool:
    """Return whether a process goes on; what was killed is gone as soon as the kernel gets to it."""
    until = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < until:
        pass
    return is_running(pid)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_of_our_environment_is_seen(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_SSH", "GIT_CONFIG_PARAMETERS", "https_proxy", "LD_LIBRARY_PATH", "RUKPAK_SECRET"):
        monkeypatch.setenv(name, "canary")
    seen = shell(access, "env")
    assert "canary" not in seen
    names = {line.partition("=")[0] for line in seen.splitlines() if "=" in line}
    of_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    ours = {*git_process._KEPT, *git_process._ENVIRONMENT, *of_the_shell}
    assert {name for name in names if not name.startswith("GIT_")} <= ours


def test_settings_are_not_in_argv(access: Access) -> None:
    runner = GitRunner(
        access, access.scratch / "repository", Connection(config={**SHELL, "http.extraHeader": "canary"})
    )
    with runner.start("program", "echo $PPID; sleep 1") as child:
        assert b"canary" not in Path(f"/proc/{int(child.read_line())}/cmdline").read_bytes()
    assert runner.run("config", "http.extraHeader") == b"canary\n"


def test_input_and_output(access: Access) -> None:
    assert shell(access, "cat", ("one", "two")) == "one\ntwo\n"


def test_a_failure_carries_what_git_complains_of(access: Access) -> None:
    with pytest.raises(GitFailed) as caught:
        shell(access, "echo why >&2; exit 3")
    assert "why" in caught.value.complaint
    assert "why" not in str(caught.value)


def test_a_flood_of_complaints_is_cut(access: Access) -> None:
    with pytest.raises(GitFailed) as caught:
        shell(access, "yes | head -c 3000000 >&2; echo last >&2; exit 3")
    assert len(caught.value.complaint) <= git_process._COMPLAINT_BYTES
    assert caught.value.complaint.endswith("last\n")


def test_a_flood_of_output_is_refused(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_process, "OUTPUT_BYTES", 100_000)
    with pytest.raises(BundleError) as caught:
        shell(access, "yes")
    assert caught.value.reason is Reason.CONTENT_REJECTED


@pytest.mark.parametrize("how", ["deadline", "cancelled"])
def test_the_whole_group_is_killed(how: str, access: Access) -> None:
    note = access.scratch / "pid"
    access = replace(access, deadline=time.monotonic() + (0.5 if how == "deadline" else 30))
    if how == "cancelled":
        threading.Timer(0.3, access.cancelled.set).start()
    with pytest.raises(BundleError) as caught:
        shell(access, f"sh -c 'echo $$ > {note}; exec sleep 60' & wait")
    assert caught.value.reason is Reason.UNREACHABLE
    assert not stays(int(note.read_text()))


def test_a_server_that_keeps_git_waiting_is_given_up(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_pace, "RATE_SECONDS", 0.3)
    network = Network(idle_seconds=0.3)
    connection = Connection(protocols="ssh", config=SHELL)
    runner = GitRunner(replace(access, network=network), access.scratch / "repository", connection)
    started = time.monotonic()
    with pytest.raises(BundleError, match="it sends less than 16 KiB/s") as caught:
        runner.run("program", "exec sleep 60")
    assert caught.value.reason is Reason.UNREACHABLE
    assert time.monotonic() - started < 20


def test_what_git_works_on_alone_takes_its_time(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_pace, "RATE_SECONDS", 0.1)
    assert shell(replace(access, network=Network(idle_seconds=0.1)), "sleep 0.5; echo done") == "done\n"


def test_what_git_leaves_behind_is_killed(access: Access) -> None:
    pid = int(shell(access, "sleep 60 > /dev/null 2>&1 & echo $!"))
    assert not stays(pid)


def test_a_child_that_keeps_the_pipes_open_is_killed(access: Access) -> None:
    access = replace(access, deadline=time.monotonic() + 1)
    with pytest.raises(BundleError):  # its output never ends
        shell(access, "sleep 60 & echo $!")


@pytest.mark.parametrize("where", ["one", "two"])
def test_the_folder_has_a_budget(where: str, access: Access) -> None:
    access = replace(access, limits=Limits(compressed_bytes=1_000_000))
    folder = access.scratch / "repository"
    command = {
        "one": f"head -c 5000000 /dev/zero > {folder}/one",  # stopped by the kernel
        "two": f"for n in 1 2; do head -c 600000 /dev/zero > {folder}/$n; done; sleep 60",
    }
    with pytest.raises(BundleError) as caught:
        shell(access, command[where])
    assert caught.value.reason is Reason.CONTENT_REJECTED
    assert "the repository exceeds the limit of 1000000 bytes" in caught.value.message
    assert git_process.folder_bytes(folder) <= 1_200_000


def test_memory_has_a_budget(access: Access) -> None:
    access = replace(access, limits=replace(access.limits, program_bytes=50_000_000))
    (access.scratch / "repository" / "big").write_bytes(bytes(80_000_000))
    with pytest.raises(GitFailed) as caught:
        shell(
            access,
            f"git -c core.bigFileThreshold=1g hash-object --no-filters -t blob -w {access.scratch}/repository/big",
        )
    assert "emory" in caught.value.complaint


def test_a_watcher_that_fails_does_not_let_git_go_on(access: Access) -> None:
    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shell(replace(access, progress=fail), "sleep 60")


def test_progress_is_what_is_on_disk(access: Access) -> None:
    told: list[tuple[int, int]] = []
    access = replace(access, progress=lambda done, total: told.append((done, total)))
    shell(access, f"head -c 5000 /dev/zero > {access.scratch}/repository/x; sleep 0.3")
    assert told[-1] == (5000, 0)


def test_no_transport_but_the_one_that_is_named(access: Access) -> None:
    for url in ("ext::sh -c true", f"file://{access.scratch}", "git://127.0.0.1/x", "http://127.0.0.1:1/x"):
        with pytest.raises(GitFailed) as caught:
            GitRunner(access, access.scratch / "repository", Connection(protocols="https")).run("ls-remote", "--", url)
        assert "not allowed" in caught.value.complaint


def test_without_git_it_is_no_error_of_the_user(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("env", "prlimit"):
        os.symlink(shutil.which(name) or name, access.scratch / name)
    monkeypatch.setenv("PATH", str(access.scratch))
    with pytest.raises(RuntimeError, match="install git"):
        GitRunner(access, access.scratch / "repository").run("version")
