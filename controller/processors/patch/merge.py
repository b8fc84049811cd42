"""JSON merge patches (RFC 7386)."""

from __future__ import annotations

from typing import Any


def merge(value: Any, patch: Any) -> Any:
    """Return the value with a merge patch applied; neither is modified."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), change)
    return result
