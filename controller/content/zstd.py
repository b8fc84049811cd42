"""Reading zstd: frames one after another, as many as an archive of files has, with bounded windows.

The library is the standard one of Python 3.14, and its backport before. Its own reader of files is not used: it limits
neither the number of frames, each of which takes up to 50 µs however small it is, nor says how large a window is.
Nothing else imports the library.
"""

from __future__ import annotations

import io
import sys

from rukpak.api.plugins import Limits
from rukpak.controller.content.limits import TRUNCATED, Rejection, describe_bytes

if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdDecompressor, ZstdError, compress, get_frame_info
else:
    from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError, compress, get_frame_info

__all__ = ["MAGIC", "ZstdError", "ZstdReader", "compress"]

MAGIC = b"\x28\xb5\x2f\xfd"
# A window is allocated for every stream. RFC 8878 asks readers for 8 MiB at least; `zstd -20` writes 32.
_WINDOW_LOG = 25
_WINDOW_BYTES = 1 << _WINDOW_LOG
_HEADER_BYTES = 18
"""Size of the header of a frame, at most (RFC 8878, section 3.1.1.1)."""
_SINGLE_SEGMENT = 0x20
_INPUT_BYTES = 8192  # what a frame leaves of it is copied: with large pieces, often for small frames
# zstd:chunked writes a frame for the header of each file and for each 64 KiB of its content.
_FRAMES_PER_ENTRY = 4


class ZstdReader:
    """The plain bytes of a stream that starts with a frame of zstd.

    Raises: Rejection for a first frame with a larger window than is allocated.
    """

    def __init__(self, stream: io.BufferedReader, limits: Limits) -> None:
        _check_window(stream.peek(_HEADER_BYTES))
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
                self._next_frame()
            elif self._decompressor.needs_input:
                piece = self._stream.read1(_INPUT_BYTES)
                if not piece:
                    raise Rejection(TRUNCATED)
            data = self._decompressor.decompress(piece, size)
        return data

    def _next_frame(self) -> None:
        self._frames += 1
        if self._frames > self._most:
            raise Rejection(f"compressed by zstd in more than {self._most} frames; compress it in larger ones")
        self._decompressor = _start_frame()


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
    """Return the bytes of content that a reader of a frame has to keep.

    Raises: ZstdError or IndexError for a header that is damaged or cut.
    """
    descriptor, window = head[len(MAGIC)], head[len(MAGIC) + 1]
    if descriptor & _SINGLE_SEGMENT:  # all of it
        return get_frame_info(head).decompressed_size or 0
    base = 1 << 10 + (window >> 3)
    return base + base // 8 * (window & 7)
