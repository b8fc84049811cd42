"""ConfigMaps of the install namespace: each key is a file, or they contain an archive.

Resolving reads all of it, so it passes the content on (`Access.keep`). Not here: reading ConfigMaps as the account
(revisions/credentials.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

from api.errors import BundleError
from api.plugins import Access, Entry, Limits, Resolution
from api.v1alpha2.conditions import Reason
from controller.content.digests import digest_of, digest_of_json
from controller.content.limits import Rejection, quote
from controller.sources.config_map.parts import KEY, are_parts, describe_names, join
from controller.sources.http.body import READ_AS, read_body

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".zip")


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
            content = _read(parameters, access)
            names = describe_names(_names(parameters))
            resolution = Resolution(pinned=f"{names}@{content.digest}", digest=content.digest, reference=names)
            if access.previous is None or access.previous.digest != content.digest:
                access.keep(resolution, content.entries(access.limits))
        except Rejection as rejection:
            raise rejection.at(access.path) from None
        return resolution

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:  # noqa: ARG002 - the contract
        """Return the digest, which covers the names of the files, and how an archive is read."""
        return f"{resolution.digest}|{READ_AS}"

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the files, or the entries of the archive.

        Raises: BundleError (PinnedContentGone if they have changed; NotFound, ContentRejected, UnsupportedContent,
            SecretForbidden).
        """
        try:
            content = _read(parameters, access)
            if content.digest != resolution.digest:
                problem = "has changed since it was resolved; it is resolved again soon"
                raise BundleError(
                    Reason.PINNED_CONTENT_GONE, f"{access.path}: {describe_names(_names(parameters))} {problem}"
                )
            yield from content.entries(access.limits)
        except Rejection as rejection:  # by a reader, or thrown by the writer
            raise rejection.at(access.path) from None


class _Content:
    """What ConfigMaps contain: one archive, or files by name."""

    def __init__(self, files: Mapping[str, bytes], archive: str = "") -> None:
        self._files, self._archive = files, archive
        digests = {name: digest_of(data) for name, data in files.items()}
        self.digest = digests[archive] if archive else digest_of_json(digests)

    def entries(self, limits: Limits) -> Iterator[Entry]:
        """Yield the entries. Raises: Rejection."""
        if self._archive:
            data = self._files[self._archive]
            yield from read_body(BytesIO(data), len(data), self._archive, 0, limits)
            return
        for name, data in sorted(self._files.items()):
            yield Entry(path=name, size=len(data), data=BytesIO(data))


def _read(parameters: Mapping[str, Any], access: Access) -> _Content:
    """Return the content. Raises: BundleError of the reader; Rejection."""
    found = {name: access.config_map(name) for name in _names(parameters)}
    if are_parts(found):
        return _Content({KEY: join(found)}, KEY)
    files: dict[str, bytes] = {}
    for name, each in found.items():
        if common := sorted(files.keys() & each.files.keys()):
            raise Rejection(f"ConfigMap {quote(name)}: another one has the key {quote(common[0])}, too; rename it")
        files |= each.files
    return _Content(files, _archive_among(files))


def _archive_among(files: Mapping[str, bytes]) -> str:
    """Return the name of the only file if it is that of an archive; else an empty text."""
    name = next(iter(files), "")
    return name if len(files) == 1 and name.lower().endswith(_ARCHIVES) else ""


def _names(parameters: Mapping[str, Any]) -> list[str]:
    name = parameters.get("name")
    return [name] if name else list(parameters.get("names") or ())
