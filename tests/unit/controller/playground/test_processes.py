from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rukpak.controller.playground.processes import (
    FIRST,
    LAST,
    OWNER,
    Process,
    free_ports,
    kill_noted,
    make_owned_folder,
    record_control_groups,
    running_process,
    take_away,
    take_away_orphans,
    wait_for,
    write_note,
)

SLEEP = ["sleep", "600"]


def test_a_process_is_started_killed_and_started_again(tmp_path: Path) -> None:
    process = Process("sleep", tmp_path, SLEEP)
    for _ in range(2):
        process.start()
        assert process.is_running()
        process.kill()
        assert not process.is_running()


def test_its_output_is_kept_over_restarts(tmp_path: Path) -> None:
    process = Process("echo", tmp_path, ["sh", "-c", "echo one; echo $TWO >&2"], {"TWO": "two"})
    for _ in range(2):
        process.start()
        assert process.wait(60) == 0
    assert process.last_words(3) == "two\none\ntwo"


def test_one_that_ends_while_it_is_waited_for_is_told_with_its_last_words(tmp_path: Path) -> None:
    process = Process("brief", tmp_path, ["sh", "-c", "echo no such flag; until [ -e end ]; do sleep 0.02; done"])
    process.start()
    process.wait_until(lambda: "flag" in process.last_words(), 60, "its output")
    (tmp_path / "end").touch()
    with pytest.raises(RuntimeError, match="brief ended: no such flag"):
        process.wait_until(lambda: False, 60, "what never comes")


def test_termination_gives_the_exit_status(tmp_path: Path) -> None:
    process = Process("polite", tmp_path, ["sh", "-c", "trap 'exit 3' TERM; while :; do sleep 0.02; done"])
    process.start()
    wait_for(lambda: process.is_catching(signal.SIGTERM), 60, "trap set")
    assert not process.is_catching(signal.SIGUSR1)
    assert process.terminate(10) == 3


def test_one_that_does_not_end_in_time_is_reported(tmp_path: Path) -> None:
    process = Process("stubborn", tmp_path, ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.02; done"])
    process.start()
    wait_for(lambda: "ready" in process.last_words(), 60, "trap set")
    with pytest.raises(subprocess.TimeoutExpired):
        process.terminate(0.1)
    process.kill()


def test_one_that_cannot_be_recorded_is_killed(tmp_path: Path) -> None:
    process = Process("sleep", tmp_path, SLEEP)
    (tmp_path / "sleep.pid").mkdir()
    with pytest.raises(IsADirectoryError):
        process.start()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_another_process_can_end_what_was_noted(tmp_path: Path) -> None:
    process = Process("sleep", tmp_path, SLEEP)
    process.start()
    script = (
        "import pathlib; from rukpak.controller.playground.processes import take_away; "
        f"take_away(pathlib.Path({str(tmp_path)!r}))"
    )
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[3], check=True, timeout=120)
    assert not process.is_running()
    assert not tmp_path.exists()


def test_a_process_that_got_a_noted_id_later_is_left_alone(tmp_path: Path) -> None:
    note = tmp_path / "other.pid"
    note.write_text(f"{os.getpid()} 1")
    assert running_process(note) is None
    kill_noted(note)


@pytest.mark.parametrize("text", ["", "12", "half a note of"], ids=["empty", "without start time", "of something else"])
def test_a_note_that_cannot_be_read_names_nothing(text: str, tmp_path: Path) -> None:
    note = tmp_path / "broken.pid"
    note.write_text(text)
    assert running_process(note) is None


def test_the_folder_of_an_owner_that_runs_is_kept(tmp_path: Path) -> None:
    folders = [make_owned_folder(tmp_path, "cluster") for _ in range(2)]
    take_away_orphans(tmp_path)
    assert all(folder.is_dir() for folder in folders)
    assert folders[0] != folders[1]


def test_what_an_owner_left_behind_is_killed_and_removed(tmp_path: Path) -> None:
    left_behind = make_owned_folder(tmp_path, "cluster")
    process = Process("sleep", left_behind, SLEEP)
    process.start()
    (left_behind / OWNER).write_text(f"{os.getpid()} 1")
    kept = make_owned_folder(tmp_path, "cluster")
    assert not process.is_running()
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]


def test_a_folder_without_owner_is_somebodys_to_keep(tmp_path: Path) -> None:
    (tmp_path / "named").mkdir()
    take_away_orphans(tmp_path)
    assert (tmp_path / "named").is_dir()
    take_away(tmp_path / "named")
    assert not (tmp_path / "named").exists()


def test_control_groups_go_with_the_folder_that_records_them(tmp_path: Path) -> None:
    groups = [tmp_path / "cpu/node-1", tmp_path / "memory/node-1"]
    (tmp_path / "folder").mkdir()
    (groups[0] / "pods/one").mkdir(parents=True)
    record_control_groups(tmp_path / "folder/node-1.cgroups", groups)
    take_away(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["cpu"]
    assert list((tmp_path / "cpu").iterdir()) == []


def test_a_note_holds_only_while_its_process_runs(tmp_path: Path) -> None:
    with subprocess.Popen(SLEEP) as child:
        note = tmp_path / "child.pid"
        write_note(note, child.pid)
        assert running_process(note) == child.pid
        child.kill()
    assert running_process(note) is None


def test_the_first_true_value_is_returned() -> None:
    values = iter([None, "", 0, "here"])
    assert wait_for(lambda: next(values), 60, "a value") == "here"


def test_what_is_waited_for_is_told_when_it_does_not_come() -> None:
    with pytest.raises(TimeoutError, match=r"^timed out after 0\.01 s: pods Ready$"):
        wait_for(lambda: False, 0.01, "pods Ready")


def test_ports_are_free_and_outside_of_what_outgoing_connections_take() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(FIRST <= port < LAST for port in ports)
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass
