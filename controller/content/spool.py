"""A file in a scratch folder that is hashed while it is written, then read in any order.

Invariant: the digest is that of the bytes in the file. store.py creates and removes scratch folders.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import BinaryIO, Self

from controller.content.disk import disk_errors_reported, write_all


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
        """Of what was written, as `sha256:…`."""
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
