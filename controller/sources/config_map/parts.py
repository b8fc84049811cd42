"""An archive in parts: how `rukpak push` divides it among ConfigMaps, and how it is put together again. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api import names
from api.plugins import MEBIBYTE, LocalContent
from controller.content.digests import digest_of
from controller.content.limits import Rejection, quote

PART_BYTES = 900 << 10
"""Of one part; an object in etcd has at most 1.5 MiB, and base64 adds a third."""
MOST_BYTES = 32 * MEBIBYTE
"""Of all parts together."""
KEY = "bundle.tar.gz"
_PART = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3}) (sha256:[0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Part:
    """What the annotation of a part says."""

    number: int
    """From 1."""
    count: int
    digest: str
    """Of the whole archive."""

    def __str__(self) -> str:
        return f"{self.number}/{self.count} {self.digest}"


def split(archive: bytes) -> list[tuple[Part, bytes]]:
    """Return the parts of an archive."""
    digest = digest_of(archive)
    pieces = [archive[start : start + PART_BYTES] for start in range(0, len(archive), PART_BYTES)]
    return [(Part(number, len(pieces), digest), piece) for number, piece in enumerate(pieces, 1)]


def are_parts(found: Mapping[str, LocalContent]) -> bool:
    """Whether any of the ConfigMaps is a part of an archive."""
    return any(names.PART in each.annotations for each in found.values())


def join(found: Mapping[str, LocalContent]) -> bytes:
    """Return the archive that ConfigMaps, by name, contain together.

    Raises: Rejection if a part is missing, or they are not of one archive.
    """
    parts = {name: _read_part(name, each) for name, each in found.items()}
    first = next(iter(parts.values()))
    for name, part in parts.items():
        if (part.count, part.digest) != (first.count, first.digest):
            raise Rejection(f"ConfigMap {quote(name)} is part of another archive than the first one; push again")
    missing = sorted(set(range(1, first.count + 1)) - {part.number for part in parts.values()})
    if missing or len(parts) != first.count:
        listed = ", ".join(map(str, missing[:3])) or "none"
        raise Rejection(f"{len(parts)} of {first.count} parts are named, missing: {listed}; push again")
    archive = b"".join(_piece(name, found[name]) for name in sorted(parts, key=lambda name: parts[name].number))
    if digest_of(archive) != first.digest:
        raise Rejection("the parts do not have the digest that their annotation says; push again")
    return archive


def _read_part(name: str, content: LocalContent) -> Part:
    matched = _PART.fullmatch(content.annotations.get(names.PART, ""))
    if matched is None:
        raise Rejection(f"ConfigMap {quote(name)} is no part of an archive, and others are; push again")
    return Part(int(matched[1]), int(matched[2]), matched[3])


def _piece(name: str, content: LocalContent) -> bytes:
    if content.files.keys() != {KEY}:
        raise Rejection(f'ConfigMap {quote(name)} must contain only the key "{KEY}"; push again')
    return content.files[KEY]


def describe_names(given: Sequence[str]) -> str:
    """Return the names of ConfigMaps for status, shortened."""
    return given[0] if len(given) == 1 else f"{given[0]} and {len(given) - 1} more"
