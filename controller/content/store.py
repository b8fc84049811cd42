"""The content store: fetched content by key, on disk, verified, shared between BundleDeployments.

Invariants: content appears whole or not at all (staged, then renamed); it is checked against its index once per process
before it is used; each key has one writer at a time, but waiters lose patience and write themselves, so that no
BundleDeployment depends on the source of another. The store is a cache: a lost entry only costs a fetch by digest. A
disk that is full, read-only or broken affects only work that needs it, also at start, and only until it is repaired. A
folder that was removed or replaced is opened again; whatever used it meanwhile fails.

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
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from api.errors import BundleError
from api.plugins import Refusal
from api.v1alpha2.conditions import Reason
from controller.content.disk import is_unusable, storage_error
from controller.content.index import is_intact, read_size, write_index

log = logging.getLogger(__name__)
PATIENCE_SECONDS = 20.0


class StoreInUseError(RuntimeError):
    """Another process uses the folder."""


@dataclass(slots=True)
class _Record:
    """What is known about an entry without reading its content."""

    size: int
    """Bytes of all files."""
    used: int
    """Last use, about nanoseconds since the epoch; see `_next_use`."""
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
        self._subject = f'content store "{root}"'
        self._entries, self._staging, self._scratch = root / "entries", root / "staging", root / "scratch"
        self._guard = threading.Lock()
        self._key_locks: dict[str, _KeyLock] = {}
        self._records: dict[str, _Record] = {}
        self._in_use: set[Path] = set()
        """Temporary folders."""
        self._opening = threading.Lock()
        self._lock_files: list[int] = []
        """All that are locked; also those of folders that were moved away, since they may be moved back."""
        self._lock_file: int | None = None
        try:
            self._open()
        except OSError as error:
            self.close()
            if not is_unusable(error):
                raise
            log.warning("content store is not available yet", extra={"folder": str(root), "problem": error.strerror})

    def _open(self) -> None:
        """Lock and clean the folder, unless that is done; again if it was removed or replaced.

        Raises: OSError, StoreInUseError.
        """
        with self._opening:
            if self._is_open():
                return
            was_open, self._lock_file = self._lock_file is not None, None
            self._release_deleted()
            self._entries.mkdir(parents=True, exist_ok=True)
            lock_file = self._lock()
            for folder in (self._staging, self._scratch):
                if not self._in_use:
                    shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(exist_ok=True)
            self._records = dict(self._read_records())
            self._lock_file = lock_file
            if was_open:
                log.warning("content store was removed or replaced; opened it again", extra={"folder": str(self._root)})

    def _is_open(self) -> bool:
        """Return whether the folder is there and locked by this store."""
        held = self._lock_file
        try:
            is_locked = held is not None and os.path.samestat(os.fstat(held), (self._root / "lock").stat())
        except OSError:
            return False
        return is_locked and all(map(os.path.isdir, (self._entries, self._staging, self._scratch)))

    def _release_deleted(self) -> None:
        """Close the lock files of folders that were removed, which cannot come back."""
        for descriptor in [each for each in self._lock_files if not os.fstat(each).st_nlink]:
            self._lock_files.remove(descriptor)
            os.close(descriptor)

    def _lock(self) -> int:
        """Return the descriptor of the lock file of the folder, which may have been moved away and back."""
        descriptor = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            held = next((each for each in self._lock_files if os.path.sameopenfile(each, descriptor)), None)
            if held is None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._lock_files.append(descriptor)
                return descriptor
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                remedy = "stop that process, or give each its own directory"
                raise StoreInUseError(f"{self._subject}: in use by another process; {remedy}") from None
            raise
        os.close(descriptor)
        return held

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
        while self._lock_files:
            os.close(self._lock_files.pop())
        self._lock_file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: str) -> Path | None:
        """Return the folder of stored content, for reading only; None if it is missing or damaged."""
        name = _name(key)
        with self._locks(name) as locks, locks.entry:
            return self._reuse(name)

    def put(self, key: str, write: Callable[[Path], Mapping[str, Refusal] | None]) -> Path:
        """Return the folder of content, which `write` fills if it is not stored yet.

        Args:
            key: any text; equal keys mean equal content.
            write: fills an empty folder with folders and regular files, and returns what must not be read, by path.
                Meanwhile, other calls with this key wait for the result; if it fails, or takes longer than their
                patience, they write themselves.

        Raises: BundleError (StorageFull, StorageBroken); whatever `write` raises. Then nothing is stored.
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

        Raises: BundleError (StorageFull, StorageBroken), also if the folder was removed before the end of the block:
            then its result, or its error, may be due to that.
        """
        with self._temporary(self._scratch) as folder:
            yield folder

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

    @contextmanager
    def _temporary(self, parent: Path) -> Iterator[Path]:
        folder = self._make_temporary(parent)
        self._in_use.add(folder)
        try:
            with self._loss_reported(folder):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._in_use.discard(folder)

    def _make_temporary(self, parent: Path) -> Path:
        try:
            self._open()
            return Path(tempfile.mkdtemp(dir=parent))
        except OSError as error:
            raise storage_error(f"{self._subject}: the disk", error) from error
        except StoreInUseError as error:
            raise BundleError(Reason.STORAGE_BROKEN, str(error)) from error

    @contextmanager
    def _loss_reported(self, folder: Path) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._is_lost(folder):
                raise self._loss() from None
            if isinstance(error, OSError) and is_unusable(error):
                raise storage_error(f"{self._subject}: the disk", error) from error
            raise
        if self._is_lost(folder):
            raise self._loss()

    def _is_lost(self, folder: Path) -> bool:
        return not (self._is_open() and os.path.isdir(folder))  # noqa: PTH112 - Path.is_dir raises without permission

    def _loss(self) -> BundleError:
        problem = "was removed or replaced while it was in use; it is opened again"
        return BundleError(Reason.STORAGE_BROKEN, f"{self._subject}: {problem}, and the fetch retried")

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
        with self._guard:
            record.used = self._next_use()
        _mark_used(entry, record.used)
        return entry / "content"

    def _next_use(self) -> int:
        """Return a time after the last use of all entries: the system time may have been set back since."""
        return max([time.time_ns(), *(record.used + 1 for record in self._records.values())])

    def _create(
        self, name: str, write: Callable[[Path], Mapping[str, Refusal] | None], entry_lock: threading.Lock
    ) -> Path:
        with self._temporary(self._staging) as folder:
            staged = folder / "entry"
            with self._loss_reported(folder):  # before it is added: it may be incomplete
                (staged / "content").mkdir(parents=True)
                size = write_index(staged, write(staged / "content"))
            with entry_lock:
                return self._reuse(name) or self._add(staged, name, size)

    def _add(self, staged: Path, name: str, size: int) -> Path:
        entry = self._entries / name
        if entry.exists():  # it could not be removed
            self._discard(entry)
        staged.rename(entry)
        with self._guard:
            record = self._records[name] = _Record(size=size, used=self._next_use(), verified=True)
        _mark_used(entry, record.used)
        return entry / "content"

    def _remove(self, name: str) -> None:
        """Hide an entry immediately, then remove it from the disk, if that takes it."""
        with self._guard:
            self._records.pop(name, None)
        try:
            self._discard(self._entries / name)
        except OSError as error:
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


def _mark_used(entry: Path, when: int) -> None:
    with contextlib.suppress(OSError):  # only the order of removal depends on it
        os.utime(entry, ns=(when, when))


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
