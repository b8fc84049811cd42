"""Shortened digests and lists, for conditions and Events."""

from __future__ import annotations

from collections.abc import Iterable

SHORT_DIGEST = 12
NAMED = 3


def short(digest: str) -> str:
    """Return the first 12 digits of a digest, without its algorithm."""
    return digest.rpartition(":")[2][:SHORT_DIGEST]


def list_some(items: Iterable[object], most: int = NAMED) -> str:
    """Return the first items in alphabetical order, and how many more there are."""
    texts = sorted(map(str, items))
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
