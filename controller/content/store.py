"""The content store: fetched content by key, on disk, verified, shared between BundleDeployments.

Invariants: content appears whole or not at all (staged, then renamed); it is checked against its index once per process
before it is used; each key has one writer at a time, but waiters lose patience and write themselves, so that no
BundleDeployment depends on the source of another. The store is a cache: a lost entry only costs a fetch by digest. A
disk that is full, read-only or broken affects only work that needs it, also at start, and only until it is repaired.

Layout below the root: `entries/<hash of key>/{index,content/}`, `staging/` and `scratch/` (emptied at start), `lock`.

Not here: the index of an entry (index.py), rules for content (archive.py), and access to content (build/origins.py
makes the keys; a pin is recorded only after the source has answered for it).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from controller.content.disk import full_disk_reported, is_unusable
from controller.content.index import is_intact, read_size, write_index

log = logging.getLogger(__name__)
_SUBJECT = "content store"
PATIENCE_SECONDS = 20.0


class StoreInUseError(RuntimeError):
    """Another process uses the folder."""


@dataclass(slots=True)
class _Record:
    """What is known about an entry without reading its content."""

    size: int
    """Bytes of all files."""
    used: int
    """Last use, nanoseconds since the epoch."""
    verified: bool = False


@dataclass(slots=True)
class _KeyLock:
    entry: threading.Lock = field(default_factory=threading.Lock)
    """Held briefly: to check, add or remove the entry."""
    writing: threading.Lock = field(default_factory=threading.Lock)
    """Held by the writer of the content."""
    holders: int = 0


class ContentStore:
    """Content by key, safe for use by many threads of one process.

    Args:
        root: a folder for this process alone; created if missing. Leftovers of a killed process are removed.
        patience: seconds to wait for another writer of the same content.

    Raises: StoreInUseError if another process, or another store of this one, uses the folder; OSError if the folder
        cannot be created, except on a disk that is full, read-only or broken: then it is opened when needed.
    """

    def __init__(self, root: Path, patience: float = PATIENCE_SECONDS) -> None:
        self._root, self._patience = root, patience
        self._entries, self._staging, self._scratch = root / "entries", root / "staging", root / "scratch"
        self._guard = threading.Lock()
        self._key_locks: dict[str, _KeyLock] = {}
        self._records: dict[str, _Record] = {}
        self._opening = threading.Lock()
        self._lock_file: int | None = None
        try:
            self._open()
        except OSError as error:
            if not is_unusable(error):
                raise
            log.warning("content store is not available yet", extra={"folder": str(root), "problem": error.strerror})

    def _open(self) -> None:
        """Lock and clean the folder, unless that is done.

        Raises: OSError, StoreInUseError.
        """
        with self._opening:
            if self._lock_file is not None:
                return
            self._entries.mkdir(parents=True, exist_ok=True)
            lock_file = _lock(self._root)
            try:
                for folder in (self._staging, self._scratch):
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir(exist_ok=True)
                self._records = dict(self._read_records())
            except OSError:
                os.close(lock_file)
                raise
            self._lock_file = lock_file

    @property
    def lock(self) -> Path | None:
        """The file that is locked while the store is open; None while it is not."""
        return self._root / "lock" if self._lock_file is not None else None

    @property
    def folder(self) -> Path | None:
        """The folder, which outlives this process; None while the store is not open."""
        return self._root if self._lock_file is not None else None

    def close(self) -> None:
        """Release the folder."""
        if self._lock_file is not None:
            os.close(self._lock_file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: str) -> Path | None:
        """Return the folder of stored content, for reading only; None if it is missing or damaged."""
        name = _name(key)
        with self._locks(name) as locks, locks.entry:
            return self._reuse(name)

    def put(self, key: str, write: Callable[[Path], None]) -> Path:
        """Return the folder of content, which `write` fills if it is not stored yet.

        Args:
            key: any text; equal keys mean equal content.
            write: fills an empty folder with folders and regular files. Meanwhile, other calls with this key wait for
                the result; if it fails, or takes longer than their patience, they write themselves.

        Raises: BundleError (StorageFull); whatever `write` raises. Then nothing is stored.
        """
        name = _name(key)
        with self._locks(name) as locks:
            is_alone = locks.writing.acquire(timeout=self._patience)
            try:
                with locks.entry:
                    found = self._reuse(name)
                return found or self._create(name, write, locks.entry)
            finally:
                if is_alone:
                    locks.writing.release()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Provide an empty folder on the store's file system, which is removed afterwards.

        Raises: BundleError (StorageFull).
        """
        with full_disk_reported(_SUBJECT):
            self._open()
            folder = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def collect(self, keep: Collection[str], max_bytes: int) -> None:
        """Remove content, the least recently used first, until at most `max_bytes` are left.

        Args:
            keep: keys that are in use, or soon will be: never removed.
            max_bytes: of files, as `bytes_used` counts them.
        """
        kept = {_name(key) for key in keep}
        with self._guard:
            candidates = sorted((record.used, name) for name, record in self._records.items() if name not in kept)
        for used, name in candidates:
            if self.bytes_used() <= max_bytes:
                return
            with self._locks(name) as locks, locks.entry:
                record = self._records.get(name)
                if record is not None and record.used == used:  # not used since
                    self._remove(name)

    def bytes_used(self) -> int:
        """Return the bytes of all stored files, without scratch and staging."""
        with self._guard:
            return sum(record.size for record in self._records.values())

    # one key at a time

    @contextmanager
    def _locks(self, name: str) -> Iterator[_KeyLock]:
        """Provide the locks of a key, which exist only while they are used."""
        with self._guard:
            locks = self._key_locks.setdefault(name, _KeyLock())
            locks.holders += 1
        try:
            yield locks
        finally:
            with self._guard:
                locks.holders -= 1
                if not locks.holders:
                    del self._key_locks[name]

    def _reuse(self, name: str) -> Path | None:
        record = self._records.get(name)
        if record is None:
            return None
        entry = self._entries / name
        if not (entry / "content").is_dir() or not (record.verified or is_intact(entry)):
            log.warning("removed damaged content from the store", extra={"entry": name})
            self._remove(name)
            return None
        record.verified = True
        record.used = time.time_ns()
        with contextlib.suppress(OSError):  # only the order of removal depends on it
            os.utime(entry, ns=(record.used, record.used))
        return entry / "content"

    def _create(self, name: str, write: Callable[[Path], None], entry_lock: threading.Lock) -> Path:
        with full_disk_reported(_SUBJECT):
            self._open()
            staged = Path(tempfile.mkdtemp(dir=self._staging))
            try:
                (staged / "content").mkdir()
                write(staged / "content")
                size = write_index(staged)
                with entry_lock:
                    return self._reuse(name) or self._add(staged, name, size)
            finally:
                shutil.rmtree(staged, ignore_errors=True)

    def _add(self, staged: Path, name: str, size: int) -> Path:
        entry = self._entries / name
        if entry.exists():  # it could not be removed
            self._discard(entry)
        staged.rename(entry)
        with self._guard:
            self._records[name] = _Record(size=size, used=time.time_ns(), verified=True)
        return entry / "content"

    def _remove(self, name: str) -> None:
        """Hide an entry immediately, then remove it from the disk."""
        with self._guard:
            self._records.pop(name, None)
        try:
            self._discard(self._entries / name)
        except OSError as error:
            if not is_unusable(error):
                raise
            log.warning("cannot remove content from the store", extra={"entry": name, "problem": error.strerror})

    def _discard(self, entry: Path) -> None:
        away = Path(tempfile.mkdtemp(dir=self._staging))
        if entry.exists():
            entry.rename(away / "entry")
        shutil.rmtree(away, ignore_errors=True)

    def _read_records(self) -> Iterator[tuple[str, _Record]]:
        for entry in sorted(self._entries.iterdir()):
            try:
                yield entry.name, _Record(size=read_size(entry), used=entry.stat().st_mtime_ns)
            except (OSError, ValueError, KeyError, TypeError):
                log.warning("removed content without a readable index", extra={"entry": entry.name})
                self._discard(entry)


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _lock(root: Path) -> int:
    descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreInUseError(
            f'content store "{root}": in use by another process; stop that process, or give each its own directory'
        ) from None
    return descriptor
