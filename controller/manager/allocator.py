"""Return freed memory to the system, so that the process does not stay as large as its largest bundle.

By default glibc has a heap for each thread, and after a large block was freed it serves blocks of that size from these
heaps, where one small block above them prevents their return: 90 MB remained after a bundle of 20 MB. See mallopt(3).
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h
_OPTIONS = ((_MMAP_THRESHOLD, 64 << 10), (_TRIM_THRESHOLD, 1 << 20), (_ARENA_MAX, 2))


def return_freed_memory() -> None:
    """Configure the allocator of this process, if it is glibc's; call it before starting threads."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for option, value in _OPTIONS:
            library.mallopt(option, value)
