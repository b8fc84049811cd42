"""Digests as OCI writes them, `sha256:<hex>`, of bytes and of JSON values in one canonical form."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> bytes:
    """Return a JSON value in the one form that digests cover: keys sorted, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def digest_of(data: bytes) -> str:
    """Return the digest of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_of_json(value: Any) -> str:
    """Return the digest of a JSON value, whatever the order of its keys."""
    return digest_of(canonical_json(value))
