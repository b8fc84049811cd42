"""Decompression by content: gzip, zstd, or none, told apart by the first bytes and never by a name.

Invariant: what comes out is bounded by the ratio budget while it comes out, and memory by a few buffers. Errors of the
stream below pass through untouched.
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
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# A window is allocated for every stream. RFC 8878 asks readers for 8 MiB at least; `zstd -20` writes 32.
_WINDOW_BYTES = 32 * MEBIBYTE


def is_compressed(head: bytes) -> bool:
    """Return whether content is compressed in a way that is read, by its first four bytes."""
    return head.startswith((_GZIP, _ZSTD))


def decompress(stream: Readable, limits: Limits) -> Decompressed:
    """Return the plain bytes of a stream that may be compressed."""
    counted = _Counted(stream)
    buffered = io.BufferedReader(counted, CHUNK)
    magic = buffered.peek(len(_ZSTD))
    plain: BinaryIO = buffered
    if magic.startswith(_GZIP):
        plain = cast("BinaryIO", gzip.GzipFile(fileobj=buffered))
    elif magic.startswith(_ZSTD):
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        plain = decompressor.stream_reader(buffered, read_across_frames=True)
    return Decompressed(plain, counted, limits)


class _Counted(io.RawIOBase):
    """Counts the compressed bytes that went by."""

    def __init__(self, stream: Readable) -> None:
        self._stream, self.count = stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        self.count += len(data)
        buffer[: len(data)] = data
        return len(data)


class Decompressed:
    """A decompressed stream that keeps to the ratio budget."""

    def __init__(self, plain: BinaryIO, source: _Counted, limits: Limits) -> None:
        self._plain, self._source, self._limits = plain, source, limits
        self._count = 0

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, and at most 64 KiB; nothing at the end.

        Raises: Rejection for damaged data and for a ratio over the budget.
        """
        try:
            data = self._plain.read(min(size, CHUNK))
        except (gzip.BadGzipFile, EOFError, zlib.error, zstandard.ZstdError):
            raise Rejection("the compressed data is damaged or cut short; publish it again") from None
        self._count += len(data)
        if self._count > self._limits.ratio_from and self._count > self._limits.ratio * self._source.count:
            raise Rejection(
                f"the compressed data unpacks to more than the budget of {self._limits.ratio} times its size; "
                "publish it with less compression"
            )
        return data
