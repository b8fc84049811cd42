"""Reading tar: ustar, GNU and pax, as a stream, plain or compressed by gzip or zstd, with bounded headers.

Why not `tarfile`: it reads long-name and pax records whole before anything can be checked, needs quadratic time and
memory for a crafted pax record (2 GiB for one of 128 KiB; see CVE-2024-6232), and takes a damaged header for the end
of the archive. Here a damaged or truncated archive is always refused.

Compression is told apart by the first bytes, never by a name. Invariant: the ratio limit is enforced while the data is
unpacked, and memory is bounded by a few buffers. Errors of the underlying stream pass through unchanged.

Not here: archive.py checks paths and writes files. Formats:
https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html, "Basic Tar Format" of the GNU tar manual, and
layer.md of the OCI image specification.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import cast

from rukpak.api.plugins import Entry, EntryKind, Limits, Readable
from rukpak.controller.content.limits import (
    CHUNK,
    TRUNCATED,
    Ratio,
    Rejection,
    Unreadable,
    Unusable,
    decode,
    describe_bytes,
    quote,
    read_exactly,
)

if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdDecompressor, ZstdError, get_frame_info
else:
    from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError, get_frame_info

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def is_compressed(head: bytes) -> bool:
    """Return whether content is compressed in a supported way, by its first four bytes."""
    return head.startswith((_GZIP, _ZSTD))


class _Counted(io.RawIOBase):
    """Counts the compressed bytes that are read."""

    def __init__(self, stream: Readable, ratio: Ratio) -> None:
        self._stream, self._ratio = stream, ratio

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a buffer; return how many bytes there were."""
        data = self._stream.read(len(buffer))
        self._ratio.compressed += len(data)
        buffer[: len(data)] = data
        return len(data)


class Decompressed:
    """The plain bytes of a stream that may be compressed, within the ratio limit.

    Raises: Rejection for zstd with a larger window than is allocated.
    """

    def __init__(self, stream: Readable, limits: Limits) -> None:
        self._ratio = Ratio(limits)
        buffered: io.BufferedReader = io.BufferedReader(_Counted(stream, self._ratio), CHUNK)
        magic = buffered.peek(len(_ZSTD))
        self._plain: Readable = buffered
        if magic.startswith(_GZIP):
            self._plain = cast("Readable", gzip.GzipFile(fileobj=buffered))
        elif magic.startswith(_ZSTD):
            self._plain = _ZstdReader(buffered, limits)

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, and at most 64 KiB; nothing at the end.

        Raises: Rejection for damaged data and over the ratio limit.
        """
        try:
            data = self._plain.read(min(size, CHUNK))
        except (gzip.BadGzipFile, EOFError, zlib.error, ZstdError):
            raise Rejection("the compressed data is damaged or truncated; publish it again") from None
        self._ratio.charge(len(data))
        return data


# zstd: frames one after another, as many as an archive of files has, with bounded windows. The library's own reader of
# files is not used: it limits neither the number of frames, each of which takes up to 50 µs however small it is, nor
# says how large a window is.

# A window is allocated for every stream. RFC 8878 asks readers for 8 MiB at least; `zstd -20` writes 32.
_WINDOW_LOG = 25
_WINDOW_BYTES = 1 << _WINDOW_LOG
_FRAME_HEADER_BYTES = 18
"""Size of the header of a frame, at most (RFC 8878, section 3.1.1.1)."""
_SINGLE_SEGMENT = 0x20
_INPUT_BYTES = 8192  # what a frame leaves of it is copied: with large pieces, often for small frames
# zstd:chunked writes a frame for the header of each file and for each 64 KiB of its content.
_FRAMES_PER_ENTRY = 4


class _ZstdReader:
    """The plain bytes of a stream that starts with a frame of zstd.

    Raises: Rejection for a first frame with a larger window than is allocated.
    """

    def __init__(self, stream: io.BufferedReader, limits: Limits) -> None:
        _check_window(stream.peek(_FRAME_HEADER_BYTES))
        self._stream, self._most = stream, limits.entries * _FRAMES_PER_ENTRY
        self._frames, self._decompressor = 1, _start_frame()

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end.

        Raises: ZstdError for damaged data; Rejection for truncated data, which its checksum ends, and too many frames.
        """
        data = b""
        while not data:
            piece = b""
            if self._decompressor.eof:
                piece = self._decompressor.unused_data or self._stream.read1(_INPUT_BYTES)
                if not piece:
                    break
                self._frames += 1
                if self._frames > self._most:
                    raise Rejection(f"compressed by zstd in more than {self._most} frames; compress it in larger ones")
                self._decompressor = _start_frame()
            elif self._decompressor.needs_input:
                piece = self._stream.read1(_INPUT_BYTES)
                if not piece:
                    raise Rejection(TRUNCATED)
            data = self._decompressor.decompress(piece, size)
        return data


