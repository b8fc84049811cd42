"""Commands and controllers of tests, forked from a process that has loaded all their modules.

Each is still a process of its own, with its own arguments, environment, folder and files; only loading, which takes
most of a command's processor time, happens once for each worker. What is about the start of the program itself, or
needs something that is decided when a process begins (a preloaded library, an installed package), runs the program.

As a program this is the process that forks: it reads requests from the socket that is its stdin, and answers each with
the process id. How a process ends is written to a pipe that came with its request. When the socket is closed, it kills
what still runs, and exits.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, NoReturn, cast

from rukpak.controller.playground.processes import KILL_SECONDS, Process, write_note

PROGRAM = (sys.executable, "-m", "tests.support.forking")
ROOT = Path(__file__).parents[2]
LARGEST_REQUEST = 1 << 20
READY_SECONDS = 120.0


class Forked:
    """A process that was forked: what `Process` needs of a `subprocess.Popen`.

    Args:
        command: the words after `rukpak`.
        folder: to work in.
        environment: all of it.
        files: stdin, stdout and stderr.

    Raises: OSError.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], files: Sequence[IO[bytes]]
    ) -> None:
        self.returncode: int | None = None
        self._end, told = os.pipe()
        try:
            request = json.dumps({"words": [*command], "folder": str(folder), "environment": dict(environment)})
            forker = _forker()
            socket.send_fds(forker, [request.encode()], [*(file.fileno() for file in files), told])
            self.pid = int(forker.recv(100))
        finally:
            os.close(told)

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while it runs."""
        return self._look(0.0)

    def wait(self, timeout: float) -> int:
        """Wait for the exit status. Raises: subprocess.TimeoutExpired."""
        status = self._look(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("rukpak", timeout)
        return status

    def terminate(self) -> None:
        """Send SIGTERM, unless it has ended."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _look(self, seconds: float) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], seconds)[0]:
            self.returncode = int(os.read(self._end, 100) or -signal.SIGKILL)
            os.close(self._end)
        return self.returncode


class ForkedProcess(Process):
    """A `Process` whose command is what follows `rukpak`."""

    def start(self) -> None:
        """Start it in its own session and append its output to the log. Raises: OSError."""
        with self.log.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            words = [str(word) for word in self._command]
            child = Forked(words, self._folder, os.environ | self._environment, (nothing, log, log))
        self._child = cast("subprocess.Popen[bytes]", child)
        write_note(self._note, child.pid)


def run(
    words: Sequence[str], environment: Mapping[str, str], stdin: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `rukpak` in a session without a terminal, and return what came of it.

    Raises: subprocess.TimeoutExpired, after it has been killed.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        given.write(stdin.encode())
        given.seek(0)
        child = Forked(words, Path.cwd(), environment, (given, output, errors))
        try:
            status = child.wait(timeout)
        finally:
            child.kill()
        said = [_read(file) for file in (output, errors)]
    return subprocess.CompletedProcess(["rukpak", *words], status, *said)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8")


@cache
def _forker() -> socket.socket:
    """Start the process that forks, and return the socket to it. It ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    with theirs:
        child = subprocess.Popen(PROGRAM, stdin=theirs.fileno(), cwd=ROOT, env=variables, start_new_session=True)
    atexit.register(_end, ours, child)
    ours.settimeout(READY_SECONDS)
    return ours


def _end(forker: socket.socket, child: subprocess.Popen[bytes]) -> None:
    forker.close()
    child.wait(KILL_SECONDS)


# the process that forks


def serve(requests: socket.socket) -> None:
    """Fork what is asked for until the socket is closed; return in each forked process, which is to run its command."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ends: dict[int, int] = {}
    while True:
        ready, *_ = select.select([requests.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            tell_ends(ends)
        if requests.fileno() in ready:
            message, files, *_ = socket.recv_fds(requests, LARGEST_REQUEST, 4)
            if not message:
                stop(ends)
            child = os.fork()
            if not child:
                for file in (woken, wake, *ends.values(), *files[3:]):
                    os.close(file)
                begin(json.loads(message), files[:3])
                return
            for file in files[:3]:
                os.close(file)
            ends[child] = files[3]
            requests.send(str(child).encode())


def tell_ends(ends: dict[int, int]) -> None:
    """Write how processes have ended to their pipes."""
    while ends:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        with open(ends.pop(child), "wb", buffering=0) as end, contextlib.suppress(BrokenPipeError):
            end.write(str(os.waitstatus_to_exitcode(status)).encode())


def stop(ends: Mapping[int, int]) -> NoReturn:
    """Kill what still runs, and exit."""
    for child in ends:
        os.kill(child, signal.SIGKILL)
    os._exit(0)


def begin(request: Mapping[str, object], files: Sequence[int]) -> None:
    """Set up a forked process as if it had been started by itself."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cast("str", request["folder"]))
    os.environ.clear()
    os.environ.update(cast("dict[str, str]", request["environment"]))
    sys.argv[:] = ["rukpak", *cast("list[str]", request["words"])]


if __name__ == "__main__":
    import rukpak.controller as everything

    for module in pkgutil.walk_packages(everything.__path__, "rukpak.controller."):
        importlib.import_module(module.name)
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as requests:
        serve(requests)

    from rukpak.controller.cli import main

    sys.exit(main(sys.argv[1:]))
