"""The entries of a body: an archive by its first bytes, otherwise one file of manifests by its name in the URL.

Not here: reading archives (content/tar.py, content/zip.py), and checking and writing entries (content/archive.py).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from api.plugins import Entry, EntryKind, Limits, Refusal
from controller.content.limits import Budget, Unusable, check_path, quote
from controller.content.tar import is_tar, read_tar
from controller.content.zip import Seekable, Unsupported, is_zip, read_zip

_HEAD_BYTES = 512
READ_AS = "packaged charts without .helmignore"
"""Part of the keys of content: what an older release has stored was read differently."""
_CHART, _IGNORE = "Chart.yaml", ".helmignore"
_IGNORE_BYTES = 64 * 1024
_SUFFIXES = (".yaml", ".yml", ".json")
_WEB_PAGE = re.compile(rb"\s*<(?:!doctype|html|\?xml)\b", re.IGNORECASE)


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
        yield from strip_components(without_ignore_file(read_tar(file, limits)), strip, limits)
    elif _WEB_PAGE.match(head):
        raise Unsupported(
            f"{quote(name)} is neither a tar archive nor a zip archive nor a file of manifests, but a web page; use "
            "the address that downloads the file, and auth if it requires a login"
        )
    elif is_file_name(name):
        yield Entry(path=name, size=size, data=file)
    else:
        raise Unsupported(
            f"{quote(name)} is neither a tar archive (plain, gzip or zstd) nor a zip archive nor a file named .yaml, "
            ".yml or .json; publish it as one of these"
        )


def without_ignore_file(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Leave out the `.helmignore` of a packaged chart: one folder with Chart.yaml.

    `helm package` has applied it, and Helm does not apply it to an archive: `charts/` may contain what it names.
    """
    folders, charts = set[str](), set[str]()
    ignore: tuple[str, Entry] | None = None
    for entry in entries:
        parts = [part for part in entry.path.split("/") if part not in ("", ".")]
        folders.update(parts[:1])
        if parts[1:] == [_CHART]:
            charts.add(parts[0])
        is_small_file = entry.kind is EntryKind.FILE and not entry.refusal and entry.size <= _IGNORE_BYTES
        if parts[1:] == [_IGNORE] and is_small_file and ignore is None:
            # Kept until it is known what the archive is: Chart.yaml may follow.
            data = io.BytesIO(entry.data.read(entry.size) if entry.data else b"")
            ignore = parts[0], replace(entry, data=data)
            continue
        yield entry
    if ignore and (folders != {ignore[0]} or ignore[0] not in charts):
        yield ignore[1]


def strip_components(entries: Iterator[Entry], count: int, limits: Limits) -> Iterator[Entry]:
    """Remove leading elements from names, as `tar --strip-components` does; drop entries without a name left.

    Args:
        entries: with any names.
        count: of elements; "." counts as one. Targets of hard links are names, too, those of symbolic links are not.
        limits: charged for dropped entries, too.

    Yields: an entry with a `refusal` for a name that is not allowed, even in a removed part.
    Raises: Rejection for a name that is absolute or leads out of the archive; whatever `entries` raises.
    """
    budget = Budget(limits)
    for entry in entries:
        is_name = bool(count) and entry.kind is EntryKind.HARD_LINK  # a target that is one
        refusal = entry.refusal or _judge([entry.path, entry.target] if is_name else [entry.path], limits)
        path = _without(entry.path, count)
        target = _without(entry.target, count) if is_name else entry.target
        if not count or (path and (target or not entry.target)):
            yield replace(entry, path=path, target=target, refusal=refusal)
        else:
            budget.charge_entry()
            budget.charge_file(entry.path, entry.size)


def _judge(names: Iterable[str], limits: Limits) -> Refusal | None:
    """Check names before elements are removed, which may contain ".."."""
    try:
        for name in names:
            check_path(name, limits)
    except Unusable as unusable:
        return unusable.refusal
    return None


def _without(path: str, count: int) -> str:
    return "/".join([element for element in path.split("/") if element][count:]) if count else path
