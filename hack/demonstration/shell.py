"""Commands as a user would type them: printed and run by bash, with their output printed below.

Each command has a deadline and its own session, so that all its processes can be stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

SECONDS = 75.0
"""Deadline of a command; `kubectl wait` has a shorter one."""
END_SECONDS = 15.0
"""Time for an interrupted command to clean up."""


class CommandError(Exception):
    """A command failed or timed out."""


class Shell:
    """Runs commands in one folder.

    Args:
        folder: the working folder.
        environment: added to that of this process; changes take effect with the next command.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self.environment = dict(environment)

    def tell(self, text: str) -> None:
        print(text, flush=True)

    def run(self, command: str) -> None:
        """Print a command, run it, and print its output.

        Raises: CommandError.
        """
        self.tell(f"$ {command}")
        with self._start(command) as running:
            for line in running.lines():
                self.tell(line)
            running.check()

    def look(self, command: str) -> str:
        """Run a command without printing it, and return its output.

        Raises: CommandError.
        """
        with self._start(command) as running:
            said = "\n".join(running.lines())
            running.check(said)
        return said

    def _start(self, command: str) -> _Running:
        return _Running(command, self._folder, os.environ | self.environment)


class _Running:
    """A command that ends with the `with` block at the latest."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._command = command
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._late = False
        self._deadline = threading.Timer(SECONDS, self._end_late)

    def __enter__(self) -> Self:
        self._deadline.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._deadline.cancel()
        self._end()

    def lines(self) -> Iterator[str]:
        assert self._process.stdout is not None  # noqa: S101 -- for the type checker: it is a pipe
        for line in self._process.stdout:
            yield line.rstrip("\n")

    def check(self, said: str = "") -> None:
        """Wait until it has finished successfully.

        Raises: CommandError.
        """
        status = self._process.wait(END_SECONDS)
        command = self._command.splitlines()[0]
        if self._late:
            raise CommandError(f"{command}: timed out after {SECONDS:g} s")
        if status:
            raise CommandError(f"{command}: exit status {status} {said}".rstrip())

    def _end_late(self) -> None:
        self._late = True
        self._end()

    def _end(self) -> None:
        """Interrupt it as a user would, and kill it if it does not exit."""
        if self._process.poll() is None:
            self._signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
            self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
