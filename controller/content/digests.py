"""Digests as OCI writes them, `sha256:<hex>`, of bytes and of JSON values in one canonical form."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
"""The only algorithm that every registry supports."""


def canonical_json(value: Any) -> bytes:
    """Return a JSON value in the one form that digests cover: keys sorted, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def digest_of(data: bytes) -> str:
    """Return the digest of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_of_json(value: Any) -> str:
    """Return the digest of a JSON value, whatever the order of its keys."""
    return digest_of(canonical_json(value))


def is_digest(text: str) -> bool:
    """Return whether a text from outside is a digest as written here."""
    return DIGEST.fullmatch(text) is not None
