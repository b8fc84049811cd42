"""Objects as people compare them: without what the server and the controller record, and with Secrets masked. Pure.

A Secret is shown by the length and a hash of each value. The hash has a key that is made for one comparison: it says
whether two values are equal, and nobody can find a value by hashing guesses.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from api import names
from controller.apply.managed_fields import LAST_APPLIED
from controller.untrusted import mapping, mappings

Manifest = Mapping[str, Any]

_HASH_DIGITS = 12
_METADATA = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"})
_LABELS = frozenset({names.OWNER_LABEL, names.OWNER_SHARD})
# LAST_APPLIED also has the values of Secrets.
_ANNOTATIONS = frozenset({names.APPLIED_DIGEST, names.OWNER_UID, names.HOOK_RUN, names.RELEASED_FROM, LAST_APPLIED})
_FIRST = ("apiVersion", "kind", "metadata")


def clean(manifest: Manifest) -> dict[str, Any]:
    """Return what a bundle says about an object, with the keys of all maps in order."""
    metadata = {key: value for key, value in mapping(manifest, "metadata").items() if key not in _METADATA}
    for key, marks in (("labels", _LABELS), ("annotations", _ANNOTATIONS)):
        _keep(metadata, key, {name: text for name, text in mapping(metadata, key).items() if name not in marks})
    references = [each for each in mappings(metadata, "ownerReferences") if each.get("kind") != names.KIND]
    _keep(metadata, "ownerReferences", references)
    fields = {key: value for key, value in manifest.items() if key != "status"} | {"metadata": metadata}
    ordered = [*(key for key in _FIRST if key in fields), *sorted(fields.keys() - set(_FIRST))]
    return {key: json.loads(json.dumps(fields[key], sort_keys=True)) for key in ordered}


def _keep(metadata: dict[str, Any], key: str, value: Any) -> None:
    metadata.pop(key, None)
    if value:
        metadata[key] = value


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