def _start_frame() -> ZstdDecompressor:
    return ZstdDecompressor(options={DecompressionParameter.window_log_max: _WINDOW_LOG})


def _check_window(head: bytes) -> None:
    try:
        size = _find_window(head)
    except (ZstdError, IndexError):  # reading it fails in the same way
        return
    if size > _WINDOW_BYTES:
        window = f"{describe_bytes(size)}, of at most {describe_bytes(_WINDOW_BYTES)}"
        raise Rejection(f"compressed by zstd with a window of {window}; compress it by zstd -19 or gzip")


def _find_window(head: bytes) -> int:
    descriptor, window = head[len(_ZSTD)], head[len(_ZSTD) + 1]
    if descriptor & _SINGLE_SEGMENT:  # all of it
        return get_frame_info(head).decompressed_size or 0
    base = 1 << 10 + (window >> 3)
    return base + base // 8 * (window & 7)


_BLOCK = 512
_CHECKSUM = slice(148, 156)
_DAMAGED = "this is not a tar archive, or it is damaged; publish it again"

_FILES = b"\x0007"  # the third: contiguous, which readers treat as a file today
_KINDS = {ord("1"): EntryKind.HARD_LINK, ord("2"): EntryKind.SYMBOLIC_LINK, ord("5"): EntryKind.DIRECTORY}
_SPARSE, _PAX_SPARSE = ord("S"), "GNU.sparse."
_DEVICES = {ord("3"): "a character device", ord("4"): "a block device", ord("6"): "a fifo"}
_IS_EXTENDED = (482, 504)  # where a header of GNU for a sparse file, and a block after it, say that one more follows
_LONG_NAME, _LONG_TARGET, _GLOBAL = ord("L"), ord("K"), ord("g")
_PAX = b"xX"

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_AUFS = ".wh..wh."


def is_tar(head: bytes) -> bool:
    """Return whether content may be a tar archive, by its first 512 bytes; compressed content always may."""
    if is_compressed(head):
        return True
    if len(head) < _BLOCK:
        return False
    if not head.strip(b"\0"):  # the end marker: an empty archive
        return True
    with suppress(Rejection):
        return bool(_Header(head))
    return False


def read_tar(stream: Readable, limits: Limits, *, layer: int | None = None) -> Iterator[Entry]:
    """Yield the entries of a tar archive, which may be compressed by gzip or zstd.

    Args:
        stream: the archive; read up to its end marker and the padding after it.
        limits: for ratio and header size; the writer enforces the others.
        layer: number of an OCI layer: whiteouts become entries, absolute link targets start at the root.

    Yields: devices, fifos, sparse files, unknown types, and whiteouts without a name, with a `refusal`.
    Raises: Rejection for damaged or truncated archives, and over the limits; whatever `stream` raises.
    """
    for entry in _read_entries(Decompressed(stream, limits), limits, layer or 0):
        if layer is None:
            yield entry
        elif (found := _of_layer(entry)) is not None:
            yield found


