"""Folders of running programs below one root; deleting a folder kills the processes recorded in it.

A folder may have an owner process. The next process deletes folders whose owner no longer exists.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hack.control_plane.processes import kill_noted, running_process, write_note

OWNER = "owner"


def make_owned_folder(root: Path, prefix: str) -> Path:
    """Create a folder that this process owns, and delete folders of processes that no longer exist."""
    root.mkdir(parents=True, exist_ok=True)
    take_away_orphans(root)
    number = 0
    while True:
        number += 1
        # The owner is recorded before the folder gets its name: folders without owner are never deleted here.
        unnamed = root / f".{os.getpid()}"
        unnamed.mkdir(exist_ok=True)
        write_note(unnamed / OWNER, os.getpid())
        folder = root / f"{prefix}-{os.getpid()}-{number}"
        if not folder.exists():
            return unnamed.rename(folder)


def take_away_orphans(root: Path) -> None:
    """Delete every folder whose owner no longer exists."""
    for owner in root.glob(f"*/{OWNER}"):
        if running_process(owner) is None:
            take_away(owner.parent)


def take_away(folder: Path) -> None:
    """Kill the processes of a folder and delete it."""
    for note in folder.glob("*.pid"):
        kill_noted(note)
    shutil.rmtree(folder, ignore_errors=True)
