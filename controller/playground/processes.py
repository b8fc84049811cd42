"""Child processes, recorded in a folder so that another process can also stop them, and free ports for them.

A record is a file `<name>.pid` with the process id and the start time, because ids are reused, or `<name>.cgroups` with
the paths of control groups. Deleting a folder kills the processes that are recorded in it, and removes the groups. It
may have an owner process; the next process deletes folders whose owner no longer exists.

`wait_for` waits for a condition with a deadline.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

KILL_SECONDS = 10.0
Value = TypeVar("Value")
SHORTEST_SECONDS = 0.05
LONGEST_SECONDS = 0.25
SHARE = 0.2
"""Part of the time that it took so far: most conditions are requests, and asking all the time keeps a core busy."""


def wait_for(condition: Callable[[], Value | None], timeout: float, describe: str | Callable[[], str]) -> Value:
    """Return the first true value of `condition`.

    Args:
        condition: called repeatedly; its exceptions are not caught.
        timeout: seconds.
        describe: what to wait for, for the error; a function is called at the end and can report the progress.

    Raises: TimeoutError.
    """
    begun = time.monotonic()
    while not (value := condition()):
        taken = time.monotonic() - begun
        if taken > timeout:
            described = describe if isinstance(describe, str) else describe()
            raise TimeoutError(f"timed out after {timeout:g} s: {described}")
        time.sleep(min(max(SHARE * taken, SHORTEST_SECONDS), LONGEST_SECONDS))
    return value


class Process:
    """A program that can be started and stopped any number of times.

    Args:
        name: of the record and of the log, `<name>.log`.
        folder: of both, and the working folder.
        command: program and arguments.
        environment: added to that of this process.
    """

    def __init__(
        self, name: str, folder: Path, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log, self._note = folder / f"{name}.log", folder / f"{name}.pid"
        self._folder = folder
        self._command = command
        self._environment = dict(environment or {})
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it in its own session and append its output to the log.

        Raises: OSError if it cannot be started or recorded. A process that cannot be recorded is killed, since
            no other process could find it.
        """
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=os.environ | self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            write_note(self._note, self._child.pid)
        except OSError:
            self.kill()
            raise

    def is_running(self) -> bool:
        """Return whether it was started and has not exited."""
        if self._child:
            return self._child.poll() is None
        return running_process(self._note) is not None

    @property
    def pid(self) -> int:
        """Its process id. Only for a child of this process."""
        return self._own_child().pid

    def is_catching(self, number: signal.Signals) -> bool:
        """Return whether it has installed a handler for a signal. Only for a running child of this process."""
        # proc(5): a mask in base 16, of which the lowest bit is signal 1.
        status = Path(f"/proc/{self._own_child().pid}/status").read_text(encoding="utf-8", errors="replace")
        caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
        return bool(int(caught, 16) >> (number - 1) & 1)

    def threads(self) -> int:
        """Return how many threads it has. Only for a running child of this process."""
        return len(list(Path(f"/proc/{self._own_child().pid}/task").iterdir()))

    def terminate(self, seconds: float) -> int:
        """Send SIGTERM and return the exit status. Only for a child of this process.

        Raises: subprocess.TimeoutExpired.
        """
        child = self._own_child()
        child.terminate()
        status = child.wait(seconds)
        self._note.unlink(missing_ok=True)
        return status

    def wait(self, seconds: float) -> int:
        """Wait until it exits and return the exit status. Only for a child of this process.

        Raises: subprocess.TimeoutExpired.
        """
        return self._own_child().wait(seconds)

    def wait_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for a condition that it brings about; `what` starts the message, which ends with the end of its log.

        Raises: TimeoutError; RuntimeError if it exits before.
        """

        def _is_fulfilled() -> bool:
            if not self.is_running():
                raise RuntimeError(f"{self.name} ended: {self.last_words()}")
            return condition()

        wait_for(_is_fulfilled, seconds, lambda: f"{what}: {self.last_words()}")

    def kill(self) -> None:
        """Send SIGKILL and wait for its end; do nothing if it is not running."""
        if self._child:
            self._child.kill()
            self._child.wait(KILL_SECONDS)
        else:
            kill_noted(self._note)
        self._note.unlink(missing_ok=True)

    def last_words(self, lines: int = 5) -> str:
        """Return the end of the log."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _own_child(self) -> subprocess.Popen[bytes]:
        if not self._child:
            raise RuntimeError(f"{self.name} was not started by this process")
        return self._child


