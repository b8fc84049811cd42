"""Installed programs; unsuitable versions are skipped and reported."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hack.control_plane.cache import Tell
from hack.control_plane.programs import Program, Version, parse_version
from hack.control_plane.settings import Settings

VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+(?:\.\d+)?)")
SECONDS = 10


def find_installed(program: Program, settings: Settings, tell: Tell) -> Path | None:
    """Return the first program in `settings.search` with a suitable version.

    Reports each unsuitable one in one line.
    """
    for path in _candidates(program, settings):
        version = version_of(path, program)
        if version and program.fits(version, settings):
            return path
        shown = ".".join(map(str, version)) if version else "unknown version"
        tell(f"{path}: {shown}, not used: need {program.wanted(settings)}")
    return None


def _candidates(program: Program, settings: Settings) -> Iterator[Path]:
    seen = set()
    for folder in settings.search:
        for name in (program.name, *program.aliases):
            path = folder / name
            # /bin and /usr/bin are one folder on most machines.
            place = path.parent.resolve() / name
            if place not in seen and os.access(path, os.X_OK) and path.is_file():  # in this order: access never raises
                seen.add(place)
                yield path.absolute()


def version_of(path: Path, program: Program) -> Version | None:
    """Return the version that a program reports, or None."""
    try:
        told = subprocess.run(
            [path, *program.version_arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
            text=True,
            check=False,
        )
    except (OSError, UnicodeDecodeError, subprocess.TimeoutExpired):
        return None
    found = VERSION.search(told.stdout or told.stderr)
    return parse_version(found[1]) if found and told.returncode == 0 else None
