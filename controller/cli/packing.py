"""Packs a folder reproducibly: equal files give equal bytes, wherever and whenever they are packed."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from api.plugins import Entry, EntryKind
from controller.cli.command import MisuseError
from controller.content.folder import read_folder
from controller.content.limits import describe_bytes, quote

_EXECUTABLE = 0o111


def pack(folder: Path, most: int) -> bytes:
    """Return a folder as tar+gzip, without owners, times and git's own folder.

    Links remain links, which are judged by who reads the archive, as those of any other one.

    Args:
        folder: to pack.
        most: bytes of the archive.

    Raises: MisuseError if it cannot be packed, or the archive is larger.
    """
    if not folder.is_dir():
        raise MisuseError(f"{quote(str(folder))}: no such folder")
    packed = io.BytesIO()
    try:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            entries = (entry for entry in read_folder(folder) if entry.kind is not EntryKind.DIRECTORY)
            for entry in sorted(entries, key=lambda entry: entry.path):
                info, data = _member(folder / entry.path, entry)
                archive.addfile(info, io.BytesIO(data))
    except OSError as error:
        raise MisuseError(f"{quote(str(folder))}: cannot be read: {error.strerror or error}") from None
    found = gzip.compress(packed.getvalue(), mtime=0)
    if len(found) > most:
        problem = f"larger than {describe_bytes(most)} when packed; use a registry or a repository"
        raise MisuseError(f"{quote(str(folder))}: {problem}")
    return found


def _member(path: Path, entry: Entry) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(entry.path)
    if entry.kind is EntryKind.SYMBOLIC_LINK:
        if entry.target.startswith("/"):
            problem = (
                f"is a link to {quote(entry.target)} on this machine; replace it with what it leads to, or remove it"
            )
            raise MisuseError(f"{quote(str(path))}: {problem}")
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        return info, b""
    data = path.read_bytes()
    info.size, info.mode = len(data), 0o755 if path.stat().st_mode & _EXECUTABLE else 0o644
    return info, data
