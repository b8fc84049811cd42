"""The wire format: JSON that is also valid YAML, media types, warnings.

Apply patches pass the YAML parser of the API server, which rejects the surrogate pairs of `json.dumps` (any emoji) and
raw U+007F to U+009F, U+FFFE and U+FFFF, and silently turns a raw U+0085 into a space. Hence `encode`.

Not here: reading JSON (untrusted.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# RFC 9111, section 5.5 in its older form: code, agent, text in quotes; a header may contain several.
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


def encode(value: Any) -> bytes:
    """Return the value as JSON that a YAML 1.1 parser reads as the same value.

    Raises: ValueError for NaN, infinities and lone surrogates, which do not exist in JSON.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def parse_warnings(headers: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of `Warning` headers, each once, in order."""
    texts = (re.sub(r"\\(.)", r"\1", text) for header in headers for text in _WARNING.findall(header))
    return tuple(dict.fromkeys(texts))


def micro_time() -> str:
    """Return the current time as a MicroTime."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
