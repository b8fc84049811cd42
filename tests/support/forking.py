"""A controller that is started and killed many times, forked from a process that has loaded all its modules.

Each controller is still a separate process; only loading, which takes most of a start, happens once.
As a program (`PROGRAM`, then the words of the command) this is the process that forks: it reads `start`, `poll` and
`kill` on stdin, line by line, and answers each with one line. When stdin ends, it kills its child and exits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from rukpak.controller.cli import main
from rukpak.controller.playground.processes import KILL_SECONDS, Process, write_note
from tests.support.controller import Controller

PROGRAM = (sys.executable, "-m", "tests.support.forking")
ROOT = Path(__file__).parents[2]


class ForkedController(Controller):
    """A controller as `Controller` is, but for `stop`. Ends for good with `close`."""

    def __init__(self, folder: Path, kubeconfig: Path, *options: str) -> None:
        super().__init__(folder, kubeconfig, *options, environment={}, program=PROGRAM)
        command, environment = self._process._command, self._process._environment
        self._process = self._forked = ForkedProcess("controller", folder, command, environment)

    def close(self) -> None:
        """Kill it, and end the process that it was forked off."""
        self._forked.close()


class ForkedProcess(Process):
    """A `Process` whose command begins with `PROGRAM`. Ends for good with `close`."""

    def start(self) -> None:
        """Start it; the first time, load its modules, too."""
        if self._child is None:
            self._load()
        self._ask("start")

    def is_running(self) -> bool:
        """Return whether it was started and has not ended."""
        return self._child is not None and self._ask("poll") == "running"

    def kill(self) -> None:
        """Send SIGKILL, and return when it is gone; nothing if it is gone already."""
        if self._child is not None:
            self._ask("kill")

    def close(self) -> None:
        """Kill it, and end the process that it was forked off."""
        if self._child is not None:
            self._child.communicate(timeout=KILL_SECONDS)
            self._note.unlink(missing_ok=True)

    def _load(self) -> None:
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=os.environ | self._environment | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        write_note(self._note, self._child.pid)

    def _ask(self, word: str) -> str:
        child = self._own_child()
        assert child.stdin
        assert child.stdout
        child.stdin.write(f"{word}\n".encode())
        child.stdin.flush()
        return child.stdout.readline().decode().strip()


# the process that forks


def serve(words: list[str]) -> None:
    """Carry out the commands on stdin."""
    child = 0
    for line in sys.stdin:
        match line.strip():
            case "start":
                child = fork(words)
            case "kill":
                end(child)
                child = 0
            case _:
                child = child if is_alive(child) else 0
        print("running" if child else "ended", flush=True)
    end(child)


def fork(words: list[str]) -> int:
    """Return the id of a new process that runs a command; its output is written to stderr."""
    if child := os.fork():
        return child
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os._exit(main(words))


def is_alive(child: int) -> bool:
    return bool(child) and os.waitpid(child, os.WNOHANG)[0] == 0


def end(child: int) -> None:
    """Kill a process, and return when it is gone."""
    if is_alive(child):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    import rukpak.controller.cli.run  # noqa: F401 -- so that all is loaded before the first fork

    serve(sys.argv[1:])
