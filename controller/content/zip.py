"""Reading zip: entries in the order of the directory, each body verified when it was read.

Why not `zipfile`: it makes an object of every record before anything can be checked, several times the size of the
directory, and takes names that are not marked as UTF-8 for code page 437. Here memory does not grow with the archive,
and one that lies about sizes, overlaps or is damaged is refused.

Not here: the directory (zip_directory.py). Paths are handed on as they came; archive.py checks them and writes the
files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from api.plugins import Entry, EntryKind, Limits, Readable
from controller.content.compression import CHUNK
from controller.content.limits import Rejection, quote
from controller.content.zip_directory import (
    END_SIGNATURE,
    Record,
    Seekable,
    decode,
    find_end,
    read_exactly,
    read_records,
)

_LOCAL_SIGNATURE = b"PK\x03\x04"
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")


def is_zip(head: bytes) -> bool:
    """Return whether content is a zip archive by its first four bytes."""
    return head.startswith((_LOCAL_SIGNATURE, END_SIGNATURE))


def read_zip(file: Seekable, limits: Limits) -> Iterator[Entry]:
    """Yield the entries of a zip archive in the order of its directory.

    Args:
        file: the archive; nobody else moves in it meanwhile.
        limits: of ratio, and of a link's target; the others are for the writer.

    Raises: Rejection for devices, damaged or cut archives, and budgets; Unsupported for encryption, zip64, several
        disks and methods other than stored and deflated; whatever `file` raises.
    """
    end = find_end(file)
    ratio = _Ratio(limits)
    claimed = 0
    for record in read_records(file, end):
        claimed += _LOCAL_HEADER.size + record.compressed
        if claimed > end.directory:  # entries that share their bytes: a bomb without any ratio
            raise Rejection("the entries of the archive overlap; publish it again")
        body = _Body(file, record, end.directory, ratio)
        yield _entry(record, body, limits)
        body.finish()


def _entry(record: Record, body: _Body, limits: Limits) -> Entry:
    if record.kind is EntryKind.SYMBOLIC_LINK:
        return Entry(path=record.name, kind=record.kind, target=_target(record, body, limits))
    if record.kind is EntryKind.DIRECTORY:
        return Entry(path=record.name, kind=record.kind)
    return Entry(path=record.name, size=record.size, data=body, executable=record.is_executable)


def _target(record: Record, body: _Body, limits: Limits) -> str:
    if record.size > limits.path_bytes:
        raise Rejection(
            f"entry {quote(record.name)} links to a name over the budget of {limits.path_bytes} bytes; shorten it"
        )
    return decode(b"".join(iter(lambda: body.read(CHUNK), b"")))


class _Ratio:
    """What all bodies together unpack to, against the ratio budget."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self.compressed, self._unpacked = limits, 0, 0

    def charge(self, unpacked: int) -> None:
        self._unpacked += unpacked
        if self._unpacked > self._limits.ratio_from and self._unpacked > self._limits.ratio * self.compressed:
            raise Rejection(
                f"the compressed data unpacks to more than the budget of {self._limits.ratio} times its size; "
                "publish it with less compression"
            )


class _Body:
    """The plain bytes of one entry, counted and summed up."""

    def __init__(self, file: Seekable, record: Record, bound: int, ratio: _Ratio) -> None:
        self._record, self._ratio = record, ratio
        raw = _Raw(file, record, bound, ratio)
        self._plain: Readable = _Inflated(raw) if record.is_deflated else raw
        self._count = self._checksum = 0

    def read(self, size: int, /) -> bytes:
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
        """Read what is left, and compare size and checksum."""
        while self.read(CHUNK):
            pass
        if self._count != self._record.size or self._checksum != self._record.checksum:
            raise _damaged(self._record)


class _Raw:
    """The bytes of one entry as they are in the file, found when they are first asked for."""

    def __init__(self, file: Seekable, record: Record, bound: int, ratio: _Ratio) -> None:
        self._file, self._record, self._bound, self._ratio = file, record, bound, ratio
        self._left = -1  # not found yet

    def read(self, size: int, /) -> bytes:
        if self._left < 0:
            self._find()
        data = read_exactly(self._file, min(size, self._left))
        self._left -= len(data)
        self._ratio.compressed += len(data)
        return data

    def _find(self) -> None:
        """Go behind the local header, whose name and extra field may have other lengths than the directory's."""
        self._file.seek(self._record.offset)
        signature, *_, name_length, extra_length = _LOCAL_HEADER.unpack(read_exactly(self._file, _LOCAL_HEADER.size))
        start = self._record.offset + _LOCAL_HEADER.size + name_length + extra_length
        if signature != _LOCAL_SIGNATURE or start + self._record.compressed > self._bound:
            raise _damaged(self._record)
        self._file.seek(start)
        self._left = self._record.compressed


class _Inflated:
    """What deflated bytes unpack to."""

    def __init__(self, raw: _Raw) -> None:
        self._raw, self._inflater = raw, zlib.decompressobj(-zlib.MAX_WBITS)

    def read(self, size: int, /) -> bytes:
        while size > 0 and not self._inflater.eof:  # zlib takes 0 for no bound
            pending = self._inflater.unconsumed_tail or self._raw.read(CHUNK)
            data = self._inflater.decompress(pending, size)
            if data or not pending:  # nothing of nothing: cut short, as size and checksum will tell
                return data
        return b""


def _damaged(record: Record) -> Rejection:
    return Rejection(f"entry {quote(record.name)} of the archive is damaged; publish it again")
