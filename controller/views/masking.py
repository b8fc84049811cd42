"""Objects without the values of a Secret: the length and a hash of each are shown instead. Pure.

The hash has a key that is made for one view: it says whether two values are equal, and nobody can find a value by
hashing guesses.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from rukpak.controller.untrusted import mapping

Manifest = Mapping[str, Any]

_HASH_DIGITS = 12


def mask(manifest: Manifest, key: bytes) -> Manifest:
    """Return an object without the values of a Secret; any other object as it is.

    Args:
        manifest: the object.
        key: of the hashes.
    """
    if (manifest.get("apiVersion"), manifest.get("kind")) != ("v1", "Secret"):
        return manifest
    data = {name: _mask(_decode(value), key) for name, value in mapping(manifest, "data").items()}
    texts = {name: _mask(str(value).encode(), key) for name, value in mapping(manifest, "stringData").items()}
    shown = {"data": data, "stringData": texts}
    return {name: shown.get(name, value) for name, value in manifest.items()}


def _decode(value: object) -> bytes:
    try:
        return base64.b64decode(str(value or ""), validate=True)
    except ValueError:  # also of letters that are not ASCII
        return str(value).encode()


def _mask(value: bytes, key: bytes) -> str:
    digits = hmac.new(key, value, hashlib.sha256).hexdigest()[:_HASH_DIGITS]
    return f"{len(value)} {'byte' if len(value) == 1 else 'bytes'}, hash {digits}"
