"""Small programs in Go, to compare with what other projects do. Each is built once per machine, into the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from hack.control_plane.binaries import Cache
from hack.control_plane.builds import ENVIRONMENT
from hack.control_plane.settings import Settings, read_settings

_SECONDS = 280


class UnavailableError(Exception):
    """The program cannot be built here."""


def build(source: Path) -> Path:
    """Return the program of the module in a folder.

    Raises: UnavailableError without Go, or without the modules.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(source.iterdir()))).hexdigest()
    name = f"built-{source.name}-{digest[:12]}"
    return (
        _cache(read_settings()).obtain(name, lambda made: _go(["build", "-o", f"{made}/program", "."], source))
        / "program"
    )


def install(package: str, version: str, settings: Settings) -> Path:
    """Return a published program.

    Raises: UnavailableError without Go, or without the modules.
    """
    program = package.rpartition("/")[2]
    name = f"built-{program}-{version}-{settings.architecture}"
    installed = ["install", f"{package}@v{version}"]
    return _cache(settings).obtain(name, lambda made: _go(installed, made, GOBIN=str(made))) / program


def _cache(settings: Settings) -> Cache:
    return Cache(settings.cache / "bin", print)


def _go(arguments: list[str], folder: Path, **environment: str) -> None:
    if not (go := shutil.which("go")):
        raise UnavailableError("no go on PATH")
    try:
        subprocess.run(
            [go, *arguments],
            cwd=folder,
            # Modules have a go.sum here, and what is installed is compared with the public log of checksums.
            env=os.environ | ENVIRONMENT | {"GOFLAGS": "-buildvcs=false"} | environment,
            check=True,
            capture_output=True,
            timeout=_SECONDS,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.stderr or b"").decode(errors="replace")[-500:]
        raise UnavailableError(f"go {arguments[0]} failed: {said}") from error
