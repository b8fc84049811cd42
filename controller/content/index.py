"""The index of an entry of the content store: its files and folders, with sizes and digests.

The first line has the size and the digest of the second line; the second line lists the content.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from controller.content.compression import CHUNK
from controller.content.disk import ForeignFileError, walk


def write_index(entry: Path) -> int:
    """Write the index beside the content of an entry, without the key, which may contain a secret.

    Returns: bytes of all files.
    Raises: ForeignFileError; OSError.
    """
    listing = _list(entry / "content")
    body = json.dumps(listing, sort_keys=True).encode()
    size = sum(int(item[0]) for item in listing.values() if item)
    head = json.dumps({"bytes": size, "sha256": hashlib.sha256(body).hexdigest()})
    (entry / "index").write_bytes(head.encode() + b"\n" + body)
    return size


def read_size(entry: Path) -> int:
    """Return the bytes of all files of an entry according to its index.

    Raises: OSError, ValueError, KeyError, TypeError for an index that is missing or damaged.
    """
    with (entry / "index").open("rb") as file:
        return int(json.loads(file.readline())["bytes"])


def read_paths(entry: Path) -> set[str]:
    """Return the paths of all files and folders of an entry according to its index.

    Raises: OSError, ValueError, KeyError for an index that is missing or damaged.
    """
    return set(_read_listing(entry))


def is_intact(entry: Path) -> bool:
    """Return whether an entry contains exactly what its index lists."""
    try:
        return bool(_read_listing(entry) == _list(entry / "content"))
    except (OSError, ValueError, KeyError, TypeError, ForeignFileError):
        return False


def _read_listing(entry: Path) -> Any:
    """Return the listing of the second line, which the first line has the digest of."""
    with (entry / "index").open("rb") as file:
        head, body = json.loads(file.readline()), file.read()
    if head["sha256"] != hashlib.sha256(body).hexdigest():
        raise ValueError("the listing was modified")
    return json.loads(body)


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
