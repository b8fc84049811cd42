"""Compression by zstd: the standard library's from Python 3.14 on, its backport before."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

__all__ = ["MAGIC", "compress"]

MAGIC = b"\x28\xb5\x2f\xfd"
