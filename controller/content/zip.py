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
    kind: EntryKind | None
    """None: neither a file, a directory nor a link."""
    is_executable: bool
    is_deflated: bool
    checksum: int
    compressed: int
    size: int
    offset: int
    """Where its local header begins."""


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
    return Record(
        name=name,
        kind=_kind(name, mode),
        is_executable=bool(mode & stat.S_IXUSR),
        is_deflated=method == _DEFLATED,
        checksum=checksum,
        compressed=compressed,
        size=size,
        offset=offset,
    )


def _kind(name: str, mode: int) -> EntryKind | None:
    if name.endswith("/") or stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    if stat.S_ISLNK(mode):
        return EntryKind.SYMBOLIC_LINK
    return EntryKind.FILE if stat.S_IFMT(mode) in (0, stat.S_IFREG) else None


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
        try:
            _check(record, limits)
        except Unusable as unusable:
            yield Entry(path=record.name, data=Unreadable(unusable), refusal=unusable.refusal)
            continue
        body = _Body(file, record, end.directory, ratio)
        yield _entry(record, body)
        body.finish()


def _check(record: Record, limits: Limits) -> None:
    if record.kind is None:
        raise Unusable(f"entry {quote(record.name)} is neither a file, a directory nor a link; remove it")
    if record.kind is EntryKind.SYMBOLIC_LINK:
        check_target(record.name, record.size, limits)


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
        raw = _read_raw(file, record, bound, ratio)
        self._record, self._ratio = record, ratio
        self._pieces = filter(None, _inflate(raw) if record.is_deflated else raw)
        self._rest = b""
        self._count = self._checksum = 0

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end.

        Raises: Rejection for a damaged or truncated entry and over the ratio limit.
        """
        if not self._rest:
            try:
                self._rest = next(self._pieces, b"")
            except zlib.error:
                raise _damaged(self._record) from None
            self._ratio.charge(len(self._rest))
            self._count += len(self._rest)
            self._checksum = zlib.crc32(self._rest, self._checksum)
            if self._count > self._record.size:
                raise _damaged(self._record)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def finish(self) -> None:
        """Read the rest, and verify size and checksum. Raises: Rejection for a damaged entry."""
        while self.read(CHUNK):
            pass
        if self._count != self._record.size or self._checksum != self._record.checksum:
            raise _damaged(self._record)


def _read_raw(file: Seekable, record: Record, bound: int, ratio: Ratio) -> Iterator[bytes]:
    """Yield the bytes of one entry as they are in the file. Nothing is read before the first is wanted."""
    # Its name and extra field may differ in length from the directory.
    file.seek(record.offset)
    signature, *_, name_length, extra_length = _LOCAL_HEADER.unpack(read_exactly(file, _LOCAL_HEADER.size))
    start = record.offset + _LOCAL_HEADER.size + name_length + extra_length
    if signature != _LOCAL_SIGNATURE or start + record.compressed > bound:
        raise _damaged(record)
    file.seek(start)
    left = record.compressed
    while left:
        data = read_exactly(file, min(CHUNK, left))
        left -= len(data)
        ratio.compressed += len(data)
        yield data


def _inflate(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield deflated bytes unpacked, at most 64 KiB each; size and checksum will show it if they are truncated."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    while not inflater.eof:
        pending = inflater.unconsumed_tail or next(pieces, b"")
        data = inflater.decompress(pending, CHUNK)
        if not (data or pending):
            return
        yield data


def _damaged(record: Record) -> Rejection:
    return Rejection(f"entry {quote(record.name)} of the archive is damaged; publish it again")