def _of_layer(entry: Entry) -> Entry | None:
    directory, name = posixpath.split(entry.path.rstrip("/"))
    if entry.refusal:
        return entry
    if name == _OPAQUE:
        return Entry(path=directory, kind=EntryKind.OPAQUE, layer=entry.layer)
    if name.startswith(_AUFS):
        return None
    if name.startswith(_WHITEOUT):
        return _whiteout(entry, directory, name.removeprefix(_WHITEOUT))
    if entry.target.startswith("/"):
        return _link_from_root(entry)
    return entry


def _whiteout(entry: Entry, directory: str, hidden: str) -> Entry:
    if hidden in ("", ".", ".."):
        nameless = Unusable(f"entry {quote(entry.path)} is a whiteout without a name; remove it")
        return replace(entry, data=Unreadable(nameless), refusal=nameless.refusal)
    return Entry(path=posixpath.join(directory, hidden), kind=EntryKind.WHITEOUT, layer=entry.layer)


def _link_from_root(entry: Entry) -> Entry:
    target = posixpath.normpath(entry.target).lstrip("/")  # the parent of the root is the root
    if entry.kind is EntryKind.SYMBOLIC_LINK:
        folder = posixpath.dirname(posixpath.normpath(entry.path))
        target = posixpath.relpath("/" + target, posixpath.join("/", folder))
    return Entry(path=entry.path, kind=entry.kind, target=target or ".", layer=entry.layer)


