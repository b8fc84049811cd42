"""Zip archives for tests, valid and crafted ones."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass

from tests.support.tarballs import Link

UNIX = 3
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")


@dataclass(frozen=True, slots=True)
class Special:
    """An entry with any mode: `stat.S_IFIFO` and so on."""

    mode: int


Value = bytes | Link | Special | None
"""A file's bytes, a symbolic link, something else, or None for a folder."""


def zipped(*items: tuple[str, Value], method: int = zipfile.ZIP_DEFLATED, mode: int = 0o644) -> bytes:
    """Return an archive of (name, value) in this order, as the standard library writes it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, value in items:
            info = zipfile.ZipInfo(name + "/" if value is None else name)
            info.create_system, info.compress_type, info.external_attr = UNIX, method, _mode(value, mode) << 16
            archive.writestr(info, _data(value))
    return out.getvalue()


def _mode(value: Value, mode: int) -> int:
    if isinstance(value, Link):
        return stat.S_IFLNK | 0o777
    if isinstance(value, Special):
        return value.mode
    return stat.S_IFDIR | 0o755 if value is None else stat.S_IFREG | mode


def _data(value: Value) -> bytes:
    if isinstance(value, Link):
        return value.target.encode()
    return value if isinstance(value, bytes) else b""


@dataclass(frozen=True, kw_only=True)
class Crafted:
    """An entry with headers of our choice; None: the correct value."""

    name: bytes = b"f"
    data: bytes = b"12345"
    deflate: bool = False
    method: int | None = None
    flags: int = 0
    size: int | None = None
    compressed: int | None = None
    checksum: int | None = None
    offset: int | None = None
    local_signature: bytes = b"PK\x03\x04"
    local_name: bytes | None = None
    absent: bool = False
    """Listed, and not written: `offset` leads to another's bytes."""


def crafted(*entries: Crafted, count: int | None = None, comment: bytes = b"", **end: int) -> bytes:
    """Return an archive that is written byte by byte; `end` has `disk`, `size` and `offset` of the end record."""
    out, directory = b"", b""
    for entry in entries:
        body = _deflate(entry.data) if entry.deflate else entry.data
        offset = len(out) if entry.offset is None else entry.offset
        local_name = entry.name if entry.local_name is None else entry.local_name
        if not entry.absent:
            out += _LOCAL.pack(entry.local_signature, 20, entry.flags, 0, 0, 0, 0, 0, 0, len(local_name), 0)
            out += local_name + body
        directory += _central(entry, len(body), offset) + entry.name
    number = len(entries) if count is None else count
    position, size = end.get("offset", len(out)), end.get("size", len(directory))
    record = _END.pack(b"PK\x05\x06", end.get("disk", 0), 0, number, number, size, position, len(comment))
    return out + directory + record + comment


def _central(entry: Crafted, length: int, offset: int) -> bytes:
    method = (8 if entry.deflate else 0) if entry.method is None else entry.method
    checksum = zlib.crc32(entry.data) if entry.checksum is None else entry.checksum
    compressed = length if entry.compressed is None else entry.compressed
    size = len(entry.data) if entry.size is None else entry.size
    numbers = (20, 20, entry.flags, method, 0, 0, checksum, compressed, size, len(entry.name), 0, 0, 0, 0, 0, offset)
    return _CENTRAL.pack(b"PK\x01\x02", *numbers)


def _deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()
