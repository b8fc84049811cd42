"""What a test leaves behind: threads and child processes that still run, and changed settings of this process.

What was there before a test is not its own: the cluster of the session, the servers of the file. A test may restart
such a process, which is known by its command then.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import BaseServer
from typing import TypeVar

from tests.support.forking import PROGRAM as FORKER

Name = TypeVar("Name", bytes, str)
GRACE_SECONDS = 1.0
"""For what has been told to stop, on a machine with a processor for each that wants one."""
ROOT = f"{Path(__file__).parents[2]}/"
SIGNALS = tuple(each for each in signal.Signals if each <= signal.SIGTERM or each is signal.SIGCHLD)
"""What a program may handle."""
INTERVAL_SECONDS = 0.005
PYTEST_VARIABLES = frozenset({b"PYTEST_CURRENT_TEST"})
"""Changed by pytest itself, between the phases of a test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of this process, by what they are called."""

    variables: Mapping[bytes, object]
    levels: Mapping[str, object]
    """Of loggers."""
    handlers: Mapping[str, object]
    """Of signals."""
    files: Mapping[str, object]
    """What new files depend on."""


def read_settings() -> Settings:
    """Return the settings as they are now."""
    variables: dict[bytes, object] = dict(
        vars(os.environ)["_data"]
    )  # as bytes; decoding them takes longer than the rest
    for name in PYTEST_VARIABLES:
        variables.pop(name, None)
    loggers = [one for one in list(logging.root.manager.loggerDict.values()) if isinstance(one, logging.Logger)]
    return Settings(
        variables=variables,
        levels={one.name: one.level for one in (logging.root, *loggers)} | {"(all)": logging.root.manager.disable},
        handlers={one.name: signal.getsignal(one) for one in SIGNALS},
        files={"umask": _read_umask(), "working folder": _read_working_folder()},
    )


def _read_umask() -> str:
    # os.umask would change it for other threads; proc(5): the second line. Path would take longer than all the rest.
    status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(status, 100).split(b"Umask:")[1].split()[0].decode("ascii")
    finally:
        os.close(status)


def _read_working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "one that has been deleted"


def describe_changes(before: Settings, after: Settings) -> Iterator[str]:
    """Yield what is different; values of variables, which may be secret, are not shown."""
    for variable in _differing(before.variables, after.variables):
        yield f"the environment variable {os.fsdecode(variable)} has changed"
    for name in _differing(before.levels, after.levels):
        if name in before.levels:  # a library sets its own when it is imported
            yield f"the level of the logger {name} was {before.levels[name]} and is {after.levels[name]}"
    for name in _differing(before.handlers, after.handlers):
        yield f"the handler of {name} was {before.handlers[name]} and is {after.handlers[name]}"
    for name in _differing(before.files, after.files):
        yield f"the {name} was {before.files[name]} and is {after.files[name]}"


def _differing(before: Mapping[Name, object], after: Mapping[Name, object]) -> list[Name]:
    if before == after:
        return []
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def find_children() -> dict[int, str]:
    """Return the commands of child processes that have not exited, by process id."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return {}
    found = {}
    for thread in Path("/proc/self/task").iterdir():
        for process in _read(thread / "children").split():
            state = _read(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
            if state and state[0] not in "ZX":
                found[int(process)] = _read(Path(f"/proc/{process}/cmdline")).replace("\0", " ").strip()
    return found


def _read(path: Path) -> str:
    """Return the text of a file; nothing if its thread or process has ended."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _describe_place(thread: threading.Thread) -> str:
    """Return where it is, if possible in a file of this repository."""
    frame = sys._current_frames().get(thread.ident or 0)
    frames = traceback.extract_stack(frame) if frame else []
    ours = [one for one in frames if one.filename.startswith(ROOT)] or frames
    return f" ({ours[-1].filename.removeprefix(ROOT)}:{ours[-1].lineno})" if ours else ""


@dataclass(slots=True)
class Surroundings:
    """What is around the tests of a session."""

    commands: set[str] = field(default_factory=lambda: {" ".join(FORKER)})
    """Of all child processes that were there before some test, and of the one that forks others."""
    processes: set[int] = field(default_factory=set)
    """Their process ids."""
    _settings: Settings = field(default_factory=read_settings)
    _threads: frozenset[threading.Thread] = frozenset()

    def begin(self) -> None:
        """Remember what is there before a test, whose own fixtures come later.

        A process that has just been started has no command line for a moment.
        """
        self._settings = read_settings()
        self._threads = frozenset(threading.enumerate())
        deadline = time.monotonic() + GRACE_SECONDS
        while not all((children := find_children()).values()) and time.monotonic() < deadline:
            time.sleep(INTERVAL_SECONDS)
        self.commands.update(children.values())
        self.processes.update(children)

    def find_left(self) -> list[str]:
        """Return what the test has left, in sentences; what still runs is given time to end."""
        crowd = os.getloadavg()[0] / len(os.sched_getaffinity(0))
        deadline = time.monotonic() + GRACE_SECONDS * max(1.0, crowd)
        while (running := self._find_running()) and time.monotonic() < deadline:
            time.sleep(INTERVAL_SECONDS)
        return [*running, *describe_changes(self._settings, read_settings())]

    def _is_served(self, thread: threading.Thread) -> bool:
        """Whether a thread is about a connection to a server that was there before: clients keep some open."""
        server = getattr(getattr(thread, "_target", None), "__self__", None)
        if not isinstance(server, BaseServer):
            return False
        return any(getattr(one, "_target", None) == server.serve_forever for one in self._threads if one.is_alive())

    def _find_running(self) -> list[str]:
        threads = [one for one in threading.enumerate() if one not in self._threads and not self._is_served(one)]
        children = [
            (one, command)
            for one, command in find_children().items()
            if command not in self.commands and one not in self.processes
        ]
        return [
            *(f"the thread {one.name} is running{_describe_place(one)}" for one in threads),
            *(f"the process {one} is running: {command}" for one, command in children),
        ]
