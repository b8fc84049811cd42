"""Memory that was freed goes back to the system, so that it does not stay as large as the largest bundle ever was.

glibc by default gives each thread a heap of its own, and once a large block was freed it takes blocks of that size from
these heaps, too, where a small survivor above them keeps them: after one bundle of 20 MB, 90 MB stayed. See mallopt(3).
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h
_OPTIONS = ((_MMAP_THRESHOLD, 64 << 10), (_TRIM_THRESHOLD, 1 << 20), (_ARENA_MAX, 2))


def give_back_freed_memory() -> None:
    """Set up the allocator of this process, before it has threads. Only glibc needs it, and is asked."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for option, value in _OPTIONS:
            library.mallopt(option, value)
