"""The program as separate processes: the controller, which can be stopped or killed during its work, and commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rukpak.controller.cli.parser import Parser
from rukpak.controller.playground.processes import Process, wait_for
from rukpak.controller.settings import Settings, add_options, settings_of
from tests.support import forking
from tests.support.forking import ForkedProcess

PROGRAM = (sys.executable, "-m", "rukpak")
HEEDED_AT_START = frozenset({"PYTHONPATH", "LD_PRELOAD"})
COMMAND_SECONDS = 90.0
START_SECONDS = 30.0
STOP_SECONDS = 5.0
"""A promise: SIGTERM ends the controller within this time."""


class Controller:
    """One controller for one cluster. Its content store is in its folder and survives `kill` and `start`.

    Args:
        folder: of log and store.
        kubeconfig: of the cluster.
        options: of `rukpak run`.
        environment: added to that of this process.
        program: the command before `run`. Without one, it is forked from a process that has loaded all modules
            (`forking.py`), unless the environment holds what only a program that starts heeds.
    """

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        *options: str,
        environment: Mapping[str, str],
        program: Sequence[str] = (),
    ) -> None:
        program = program or (PROGRAM if HEEDED_AT_START & environment.keys() else ())
        command = [*program, "run", "--log-format=json", "--log-level=debug", *options]
        variables = {
            "KUBECONFIG": str(kubeconfig),
            "RUKPAK_STORE": str(folder / "store"),
            "RUKPAK_METRICS_ADDRESS": "127.0.0.1:0",
            "RUKPAK_PROBE_ADDRESS": "127.0.0.1:0",
            **environment,
        }
        kind = Process if program else ForkedProcess
        self._process = kind("controller", folder, command, variables)
        self._log_begins = 0

    def start(self) -> None:
        """Start it. Returns before it has connected: wait for an effect."""
        self._process.start()

    def stop(self) -> None:
        """Send SIGTERM once it has a handler; fail unless it exits with status 0 in time."""
        self.wait_for(lambda: self._process.is_catching(signal.SIGTERM), START_SECONDS, "it catches SIGTERM")
        status = self._process.terminate(STOP_SECONDS)
        assert status == 0, f"exit status {status}: {self._process.last_words(20)}"

    def kill(self) -> None:
        """Send SIGKILL; nothing if it is gone already."""
        self._process.kill()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def is_running(self) -> bool:
        """Return whether it runs."""
        return self._process.is_running()

    def threads(self) -> int:
        """Return how many threads it has."""
        return self._process.threads()

    def address(self, option: str) -> str:
        """Return the URL that it has logged since its last start; empty before that."""
        lines = [line for line in self._read_log(0).splitlines() if line.startswith("{") and "listening" in line]
        said = [record["address"] for line in lines if (record := json.loads(line))["option"] == option]
        return said[-1] if said else ""

    @property
    def log(self) -> str:
        """Return its log since its first start, or since `begin_log`."""
        return self._read_log(self._log_begins)

    def begin_log(self) -> None:
        """Let the log begin here: what was said before is of no concern to a file that it is lent to."""
        self._log_begins = self._process.log.stat().st_size

    def _read_log(self, position: int) -> str:
        with self._process.log.open("rb") as log:
            log.seek(position)
            return log.read().decode("utf-8")

    def wait_for(self, condition: Callable[[], object], timeout: float, describe: str) -> None:
        """Wait for a condition while it runs; the error contains the end of its log.

        Raises: TimeoutError; AssertionError if it exits.
        """

        def is_fulfilled() -> bool:
            assert self.is_running(), f"the controller ended: {self._process.last_words(20)}"
            return bool(condition())

        wait_for(is_fulfilled, timeout, lambda: f"{describe}; the controller says: {self._process.last_words(20)}")


Rukpak = Callable[..., subprocess.CompletedProcess[str]]


def command(kubeconfig: Path) -> Rukpak:
    """Return a function that runs `rukpak` against a cluster and asserts its exit status unless `status` is None."""

    def run(*words: str, status: int | None = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = forking.run(words, os.environ | {"KUBECONFIG": str(kubeconfig)}, stdin, COMMAND_SECONDS)
        assert status is None or done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings; on a mistake, print it and exit with status 2."""
    parser = Parser("run")
    add_options(parser, environment)
    settings = settings_of(parser.read(arguments))
    if problem := settings.problem():
        parser.error(problem)
    return settings
