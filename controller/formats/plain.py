"""The format `plain`: static YAML and JSON, applied as written and never templated.

Destinations are read in order of the sources: `manifests/` or, if it does not exist, the top level. Files are read by
name, documents in order. Manifests in subfolders of a folder that is read are an error, unless `recursive` is set in
`spec.config`; content of another format always is. With `recursive`, files and subfolders come in the order of their
names, as from `kubectl apply -R`. Names that start with a dot are ignored: they belong to forges, editors and file
systems. kubectl reads them, which Flux does not do for the usual ones.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import ContentTree, Rendering, RenderRequest
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import name_key, quote, some
from rukpak.controller.formats.manifests import Document, TextBudget, read_documents
from rukpak.controller.formats.objects import collect_objects, describe_type
from rukpak.controller.formats.recognition import (
    ANNOTATIONS,
    CHART,
    MANIFEST_SUFFIXES,
    Archives,
    NoContentError,
    Recognized,
    covers,
    find_manifests,
    is_below,
    is_file,
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
from rukpak.controller.untrusted import mapping

_FOLDER = "manifests"
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
_KUSTOMIZE = "kustomize.config.k8s.io/"
_RECURSIVE = "recursive"
_PUT_THEM = 'put manifests in a directory "manifests"'
_REMEDY = f"set spec.config.{_RECURSIVE}: true"


class PlainFormat:
    """Reads manifests. Its only option is whether to read those in subfolders, too."""

    reads_part = True

    def validate(self, config: Mapping[str, Any]) -> list[str]:
        """Return the errors of `spec.config`."""
        unknown = [
            f'{name_key("spec.config", key)}: unknown key; the format "plain" has the key {_RECURSIVE}'
            for key in sorted(config)
            if key != _RECURSIVE
        ]
        value = config.get(_RECURSIVE)
        if value is None or isinstance(value, bool):
            return unknown
        return [f"spec.config.{_RECURSIVE}: must be true or false, not {describe_type(value)}", *unknown]

    def suggest_namespace(self, tree: ContentTree, config: Mapping[str, Any]) -> str:  # noqa: ARG002 - the contract of Format
        """Return the default of kubectl."""
        return "default"

    def render(self, request: RenderRequest) -> Rendering:
        """Return the objects of all destinations, ordered by source, file and document.

        Raises: BundleError (InvalidBundle with file and line; NoContent; RenderLimitExceeded; the reason of a manifest
            that must not be read), LargeTextError.
        """
        manifests = _Manifests(request.tree, recursive=request.config.get(_RECURSIVE) is True)
        objects = collect_objects(manifests.documents(TextBudget.of(request.means)))
        if not objects:
            raise manifests.no_content()
        return Rendering(objects=objects, warnings=manifests.warnings())


def needs_recursive(root: Path) -> bool:
    """Return whether content of this format has manifests in subfolders that only `recursive` reads.

    Args:
        root: of the content, which is not of another format.
    """
    folder = _FOLDER if is_folder(root / _FOLDER) else ""
    paths = (path for subfolder in _walk_below(root, folder) for path in find_manifests(root, subfolder))
    return any(not _is_hidden(path) for path in paths)


def find_manifests_below(root: Path) -> Iterator[str]:
    """Yield the files that may be manifests of some content: in `manifests/` or at the top, and in subfolders."""
    folder = _FOLDER if is_folder(root / _FOLDER) else ""
    for place in (folder, *_walk_below(root, folder)):
        yield from (path for path in list_files(root, place, MANIFEST_SUFFIXES) if not _is_hidden(path))


class _Manifests:
    """The manifests of one content tree, with those in subfolders if it is `recursive`.

    Raises: BundleError (NoContent) if a destination contains another format.
    """

    def __init__(self, tree: ContentTree, *, recursive: bool) -> None:
        self._tree, self._root, self._recursive = tree, tree.root, recursive
        self._destinations = tree.destinations
        self._folders = tuple(dict.fromkeys(self._folder(destination) for destination in tree.destinations))
        # Read on their own, in the order of the sources.
        self._starts = frozenset((*self._destinations, *self._folders))

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
        charts = (join(place, CHART) for place in dict.fromkeys(self._destinations) if place not in self._folders)
        places = (place for folder in self._folders for place in (folder, *self._read_below(folder)))
        files = (path for place in places for path in list_files(self._root, place, MANIFEST_SUFFIXES))
        hidden = (path for path in files if _is_hidden(path) and looks_like_manifest(self._root / path))
        return [
            *(f'{path}: ignored because a directory "{_FOLDER}" exists; move it there' for path in beside),
            *(
                f'{path}: ignored because a directory "{_FOLDER}" exists; for the chart, set spec.format to "helm"'
                for path in charts
                if is_file(self._root / path)
            ),
            *(f"{path}: ignored because it is hidden; remove the dot from its name" for path in hidden),
        ]

    def no_content(self) -> BundleError:
        """Return the error that says where manifests were expected, and what the content looks like instead."""
        places = [f'"{folder or "."}"' for folder in self._folders]
        looked = f"no objects in the .yaml, .yml and .json files of {some(places)}"
        remedy = self._find_other_format() or self._find_elsewhere() or self._find_empty() or _PUT_THEM
        return NoContentError(looked, remedy, self._tree.describe_refused())

    def _folder(self, destination: str) -> str:
        manifests = join(destination, _FOLDER)
        has_manifests = is_folder(self._root / manifests)
        folder = manifests if has_manifests else destination
        telling = (manifests, join(destination, ANNOTATIONS), join(folder, CHART))
        self._tree.check(lambda path: any(covers(path, place) for place in telling))
        self._refuse_other_format(destination, folder)
        return folder

    def _refuse_other_format(self, place: str, folder: str) -> None:
        other = (
            recognize_bundle(self._root, place)
            or recognize_chart(self._root, folder)
            or recognize_package(self._root, folder)
        )
        if other:
            raise NoContentError(f'no plain manifests in "{place or "."}"', other)

    def _files(self, folder: str) -> list[str]:
        files = list(_list_manifests(self._root, folder))
        is_deep = self._recursive or bool(files) or _is_own(folder)
        self._tree.check(lambda path: self._is_read(path, folder, is_deep=is_deep))
        if self._recursive:
            for subfolder in self._read_below(folder):
                self._refuse_other_format(subfolder, subfolder)
                files += _list_manifests(self._root, subfolder)
            return sorted(files, key=lambda path: path.split("/"))
        subfolders = _walk_below(self._root, folder, self._starts) if is_deep else ()
        below = next((path for subfolder in subfolders for path in _list_manifests(self._root, subfolder)), "")
        if below:
            problem = f'manifests in subdirectories are not read; {_REMEDY}, or move the file to "{folder or "."}"'
            raise BundleError(Reason.INVALID_BUNDLE, problem, place=below)
        return files

    def _read_below(self, folder: str) -> Iterator[str]:
        return _walk_below(self._root, folder, self._starts) if self._recursive else iter(())

    def _is_read(self, path: str, folder: str, *, is_deep: bool) -> bool:
        if covers(path, folder) or not is_below(path, folder):
            return covers(path, folder)
        *folders, name = path.removeprefix(f"{folder}/" if folder else "").split("/")
        subfolders = {join(folder, "/".join(folders[:depth])) for depth in range(1, len(folders) + 1)}
        if _is_own(folder) or not subfolders.isdisjoint(self._destinations):
            return subfolders.isdisjoint(self._destinations)
        is_manifest = name.endswith(MANIFEST_SUFFIXES) and not any(map(_is_hidden, (name, *folders)))
        return is_manifest and (is_deep or not folders)

    def _find_other_format(self) -> Recognized | None:
        recognizers = (
            recognize_bundle,
            recognize_package,
            recognize_chart,
            Archives().recognize,
            recognize_image_lock,
        )
        found = (recognize(self._root, folder) for folder in walk_folders(self._root) for recognize in recognizers)
        return next(filter(None, found), None)

    def _find_empty(self) -> str:
        places = (place for folder in self._folders for place in (folder, *self._read_below(folder)))
        path = next((path for place in places for path in _list_manifests(self._root, place)), "")
        return f"{quote(path)} is empty, or has only comments or an empty List: write objects in it" if path else ""

    def _find_elsewhere(self) -> str:
        others = (folder for folder in walk_folders(self._root) if folder not in self._folders)
        path = next((path for folder in others for path in find_manifests(self._root, folder)), "")
        remedy = 'move it to "manifests", or remove its parent directories with git.directory or http.stripComponents'
        below = (place for folder in self._folders for place in _walk_below(self._root, folder, self._starts))
        if not self._recursive and path.rpartition("/")[0] in below and not _is_hidden(path):
            remedy = f"{_REMEDY}, {remedy}"
        return f"found {quote(path)}: {remedy}" if path else ""


def _walk_below(root: Path, folder: str, excluded: Collection[str] = ()) -> Iterator[str]:
    for name, entry in _entries(root, folder):
        if entry.is_dir(follow_symlinks=False) and not _is_hidden(name) and name not in excluded:
            yield name
            yield from _walk_below(root, name, excluded)


def _list_manifests(root: Path, folder: str) -> Iterator[str]:
    for name, entry in _entries(root, folder):
        if _is_hidden(name) or not name.endswith(MANIFEST_SUFFIXES) or entry.is_dir(follow_symlinks=False):
            continue
        if not entry.is_file(follow_symlinks=False):
            raise BundleError(Reason.INVALID_BUNDLE, "not a regular file; replace it with the file itself", place=name)
        yield name


def _entries(root: Path, folder: str) -> list[tuple[str, os.DirEntry[str]]]:
    if not is_folder(root / folder):
        return []
    with os.scandir(root / folder) as entries:
        return sorted(((join(folder, entry.name), entry) for entry in entries), key=itemgetter(0))


def _is_own(folder: str) -> bool:
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
        problem = "is for kustomize; set spec.format to kustomize.rukpak.io/v1 (package rukpak-kustomize)"
        problem = f'{problem}, publish the output of "kubectl kustomize", or remove the file'
        raise BundleError(Reason.INVALID_BUNDLE, problem, place=document.file)
