"""Reading archives of any format, and writing their entries into a tree, within limits.

Only this package touches the disk.

Pure: archive.py keeps the disk in step with it. Only folders and files exist on disk; links are copied when all entries
are read. What must not be read is a link without a target, whatever it was, and so is each link that leads to it.

Invariants: nothing is created outside the destination, and only folders and regular files in it (modes 0755 and 0644,
no owner, no setuid); no link is ever on disk. Every limit is charged before anything is written. If an archive names a
path twice, the last entry wins, whatever the kinds. Of an entry that must not be read, nothing is written but the
folders that contain it; it is recorded if the caller leaves it to formats to refuse it, and else an error.

On failure the caller removes the destination (store.py does).
"""

from __future__ import annotations

import io
import logging
import os
import posixpath
import re
import shutil
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Entry, EntryKind, Limits, Readable, Refusal
from rukpak.controller.content.disk import disk_errors_reported, write_all
from rukpak.controller.content.limits import (
    CHUNK,
    Budget,
    Meter,
    Rejection,
    Unusable,
    check_link,
    check_path,
    leaving,
    place_refused,
    quote,
    split_path,
)
from rukpak.controller.content.tar import is_tar, read_tar
from rukpak.controller.content.zip import Seekable, Unsupported, is_zip, read_zip