def write_note(note: Path, process: int) -> None:
    """Record a running process, atomically."""
    unfinished = note.with_name(f".{note.name}.{os.getpid()}")
    unfinished.write_text(f"{process} {_start_time(process)}", encoding="ascii")
    unfinished.replace(note)


def running_process(note: Path) -> int | None:
    """Return the id of the recorded process, if it is still running."""
    try:
        process, started = note.read_text(encoding="ascii").split()
    except (FileNotFoundError, ValueError):
        return None
    return int(process) if started and _start_time(int(process)) == started else None


def kill_noted(note: Path) -> None:
    """Kill the recorded process, if it is still running, and wait for its end.

    Raises: TimeoutError.
    """
    process = running_process(note)
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + KILL_SECONDS
    while running_process(note) is not None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {process} does not exit")
        time.sleep(0.01)


def _start_time(process: int) -> str:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # proc(5): the second field is the name in parentheses, and may hold anything.
    state, *fields = text.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]


OWNER = "owner"


def make_owned_folder(root: Path, prefix: str) -> Path:
    """Create a folder that this process owns, and delete folders of processes that no longer exist."""
    root.mkdir(parents=True, exist_ok=True)
    take_away_orphans(root)
    number = 0
    while True:
        number += 1
        # The owner is recorded before the folder gets its name: folders without owner are never deleted here.
        unnamed = root / f".{os.getpid()}"
        unnamed.mkdir(exist_ok=True)
        write_note(unnamed / OWNER, os.getpid())
        folder = root / f"{prefix}-{os.getpid()}-{number}"
        if not folder.exists():
            return unnamed.rename(folder)


def take_away_orphans(root: Path) -> None:
    """Delete every folder whose owner no longer exists."""
    for owner in root.glob(f"*/{OWNER}"):
        if running_process(owner) is None:
            take_away(owner.parent)


def take_away(folder: Path) -> None:
    """Kill the processes of a folder, remove its control groups and delete it.

    Raises: TimeoutError.
    """
    for note in folder.glob("*.pid"):
        kill_noted(note)
    for note in folder.glob("*.cgroups"):
        for group in note.read_text(encoding="utf-8").splitlines():
            _remove_control_group(Path(group))
    shutil.rmtree(folder, ignore_errors=True)


def record_control_groups(note: Path, groups: Sequence[Path]) -> None:
    """Record control groups, which need not exist yet, for `take_away`."""
    note.write_text("".join(f"{group}\n" for group in groups), encoding="utf-8")


def _remove_control_group(group: Path) -> None:
    # The kernel forgets the processes of a group only after a while.
    deadline = time.monotonic() + KILL_SECONDS
    for folder in [*sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True), group]:
        while folder.exists():
            try:
                folder.rmdir()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"control group {folder}: {error.strerror}") from error
                time.sleep(0.01)


# Below Linux' range for outgoing connections (ip_local_port_range): our port must still be free when the
# program that listens on it is restarted.
FIRST, LAST = 10_000, 32_000


def free_ports(count: int) -> list[int]:
    """Return free ports, chosen at random because other processes look for some at the same time.

    Raises: OSError if there are too few.
    """
    candidates = random.sample(range(FIRST, LAST), 50 * count)
    found = [port for port in candidates if _is_free(port)]
    if len(found) < count:
        raise OSError("no free ports on 127.0.0.1")
    return found[:count]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
