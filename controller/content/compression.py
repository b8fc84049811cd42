"""Streams of bytes that may be compressed: gzip, zstd or neither, told apart by the first bytes, never by a name.

Invariant: the ratio limit is enforced while the data is unpacked, and memory is bounded by a few buffers. Errors of the
underlying stream pass through unchanged.
"""

from __future__ import annotations

import gzip
import io
import zlib
from typing import BinaryIO, cast

import zstandard

from api.plugins import MEBIBYTE, Limits, Readable
from controller.content.limits import Rejection

CHUNK = 64 * 1024
TRUNCATED = "the archive is truncated; publish it again"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# A window is allocated for every stream. RFC 8878 asks readers for 8 MiB at least; `zstd -20` writes 32.
_WINDOW_BYTES = 32 * MEBIBYTE
_HEADER_BYTES = 18
"""Of a frame of zstd, at most (RFC 8878, section 3.1.1.1)."""


def read_exactly(stream: Readable, size: int, *, or_nothing: bool = False) -> bytes:
    """Return `size` bytes; with `or_nothing` also none, if the stream ends right here.

    Raises: Rejection for a stream that ends too early.
    """
    parts: list[bytes] = []
    left = size
    while left and (data := stream.read(left)):
        parts.append(data)
        left -= len(data)
    if left and not (or_nothing and not parts):
        raise Rejection(TRUNCATED)
    return b"".join(parts)


def is_compressed(head: bytes) -> bool:
    """Return whether content is compressed in a supported way, by its first four bytes."""
    return head.startswith((_GZIP, _ZSTD))


def decompress(stream: Readable, limits: Limits) -> Decompressed:
    """Return the plain bytes of a stream that may be compressed.

    Raises: Rejection for zstd with a larger window than is allocated.
    """
    ratio = Ratio(limits)
    buffered = io.BufferedReader(_Counted(stream, ratio), CHUNK)
    magic = buffered.peek(len(_ZSTD))
    plain: BinaryIO = buffered
    if magic.startswith(_GZIP):
        plain = cast("BinaryIO", gzip.GzipFile(fileobj=buffered))
    elif magic.startswith(_ZSTD):
        _check_window(buffered.peek(_HEADER_BYTES))
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        plain = decompressor.stream_reader(buffered, read_across_frames=True)
    return Decompressed(plain, ratio)


def _check_window(head: bytes) -> None:
    try:
        size = zstandard.get_frame_parameters(head).window_size
    except zstandard.ZstdError:  # reading it fails in the same way
        return
    if size > _WINDOW_BYTES:
        problem = f"compressed by zstd with a window of {size // MEBIBYTE} MiB, of at most {_WINDOW_BYTES // MEBIBYTE}"
        raise Rejection(f"{problem}; compress it by zstd -19 or gzip")


class Ratio:
    """What compressed data unpacks to, against the ratio limit. `compressed` counts the bytes read so far."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self.compressed, self._unpacked = limits, 0, 0

    def charge(self, unpacked: int) -> None:
        """Count unpacked bytes.

        Raises: Rejection over the limit.
        """
        self._unpacked += unpacked
        if self._unpacked > self._limits.ratio_from and self._unpacked > self._limits.ratio * self.compressed:
            raise Rejection(
                f"the compressed data unpacks to more than the limit of {self._limits.ratio} times its size; "
                "compress it less"
            )


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
    """A decompressed stream within the ratio limit."""

    def __init__(self, plain: BinaryIO, ratio: Ratio) -> None:
        self._plain, self._ratio = plain, ratio

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, and at most 64 KiB; nothing at the end.

        Raises: Rejection for damaged data and over the ratio limit.
        """
        try:
            data = self._plain.read(min(size, CHUNK))
        except (gzip.BadGzipFile, EOFError, zlib.error, zstandard.ZstdError):
            raise Rejection("the compressed data is damaged or truncated; publish it again") from None
        self._ratio.charge(len(data))
        return data
