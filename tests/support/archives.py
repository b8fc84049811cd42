"""Archives for tests, tar and zip, valid and crafted ones."""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import zipfile
import zlib
from dataclasses import dataclass

BLOCK = 512


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, or a hard one."""

    target: str
    hard: bool = False


@dataclass(frozen=True, slots=True)
class Special:
    """An entry of any other type, as tar writes it: `tarfile.FIFOTYPE` and so on."""

    type: bytes


Value = bytes | Link | Special | None
"""A file's bytes, a link, something else, or None for a folder."""


def member(name: str, value: Value, mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode = mode
    if isinstance(value, bytes):
        info.size = len(value)
    elif isinstance(value, Link):
        info.type, info.linkname = tarfile.LNKTYPE if value.hard else tarfile.SYMTYPE, value.target
    else:
        info.type = value.type if value else tarfile.DIRTYPE
    return info


def tarball(*items: tuple[str, Value], form: int = tarfile.PAX_FORMAT, mode: int = 0o644) -> bytes:
    """Return an archive of (name, value) in this order; names may repeat."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, value in items:
            archive.addfile(member(name, value, mode), io.BytesIO(value if isinstance(value, bytes) else b""))
    return out.getvalue()


def extended(kind: bytes, body: bytes, *, size: int | None = None) -> bytes:
    """Return one extended header (`x`, `g`, `L`, `K`) with a body of our choice; `size` makes it lie."""
    info = tarfile.TarInfo("extended")
    info.type, info.size = kind, len(body) if size is None else size
    return info.tobuf(tarfile.GNU_FORMAT) + body + bytes(-len(body) % BLOCK)


def pax(**records: str) -> bytes:
    """Return a pax header; underscores in keys stand for dots."""
    return extended(b"x", b"".join(pax_record(key.replace("_", "."), value) for key, value in records.items()))


def pax_record(key: str, value: str) -> bytes:
    text = f" {key}={value}\n".encode()
    length = len(text) + len(str(len(text)))
    length = len(text) + len(str(length))
    return str(length).encode() + text


UNIX = 3
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")


@dataclass(frozen=True, slots=True)
class ZipSpecial:
    """An entry with any mode: `stat.S_IFIFO` and so on."""

    mode: int


ZipValue = bytes | Link | ZipSpecial | None
"""A file's bytes, a symbolic link, something else, or None for a folder."""


def zipped(*items: tuple[str, ZipValue], method: int = zipfile.ZIP_DEFLATED, mode: int = 0o644) -> bytes:
    """Return an archive of (name, value) in this order, as the standard library writes it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, value in items:
            info = zipfile.ZipInfo(name + "/" if value is None else name)
            info.create_system, info.compress_type, info.external_attr = UNIX, method, _mode(value, mode) << 16
            archive.writestr(info, _data(value))
    return out.getvalue()


def _mode(value: ZipValue, mode: int) -> int:
    if isinstance(value, Link):
        return stat.S_IFLNK | 0o777
    if isinstance(value, ZipSpecial):
        return value.mode
    return stat.S_IFDIR | 0o755 if value is None else stat.S_IFREG | mode


def _data(value: ZipValue) -> bytes:
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
