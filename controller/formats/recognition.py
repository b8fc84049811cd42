"""Recognizes the format of content, so that a format can report content that is meant for another."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import Rejection
from rukpak.controller.content.tar import read_tar

CHART = "Chart.yaml"
"""The file that makes a folder a chart."""
ANNOTATIONS = "metadata/annotations.yaml"
"""The file that makes a folder a registry-v1 bundle, unless it says that it is plain manifests (RukPak up to 0.21)."""
_REGISTRY_TYPE, _PLAIN_TYPE = b"registry+v1", b"plain+v0"
_GUESSED_PLAIN, _GUESSED_HELM = b"plain", b"helm"
"""Written by `opm alpha bundle generate` after a look into manifests/; there are OLM bundles that say "plain"."""
_TYPE = re.compile(
    rb"operators\.operatorframework\.io\.bundle\.mediatype\.v1[\"']?[ \t]*:[ \t]*[\"']?([A-Za-z0-9+.-]+)"
)
_COMMENT = re.compile(rb"(?:^|[ \t])#")
_SERVICE_VERSION = b"ClusterServiceVersion"
_LINE_BYTES, _MOST_TYPES = 4096, 100
"""Before a media type, of which a comment is looked for; and media types that are looked at."""
_PACKAGE = (b"packageName", b"channels", b"currentCSV")
MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
CHART_SUFFIXES = (".tgz", ".tar.gz")
_ENTRIES = 10_000
"""Entries of an archive that are checked; `helm package` writes Chart.yaml first."""
_HEADER_BYTES = 512
_BYTES_PER_BYTE = 20
"""That are accounted for an archive that cannot be read, or not to its end."""


@dataclass(frozen=True, slots=True)
class Recognized:
    """What content looks like that a format does not read."""

    found: str
    remedy: str
    format: str = ""
    """The format that reads it; empty if none does."""

    def __str__(self) -> str:
        return f"{self.found}: {self.remedy}"


Recognizer: TypeAlias = Callable[[Path, str], Recognized | None]
"""Recognizes a folder of the tree."""


class NoContentError(BundleError):
    """A format finds nothing that it reads.

    Args:
        problem: what is missing.
        found: what there is instead, or else what to do.
        refused: paths that must not be read; ends the message.
    """

    def __init__(self, problem: str, found: Recognized | str, refused: str = "") -> None:
        super().__init__(Reason.NO_CONTENT, f"{problem}; {found}{refused}")
        self._missing, self._found, self._refused = problem, found, refused

    def with_flag(self, flag: str) -> NoContentError:
        """Return the same for a command line, where a flag names the format."""
        found = self._found
        if isinstance(found, Recognized) and found.format:
            found = replace(found, remedy=f"pass {flag} {found.format}")
        return NoContentError(self._missing, found, self._refused)


def recognize_chart(root: Path, folder: str) -> Recognized | None:
    """Recognize a folder of the tree that is a Helm chart."""
    chart = join(folder, CHART)
    return _recognized(chart, "a Helm chart", "helm") if is_file(root / chart) else None


class Archives:
    """Finds packaged charts in a tree. All its archives together are unpacked as far as a source may be.

    Args:
        limits: of one archive; by default those of a source.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._left = self._limits.total_bytes

    def recognize(self, root: Path, folder: str) -> Recognized | None:
        """Recognize a folder of the tree with a packaged Helm chart."""
        return next((_recognized(path, "a Helm chart", "helm") for path in self.find_charts(root, folder)), None)

    def find_charts(self, root: Path, folder: str) -> Iterator[str]:
        """Yield the paths of packaged charts in a folder of the tree, without those below it."""
        return (path for path in list_files(root, folder, CHART_SUFFIXES) if self._is_chart(root / path))

    def _is_chart(self, path: Path) -> bool:
        if self._left <= 0:
            return False
        with path.open("rb") as file:
            try:
                for entry in islice(read_tar(file, self._limits), _ENTRIES):
                    self._left -= _HEADER_BYTES + entry.size
                    if entry.path.removeprefix("./").split("/")[1:] == [CHART]:
                        return True
                    if self._left <= 0:
                        break
            except Rejection:
                self._left -= _BYTES_PER_BYTE * path.stat().st_size
        return False


def recognize_bundle(root: Path, folder: str) -> Recognized | None:
    """Recognize a folder of the tree that is a registry-v1 bundle."""
    annotations = join(folder, ANNOTATIONS)
    if not is_file(root / annotations):
        return None
    says = _bundle_type(root / annotations)
    is_bundle = says == _REGISTRY_TYPE if says else mentions(root / annotations, _REGISTRY_TYPE)
    return _recognized(annotations, "a registry-v1 bundle", "registry-v1") if is_bundle else None


def recognize_plain_bundle(root: Path, folder: str) -> Recognized | None:
    """Recognize a folder of the tree that says it is a bundle of plain manifests."""
    annotations = join(folder, ANNOTATIONS)
    if not is_file(root / annotations) or _bundle_type(root / annotations) not in (_PLAIN_TYPE, _GUESSED_PLAIN):
        return None
    return _recognized(annotations, "a bundle of plain manifests", "plain")


