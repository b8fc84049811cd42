"""The wire format: JSON that is also valid YAML, media types, warnings.

Apply patches pass the YAML parser of the API server, which rejects the surrogate pairs of `json.dumps` (any emoji) and
raw U+007F to U+009F, U+FFFE and U+FFFF, and silently turns a raw U+0085 into a space. Hence `encode`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from pydantic_core import from_json

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

LEVELS = 500
"""Levels of nesting that are kept of a value that is nested deeper."""
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)
_STEPS = bytes.maketrans(b"{[}]", b"\1\1\xff\xff")
_NO_STRUCTURE = bytes(set(range(256)) - set(b'"{[}]'))
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# RFC 9111, section 5.5 in its older form: code, agent, text in quotes; a header may contain several.
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


def encode(value: Any) -> bytes:
    """Return the value as JSON that a YAML 1.1 parser reads as the same value.

    Raises: ValueError for NaN, infinities and lone surrogates, which do not exist in JSON.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()


def decode(data: bytes) -> Any:
    """Return the value of JSON. The API server accepts ten thousand levels of nesting, which Python code cannot walk.

    A user must not hide all objects of a kind by writing such a one, so values below `LEVELS` become null; content and
    spec are never nested that deeply (formats/composer.py, building/request.py). How deep json itself reads is
    another matter in each version of Python.

    pydantic's parser takes half the time, and refuses deep nesting, half a surrogate pair and a byte order mark, which
    json reads.

    Raises: ValueError for invalid JSON.
    """
    try:
        return from_json(data)
    except ValueError:
        return json.loads(_cut(data) if _is_deep(data) else data)


def _is_deep(data: bytes) -> bool:
    # A single object rarely has that many brackets, and a list of them is walked by bytes' own methods only.
    if data.count(b"{") + data.count(b"[") <= LEVELS:
        return False
    marks = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(_STEPS, _NO_STRUCTURE)
    # Removing two quotes in a row changes nothing of what is within others.
    structure = b"".join(marks.replace(b'""', b"").split(b'"')[::2])
    return max(accumulate(memoryview(structure).cast("b")), default=0) > LEVELS


def _cut(data: bytes) -> bytes:
    kept, depth, pieces = 0, 0, []
    for match in _STRUCTURE.finditer(data):
        mark = match[0]
        if mark in (b"{", b"["):
            depth += 1
            if depth == LEVELS + 1:
                pieces += [data[kept : match.start()], b"null"]
        elif mark in (b"}", b"]"):
            if depth == LEVELS + 1:
                kept = match.end()
            depth -= 1
    return b"".join([*pieces, data[kept:]])


def parse_warnings(headers: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of `Warning` headers, each once, in order."""
    texts = (re.sub(r"\\(.)", r"\1", text) for header in headers for text in _WARNING.findall(header))
    return tuple(dict.fromkeys(texts))


def micro_time() -> str:
    """Return the current time as a MicroTime."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
