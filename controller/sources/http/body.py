"""What a body is: an archive by its first bytes, or one file of manifests by the name in its URL.

Not here: reading archives (content/tar.py, content/zip.py), and checking and writing what is in them.
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
    """Return whether a name is that of a single file, if the body is no archive."""
    return name.lower().endswith(_SUFFIXES)


def read_body(file: Seekable, size: int, name: str, strip: int, limits: Limits) -> Iterator[Entry]:
    """Yield what a body brings.

    Args:
        file: the body, at its beginning.
        size: of the body.
        name: of the file, if the body is no archive.
        strip: how many leading path elements to drop from the names in an archive.
        limits: for the readers, and for what is dropped.

    Raises: Rejection and Unsupported of the readers; Unsupported for what is neither archive nor manifests.
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
            f"{quote(name)} is neither a tar archive (plain, or compressed by gzip or zstd) nor a zip archive, nor "
            "named .yaml, .yml or .json; publish it as one of these"
        )


def strip_components(entries: Iterator[Entry], count: int, limits: Limits) -> Iterator[Entry]:
    """Drop leading elements from names, as `tar --strip-components` does; what is left without a name is left out.

    Args:
        entries: their names may be anything.
        count: of elements; also "." counts for one. Targets of hard links are names, those of symbolic links are not.
        limits: what is left out is charged, too.

    Raises: Rejection for a name that no archive may have, in whatever part of it; whatever `entries` raises.
    """
    budget = Budget(limits)
    for entry in entries:
        check_path(entry.path, limits)  # before it is cut: what is dropped must not hide a ".."
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
