"""A file in a scratch folder that is written from its beginning and hashed on its way, then read in any order.

Invariant: the digest is that of the bytes in the file. Scratch folders are handed out, and removed, by store.py.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO, Self

from controller.content.disk import full_disk_reported


class Spool:
    """A new file without a name; closed, it is gone.

    Args:
        folder: of scratch: its file system holds the file.
        subject: field path that messages begin with.

    Raises: BundleError (StorageFull).
    """

    def __init__(self, folder: Path, subject: str) -> None:
        self._subject = subject
        with full_disk_reported(subject):
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
        rest = memoryview(data)
        with full_disk_reported(self._subject):
            while rest:
                rest = rest[os.write(self._file.fileno(), rest) :]
        self._hash.update(data)
        self.size += len(data)

    def restart(self) -> None:
        """Forget what was written."""
        self._file.seek(0)
        self._file.truncate()
        self.size, self._hash = 0, hashlib.sha256()

    def rewind(self) -> BinaryIO:
        """Return the file, for reading only, at its beginning."""
        self._file.seek(0)
        return self._file
