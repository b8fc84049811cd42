"""What runs has a folder each, below one root; it is taken away with all that was noted in it.

A folder may have an owner, the process that it lives for: what an owner leaves behind is taken away by the next.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hack.control_plane.processes import kill_noted, running_process, write_note

OWNER = "owner"


def make_owned_folder(root: Path, prefix: str) -> Path:
    """Make a folder that lives for this process, and take away those of processes that are gone."""
    root.mkdir(parents=True, exist_ok=True)
    take_away_orphans(root)
    number = 0
    while True:
        number += 1
        # Complete with its owner before it gets its name: a folder without owner is somebody's to keep.
        unnamed = root / f".{os.getpid()}"
        unnamed.mkdir(exist_ok=True)
        write_note(unnamed / OWNER, os.getpid())
        folder = root / f"{prefix}-{os.getpid()}-{number}"
        if not folder.exists():
            return unnamed.rename(folder)


def take_away_orphans(root: Path) -> None:
    """Take away every folder whose owner is gone."""
    for owner in root.glob(f"*/{OWNER}"):
        if running_process(owner) is None:
            take_away(owner.parent)


def take_away(folder: Path) -> None:
    """Kill what runs in a folder, and remove it."""
    for note in folder.glob("*.pid"):
        kill_noted(note)
    shutil.rmtree(folder, ignore_errors=True)