def is_other_bundle(root: Path, folder: str) -> bool:
    """Return whether a folder of the tree with manifests/ and annotations says that it is no registry-v1 bundle."""
    says = _bundle_type(root / join(folder, ANNOTATIONS))
    return says == _PLAIN_TYPE or (
        says in (_GUESSED_PLAIN, _GUESSED_HELM) and not has_service_version(root, join(folder, "manifests"))
    )


def recognize_package(root: Path, folder: str) -> Recognized | None:
    """Recognize a folder of the tree with the package manifest of an operator."""
    for path in list_files(root, folder, MANIFEST_SUFFIXES):
        is_named_so = "package" in path.rpartition("/")[2]
        if is_named_so and mentions(root / path, *_PACKAGE) and not looks_like_manifest(root / path):
            remedy = 'convert the folder with "operator-sdk pkgman-to-bundle", and publish one of the bundles'
            return Recognized(f'found "{path}", the package manifest of an operator, which is not supported', remedy)
    return None


def recognize_image_lock(root: Path, folder: str) -> Recognized | None:
    """Recognize a folder of the tree that is an imgpkg bundle."""
    path = join(folder, ".imgpkg/images.yml")
    if not is_file(root / path) or not mentions(root / path, b"ImagesLock"):
        return None
    remedy = f'render its files with ytt and "kbld -f {path}", and publish the output'
    return Recognized(f'found "{path}", which belongs to an imgpkg bundle', remedy)


def has_service_version(root: Path, folder: str) -> bool:
    """Return whether a folder of the tree seems to contain a ClusterServiceVersion."""
    return any(mentions(root / path, _SERVICE_VERSION) for path in list_files(root, folder, MANIFEST_SUFFIXES))


def recognize_manifests(root: Path, folder: str) -> Recognized | None:
    """Recognize a folder of the tree with plain manifests."""
    path = next(find_manifests(root, folder), "")
    return _recognized(path, "plain manifests", "plain") if path else None


def recognize_first(root: Path, *recognizers: Recognizer) -> Recognized | None:
    """Return what the first of the recognizers finds, each in all folders of the tree."""
    return next(
        filter(None, (recognize(root, folder) for recognize in recognizers for folder in walk_folders(root))), None
    )


def find_manifests(root: Path, folder: str) -> Iterator[str]:
    """Return the files of a folder of the tree that look like manifests, by name."""
    return (path for path in list_files(root, folder, MANIFEST_SUFFIXES) if looks_like_manifest(root / path))


def looks_like_manifest(path: Path) -> bool:
    """Return whether a file mentions the fields that every Kubernetes object has."""
    return mentions(path, b"apiVersion", b"kind")


@contextmanager
def _mapped(path: Path) -> Iterator[bytes | mmap.mmap]:
    # The file may be large, and is not read into memory.
    with path.open("rb") as file:
        if not path.stat().st_size:  # cannot be mapped
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            yield text


def mentions(path: Path, *words: bytes) -> bool:
    """Return whether a file contains all words; it may be large and is not read into memory."""
    with _mapped(path) as text:
        return all(text.find(word) >= 0 for word in words)


def is_in_file(pattern: re.Pattern[bytes], path: Path) -> bool:
    """Return whether a file contains a match; it may be large and is not read into memory."""
    with _mapped(path) as text:
        return pattern.search(text) is not None


def _bundle_type(path: Path) -> bytes:
    with _mapped(path) as text:
        for match in islice(_TYPE.finditer(text), _MOST_TYPES):
            before = text[max(0, match.start() - _LINE_BYTES) : match.start()].rpartition(b"\n")[2]
            if not _COMMENT.search(before):
                return match[1]
    return b""


def walk_folders(root: Path) -> Iterator[str]:
    """Yield every folder of a tree before its subfolders, the root as ''. Links are not followed."""
    for path, folders, _ in os.walk(root):
        folders.sort()
        yield "/".join(Path(path).relative_to(root).parts)


def list_files(root: Path, folder: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the files of a folder with one of the suffixes, by name."""
    if is_folder(root / folder):
        for path in sorted((root / folder).iterdir()):
            if path.name.endswith(suffixes) and is_file(path):
                yield join(folder, path.name)


def covers(path: str, place: str) -> bool:
    """Return whether a path of the tree is a place in it, or a folder above that."""
    return path == place or place.startswith(f"{path}/")


def is_below(path: str, folder: str) -> bool:
    """Return whether a path of the tree is in a folder; '' is the root."""
    return not folder or path.startswith(f"{folder}/")


def join(folder: str, name: str) -> str:
    """Return the path of a name in a folder of the tree; '' is the root."""
    return f"{folder}/{name}" if folder and name else folder or name


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file and not a link."""
    return path.is_file() and not path.is_symlink()


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder and not a link."""
    return path.is_dir() and not path.is_symlink()


def _recognized(path: str, what: str, name: str) -> Recognized:
    return Recognized(f'found "{path}", which looks like {what}', f'set spec.format to "{name}"', name)
