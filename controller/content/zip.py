"""Reading zip: entries in the order of the directory, each body verified after it is read.

Why not `zipfile`: it reads the whole directory into objects, several times its size, before the number of entries can
be checked, decodes names without the UTF-8 flag as code page 437, and accepts entries that overlap.

Not here: the directory (zip_directory.py); archive.py checks paths and writes files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from api.plugins import Entry, EntryKind, Limits, Readable
from controller.content.compression import CHUNK, Ratio, read_exactly
from controller.content.limits import Rejection, Unreadable, Unusable, check_target, decode, quote
from controller.content.zip_directory import END_SIGNATURE, Record, Seekable, find_end, read_records

_LOCAL_SIGNATURE = b"PK\x03\x04"
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")


def is_zip(head: bytes) -> bool:
    """Return whether content is a zip archive by its first four bytes."""
    return head.startswith((_LOCAL_SIGNATURE, END_SIGNATURE))


def read_zip(file: Seekable, limits: Limits) -> Iterator[Entry]:
    """Yield the entries of a zip archive in the order of its directory.

    Args:
        file: the archive; only this function may seek in it meanwhile.
        limits: for ratio and link targets; the writer enforces the others.

    Yields: devices, and links with a target that is too long, with a `refusal` and unread.
    Raises: Rejection for damaged or truncated archives, and over the limits; Unsupported for encryption, zip64, several
        disks and methods other than stored and deflated; whatever `file` raises.
    """
    end = find_end(file)
    ratio = Ratio(limits)
    claimed = 0
    for record in read_records(file, end):
        claimed += _LOCAL_HEADER.size + record.compressed
        if claimed > end.directory:  # entries that share their bytes: a bomb without any ratio
            raise Rejection("the entries of the archive overlap; publish it again")
        if unusable := _judge(record, limits):
            yield Entry(path=record.name, data=Unreadable(unusable), refusal=unusable.refusal)
            continue
        body = _Body(file, record, end.directory, ratio)
        yield _entry(record, body)
        body.finish()


def _judge(record: Record, limits: Limits) -> Unusable | None:
    if record.is_special:
        return Unusable(f"entry {quote(record.name)} is neither a file, a directory nor a link; remove it")
    try:
        check_target(record.name, record.size if record.kind is EntryKind.SYMBOLIC_LINK else 0, limits)
    except Unusable as unusable:
        return unusable
    return None


def _entry(record: Record, body: _Body) -> Entry:
    if record.kind is EntryKind.SYMBOLIC_LINK:
        target = decode(b"".join(iter(lambda: body.read(CHUNK), b"")))
        return Entry(path=record.name, kind=record.kind, target=target)
    if record.kind is EntryKind.DIRECTORY:
        return Entry(path=record.name, kind=record.kind)
    return Entry(path=record.name, size=record.size, data=body, executable=record.is_executable)


class _Body:
    """The plain bytes of one entry, with their count and checksum."""

    def __init__(self, file: Seekable, record: Record, bound: int, ratio: Ratio) -> None:
        self._record, self._ratio = record, ratio
        raw = _Raw(file, record, bound, ratio)
        self._plain: Readable = _Inflated(raw) if record.is_deflated else raw
        self._count = self._checksum = 0

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end.

        Raises: Rejection for a damaged entry and over the ratio limit.
        """
        try:
            data = self._plain.read(min(size, CHUNK))
        except zlib.error:
            raise _damaged(self._record) from None
        self._ratio.charge(len(data))
        self._count += len(data)
        self._checksum = zlib.crc32(data, self._checksum)
        if self._count > self._record.size:
            raise _damaged(self._record)
        return data

    def finish(self) -> None:
        """Read the rest, and verify size and checksum. Raises: Rejection for a damaged entry."""
        while self.read(CHUNK):
            pass
        if self._count != self._record.size or self._checksum != self._record.checksum:
            raise _damaged(self._record)


class _Raw:
    """The bytes of one entry as they are in the file, located at the first read."""

    def __init__(self, file: Seekable, record: Record, bound: int, ratio: Ratio) -> None:
        self._file, self._record, self._bound, self._ratio = file, record, bound, ratio
        self._left = -1  # not found yet

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, fewer at the end. Raises: Rejection for a damaged or truncated archive."""
        if self._left < 0:
            self._find()
        data = read_exactly(self._file, min(size, self._left))
        self._left -= len(data)
        self._ratio.compressed += len(data)
        return data

    def _find(self) -> None:
        """Seek past the local header, whose name and extra field may differ in length from the directory."""
        self._file.seek(self._record.offset)
        signature, *_, name_length, extra_length = _LOCAL_HEADER.unpack(read_exactly(self._file, _LOCAL_HEADER.size))
        start = self._record.offset + _LOCAL_HEADER.size + name_length + extra_length
        if signature != _LOCAL_SIGNATURE or start + self._record.compressed > self._bound:
            raise _damaged(self._record)
        self._file.seek(start)
        self._left = self._record.compressed


class _Inflated:
    """Deflated bytes, unpacked."""

    def __init__(self, raw: _Raw) -> None:
        self._raw, self._inflater = raw, zlib.decompressobj(-zlib.MAX_WBITS)

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end.

        Raises: zlib.error; Rejection for a damaged or truncated archive.
        """
        while size > 0 and not self._inflater.eof:  # zlib takes 0 for no bound
            pending = self._inflater.unconsumed_tail or self._raw.read(CHUNK)
            data = self._inflater.decompress(pending, size)
            if data or not pending:  # truncated if there is neither: size and checksum will show it
                return data
        return b""


def _damaged(record: Record) -> Rejection:
    return Rejection(f"entry {quote(record.name)} of the archive is damaged; publish it again")