class _Body:
    """The bytes of one file."""

    def __init__(self, stream: Decompressed, size: int) -> None:
        self._stream, self.left = stream, size

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end. Raises: Rejection for a truncated archive."""
        if not self.left:
            return b""
        data = self._stream.read(min(size, self.left))
        if not data:
            raise Rejection(TRUNCATED)
        self.left -= len(data)
        return data


def _read_entries(stream: Decompressed, limits: Limits, layer: int) -> Iterator[Entry]:
    is_first = True
    while (found := _next_header(stream, limits, is_first=is_first)) is not None:
        is_first = False
        header, records = found
        entry, body = header.entry(records, stream, layer)
        size = body.left
        yield entry
        while body.read(CHUNK):
            pass
        read_exactly(stream, -size % _BLOCK)
    # The checksum of gzip follows the padding.
    left = limits.header_bytes
    while left > 0 and (data := stream.read(CHUNK)):
        left -= len(data)


def _next_header(stream: Decompressed, limits: Limits, *, is_first: bool) -> tuple[_Header, dict[str, bytes]] | None:
    """Return the header of the next entry, and what extended headers set for it; None at the end of the archive."""
    records: dict[str, bytes] = {}
    allowance = limits.header_bytes
    # Nothing but zeros is the end marker; some archives have none.
    while (block := read_exactly(stream, _BLOCK, or_nothing=not is_first)).strip(b"\0"):
        header = _Header(block)
        if header.type not in _EXTENDED:
            is_followed = header.type == _SPARSE and block[_IS_EXTENDED[0]]
            while is_followed:  # by more of the map of a sparse file
                is_followed = read_exactly(stream, _BLOCK)[_IS_EXTENDED[1]]
            return header, records
        allowance -= _BLOCK + header.size
        if allowance < 0:
            limit = describe_bytes(limits.header_bytes)
            raise Rejection(f"a header of the archive exceeds the limit of {limit}; shorten names and attributes")
        padded = read_exactly(stream, header.size + -header.size % _BLOCK)
        records.update(header.records(padded[: header.size]))
    if allowance != limits.header_bytes:
        raise Rejection(TRUNCATED)
    return None


class _Header:
    """One header block, its checksum verified."""

    def __init__(self, block: bytes) -> None:
        checksum = _number(block[_CHECKSUM])
        if sum(block) - sum(block[_CHECKSUM]) + len(block[_CHECKSUM]) * ord(" ") != checksum:
            raise Rejection(_DAMAGED)
        self.block = block
        self.type = block[156]
        self.size = _number(block[124:136])

    def records(self, data: bytes) -> dict[str, bytes]:
        """Return what an extended header sets for the next entry: `path`, `linkpath`, `size`, and `GNU.sparse.…`.

        Raises: Rejection for a damaged header, and a global one with these.
        """
        if self.type == _LONG_NAME:
            return {"path": _text(data)}
        if self.type == _LONG_TARGET:
            return {"linkpath": _text(data)}
        records = {
            key: value
            for key, value in _pax_records(data)
            if key in ("path", "linkpath", "size") or key.startswith(_PAX_SPARSE)
        }
        if self.type == _GLOBAL and records:
            raise Rejection("a global header of the archive sets the name or size of every entry; remove it")
        return records

    def entry(self, records: dict[str, bytes], stream: Decompressed, layer: int) -> tuple[Entry, _Body]:
        """Return the entry of a header, and its bytes, which are next in `stream`, whether or not they may be read.

        Raises: Rejection for a damaged header.
        """
        path = records.get("path", self._name())
        raw_name = records.get(f"{_PAX_SPARSE}name", path)  # where a sparse file has one, its path is another
        name, kind = decode(raw_name), self._kind(raw_name)
        size = _decimal(records["size"]) if "size" in records else self.size
        if kind is EntryKind.DIRECTORY and self.type in _FILES and size:
            # Go and tarfile take the following bytes for its content; others, for the next entry.
            raise Rejection(f"entry {quote(name)} is a file with the name of a directory; rename it")
        if kind is not EntryKind.FILE or self.type in _DEVICES:
            size = 0  # as in every reader: no data follows, whatever the field says
        executable = bool(_number(self.block[100:108]) & 0o100)
        body = _Body(stream, size)
        if problem := self._problem(records):
            unusable = Unusable(f"entry {quote(name)} {problem}")
            data = Unreadable(unusable)
            return Entry(path=name, size=size, data=data, layer=layer, refusal=unusable.refusal), body
        target = records.get("linkpath", _text(self.block[157:257]))
        entry = Entry(
            path=name,
            kind=kind,
            size=size,
            data=body if kind is EntryKind.FILE else None,
            executable=executable,
            target=decode(target) if kind in (EntryKind.HARD_LINK, EntryKind.SYMBOLIC_LINK) else "",
            layer=layer,
        )
        return entry, body

    def _kind(self, name: bytes) -> EntryKind:
        if self.type in _FILES and name.endswith(b"/"):
            return EntryKind.DIRECTORY
        return _KINDS.get(self.type, EntryKind.FILE)  # all readers skip the data of unknown types like that of files

    def _problem(self, records: dict[str, bytes]) -> str:
        if self.type == _SPARSE or any(key.startswith(_PAX_SPARSE) for key in records):
            return "is a sparse file; create the archive without sparse files"
        if self.type in _FILES or self.type in _KINDS:
            return ""
        return f"is {_DEVICES.get(self.type, 'of an unknown type')}; remove it"

    def _name(self) -> bytes:
        name, prefix = _text(self.block[:100]), b""
        if self.block[257:263] == b"ustar\0":  # GNU's magic differs, and so does its use of these bytes
            prefix = _text(self.block[345:500])
        return prefix + b"/" + name if prefix else name


_EXTENDED = frozenset((*_PAX, _LONG_NAME, _LONG_TARGET, _GLOBAL))


def _pax_records(data: bytes) -> Iterator[tuple[str, bytes]]:
    # The length must be exact.
    position = 0
    while position < len(data):
        digits, space, _ = data[position : position + 20].partition(b" ")
        record = data[position : position + (_decimal(digits) if space else 0)]
        key, equals, value = record[len(digits) + 1 :].partition(b"=")
        if not (equals and value.endswith(b"\n")) or len(record) != _decimal(digits):
            raise Rejection(_DAMAGED)
        yield decode(key), value[:-1]
        position += len(record)


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _decimal(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 19:  # noqa: PLR2004 - digits of the largest 64-bit number
        raise Rejection(_DAMAGED)
    return int(digits)


def _number(field: bytes) -> int:
    if field[0] == 0x80:  # noqa: PLR2004 - 0xff would be a negative one
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if digits and not digits.isdigit():
        raise Rejection(_DAMAGED)
    try:
        return int(digits or b"0", 8)
    except ValueError:
        raise Rejection(_DAMAGED) from None
