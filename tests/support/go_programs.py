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
    _go(["build", "-o", str(program), "."], source)
    return program


def install(package: str, version: str, folder: Path) -> None:
    """Build a published program into a folder.

    Raises: UnavailableError without Go, or without the modules.
    """
    _go(["install", f"{package}@v{version}"], folder, GOBIN=str(folder))


def _go(arguments: list[str], folder: Path, **environment: str) -> None:
    if not (go := shutil.which("go")):
        raise UnavailableError("no go on PATH")
    try:
        subprocess.run(
            [go, *arguments],
            cwd=folder,
            env=os.environ | {"GOWORK": "off"} | environment,
            check=True,
            capture_output=True,
            timeout=_SECONDS,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.stderr or b"").decode(errors="replace")[-500:]
        raise UnavailableError(f"go {arguments[0]} failed: {said}") from error
