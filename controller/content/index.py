"""The index of an entry of the content store: its files and folders, with sizes and digests, and what is not there.

The first line has the size and the digest of the rest; the second line lists the content. If something of the content
must not be read, a third line lists that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from api.plugins import Refusal
from api.v1alpha2.conditions import Reason
from controller.content.compression import CHUNK
from controller.content.disk import ForeignFileError, walk


def write_index(entry: Path, refused: Mapping[str, Refusal] | None = None) -> int:
    """Write the index beside the content of an entry, without the key, which may contain a secret.

    Args:
        entry: its folder.
        refused: what must not be read, by path.

    Returns: bytes of all files, and of the third line.
    Raises: ForeignFileError; OSError.
    """
    listing = _list(entry / "content")
    more = b"\n" + json.dumps(refused_to_json(refused), sort_keys=True).encode() if refused else b""
    body = json.dumps(listing, sort_keys=True).encode() + more
    size = sum(int(item[0]) for item in listing.values() if item) + len(more)
    head = json.dumps({"bytes": size, "sha256": hashlib.sha256(body).hexdigest()})
    (entry / "index").write_bytes(head.encode() + b"\n" + body)
    return size


def read_size(entry: Path) -> int:
    """Return the bytes of an entry according to its index, as `write_index` counts them.

    Raises: OSError, ValueError, KeyError, TypeError for an index that is missing or damaged.
    """
    with (entry / "index").open("rb") as file:
        return int(json.loads(file.readline())["bytes"])


def read_paths(entry: Path) -> set[str]:
    """Return the paths of all files and folders of an entry according to its index.

    Raises: OSError, ValueError, KeyError for an index that is missing or damaged.
    """
    return set(_read_listing(entry))


def read_refused(entry: Path) -> dict[str, Refusal]:
    """Return what must not be read of the content of an entry, by path; nothing if there is no index.

    Raises: OSError, ValueError, KeyError for an index that is damaged.
    """
    if not (entry / "index").exists():
        return {}
    return refused_from_json(json.loads(_read_body(entry).partition(b"\n")[2] or b"{}"))


def refused_to_json(refused: Mapping[str, Refusal]) -> dict[str, list[str]]:
    """Return what must not be read, by path, as JSON."""
    return {path: [each.reason.value, each.problem] for path, each in refused.items()}


def refused_from_json(value: Mapping[str, Sequence[str]]) -> dict[str, Refusal]:
    """Return what `refused_to_json` was given."""
    return {path: Refusal(problem=problem, reason=Reason(reason)) for path, (reason, problem) in value.items()}


def is_intact(entry: Path) -> bool:
    """Return whether an entry contains exactly what its index lists."""
    try:
        return bool(_read_listing(entry) == _list(entry / "content"))
    except (OSError, ValueError, KeyError, TypeError, ForeignFileError):
        return False


def _read_listing(entry: Path) -> Any:
    return json.loads(_read_body(entry).partition(b"\n")[0])


def _read_body(entry: Path) -> bytes:
    """Return the lines of an index that its first line has the digest of."""
    with (entry / "index").open("rb") as file:
        head, body = json.loads(file.readline()), file.read()
    if head["sha256"] != hashlib.sha256(body).hexdigest():
        raise ValueError("the listing was modified")
    return body


def _list(folder: Path) -> dict[str, list[Any]]:
    """Return the content of a folder: path to size and sha256 for a file, to an empty list for a folder."""
    return {item.path: [] if item.is_folder else _describe(folder / item.path) for item in walk(folder)}


def _describe(path: Path) -> list[Any]:
    digest, size = hashlib.sha256(), 0
    # Not hashlib.file_digest: it fills a buffer of 256 KiB with zeros for each file, however small.
    with path.open("rb", buffering=0) as file:
        while data := file.read(CHUNK):
            digest.update(data)
            size += len(data)
    return [size, digest.hexdigest()]
