"""The real crane, by which people read images: the one on PATH, else built from its Go module, once per machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from hack.control_plane.settings import Settings
from tests.support.go_programs import install

VERSION = "0.20.3"


def obtain_crane(settings: Settings) -> Path:
    """Return the program.

    Raises: UnavailableError without Go, or without the module.
    """
    if found := shutil.which("crane"):
        return Path(found)
    return install("github.com/google/go-containerregistry/cmd/crane", VERSION, settings)
