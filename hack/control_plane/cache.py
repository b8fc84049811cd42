"""A cache of folders: each is created once, by one process, and is visible only when complete."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Tell = Callable[[str], None]


class Cache:
    """Folders by name, below one root.

    Args:
        root: created when missing.
        tell: called with one line before waiting for another process.
    """

    def __init__(self, root: Path, tell: Tell) -> None:
        self._root = root
        self._tell = tell

    def find(self, name: str) -> Path | None:
        """Return the folder, or None if it does not exist."""
        folder = self._root / name
        return folder if folder.is_dir() else None

    def obtain(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return the folder; if it is missing, `make` fills an empty one, which gets the name when `make` returns."""
        self._root.mkdir(parents=True, exist_ok=True)
        with self._locked(name):
            return self.find(name) or self._make(name, make)

    def _make(self, name: str, make: Callable[[Path], None]) -> Path:
        partial = self._root / f".{name}.partial"
        # This process holds the lock, so files found here were left by a process that was killed.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            make(partial)
            return partial.rename(self._root / name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        lock = os.open(self._root / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._tell(f"waiting for another process to obtain {name}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
