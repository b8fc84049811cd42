"""ConfigMaps of the install namespace: each key is a file, or they contain an archive, perhaps in parts.

Resolving reads all of it, so it passes the content on (`Access.keep`). `rukpak push` divides an archive among
ConfigMaps. Not here: reading ConfigMaps as the account (revisions/source_access.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Access, Entry, LocalContent, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import read_body
from rukpak.controller.content.digests import digest_of, digest_of_json
from rukpak.controller.content.limits import Rejection, quote

PART_BYTES = 900 << 10
"""Size of one part; an object in etcd has at most 1.5 MiB, and base64 adds a third."""
MOST_BYTES = 32 * MEBIBYTE
"""Size of all parts together."""
KEY = "bundle.tar.gz"
_PART = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3}) (sha256:[0-9a-f]{64})")
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".zip")


@dataclass(frozen=True, slots=True)
class Part:
    """What the annotation of a part says."""

    number: int
    """From 1."""
    count: int
    digest: str

    def __str__(self) -> str:
        return f"{self.number}/{self.count} {self.digest}"


def split(archive: bytes) -> list[tuple[Part, bytes]]:
    """Return the parts of an archive."""
    digest = digest_of(archive)
    pieces = [archive[start : start + PART_BYTES] for start in range(0, len(archive), PART_BYTES)]
    return [(Part(number, len(pieces), digest), piece) for number, piece in enumerate(pieces, 1)]


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
    archive = b""
    for name in sorted(parts, key=lambda name: parts[name].number):
        if found[name].files.keys() != {KEY}:
            raise Rejection(f'ConfigMap {quote(name)} must contain only the key "{KEY}"; push again')
        archive += found[name].files[KEY]
    if digest_of(archive) != first.digest:
        raise Rejection("the parts do not have the digest that their annotation says; push again")
    return archive


def _read_part(name: str, content: LocalContent) -> Part:
    matched = _PART.fullmatch(content.annotations.get(names.PART, ""))
    if matched is None:
        raise Rejection(f"ConfigMap {quote(name)} is no part of an archive, and others are; push again")
    return Part(int(matched[1]), int(matched[2]), matched[3])


def describe_names(given: Sequence[str]) -> str:
    """Return the names of ConfigMaps for status, shortened."""
    return given[0] if len(given) == 1 else f"{given[0]} and {len(given) - 1} more"


class ConfigMapSource:
    """The kind `configMap`. Parameters: name, names."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return what is wrong with the parameters, each with its field path below `path`."""
        given = _names(parameters)
        twice = sorted({name for name in given if given.count(name) > 1})
        return [f"{path}.names: {quote(name)} is listed twice; remove one" for name in twice]

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the names; their namespace never changes."""
        return {"names": _names(parameters)}

    def origin(self, parameters: Mapping[str, Any]) -> str:  # noqa: ARG002 - the same for all
        """Return the cluster: who gets a digest has read the content, from which it is computed here."""
        return "cluster"

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        """Read the content.

        Returns: pinned as `name@digest`, digest as that of the archive, or of the names and contents of the files.
        Raises: BundleError (NotFound, ContentRejected, UnsupportedContent, SecretForbidden).
        """
        try:
            digest, entries = _read(parameters, access)
            names = describe_names(_names(parameters))
            resolution = Resolution(pinned=f"{names}@{digest}", digest=digest, reference=names)
            if access.previous is None or access.previous.digest != digest:
                access.keep(resolution, entries)
        except Rejection as rejection:
            raise rejection.at(access.path) from None
        return resolution

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:  # noqa: ARG002 - the contract
        """Return the digest, which covers the names of the files, and how an archive is read."""
        return resolution.digest

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the files, or the entries of the archive.

        Raises: BundleError (PinnedContentGone if they have changed; NotFound, ContentRejected, UnsupportedContent,
            SecretForbidden).
        """
        try:
            digest, entries = _read(parameters, access)
            if digest != resolution.digest:
                changed = f"{describe_names(_names(parameters))} has changed since it was resolved"
                problem = f"{changed}; it is resolved again soon"
                raise BundleError(Reason.PINNED_CONTENT_GONE, problem, place=access.path)
            yield from entries
        except Rejection as rejection:  # by a reader, or thrown by the writer
            raise rejection.at(access.path) from None


def _read(parameters: Mapping[str, Any], access: Access) -> tuple[str, Iterator[Entry]]:
    found = {name: access.config_map(name) for name in _names(parameters)}
    if any(names.PART in each.annotations for each in found.values()):
        archive, files = KEY, {KEY: join(found)}
    else:
        files = {}
        for name, each in found.items():
            if common := sorted(files.keys() & each.files.keys()):
                raise Rejection(f"ConfigMap {quote(name)}: another one has the key {quote(common[0])}, too; rename it")
            files |= each.files
        name = next(iter(files), "")
        archive = name if len(files) == 1 and name.lower().endswith(_ARCHIVES) else ""
    if archive:
        data = files[archive]
        return digest_of(data), read_body(BytesIO(data), len(data), archive, 0, access.limits)
    entries = (Entry(path=name, size=len(data), data=BytesIO(data)) for name, data in sorted(files.items()))
    return digest_of_json({name: digest_of(data) for name, data in files.items()}), entries


def _names(parameters: Mapping[str, Any]) -> list[str]:
    name = parameters.get("name")
    return [name] if name else list(parameters.get("names") or ())
