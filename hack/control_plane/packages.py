"""Install packages of Debian and Ubuntu, where this process is root and something is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from rukpak.controller.playground.binaries import MissingError, tell_person

ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive"}
LOCK = "packages.lock"


def install_packages(cache: Path, find_lacks: Callable[[], list[str]], refusal: str) -> None:
    """Install what is missing.

    Args:
        cache: has the lock of processes that install.
        find_lacks: returns the packages that are missing, or `root` alone.
        refusal: the message if they cannot be installed, with {} for their names.

    Raises: MissingError.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lacks = find_lacks()
        if not lacks:
            return
        names = ", ".join(lacks)
        if lacks == ["root"] or not shutil.which("apt-get"):
            raise MissingError(refusal.format(f"{names}, missing here"))
        tell_person(f"installing {names}")
        _apt_get("update")
        said = _apt_get("install", "--yes", "--no-install-recommends", *lacks)
        if find_lacks():
            raise MissingError(refusal.format(f"{names}, which apt-get does not install: {said}"))


def _apt_get(*arguments: str) -> str:
    """Return the last line of what it says about what is wrong."""
    done = subprocess.run(
        ["apt-get", *arguments], env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False
    )
    return (done.stderr.strip().splitlines() or ["nothing"])[-1]
