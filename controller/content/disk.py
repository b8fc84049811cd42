"""The disk: its failures as conditions, files that exist only while they are used, and a local folder as content.

Invariant: the digest is that of the bytes in the file. A local folder is read as entries of an archive, so that it
becomes content by the same rules as fetched bytes. store.py creates and removes scratch folders.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Entry, EntryKind
from rukpak.api.v1alpha2.conditions import Reason

_FULL = "is full; free some space or enlarge it"
_AWAY = "is not available; mount it again"
_UNUSABLE = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: "is read-only; make it writable",
    errno.EIO: "reports I/O errors; replace it",
    errno.ESTALE: _AWAY,
    errno.ENOTCONN: _AWAY,
    errno.ENODEV: _AWAY,
}


class ForeignFileError(Exception):
    """A folder of ours contains what the controller never writes: a link, a device."""


@dataclass(frozen=True, slots=True)
class Item:
    """A file or folder below a folder."""

    path: str
    """Relative, with slashes."""
    is_folder: bool


def walk(folder: Path) -> Iterator[Item]:
    """Yield the content of a folder, by name, each folder before its content. Links are never followed.

    Raises: ForeignFileError; OSError.
    """
    for path, item in _scan(folder):
        is_folder = item.is_dir(follow_symlinks=False)
        if not is_folder and not item.is_file(follow_symlinks=False):
            raise ForeignFileError(path)
        yield Item(path, is_folder=is_folder)


def _scan(folder: Path, *, left_out: str = "", prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield what is below a folder, by name, with its path: each folder before its content, and links unfollowed."""
    with os.scandir(folder) as scan:
        found = sorted(scan, key=lambda item: item.name)
    for item in found:
        path = prefix + item.name
        is_folder = item.is_dir(follow_symlinks=False)
        if is_folder and item.name == left_out:
            continue
        yield path, item
        if is_folder:
            yield from _scan(Path(item.path), left_out=left_out, prefix=f"{path}/")


def write_all(descriptor: int, data: bytes) -> None:
    """Write bytes to a file descriptor, however many calls that takes.

    Raises: OSError.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def is_unusable(error: OSError) -> bool:
    """Return whether a disk is full, read-only or broken, which can be repaired while this process runs."""
    return error.errno in _UNUSABLE


def storage_error(disk: str, error: OSError) -> BundleError:
    """Return the error (StorageFull, StorageBroken) for a disk that cannot be used; `disk` starts the message."""
    problem = _UNUSABLE.get(error.errno or 0)
    reason = Reason.STORAGE_FULL if problem == _FULL else Reason.STORAGE_BROKEN
    unknown = f"cannot be used ({error.strerror}); make the directory readable and writable for the controller"
    return BundleError(reason, f"{disk} {problem or unknown}")


@contextmanager
def disk_errors_reported(subject: str) -> Iterator[None]:
    """Translate the errors of an unusable disk; `subject` starts the message.

    Raises: BundleError (StorageFull, StorageBroken).
    """
    try:
        yield
    except OSError as error:
        if not is_unusable(error):
            raise
        raise storage_error(f"{subject}: the disk of the content store", error) from error


class Spool:
    """A new file without a name, which is deleted when it is closed.

    Args:
        folder: scratch folder on whose file system the file is.
        subject: field path that starts messages.

    Raises: BundleError (StorageFull).
    """

    def __init__(self, folder: Path, subject: str) -> None:
        self._subject = subject
        with disk_errors_reported(subject):
            self._file: BinaryIO = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by __exit__
        self.size = 0
        self._hash = hashlib.sha256()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def digest(self) -> str:
        """Digest of what was written, as `sha256:…`."""
        return f"sha256:{self._hash.hexdigest()}"

    def append(self, data: bytes) -> None:
        """Write bytes to the end.

        Raises: BundleError (StorageFull).
        """
        with disk_errors_reported(self._subject):
            write_all(self._file.fileno(), data)
        self._hash.update(data)
        self.size += len(data)

    def restart(self) -> None:
        """Discard what was written."""
        self._file.seek(0)
        self._file.truncate()
        self.size, self._hash = 0, hashlib.sha256()

    def rewind(self) -> BinaryIO:
        """Return the file, for reading only, at its start."""
        self._file.seek(0)
        return self._file


def read_folder(folder: Path) -> Iterator[Entry]:
    """Yield the content of a folder, by name, without git's own folder: no source contains that.

    Raises: OSError.
    """
    for path, item in _scan(folder, left_out=".git"):
        if item.is_symlink():
            yield Entry(path=path, kind=EntryKind.SYMBOLIC_LINK, target=os.readlink(item.path))  # noqa: PTH115 - as it stands
        elif item.is_dir():
            yield Entry(path=path, kind=EntryKind.DIRECTORY)
        elif item.is_file():
            with Path(item.path).open("rb") as data:
                about = os.fstat(data.fileno())
                yield Entry(path=path, size=about.st_size, data=data, executable=bool(about.st_mode & 0o100))
