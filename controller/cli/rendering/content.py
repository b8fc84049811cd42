"""SOURCE of `rukpak render`: a local directory or file becomes content by the same rules as what a source fetches."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from api.plugins import ContentTree, Entry, Limits
from api.v1alpha2.types import Spec
from controller.cli.command import MisuseError, read_file
from controller.content.archive import write_entries
from controller.content.folder import read_folder
from controller.content.limits import Rejection
from controller.formats.recognition import (
    Archives,
    is_folder,
    recognize_bundle,
    recognize_chart,
    recognize_first,
    recognize_manifests,
)
from controller.sources.http.source import read_body
from controller.sources.image.reference import parse_reference

OCI = "oci://"
URLS = ("https://", "http://")
GIT = ("git@", "ssh://", "git://")
_STDIN = "stdin.yaml"


def is_remote(source: str) -> bool:
    """Return whether a source has to be fetched.

    Raises: MisuseError for a git repository, which needs more than an address.
    """
    if source.startswith(GIT) or source.endswith(".git"):
        raise MisuseError(f'"{source}": a git repository is rendered from a BundleDeployment; use -f FILE')
    return source.startswith((OCI, *URLS))


def make_spec(source: str, overrides: dict[str, Any]) -> Spec:
    """Return a spec with one source, an OCI reference or a URL; overrides are fields of the spec."""
    if source.startswith(OCI):
        block: dict[str, Any] = {"kind": "image", "image": {"ref": source.removeprefix(OCI)}}
    else:
        block = {"kind": "http", "http": {"url": source}}
    return Spec.model_validate({"format": "plain", "sources": [block], **overrides})


def unpack(source: str, folder: Path) -> ContentTree:
    """Write a local directory, archive or file of manifests into an empty folder; `-` is stdin.

    Returns: the folder, with what must not be read.
    Raises: MisuseError if it cannot be read; BundleError (ContentRejected, UnsupportedContent, StorageFull).
    """
    try:
        refused = write_entries(_read(source), folder, Limits(), source, records=True)
    except OSError as error:
        raise MisuseError(f'"{error.filename or source}": {error.strerror or "cannot be read"}') from error
    except MisuseError as error:
        if Path(source).exists() or not _looks_like_image(source):
            raise
        raise MisuseError(f"{error}; for an image or chart in a registry: {OCI}{source}") from None
    named = {path: replace(each, problem=f"{source}: {each.problem}") for path, each in refused.items()}
    return ContentTree(root=folder, destinations=("",), refused=named)


def _looks_like_image(source: str) -> bool:
    """Return whether a text is an image reference that names its registry, which a path hardly ever is."""
    try:
        reference = parse_reference(source)
    except ValueError:
        return False
    return source.startswith(f"{reference.registry}/")


def _read(source: str) -> Iterator[Entry]:
    if source != "-" and Path(source).is_dir():
        yield from read_folder(Path(source))
        return
    data = read_file(source)
    name = _STDIN if source == "-" else Path(source).name
    try:
        yield from read_body(io.BytesIO(data), len(data), name, 0, Limits())
    except Rejection as rejection:
        raise rejection.at(source) from None


def guess_format(root: Path) -> str:
    """Return the format of content that says what it is; `plain` for all other content."""
    if recognize_bundle(root, ""):
        return "registry-v1"
    return "helm" if not is_folder(root / "manifests") and _is_chart(root) else "plain"


def _is_chart(root: Path) -> bool:
    """Return whether content is a chart: a folder of one, or packed, as `helm push` stores it, without manifests."""
    if recognize_first(root, recognize_chart):
        return True
    return bool(recognize_first(root, Archives().recognize)) and not recognize_first(root, recognize_manifests)
