from __future__ import annotations

import os
import subprocess
import threading
from typing import BinaryIO, cast

import pytest

from controller.processes.group import NICENESS, ProcessGroup, read_pipes
from tests.support.processes import wait_for_end

KILLED = -9


def start(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)


def nothing() -> None:
    pass


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -15 $$", -15)])
@pytest.mark.parametrize("check", [None, nothing], ids=["waiting", "checking"])
def test_how_the_program_ended_is_returned(script: str, status: int, check: None) -> None:
    with ProcessGroup(start(script)) as group:
        assert group.wait(check) == status


@pytest.mark.parametrize("check", [None, nothing], ids=["waiting", "checking"])
def test_what_the_program_leaves_is_killed_when_it_has_ended(check: None) -> None:
    with ProcessGroup(start("sleep 1061 >&- & exit 0")) as group:
        assert group.wait(check) == 0
    wait_for_end("sleep\x001061")


def test_the_whole_group_is_killed_when_the_block_fails() -> None:
    process = start("trap '' TERM; sleep 1062 & wait")
    with pytest.raises(ZeroDivisionError), ProcessGroup(process):
        raise ZeroDivisionError
    assert process.returncode == KILLED
    wait_for_end("sleep\x001062")


def test_a_check_that_raises_ends_the_wait() -> None:
    def check() -> None:
        raise TimeoutError

    process = start("sleep 1063")
    with pytest.raises(TimeoutError), ProcessGroup(process) as group:
        group.wait(check)
    assert process.returncode == KILLED


def test_nothing_is_killed_once_the_program_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    with ProcessGroup(start("exit 0")) as group:
        group.wait()
        monkeypatch.setattr("os.killpg", lambda *_: pytest.fail("its number may be that of another process"))
        group.kill()


def test_pipes_are_closed_at_the_end() -> None:
    process = start("exit 0")
    with ProcessGroup(process):
        pass
    assert cast("BinaryIO", process.stdout).closed


def test_all_that_comes_is_handed_on() -> None:
    taken = bytearray()
    process = start("echo one; sleep 0.1; echo two")
    with ProcessGroup(process):
        read_pipes({cast("BinaryIO", process.stdout): taken.extend}, nothing)
    assert taken == b"one\ntwo\n"


def test_a_pipe_that_somebody_holds_open_is_not_waited_for_once_all_has_ended() -> None:
    taken, ended = bytearray(), threading.Event()
    ended.set()
    process = start("echo one; sleep 1064")
    with ProcessGroup(process):
        while not taken:
            read_pipes({cast("BinaryIO", process.stdout): taken.extend}, nothing, ended)
    assert taken == b"one\n"


def test_a_check_is_called_while_nothing_comes() -> None:
    def check() -> None:
        raise TimeoutError

    process = start("sleep 1065")
    with pytest.raises(TimeoutError), ProcessGroup(process):
        read_pipes({cast("BinaryIO", process.stdout): lambda _: None}, check)


def test_what_a_program_computes_waits_for_what_the_controller_computes() -> None:
    process = start("sleep 60 & sleep 60")
    with ProcessGroup(process):
        assert os.getpriority(os.PRIO_PGRP, process.pid) == NICENESS
