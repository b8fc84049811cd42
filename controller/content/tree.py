"""Assembling the content tree: the union of all sources, each at its destination.

Invariant: a file comes from one source. Conflicts are found before anything is written, and nothing is overwritten.
Files are hard links into the content store where the file system supports them: the tree is read-only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from api.errors import BundleError
from api.plugins import ContentTree, Refusal
from api.v1alpha2.conditions import Reason
from controller.content.disk import disk_errors_reported, walk
from controller.content.limits import Rejection, check_refused, quote
from controller.content.store import read_paths, read_refused


@dataclass(frozen=True, slots=True)
class _Place:
    """What belongs at a path of the tree."""

    field: str
    origin: Path | None
    """The stored file; None for a folder."""


Parts = Sequence[tuple[str, str, Path]]


@contextmanager
def kept_whole(parts: Parts, root: Path) -> Iterator[None]:
    """Check after a block that reads a tree that nothing of it was removed meanwhile, as by `rm -rf`.

    Without that check, objects in files that are gone would look as if the bundle did not contain them.

    Args:
        parts: of which the block assembles the tree, see `assemble`.
        root: of the tree.

    Raises: BundleError (StorageBroken), also instead of an error of the block; whatever the block raises otherwise.
    """
    try:
        yield
    except Exception as error:
        # Sources that conflict were never assembled, and have too many files rather than too few.
        conflicts = isinstance(error, BundleError) and error.reason is Reason.CONTENT_CONFLICT
        if conflicts or _is_whole(parts, root):
            raise
        raise _removed(parts) from None
    if not _is_whole(parts, root):
        raise _removed(parts)


def _is_whole(parts: Parts, root: Path) -> bool:
    """Whether a tree contains everything that its parts contained when they were stored."""
    try:
        wanted = {"/".join([target, path] if target else [path]) for _, target, folder in parts
                  for path in read_paths(folder.parent)}  # fmt: skip
        return wanted <= {item.path for item in walk(root)}
    except (OSError, ValueError, KeyError):
        return False


def _removed(parts: Parts) -> BundleError:
    field = parts[0][0] if len(parts) == 1 else "spec.sources"
    problem = "files in the content store were removed while they were read"
    return BundleError(Reason.STORAGE_BROKEN, f"{field}: {problem}; the content will be fetched again")


def assemble(parts: Parts, destination: Path) -> ContentTree:
    """Assemble the content of all sources in a new folder.

    Args:
        parts: for each source in spec order its field path (`spec.sources[1]`), its destination in the tree ('' is the
            root; otherwise a relative path that the CRD accepts), and the folder of its content in the store.
        destination: does not exist yet; unless it is on the store's file system, every file is copied.

    Raises: BundleError (ContentConflict for a file that two sources contain, or that is a folder in another;
        ContentRejected if together they have too much that must not be read; StorageFull).
    """
    places: dict[str, _Place] = {}
    for field, target, folder in parts:
        _claim_part(places, field, target, folder)
    with disk_errors_reported(parts[0][0] if parts else "spec.sources"):
        _place(places, destination)
        refused = dict(_find_refused(parts))
    try:
        check_refused(sum(len(path) + len(refusal.problem) for path, refusal in refused.items()))
    except Rejection as rejection:
        raise rejection.at("spec.sources") from None
    destinations = tuple(dict.fromkeys(target for _, target, _ in parts))
    return ContentTree(root=destination, destinations=destinations, refused=refused)


def _find_refused(parts: Parts) -> Iterator[tuple[str, Refusal]]:
    """Yield what must not be read by its path in the tree; of one path, that of the first source comes last."""
    for field, target, folder in reversed(parts):
        for path, refusal in read_refused(folder.parent).items():
            yield (
                "/".join([target, path] if target else [path]),
                replace(refusal, problem=f"{field}: {refusal.problem}"),
            )


def _claim_part(places: dict[str, _Place], field: str, target: str, folder: Path) -> None:
    elements = target.split("/") if target else []
    for depth in range(1, len(elements) + 1):
        _claim(places, "/".join(elements[:depth]), _Place(field, None))
    for item in walk(folder):
        path = "/".join([*elements, item.path])
        _claim(places, path, _Place(field, None if item.is_folder else folder / item.path))


def _claim(places: dict[str, _Place], path: str, place: _Place) -> None:
    other = places.setdefault(path, place)
    if other is place or (other.origin is None and place.origin is None):
        return
    both = "both contain it" if other.origin and place.origin else "it is a file in one and a directory in the other"
    raise BundleError(
        Reason.CONTENT_CONFLICT,
        f"{place.field}: path {quote(path)} conflicts with {other.field}: {both}; "
        "give them different destinations, or remove the path from one",
    )


def _place(places: dict[str, _Place], destination: Path) -> None:
    destination.mkdir(mode=0o755)
    for path, place in places.items():  # a folder was claimed before its content
        if place.origin is None:
            (destination / path).mkdir(mode=0o755)
        else:
            _link_or_copy(place.origin, destination / path)


def _link_or_copy(origin: Path, path: Path) -> None:
    with suppress(OSError):  # another file system, too many links, links not supported: copy instead
        os.link(origin, path, follow_symlinks=False)
        return
    shutil.copy(origin, path, follow_symlinks=False)
