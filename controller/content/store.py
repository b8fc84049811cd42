"""The content store: fetched content on disk, by origin and digest; and the content tree that is assembled of it.

Stored content that is not in use does not count for a tenant (limits.py): the store bounds it, and deletes it to make
room. Of an index, the first line has the size and the digest of the rest; the second line lists the content. If
something of the content must not be read, a third line lists that.

The tree is the union of all sources, each at its destination. A file comes from one source: conflicts are found before
anything is written, and nothing is overwritten. Files are hard links into the store where the file system supports
them: the tree is read-only.

Invariants: content appears whole or not at all (staged, then renamed); it is checked against its index once per process
before it is used; each key has one writer at a time, but waiters lose patience and write themselves, so that no
BundleDeployment depends on the source of another. The store is a cache: a lost entry only costs a fetch by digest. A
disk that is full, read-only or broken affects only work that needs it, also at start, and only until it is repaired. A
folder that was removed or replaced is opened again; whatever used it meanwhile fails.

Layout below the root: `entries/<hash of key>/{index,content/}`, `staging/` and `scratch/` (emptied at start), `lock`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from posixpath import join
from typing import Any, Self

from rukpak.api.errors import BundleError
from rukpak.api.plugins import ContentTree, Refusal
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.disk import ForeignFileError, disk_errors_reported, is_unusable, storage_error, walk
from rukpak.controller.content.limits import CHUNK, Rejection, Use, check_refused, quote

log = logging.getLogger(__name__)
PATIENCE_SECONDS = 20.0


def write_index(entry: Path, refused: Mapping[str, Refusal] | None = None) -> int:
    """Write the index beside the content of an entry, without the key, which may contain a secret.

    Args:
        entry: its folder.
        refused: what must not be read, by path.

    Returns: bytes of all files, and of the third line.
    Raises: ForeignFileError; OSError.
    """
    listing = _list(entry / "content")
    told = {path: [each.reason.value, each.problem] for path, each in (refused or {}).items()}
    more = b"\n" + json.dumps(told, sort_keys=True).encode() if told else b""
    body = json.dumps(listing, sort_keys=True).encode() + more
    size = sum(int(item[0]) for item in listing.values() if item) + len(more)
    head = json.dumps({"bytes": size, "sha256": hashlib.sha256(body).hexdigest()})
    (entry / "index").write_bytes(head.encode() + b"\n" + body)
    return size


def read_paths(entry: Path) -> set[str]:
    """Return the paths of all files and folders of an entry according to its index.

    Raises: OSError, ValueError, KeyError for an index that is missing or damaged.
    """
    return set(_read_listing(entry))


def read_refused(entry: Path) -> dict[str, Refusal]:
    """Return what must not be read of the content of an entry, by path; nothing if there is no index.

    Raises: OSError, ValueError, KeyError for an index that is damaged.
    """
    if not (entry / "index").exists():
        return {}
    told = json.loads(_read_body(entry).partition(b"\n")[2] or b"{}")
    return {path: Refusal(problem=problem, reason=Reason(reason)) for path, (reason, problem) in told.items()}


def is_intact(entry: Path) -> bool:
    """Return whether an entry contains exactly what its index lists."""
    try:
        return bool(_read_listing(entry) == _list(entry / "content"))
    except (OSError, ValueError, KeyError, TypeError, ForeignFileError):
        return False


def _read_listing(entry: Path) -> Any:
    return json.loads(_read_body(entry).partition(b"\n")[0])


def _read_body(entry: Path) -> bytes:
    with (entry / "index").open("rb") as file:
        head, body = json.loads(file.readline()), file.read()
    if head["sha256"] != hashlib.sha256(body).hexdigest():
        raise ValueError("the listing was modified")
    return body


def _list(folder: Path) -> dict[str, list[Any]]:
    return {item.path: [] if item.is_folder else _describe(folder / item.path) for item in walk(folder)}


def _describe(path: Path) -> list[Any]:
    digest, size = hashlib.sha256(), 0
    # Not hashlib.file_digest: it fills a buffer of 256 KiB with zeros for each file, however small.
    with path.open("rb", buffering=0) as file:
        while data := file.read(CHUNK):
            digest.update(data)
            size += len(data)
    return [size, digest.hexdigest()]


def count_stored(folder: Path, meter: Use) -> None:
    """Count content that is in the store already: it cannot be deleted while it is in use.

    Args:
        folder: of the content, beside its index.
        meter: counts it.

    Raises: BundleError of the meter.
    """
    refused: Collection[str] = ()
    with suppress(OSError, ValueError, KeyError):  # assembling the tree finds that out, too, and says so
        refused = read_refused(folder.parent)
    for _ in refused:
        meter.add_node()
    for item in walk(folder):
        meter.add_node()
        if not item.is_folder:
            meter.add_file((folder / item.path).stat().st_size)


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
        held = self._lock_file
        try:
            is_locked = held is not None and os.path.samestat(os.fstat(held), (self._root / "lock").stat())
        except OSError:
            return False
        return is_locked and all(map(os.path.isdir, (self._entries, self._staging, self._scratch)))

    def _release_deleted(self) -> None:
        # Removed folders cannot come back.
        for descriptor in [each for each in self._lock_files if not os.fstat(each).st_nlink]:
            self._lock_files.remove(descriptor)
            os.close(descriptor)

    def _lock(self) -> int:
        # The folder may have been moved away and back.
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

    def scratch(self) -> AbstractContextManager[Path]:
        """Provide an empty folder on the store's file system, which is removed afterwards.

        Raises: BundleError (StorageFull, StorageBroken), also if the folder was removed before the end of the block:
            then its result, or its error, may be due to that.
        """
        return self._temporary(self._scratch)

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
        return BundleError(Reason.STORAGE_BROKEN, f"{problem}, and the fetch retried", place=self._subject)

    # one key at a time

    @contextmanager
    def _locks(self, name: str) -> Iterator[_KeyLock]:
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
        # The system time may have been set back since.
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
                with (entry / "index").open("rb") as file:
                    size = int(json.loads(file.readline())["bytes"])
                yield entry.name, _Record(size=size, used=entry.stat().st_mtime_ns)
            except (OSError, ValueError, KeyError, TypeError):
                log.warning("removed content without a readable index", extra={"entry": entry.name})
                self._discard(entry)


def _mark_used(entry: Path, when: int) -> None:
    with suppress(OSError):  # only the order of removal depends on it
        os.utime(entry, ns=(when, when))


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Place:
    """What belongs at a path of the tree."""

    field: str
    origin: Path | None
    """The stored file; None for a folder."""


Parts = Sequence[tuple[str, str, Path]]


@contextmanager
def kept_whole(parts: Parts, root: Path) -> Iterator[None]:
    """Check after a block that reads a tree that nothing of it was removed meanwhile, as by `rm -rf`.

    Without that check, objects in files that are gone would look as if the bundle did not contain them.

    Args:
        parts: of which the block assembles the tree, see `assemble`.
        root: of the tree.

    Raises: BundleError (StorageBroken), also instead of an error of the block; whatever the block raises otherwise.
    """
    try:
        yield
    except Exception as error:
        # Sources that conflict were never assembled, and have too many files rather than too few.
        conflicts = isinstance(error, BundleError) and error.reason is Reason.CONTENT_CONFLICT
        if conflicts or _is_whole(parts, root):
            raise
        raise _removed(parts) from None
    if not _is_whole(parts, root):
        raise _removed(parts)


def _is_whole(parts: Parts, root: Path) -> bool:
    try:
        wanted = {join(target, path) for _, target, folder in parts for path in read_paths(folder.parent)}
        return wanted <= {item.path for item in walk(root)}
    except (OSError, ValueError, KeyError):
        return False


def _removed(parts: Parts) -> BundleError:
    field = parts[0][0] if len(parts) == 1 else "spec.sources"
    problem = "files in the content store were removed while they were read"
    return BundleError(Reason.STORAGE_BROKEN, f"{problem}; the content will be fetched again", place=field)


def assemble(parts: Parts, destination: Path) -> ContentTree:
    """Assemble the content of all sources in a new folder.

    Args:
        parts: for each source in spec order its field path (`spec.sources[1]`), its destination in the tree ('' is the
            root; otherwise a relative path that the CRD accepts), and the folder of its content in the store.
        destination: does not exist yet; unless it is on the store's file system, every file is copied.

    Raises: BundleError (ContentConflict for a file that two sources contain, or that is a folder in another;
        ContentRejected if together they have too much that must not be read; StorageFull).
    """
    places: dict[str, _Place] = {}
    for place, target, folder in parts:
        _claim_part(places, place, target, folder)
    with disk_errors_reported(parts[0][0] if parts else "spec.sources"):
        _place(places, destination)
        refused = dict(_find_refused(parts))
    try:
        check_refused(sum(len(path) + len(refusal.problem) for path, refusal in refused.items()))
    except Rejection as rejection:
        raise rejection.at("spec.sources") from None
    destinations = tuple(dict.fromkeys(target for _, target, _ in parts))
    return ContentTree(root=destination, destinations=destinations, refused=refused)


def replace_files(tree: ContentTree, files: Mapping[str, bytes], destination: Path, field: str) -> ContentTree:
    """Return a tree with other data in some of its files.

    Args:
        tree: stays as it is.
        files: by path, which the tree has.
        destination: does not exist yet.
        field: field path of who replaces them.

    Raises: BundleError (InvalidConfig for a path that is no file of the tree); OSError.
    """
    places = {item.path: _Place(field, None if item.is_folder else tree.root / item.path) for item in walk(tree.root)}
    if unknown := next((path for path in files if path not in places or places[path].origin is None), ""):
        raise BundleError(Reason.INVALID_CONFIG, f"{quote(unknown)} is no file of the content", place=field)
    _place({path: place for path, place in places.items() if path not in files}, destination)
    for path, data in files.items():
        written = destination / path
        written.write_bytes(data)
        written.chmod((tree.root / path).stat().st_mode & 0o777)
    return replace(tree, root=destination)


def _find_refused(parts: Parts) -> Iterator[tuple[str, Refusal]]:
    for place, target, folder in reversed(parts):
        for path, refusal in read_refused(folder.parent).items():
            yield join(target, path), replace(refusal, problem=f"{place}: {refusal.problem}")


def _claim_part(places: dict[str, _Place], field: str, target: str, folder: Path) -> None:
    elements = target.split("/") if target else []
    for depth in range(1, len(elements) + 1):
        _claim(places, "/".join(elements[:depth]), _Place(field, None))
    for item in walk(folder):
        origin = None if item.is_folder else folder / item.path
        _claim(places, join(target, item.path), _Place(field, origin))


def _claim(places: dict[str, _Place], path: str, place: _Place) -> None:
    other = places.setdefault(path, place)
    if other is place or (other.origin is None and place.origin is None):
        return
    both = "both contain it" if other.origin and place.origin else "it is a file in one and a directory in the other"
    raise BundleError(
        Reason.CONTENT_CONFLICT,
        f"{place.field}: path {quote(path)} conflicts with {other.field}: {both}; "
        "give them different destinations, or remove the path from one",
    )


def _place(places: dict[str, _Place], destination: Path) -> None:
    destination.mkdir(mode=0o755)
    for path, place in places.items():  # a folder was claimed before its content
        if place.origin is None:
            (destination / path).mkdir(mode=0o755)
        else:
            try:
                os.link(place.origin, destination / path, follow_symlinks=False)
            except OSError:  # another file system, too many links, links not supported
                shutil.copy(place.origin, destination / path, follow_symlinks=False)
