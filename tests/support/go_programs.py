"""Small programs in Go, to compare with what other projects do. Each is built once per test run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_SECONDS = 280


class UnavailableError(Exception):
    """The program cannot be built here."""


def build(source: Path, program: Path) -> Path:
    """Build the module in a folder; return the program.

    Raises: UnavailableError without Go, or without the modules.
    """
    if not (go := shutil.which("go")):
        raise UnavailableError("no go on PATH")
    try:
        subprocess.run(
            [go, "build", "-o", program, "."],
            cwd=source,
            env=os.environ | {"GOWORK": "off"},
            check=True,
            capture_output=True,
            timeout=_SECONDS,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"go build failed: {(error.stderr or b'').decode(errors='replace')[-500:]}") from error
    return program
