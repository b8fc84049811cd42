"""The entries of a body: an archive by its first bytes, otherwise one file of manifests by its name in the URL.

Not here: reading archives (content/tar.py, content/zip.py), and checking and writing entries (content/archive.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from api.plugins import Entry, EntryKind, Limits
from controller.content.limits import Budget, check_path, quote
from controller.content.tar import is_tar, read_tar
from controller.content.zip import is_zip, read_zip
from controller.content.zip_directory import Seekable, Unsupported

_HEAD_BYTES = 512
_SUFFIXES = (".yaml", ".yml", ".json")


def is_file_name(name: str) -> bool:
    """Return whether a body that is not an archive is accepted under a name."""
    return name.lower().endswith(_SUFFIXES)


def read_body(file: Seekable, size: int, name: str, strip: int, limits: Limits) -> Iterator[Entry]:
    """Yield the entries of a body.

    Args:
        file: the body, at its start.
        size: of the body.
        name: of the file, if the body is not an archive.
        strip: how many leading path elements to remove from the names in an archive.
        limits: for the readers, and for dropped entries.

    Raises: Rejection and Unsupported of the readers; Unsupported for a body that is neither archive nor manifests.
    """
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if is_zip(head):
        yield from strip_components(read_zip(file, limits), strip, limits)
    elif is_tar(head):
        yield from strip_components(read_tar(file, limits), strip, limits)
    elif is_file_name(name):
        yield Entry(path=name, size=size, data=file)
    else:
        raise Unsupported(
            f"{quote(name)} is neither a tar archive (plain, gzip or zstd) nor a zip archive nor a file named .yaml, "
            ".yml or .json; publish it as one of these"
        )


def strip_components(entries: Iterator[Entry], count: int, limits: Limits) -> Iterator[Entry]:
    """Remove leading elements from names, as `tar --strip-components` does; drop entries without a name left.

    Args:
        entries: with any names.
        count: of elements; "." counts as one. Targets of hard links are names, too, those of symbolic links are not.
        limits: charged for dropped entries, too.

    Raises: Rejection for a name that is not allowed, even in a removed part; whatever `entries` raises.
    """
    budget = Budget(limits)
    for entry in entries:
        check_path(entry.path, limits)  # before elements are removed, which may contain ".."
        path = _without(entry.path, count)
        target = entry.target
        if entry.kind is EntryKind.HARD_LINK and count:
            check_path(target, limits)
            target = _without(target, count)
        if not count or (path and (target or not entry.target)):
            yield replace(entry, path=path, target=target)
        else:
            budget.charge_entry()
            budget.charge_file(entry.path, entry.size)


def _without(path: str, count: int) -> str:
    return "/".join([element for element in path.split("/") if element][count:]) if count else path
