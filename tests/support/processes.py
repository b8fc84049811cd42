"""Other processes of this machine: found by what their command lines say, and their time of day."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from rukpak.controller.playground.processes import wait_for


def is_running(mark: str) -> bool:
    """Return whether a process has this text in its command line; arguments are separated by NUL."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


def wait_for_end(mark: str) -> None:
    """Wait until no process has this text in its command line: what was killed is gone a moment later."""
    wait_for(lambda: not is_running(mark), 10, "it has ended")


YEAR = 365.25 * 24 * 3600
COMPILER = "cc"


class SetClock:
    """Built in a folder. Skips the test without a C compiler: the shim is preloaded instead of libc's own functions."""

    def __init__(self, folder: Path) -> None:
        if not shutil.which(COMPILER):
            pytest.skip("needs a C compiler")
        self._file, library = folder / "shift", folder / "set_clock.so"
        source = Path(__file__).with_name("set_clock.c")
        subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        self.set(0)
        self.environment: Mapping[str, str] = {"LD_PRELOAD": str(library), "SET_CLOCK_FILE": str(self._file)}
        """Of the process."""

    def set(self, ahead: float) -> None:
        """Let the time of day be so many seconds ahead from now on."""
        with self._file.open("r+b" if self._file.exists() else "w+b") as file:
            file.write(struct.pack("=q", int(ahead)))
