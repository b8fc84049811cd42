"""Packs a folder reproducibly: equal files give equal bytes, wherever and whenever they are packed."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from controller.cli.command import MisuseError
from controller.content.limits import describe_bytes, quote

_EXECUTABLE = 0o111


def pack(folder: Path, most: int) -> bytes:
    """Return a folder as tar+gzip, without owners and times.

    Args:
        folder: to pack; links in it are refused.
        most: bytes of the archive.

    Raises: MisuseError if it cannot be packed, or the archive is larger.
    """
    if not folder.is_dir():
        raise MisuseError(f"{quote(str(folder))}: no such folder")
    packed = io.BytesIO()
    try:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in _files(folder):
                data = path.read_bytes()
                info = tarfile.TarInfo(path.relative_to(folder).as_posix())
                info.size, info.mode = len(data), 0o755 if path.stat().st_mode & _EXECUTABLE else 0o644
                archive.addfile(info, io.BytesIO(data))
    except OSError as error:
        raise MisuseError(f"{quote(str(folder))}: cannot be read: {error.strerror or error}") from None
    found = gzip.compress(packed.getvalue(), mtime=0)
    if len(found) > most:
        problem = f"larger than {describe_bytes(most)} when packed; use a registry or a repository"
        raise MisuseError(f"{quote(str(folder))}: {problem}")
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            problem = "is a link or no regular file; replace it with a file, or remove it"
            raise MisuseError(f"{quote(str(path))}: {problem}")
        if path.is_file():
            yield path