_MAX_CHAIN = 40  # links that lead to links, as in Linux
log = logging.getLogger(__name__)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """A folder, a file or a link of the tree; by default the root of an empty one."""

    name: str = ""
    kind: EntryKind = EntryKind.DIRECTORY
    """FILE, DIRECTORY or SYMBOLIC_LINK."""
    layer: int = 0
    """The last one that contains or names it."""
    parent: Node | None = None
    children: dict[str, Node] = field(default_factory=dict)
    executable: bool = False
    target: str = ""
    """Where a link leads: a path from `origin`."""
    origin: Node | None = None
    refusal: Refusal | None = None
    """Why a link must not be read."""
    cleared: int = -1
    """The last layer whose whiteouts were applied here: to apply them again would be quadratic."""
    resolved: Node | None = None
    """Where a link leads, once `is_resolved`; None for nowhere, a refused link for what must not be read."""
    is_resolved: bool = False

    @property
    def path(self) -> str:
        """Relative to the root; '' for the root."""
        names = [node.name for node in (self, *self.ancestors())][:-1]
        return "/".join(reversed(names))

    def ancestors(self) -> Iterator[Node]:
        """Yield the folders that contain the node, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


def find(root: Node, names: Iterable[str]) -> Node | None:
    """Return the node that the names of a path lead to, without following links."""
    node: Node | None = root
    for name in names:
        node = node.children.get(name) if node else None
    return node


def links(node: Node) -> Iterator[Node]:
    """Yield the links at and below a node, in the order in which they were added."""
    if node.kind is EntryKind.SYMBOLIC_LINK:
        yield node
    for child in node.children.values():
        yield from links(child)


def resolve(link: Node, chain: int = 0, tree: str = "tree") -> Node | None:
    """Return the file or folder that a link leads to in the end; None if it dangles or leads to itself.

    A link that leaves the tree is refused from then on, and so is a chain of more than 40. Each link is followed only
    once, so that long chains of long targets cost no more than their length.

    Args:
        link: to follow.
        chain: how many links have led here.
        tree: how messages name the tree.

    Returns: the refused link, if it leads to one.
    """
    if link.is_resolved:
        return link.resolved
    link.is_resolved = True  # to nowhere, for now: what leads back here is a cycle
    if chain > _MAX_CHAIN and not link.refusal:
        problem = f"entry {quote(link.path)} is a chain of more than {_MAX_CHAIN} links; link directly"
        link.refusal = Refusal(problem=problem)
    try:
        link.resolved = link if link.refusal else _follow(link, chain, tree)
    except Unusable as unusable:
        link.refusal, link.resolved = unusable.refusal, link
    return link.resolved


def _follow(link: Node, chain: int, tree: str) -> Node | None:
    here: Node | None = link.origin if link.target else None
    for name in link.target.split("/"):
        if here is None or here.kind is not EntryKind.DIRECTORY:
            return here if here is not None and here.refusal else None
        if name == "..":
            here = here.parent
            if here is None:
                raise leaving(link.path, link.target, tree)
        elif name not in ("", "."):
            here = here.children.get(name)
        if here is not None and here.kind is EntryKind.SYMBOLIC_LINK:
            here = resolve(here, chain + 1, tree)
    return here


def copies(node: Node, path: str, limits: Limits, above: frozenset[Node] = frozenset()) -> Iterator[tuple[str, Node]]:
    """Yield what is at and below a path if the links there are replaced by what they lead to.

    Args:
        node: resolved, like all links below it.
        path: at which it is, or is to be.
        limits: of paths: what is too deep is yielded as a refused link.
        above: folders that are being copied, which are not copied again.

    Yields: the path and the file, folder or refused link for each, a folder before its content, nothing for what leads
        nowhere. Links can multiply: stop when there are too many.
    """
    origin = node.resolved if node.kind is EntryKind.SYMBOLIC_LINK else node
    if origin is None or origin in above:
        return
    if not origin.refusal:
        try:
            check_path(path, limits)
        except Unusable as unusable:
            origin = Node(name=origin.name, kind=EntryKind.SYMBOLIC_LINK, refusal=unusable.refusal)
    yield path, origin
    for child in origin.children.values():
        yield from copies(child, f"{path}/{child.name}" if path else child.name, limits, above | {origin})


def write_entries(
    entries: Iterable[Entry],
    destination: Path,
    limits: Limits,
    path: str,
    meter: Meter | None = None,
    *,
    records: bool = False,
) -> dict[str, Refusal]:
    """Write entries into an empty folder; apply whiteouts, and replace links by copies.

    A link that dangles or leads into itself is skipped.

    Args:
        entries: of all layers in order. A refusal is thrown into a generator, which may have a better error: a wrong
            digest explains it, and of another host than the spec names, no error is told.
        destination: exists and is empty; of no use after an error.
        limits: for all entries together, also for those that are not written.
        path: of the source in the spec; starts messages.
        meter: counts what is written for all sources together.
        records: whether entries that must not be read are returned instead of raised. Not the limits, names that are
            absolute or lead out of the archive, and damage: they are about more than one entry.

    Returns: what must not be read, by path.
    Raises: BundleError (ContentRejected, StorageFull, the reason of a refused entry); whatever `entries` raises.
    """
    writer = _Writer(destination, limits, meter, records=records)
    with disk_errors_reported(path):
        try:
            _write(entries, writer)
        except Rejection as rejection:
            raise rejection.at(path) from None
    return writer.refused


def _write(entries: Iterable[Entry], writer: _Writer) -> None:
    for entry in entries:
        try:
            writer.add(entry)
        except (Rejection, BundleError) as refusal:
            if isinstance(entries, Generator):
                with suppress(StopIteration):
                    entries.throw(refusal)
            raise
    writer.copy_links()


class _Writer:
    """The destination, and the tree that it mirrors.

    Attributes:
        refused: what must not be read, by path, once links are copied.
    """

    def __init__(self, destination: Path, limits: Limits, meter: Meter | None, *, records: bool) -> None:
        self._destination, self._limits, self._records = destination, limits, records
        self._budget = Budget(limits, meter)
        self._root = Node()
        self.refused: dict[str, Refusal] = {}

    def add(self, entry: Entry) -> None:
        """Apply one entry. Raises: Rejection; BundleError of the meter; what reading the data raises."""
        self._budget.charge_entry()
        elements = split_path(entry.path)
        if entry.kind is EntryKind.WHITEOUT:
            self._white_out(find(self._root, elements), entry.layer)
        elif entry.kind is EntryKind.OPAQUE:
            self._clear(find(self._root, elements), entry.layer)
        elif elements or (entry.kind is EntryKind.DIRECTORY and not entry.refusal):
            self._write_or_refuse(entry)
        else:
            raise Rejection(f"entry {quote(entry.path)} names the root of the tree as a {entry.kind.value}; remove it")

    def _write_or_refuse(self, entry: Entry) -> None:
        try:
            if entry.refusal:
                raise Unusable.of(entry.refusal)
            path = check_path(entry.path, self._limits)
            if entry.kind is EntryKind.DIRECTORY:
                self._make_folders(path, entry.layer)
            elif entry.kind is EntryKind.FILE:
                self._add_file(path, entry)
            else:
                self._add_link(path, entry)
        except Unusable as unusable:
            if not self._records:
                raise
            self._refuse(entry, unusable.refusal)

    def _refuse(self, entry: Entry, refusal: Refusal) -> None:
        self._budget.charge_file(entry.path, entry.size)
        self._budget.charge_refused("", refusal)
        folder, names = place_refused(entry.path, self._limits)
        node = self._make_folders(folder, entry.layer)
        for name in names:
            child = node.children.get(name)
            if child is None or child.refusal is None:
                self._remove(child)
                child = self._attach(node, Node(name=name, kind=EntryKind.SYMBOLIC_LINK, refusal=refusal))
            child.layer = entry.layer
            node = child
        node.refusal = refusal

    # folders, files, links

    def _make_folders(self, path: str, layer: int) -> Node:
        node = self._root
        for name in path.split("/") if path else ():
            child = node.children.get(name)
            if child is None or child.kind is not EntryKind.DIRECTORY:
                self._remove(child)
                child = self._attach(node, Node(name=name))
                self._on_disk(child.path).mkdir(mode=0o755)
            child.layer = layer
            node = child
        return node

    def _add_file(self, path: str, entry: Entry) -> None:
        self._budget.charge_file(path, entry.size)
        node = self._replace(path, EntryKind.FILE, entry.layer)
        node.executable = entry.executable
        self._write_file(path, entry.data, entry.size, executable=entry.executable)

    def _add_link(self, path: str, entry: Entry) -> None:
        if entry.kind is EntryKind.SYMBOLIC_LINK:
            check_link(path, entry.target, self._limits)
        elif entry.target.startswith("/") or ".." in entry.target.split("/"):
            raise leaving(path, entry.target)
        elif self._copy_hard_link(path, check_path(entry.target, self._limits), entry.layer):
            return
        node = self._replace(path, EntryKind.SYMBOLIC_LINK, entry.layer)
        node.target = entry.target
        node.origin = node.parent if entry.kind is EntryKind.SYMBOLIC_LINK else self._root

    def _copy_hard_link(self, path: str, target: str, layer: int) -> bool:
        original = find(self._root, target.split("/"))
        if original is None or original.kind is not EntryKind.FILE:
            return False
        # Opened first, since creating the copy may remove the original (`a` and `a/b`).
        with self._on_disk(target).open("rb") as data:
            size = os.fstat(data.fileno()).st_size
            self._add_file(path, Entry(path=path, size=size, data=data, executable=original.executable, layer=layer))
        return True

    def _replace(self, path: str, kind: EntryKind, layer: int) -> Node:
        folder, name = posixpath.split(path)
        parent = self._make_folders(folder, layer)
        self._remove(parent.children.get(name))
        return self._attach(parent, Node(name=name, kind=kind, layer=layer))

    def _attach(self, parent: Node, node: Node) -> Node:
        self._budget.charge_node()
        node.parent = parent
        parent.children[node.name] = node
        return node

    # whiteouts

    def _white_out(self, node: Node | None, layer: int) -> None:
        if node is None or node is self._root:
            return
        self._clear(node, layer)
        if node.layer < layer:
            self._remove(node)

    def _clear(self, node: Node | None, layer: int) -> None:
        if node is None or node.cleared == layer:
            return
        node.cleared = layer
        for child in tuple(node.children.values()):
            if child.layer < layer:
                self._remove(child)
            else:
                self._clear(child, layer)

    def _remove(self, node: Node | None) -> None:
        if node is None or node.parent is None:
            return
        if node.kind is EntryKind.DIRECTORY:
            shutil.rmtree(self._on_disk(node.path))
        elif node.kind is EntryKind.FILE:
            self._on_disk(node.path).unlink()
        del node.parent.children[node.name]

    # links, when all entries are written

    def copy_links(self) -> None:
        """Replace links by copies of what they lead to; skip those that lead nowhere.

        Raises: Rejection; BundleError of the meter.
        """
        found = tuple(links(self._root))
        for link in found:
            resolve(link)
        dangling = [link.path for link in found if link.resolved is None]
        if dangling:
            log.debug("skipped dangling links", extra={"count": len(dangling), "first": dangling[0]})
        for link in found:
            if link.refusal:
                self._note(link.path, link.refusal)
                continue
            for path, origin in copies(link, link.path, self._limits, frozenset(link.ancestors())):
                self._copy(origin, path)

    def _note(self, path: str, refusal: Refusal) -> None:
        if not self._records:
            raise Unusable.of(refusal)
        self._budget.charge_refused(path, refusal)
        self.refused[path] = refusal

    def _copy(self, origin: Node, path: str) -> None:
        self._budget.charge_node()
        if origin.refusal:
            self._note(path, origin.refusal)
        elif origin.kind is EntryKind.FILE:
            with self._on_disk(origin.path).open("rb") as data:
                size = os.fstat(data.fileno()).st_size
                self._budget.charge_file(path, size)
                self._write_file(path, data, size, executable=origin.executable)
        else:
            self._on_disk(path).mkdir(mode=0o755)

    # disk

    def _write_file(self, path: str, data: Readable | None, size: int, *, executable: bool) -> None:
        # Path and file objects cost as much as the writing itself if files are small and many.
        out = os.open(f"{self._destination}/{path}", _NEW, 0o755 if executable else 0o644)
        try:
            left = size
            while left:
                piece = data.read(min(left, CHUNK))[:left] if data else b""
                if not piece:
                    raise Rejection(f"entry {quote(path)} is truncated; publish it again")
                left -= len(piece)
                write_all(out, piece)
        finally:
            os.close(out)

    def _on_disk(self, path: str) -> Path:
        return self._destination / path


# reading archives, whatever their format

_HEAD_BYTES = 512
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

    Raises: Rejection and Unsupported of the readers; Rejection if nothing is left of any file; Unsupported for a body
        that is neither archive nor manifests.
    """
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if is_zip(head):
        yield from _stripped(read_zip(file, limits), strip, limits)
    elif is_tar(head):
        yield from _stripped(without_ignore_file(read_tar(file, limits)), strip, limits)
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


def _stripped(entries: Iterator[Entry], count: int, limits: Limits) -> Iterator[Entry]:
    dropped, is_empty = "", True

    def _noted() -> Iterator[Entry]:
        nonlocal dropped
        for entry in entries:
            if entry.kind is not EntryKind.DIRECTORY:
                dropped = dropped or entry.path
            yield entry

    for entry in strip_components(_noted(), count, limits):
        is_empty = is_empty and entry.kind is EntryKind.DIRECTORY
        yield entry
    if dropped and is_empty:
        raise Rejection(f"stripComponents {count} leaves nothing of {quote(dropped)}, nor of any other file; lower it")


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
    # Names are checked before elements are removed, which may contain "..".
    try:
        for name in names:
            check_path(name, limits)
    except Unusable as unusable:
        return unusable.refusal
    return None


def _without(path: str, count: int) -> str:
    return "/".join([element for element in path.split("/") if element][count:]) if count else path
