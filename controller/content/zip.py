"""Reading zip: entries in the order of the directory, each body verified after it is read.

Format: sections 4.3.12 and 4.3.16 of PKWARE's APPNOTE.TXT, https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.

Why not `zipfile`: it reads the whole directory into objects, several times its size, before the number of entries can
be checked, decodes names without the UTF-8 flag as code page 437, and accepts entries that overlap.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from rukpak.api.plugins import Entry, EntryKind, Limits, Readable
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import (
    CHUNK,
    TRUNCATED,
    Ratio,
    Rejection,
    Unreadable,
    Unusable,
    check_target,
    decode,
    quote,
    read_exactly,
)

END_SIGNATURE = b"PK\x05\x06"
_RECORD_SIGNATURE = b"PK\x01\x02"
_RECORD = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_LONGEST_COMMENT = 0xFFFF
_ELSEWHERE = (0xFFFF, 0xFFFFFFFF)  # how fields of two and of four bytes refer to zip64
_ENCRYPTED = 0x0001 | 0x0040 | 0x2000
_STORED, _DEFLATED = 0, 8
_UNIX = (3, 19)  # hosts with Unix modes: Unix and macOS
_DAMAGED = "this is not a zip archive, or it is damaged; publish it again"
_LOCAL_SIGNATURE = b"PK\x03\x04"
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")


class Unsupported(Rejection):
    """Content is in a form that is not supported."""

    reason = Reason.UNSUPPORTED_CONTENT


class Seekable(Readable, Protocol):
    """A file: a zip archive is read from its end."""

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to an offset; return it relative to the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The directory according to the end record."""

    count: int
    directory: int
    """Offset of its first byte."""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One entry according to the directory."""

    name: str
    kind: EntryKind
    is_executable: bool
    is_deflated: bool
    checksum: int
    compressed: int
    size: int
    offset: int
    """Where its local header begins."""
    is_special: bool
    """Neither a file, a directory nor a link."""


def find_end(file: Seekable) -> End:
    """Find the end record, which only the comment of the archive may follow.

    Raises: Rejection if it is missing or wrong; Unsupported for zip64 and several disks.
    """
    length = file.seek(0, os.SEEK_END)
    start = max(0, length - _END.size - _LONGEST_COMMENT)
    file.seek(start)
    tail = read_exactly(file, length - start)
    at = tail.rfind(END_SIGNATURE)
    while at >= 0 and not _is_end(tail, at):  # the comment may contain the signature
        at = tail.rfind(END_SIGNATURE, 0, at)
    if at < 0:
        raise Rejection(TRUNCATED)
    _, disk, first_disk, here, count, size, offset, _ = _END.unpack_from(tail, at)
    if count == _ELSEWHERE[0] or _ELSEWHERE[1] in (size, offset):
        raise Unsupported("the archive uses zip64, which is not supported; publish a smaller archive, or a tar.gz")
    if disk or first_disk or here != count:
        raise Unsupported("the archive is split into several parts, which is not supported; publish it as one")
    if offset + size != start + at:  # other readers find another directory in a gap
        raise Rejection(_DAMAGED)
    return End(count=count, directory=offset, size=size)


def _is_end(tail: bytes, at: int) -> bool:
    comment = len(tail) - at - _END.size
    return comment >= 0 and _END.unpack_from(tail, at)[-1] == comment


def read_records(file: Seekable, end: End) -> Iterator[Record]:
    """Yield the entries that the directory lists.

    Raises: Rejection for a damaged directory; Unsupported for encryption, zip64, and methods other than stored and
        deflated.
    """
    position = end.directory
    for _ in range(end.count):
        file.seek(position)
        fields = _RECORD.unpack(read_exactly(file, _RECORD.size))
        name_length, extra_length, comment_length = fields[10:13]
        yield _record(fields, read_exactly(file, name_length))
        position += _RECORD.size + name_length + extra_length + comment_length
    if position != end.directory + end.size:
        raise Rejection(_DAMAGED)


def _record(fields: tuple[Any, ...], raw_name: bytes) -> Record:
    signature, made_by, _, flags, method, _, _, checksum, compressed, size, _, _, _, _, _, attributes, offset = fields
    name = decode(raw_name)
    if signature != _RECORD_SIGNATURE:
        raise Rejection(_DAMAGED)
    if flags & _ENCRYPTED:
        raise Unsupported(f"entry {quote(name)} is encrypted; publish the archive without encryption")
    if method not in (_STORED, _DEFLATED):
        raise Unsupported(f"entry {quote(name)} uses compression method {method}, which is not supported; use deflate")
    if _ELSEWHERE[1] in (compressed, size, offset):
        raise Unsupported(f"entry {quote(name)} uses zip64, which is not supported; publish a tar.gz")
    mode = attributes >> 16 if made_by >> 8 in _UNIX else 0
    kind = _kind(name, mode)
    return Record(
        name=name,
        kind=kind,
        is_executable=bool(mode & stat.S_IXUSR),
        is_deflated=method == _DEFLATED,
        checksum=checksum,
        compressed=compressed,
        size=size,
        offset=offset,
        is_special=kind is EntryKind.FILE and stat.S_IFMT(mode) not in (0, stat.S_IFREG),
    )


def _kind(name: str, mode: int) -> EntryKind:
    if name.endswith("/") or stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    return EntryKind.SYMBOLIC_LINK if stat.S_ISLNK(mode) else EntryKind.FILE


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
        # Its name and extra field may differ in length from the directory.
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
