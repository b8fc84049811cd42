"""The content store: fetched content by key, on disk, verified, shared between BundleDeployments.

Invariants: content appears whole or not at all (staged, then renamed); nothing is handed out in this process that was
not checked against the index written when it was put; one writer for each key at a time, unless it is slow: who waits
writes himself after a while, so that nobody depends on somebody else's source. The store is a cache: losing any of it
costs a fetch by digest and nothing else. A disk that is full, read-only or broken hinders who needs it and nobody else,
also at start, and only as long as it is so.

Layout below the root: `entries/<hash of key>/{index,content/}`, `staging/` and `scratch/` (emptied at start), `lock`.

Not here: what an entry holds (index.py), what content may look like (archive.py), and who may use which content
(build/origins.py makes the keys; a pin is recorded only after the source answered for it).
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
    """What is known of one entry without reading its content."""

    size: int
    """Bytes of all files."""
    used: int
    """Last use, nanoseconds since the epoch."""
    verified: bool = False


@dataclass(slots=True)
class _KeyLock:
    entry: threading.Lock = field(default_factory=threading.Lock)
    """Held for a moment: to look at the entry, to bring it in, to remove it."""
    writing: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever makes the content."""
    holders: int = 0


class ContentStore:
    """Content by key, safe for use by many threads of one process.

    Args:
        root: a folder of this process alone; made when missing. Left-overs of a killed process are removed.
        patience: seconds to wait for others that make the same content.

    Raises: StoreInUseError if another process, or another store of this one, uses the folder; OSError if there can be
        no such folder, but not for a disk that is full or read-only: then it is opened when it is needed.
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
            log.warning("content store cannot be used yet", extra={"folder": str(root), "problem": error.strerror})

    def _open(self) -> None:
        """Take the folder, unless that is done.

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
        """The file that is locked as long as the store is open: nobody else uses the folder. None: it is not open."""
        return self._root / "lock" if self._lock_file is not None else None

    @property
    def folder(self) -> Path | None:
        """The folder, which outlives this process; None: it is not open."""
        return self._root if self._lock_file is not None else None

    def close(self) -> None:
        """Let go of the folder."""
        if self._lock_file is not None:
            os.close(self._lock_file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: str) -> Path | None:
        """Return the folder of stored content, for reading only; None if there is none, or it was damaged."""
        name = _name(key)
        with self._locks(name) as locks, locks.entry:
            return self._reuse(name)

    def put(self, key: str, write: Callable[[Path], None]) -> Path:
        """Return the folder of content, which `write` fills if it is not stored yet.

        Args:
            key: any text; equal keys mean equal content.
            write: fills an empty folder with folders and regular files. While it runs, others that put this key wait,
                and use what it made; if it fails, or takes longer than their patience, they try themselves.

        Raises: BundleError (StorageFull); whatever `write` raises, and then nothing is stored.
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
        """Hand out an empty folder on the store's file system that is removed afterwards, with all that is in it."""
        with full_disk_reported(_SUBJECT):
            self._open()
            folder = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def collect(self, keep: Collection[str], max_bytes: int) -> None:
        """Remove content, what was used longest ago first, until at most `max_bytes` are left.

        Args:
            keep: keys that stay whatever their size: all that is in use, or soon will be.
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
        """Return the bytes of all stored files, without scratch and what is being written."""
        with self._guard:
            return sum(record.size for record in self._records.values())

    # one key at a time

    @contextmanager
    def _locks(self, name: str) -> Iterator[_KeyLock]:
        """Hand out the locks of a key, which exist while somebody has them."""
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
            log.warning("removed stored content that was damaged", extra={"entry": name})
            self._remove(name)
            return None
        record.verified = True
        record.used = time.time_ns()
        with contextlib.suppress(OSError):  # only what goes first depends on it
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
                    return self._reuse(name) or self._bring_in(staged, name, size)
            finally:
                shutil.rmtree(staged, ignore_errors=True)

    def _bring_in(self, staged: Path, name: str, size: int) -> Path:
        entry = self._entries / name
        if entry.exists():  # what could not be removed
            self._discard(entry)
        staged.rename(entry)
        with self._guard:
            self._records[name] = _Record(size=size, used=time.time_ns(), verified=True)
        return entry / "content"

    def _remove(self, name: str) -> None:
        """Take an entry out of sight at once, then off the disk."""
        with self._guard:
            self._records.pop(name, None)
        try:
            self._discard(self._entries / name)
        except OSError as error:
            if not is_unusable(error):
                raise
            log.warning("stored content cannot be removed", extra={"entry": name, "problem": error.strerror})

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
                log.warning("removed stored content without a readable index", extra={"entry": entry.name})
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
            f'content store "{root}": another process uses it; stop it, or give each one a folder of its own'
        ) from None
    return descriptor
