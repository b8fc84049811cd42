"""The directory of a zip archive, record by record, in constant memory; refuses what is not supported.

Not here: the bodies (zip.py). Format: sections 4.3.12 and 4.3.16 of PKWARE's APPNOTE.TXT,
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from api.plugins import EntryKind, Readable
from api.v1alpha2.conditions import Reason
from controller.content.compression import TRUNCATED, read_exactly
from controller.content.limits import Rejection, decode, quote

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
    """Entries."""
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
    """Of its local header."""
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
    """Return whether exactly an end record and its comment start there."""
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
