"""The time of day of another process, which a test may set while that process runs; OpenSSL goes by it, too."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

YEAR = 365.25 * 24 * 3600
COMPILER = "cc"


class SetClock:
    """Built in a folder. Skips the test without a C compiler: the shim is preloaded instead of libc's own functions."""

    def __init__(self, folder: Path) -> None:
        if not shutil.which(COMPILER):
            pytest.skip("needs a C compiler")
        self._file, library = folder / "shift", folder / "set_clock.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        self.set(0)
        self.environment: Mapping[str, str] = {"LD_PRELOAD": str(library), "SET_CLOCK_FILE": str(self._file)}
        """Of the process."""

    def set(self, ahead: float) -> None:
        """Let the time of day be so many seconds ahead from now on."""
        with self._file.open("r+b" if self._file.exists() else "w+b") as file:
            file.write(struct.pack("=q", int(ahead)))
