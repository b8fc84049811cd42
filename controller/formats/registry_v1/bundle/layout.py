"""Finds the bundle in a content tree, and reads its files.

A bundle is a folder with `manifests/` and `metadata/annotations.yaml`: the root of the tree or of a destination.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from api.errors import BundleError
from api.plugins import ContentTree
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.formats.budget import TextBudget
from controller.formats.recognition import (
    ANNOTATIONS,
    Archives,
    covers,
    has_service_version,
    is_below,
    is_file,
    is_folder,
    is_other_bundle,
    join,
    mentions,
    recognize_chart,
    recognize_first,
    recognize_image_lock,
    recognize_manifests,
    recognize_package,
    recognize_plain_bundle,
)

MANIFESTS = "manifests"
PROPERTIES = "metadata/properties.yaml"
DEPENDENCIES = "metadata/dependencies.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One bundle on disk."""

    root: Path
    """Of the bundle."""

    def manifests(self) -> Iterator[str]:
        """Yield the files in `manifests/` as paths in the bundle, in byte order of their names.

        Raises: BundleError (InvalidBundle).
        """
        folder = self.root / MANIFESTS
        for path in sorted(folder.iterdir(), key=lambda path: path.name.encode("utf-8", "surrogateescape")):
            name = f"{MANIFESTS}/{path.name}"
            if path.is_dir() and not path.is_symlink():
                raise BundleError(
                    Reason.INVALID_BUNDLE,
                    f'subdirectories are not allowed within the "{MANIFESTS}" directory of the bundle image filesystem:'
                    f' found "{name}"',
                )
            self._refuse_irregular(name)
            yield name

    def read(self, name: str, budget: TextBudget) -> bytes:
        """Return a file of the bundle.

        Raises: BundleError (InvalidBundle) if it is not a regular file; what `TextBudget.read` raises.
        """
        self._refuse_irregular(name)
        return budget.read(self.root / name, name)

    def mentions(self, name: str, word: bytes) -> bool:
        """Return whether a file of the bundle contains a word."""
        return mentions(self.root / name, word)

    def read_optional(self, name: str, budget: TextBudget) -> bytes:
        """Return a file of the bundle; empty if it does not exist.

        Raises: as `read`.
        """
        return self.read(name, budget) if (self.root / name).exists() else b""

    def _refuse_irregular(self, name: str) -> None:
        if not is_file(self.root / name):
            raise BundleError(Reason.INVALID_BUNDLE, f"{name}: not a regular file; replace it with the file itself")


def find_layout(tree: ContentTree) -> Layout:
    """Return the bundle in a tree.

    Raises: BundleError (NoContent if there is none; InvalidBundle if it is incomplete, or there are several; the reason
        of what must not be read of it).
    """
    folders = list(dict.fromkeys(("", *tree.destinations)))
    _check(tree, *(join(folder, name) for folder in folders for name in (MANIFESTS, ANNOTATIONS)))
    found = [folder for folder in folders if _is_bundle(tree.root, folder)]
    if len(found) > 1:
        places = " and ".join(f'"{folder or "."}"' for folder in found)
        problem = f"found {len(found)} bundles: {places}; create a BundleDeployment for each"
        raise BundleError(Reason.INVALID_BUNDLE, problem)
    if not found:
        raise _no_bundle(tree, folders)
    tree.check(lambda path: is_below(path, join(found[0], MANIFESTS)))
    _check(tree, join(found[0], PROPERTIES), join(found[0], DEPENDENCIES))
    return Layout(root=tree.root / found[0])


def _check(tree: ContentTree, *places: str) -> None:
    tree.check(lambda path: any(covers(path, place) for place in places))


def _no_bundle(tree: ContentTree, folders: list[str]) -> BundleError:
    for folder in folders:
        if is_file(tree.root / folder / ANNOTATIONS) and not is_folder(tree.root / folder / MANIFESTS):
            return BundleError(
                Reason.INVALID_BUNDLE, f'found "{ANNOTATIONS}" but no directory "{join(folder, MANIFESTS)}"; add it'
            )
    looked = ", ".join(f'"{join(folder, ANNOTATIONS)}"' for folder in folders)
    recognizers = (
        _recognize_elsewhere,
        recognize_plain_bundle,
        recognize_package,
        recognize_chart,
        Archives().recognize,
        _recognize_service_version,
        recognize_image_lock,
        recognize_manifests,
    )
    remedy = recognize_first(tree.root, *recognizers) or "add this file and manifests/"
    problem = f"no registry-v1 bundle found: looked for {looked}; {remedy}"
    return BundleError(Reason.NO_CONTENT, problem + tree.describe_refused())


def _recognize_elsewhere(root: Path, folder: str) -> str:
    """Return the message for a folder with a bundle that is not read; empty if it has none."""
    remedy = "remove its parent directories with git.directory or http.stripComponents"
    return f"found {quote(join(folder, ANNOTATIONS))}: {remedy}" if _is_bundle(root, folder) else ""


def _recognize_service_version(root: Path, folder: str) -> str:
    """Return the message for a folder that looks like `manifests/` of a bundle; empty if it does not."""
    annotations = posixpath.join(posixpath.dirname(folder), ANNOTATIONS)
    if Path(folder).name != MANIFESTS or is_file(root / annotations) or not has_service_version(root, folder):
        return ""
    return f'found a ClusterServiceVersion in "{folder}": add {ANNOTATIONS}'


def _is_bundle(root: Path, folder: str) -> bool:
    has_both = is_folder(root / folder / MANIFESTS) and is_file(root / folder / ANNOTATIONS)
    return has_both and not is_other_bundle(root, folder)
