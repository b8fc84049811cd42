"""The format `plain`: static YAML and JSON, applied as written and never templated.

Destinations are read in order of the sources: `manifests/` or, if it does not exist, the top level. Files are read by
name, documents in order. Manifests in subfolders of a folder that is read are an error, and so is content of another
format. Names that start with a dot are ignored: they belong to forges, editors and file systems.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

from api.errors import BundleError
from api.plugins import ContentTree, Rendering, RenderRequest
from api.v1alpha2.conditions import Reason
from controller.content.limits import name_key, quote
from controller.formats.manifests import Document, TextBudget, read_documents
from controller.formats.objects import collect_objects
from controller.formats.recognition import (
    ANNOTATIONS,
    CHART,
    MANIFEST_SUFFIXES,
    Archives,
    covers,
    find_manifests,
    is_below,
    is_folder,
    join,
    list_files,
    looks_like_manifest,
    recognize_bundle,
    recognize_chart,
    recognize_image_lock,
    recognize_package,
    walk_folders,
)
from controller.untrusted import mapping

_FOLDER = "manifests"
_SHOWN_PLACES = 6
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
_KUSTOMIZE = "kustomize.config.k8s.io/"


class PlainFormat:
    """Reads manifests. It takes no configuration."""

    reads_part = True

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        """Return an error for each key of `spec.config`."""
        return [
            f'{name_key("spec.config", key)}: unknown key; the format "plain" has no config, remove it'
            for key in sorted(config)
        ]

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:  # noqa: ARG002 - the contract of Format
        """Return the default of kubectl."""
        return "default"

    def render(self, request: RenderRequest) -> Rendering:
        """Return the objects of all destinations, ordered by source, file name and document.

        Raises: BundleError (InvalidBundle with file and line; NoContent; RenderLimitExceeded; the reason of a manifest
            that must not be read), LargeTextError.
        """
        manifests = _Manifests(request.tree)
        objects = collect_objects(manifests.documents(TextBudget.of(request.means)))
        if not objects:
            raise manifests.no_content()
        return Rendering(objects=objects, warnings=manifests.warnings())


class _Manifests:
    """The manifests of one content tree.

    Raises: BundleError (NoContent) if a destination contains another format.
    """

    def __init__(self, tree: ContentTree) -> None:
        self._tree, self._root = tree, tree.root
        self._destinations = tree.destinations
        self._folders = tuple(dict.fromkeys(self._folder(destination) for destination in tree.destinations))

    def documents(self, budget: TextBudget) -> Iterator[Document]:
        """Yield all documents.

        Raises: BundleError (InvalidBundle with file and line; RenderLimitExceeded), LargeTextError.
        """
        for folder in self._folders:
            for file in self._files(folder):
                for document in read_documents(budget.read(self._root / file, file), file, budget=budget):
                    _refuse_kustomization(document)
                    yield document

    def warnings(self) -> list[str]:
        """Return a warning for each place with manifests that are ignored."""
        bypassed = (place for place in dict.fromkeys(self._destinations) if place not in self._folders)
        beside = filter(None, (next(find_manifests(self._root, place), "") for place in bypassed))
        files = (path for folder in self._folders for path in list_files(self._root, folder, MANIFEST_SUFFIXES))
        hidden = (path for path in files if _is_hidden(path) and looks_like_manifest(self._root / path))
        return [
            *(f'{path}: ignored because a directory "{_FOLDER}" exists; move it there' for path in beside),
            *(f"{path}: ignored because it is hidden; remove the dot from its name" for path in hidden),
        ]

    def no_content(self) -> BundleError:
        """Return the error that says where manifests were expected, and what the content looks like instead."""
        places = [f'"{folder or "."}"' for folder in self._folders]
        more = f" and {len(places) - _SHOWN_PLACES} more" if len(places) > _SHOWN_PLACES else ""
        looked = f"no objects in the .yaml, .yml and .json files of {', '.join(places[:_SHOWN_PLACES])}{more}"
        remedy = self._find_other_format() or self._find_elsewhere() or 'put manifests in a directory "manifests"'
        return _no_content(looked, remedy + self._tree.describe_refused())

    def _folder(self, destination: str) -> str:
        """Return the folder with the manifests of a destination."""
        manifests = join(destination, _FOLDER)
        has_manifests = is_folder(self._root / manifests)
        folder = manifests if has_manifests else destination
        telling = (manifests, join(destination, ANNOTATIONS), join(folder, CHART))
        self._tree.check(lambda path: any(covers(path, place) for place in telling))
        other = (
            recognize_bundle(self._root, destination)
            or recognize_chart(self._root, folder)
            or recognize_package(self._root, folder)
        )
        if other:
            raise _no_content(f'no plain manifests in "{destination or "."}"', other)
        return folder

    def _files(self, folder: str) -> list[str]:
        """Return the manifests of a folder by name.

        Raises: BundleError (InvalidBundle) if there are others below it, or one is not a regular file.
        """
        entries = self._entries(folder)
        files = [name for name, entry in entries if _is_manifest(name, entry)]
        is_deep = bool(files) or _is_own(folder)
        self._tree.check(lambda path: self._is_read(path, folder, is_deep=is_deep))
        if is_deep:
            for name, entry in entries:
                self._refuse_manifests_below(name, entry, folder)
        return files

    def _is_read(self, path: str, folder: str, *, is_deep: bool) -> bool:
        """Return whether a refused path is read with a folder: anything in `manifests/`, a manifest elsewhere."""
        if covers(path, folder) or not is_below(path, folder):
            return covers(path, folder)
        *folders, name = path.removeprefix(f"{folder}/" if folder else "").split("/")
        subfolders = {join(folder, "/".join(folders[:depth])) for depth in range(1, len(folders) + 1)}
        if _is_own(folder) or not subfolders.isdisjoint(self._destinations):
            return subfolders.isdisjoint(self._destinations)
        is_manifest = name.endswith(MANIFEST_SUFFIXES) and not any(map(_is_hidden, (name, *folders)))
        return is_manifest and (is_deep or not folders)

    def _refuse_manifests_below(self, subfolder: str, entry: os.DirEntry[str], folder: str) -> None:
        if _is_hidden(subfolder) or not entry.is_dir(follow_symlinks=False) or subfolder in self._destinations:
            return  # a destination is read on its own
        for name, item in self._entries(subfolder):
            if _is_manifest(name, item):
                remedy = f'move the file to "{folder or "."}"'
                raise BundleError(Reason.INVALID_BUNDLE, f"{name}: manifests in subdirectories are not read; {remedy}")
            self._refuse_manifests_below(name, item, folder)

    def _entries(self, folder: str) -> list[tuple[str, os.DirEntry[str]]]:
        """Return the entries of a folder with their paths in the tree, by name; none if it does not exist."""
        if not is_folder(self._root / folder):
            return []
        with os.scandir(self._root / folder) as entries:
            return sorted(((join(folder, entry.name), entry) for entry in entries), key=itemgetter(0))

    def _find_other_format(self) -> str:
        """Return which other format a folder looks like, and what to do; empty if none does."""
        recognizers = (
            recognize_bundle,
            recognize_package,
            recognize_chart,
            Archives().recognize,
            recognize_image_lock,
        )
        for folder in walk_folders(self._root):
            for recognize in recognizers:
                if other := recognize(self._root, folder):
                    return other
        return ""

    def _find_elsewhere(self) -> str:
        """Return where manifests exist that are not read, and what to do; empty if there are none."""
        others = (folder for folder in walk_folders(self._root) if folder not in self._folders)
        path = next((path for folder in others for path in find_manifests(self._root, folder)), "")
        remedy = 'move it to "manifests", or remove its parent directories with git.directory or http.stripComponents'
        return f"found {quote(path)}: {remedy}" if path else ""


def _is_manifest(name: str, entry: os.DirEntry[str]) -> bool:
    if _is_hidden(name) or not name.endswith(MANIFEST_SUFFIXES) or entry.is_dir(follow_symlinks=False):
        return False
    if not entry.is_file(follow_symlinks=False):
        raise BundleError(Reason.INVALID_BUNDLE, f"{name}: not a regular file; replace it with the file itself")
    return True


def _is_own(folder: str) -> bool:
    """Return whether a folder is there for manifests."""
    return folder.rpartition("/")[2] == _FOLDER


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def _refuse_kustomization(document: Document) -> None:
    """Refuse input of kustomize, since the changes that it describes would be lost.

    Raises: BundleError (InvalidBundle).
    """
    value = mapping(document.value)
    is_named_so = document.file.rpartition("/")[2] in _KUSTOMIZATIONS
    if str(value.get("apiVersion", "")).startswith(_KUSTOMIZE) or (is_named_so and not value.get("kind")):
        problem = 'kustomize is not supported; publish the output of "kubectl kustomize", or remove the file'
        raise BundleError(Reason.INVALID_BUNDLE, f"{document.file}: {problem}")


def _no_content(problem: str, remedy: str) -> BundleError:
    return BundleError(Reason.NO_CONTENT, f"{problem}; {remedy}")
