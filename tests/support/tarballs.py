"""Tar archives for tests, valid and crafted ones."""

from __future__ import annotations

import io
import tarfile
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
