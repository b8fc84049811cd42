"""A local folder as entries of an archive, so that it becomes content by the same rules as fetched bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from api.plugins import Entry, EntryKind

_LEFT_OUT = ".git"


def read_folder(folder: Path) -> Iterator[Entry]:
    """Yield the content of a folder, by name, without git's own folder: no source contains that.

    Raises: OSError.
    """
    yield from _read(folder, "")


def _read(folder: Path, prefix: str) -> Iterator[Entry]:
    with os.scandir(folder) as found:
        items = sorted(found, key=lambda item: item.name)
    for item in items:
        path = f"{prefix}{item.name}"
        if item.is_symlink():
            yield Entry(path=path, kind=EntryKind.SYMBOLIC_LINK, target=os.readlink(item.path))  # noqa: PTH115 - as it stands
        elif item.is_dir() and item.name != _LEFT_OUT:
            yield Entry(path=path, kind=EntryKind.DIRECTORY)
            yield from _read(Path(item.path), f"{path}/")
        elif item.is_file():
            yield from _read_file(Path(item.path), path)


def _read_file(file: Path, path: str) -> Iterator[Entry]:
    with file.open("rb") as data:
        about = os.fstat(data.fileno())
        yield Entry(path=path, size=about.st_size, data=data, executable=bool(about.st_mode & 0o100))
