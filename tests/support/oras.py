"""The real oras, by which users push bundles: the one on PATH, else built from its Go module, once per machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from hack.control_plane.settings import Settings
from tests.support.go_programs import install

VERSION = "1.2.3"


def obtain_oras(settings: Settings) -> Path:
    """Return the program.

    Raises: UnavailableError without Go, or without the module.
    """
    if found := shutil.which("oras"):
        return Path(found)
    return install("oras.land/oras/cmd/oras", VERSION, settings)
