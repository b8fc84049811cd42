"""The files of a commit: the listing of its trees, and the bodies as one `git cat-file --batch` streams them.

Links that lead out of the wanted directory lead to other files of the same commit. Links that stay inside remain links,
for content/archive.py to follow; so do all if the whole commit is wanted. content/archive.py checks names, sizes and
links. Git LFS pointers only stand for content: they must not be read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from mmap import mmap

from api.errors import BundleError
from api.plugins import Access, Entry, EntryKind, Limits, Refusal
from api.v1alpha2.conditions import Reason
from controller.content.archive import Node, copies, make_root, resolve
from controller.content.limits import Budget, Unusable, check_target, leaving, quote
from controller.sources.git.process import Child, GitRunner

FOLDER, LINK, SUBMODULE = "040000", "120000", "160000"
_EXECUTABLE = "100755"
FILES = ("100644", _EXECUTABLE, "100664")  # the last one was written by the oldest versions of git
_CHUNK = 64 * 1024
# https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: shorter than 1024 bytes, in this order.
_LFS_BYTES = 1024
_LFS = re.compile(
    rb"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/v1\n(?:[a-z0-9.-]+ .*\n)*oid sha256:"
)
_TREE = "repository"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A path in a tree."""

    path: str
    mode: str
    name: str
    """Of the object."""
    refusal: Refusal | None = None
    """Why it must not be read."""
    submodule: str = ""
    """Path of a submodule in the commit."""


def read_listing(listing: bytes | mmap) -> Iterator[Item]:
    """Parse the output of `ls-tree -z`; names that are not UTF-8 keep their bytes, which the writer refuses."""
    start = 0
    while start < len(listing):
        end = listing.find(b"\0", start)
        end = len(listing) if end < 0 else end
        if end > start:
            about, _, path = listing[start:end].partition(b"\t")
            mode, _, name = about.decode().split()
            yield Item(path=path.decode(errors="surrogateescape"), mode=mode, name=name)
        start = end + 1


def read_items(
    runner: GitRunner, items: Sequence[Item], directory: str, access: Access, missing: BundleError
) -> Iterator[Entry]:
    """Yield an entry for each item, in their order.

    Args:
        runner: of the folder with the objects.
        items: files and links.
        directory: of the items, for messages.
        access: of the call.
        missing: raised for a missing object, also by the body of an entry.

    Yields: Git LFS pointers with a `refusal`.
    Raises: GitFailed; BundleError (`missing`, Unreachable at the deadline).
    """
    names = [item.name for item in items if not item.refusal]
    if not items:
        return
    with runner.start("cat-file", "--batch", "--buffer", lines=names) as child:
        for item in items:
            if item.refusal:
                yield Entry(path=item.path, kind=EntryKind.SYMBOLIC_LINK, refusal=item.refusal)
                continue
            body = _Body(child, item, missing)
            yield _make_link(item, body, access) if item.mode == LINK else _make_file(item, body, directory)
            body.finish()


def _make_link(item: Item, body: _Body, access: Access) -> Entry:
    # One byte over the limit is enough for the writer to refuse it.
    target = body.read(access.limits.path_bytes + 1)
    return Entry(path=item.path, kind=EntryKind.SYMBOLIC_LINK, target=os.fsdecode(target))


def _make_file(item: Item, body: _Body, directory: str) -> Entry:
    head = body.read(_LFS_BYTES) if body.size < _LFS_BYTES else b""
    body.put_back(head)
    refusal = _pointer(f"{directory}/{item.path}".lstrip("/")) if _LFS.match(head) else None
    return Entry(path=item.path, size=body.size, data=body, executable=item.mode == _EXECUTABLE, refusal=refusal)


def _pointer(path: str) -> Refusal:
    problem = f"{quote(path)} is a Git LFS pointer, which is not supported"
    remedy = "store the file itself in the repository, or use a directory without it"
    return Refusal(problem=f"{problem}; {remedy}", reason=Reason.UNSUPPORTED_CONTENT)


class _Body:
    """One object in the output of `cat-file --batch`: a header line, the bytes, a line end.

    Attributes:
        size: bytes.
    """

    def __init__(self, child: Child, item: Item, missing: BundleError) -> None:
        self._child, self._missing = child, missing
        self._head = b""
        name, kind, size = (child.read_line().split() + [b""] * 3)[:3]
        if name != item.name.encode() or kind != b"blob" or not size.isdigit():
            raise child.stopped or missing
        self.size = self._left = int(size)

    def put_back(self, head: bytes) -> None:
        """Return bytes that were read, to be read again."""
        self._head = head

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end. Valid until the next entry is requested.

        Raises: BundleError if the output ends before the object does.
        """
        if self._head:
            found, self._head = self._head[:size], self._head[size:]
            return found
        found = self._take(min(size, self._left))
        self._left -= len(found)
        return found

    def finish(self) -> None:
        """Skip the rest, and the line end after it."""
        self._head = b""
        while self.read(_CHUNK):
            pass
        self._take(1)

    def _take(self, size: int) -> bytes:
        found = self._child.read(size)
        if len(found) < size:
            raise self._child.stopped or self._missing
        return found


def may_leave(targets: Iterable[str]) -> bool:
    """Return whether one of some links may lead out of their directory, by their targets."""
    return any(".." in target.split("/") for target in targets)


def take_directory(
    items: Iterable[Item], targets: Mapping[str, str], directory: str, limits: Limits
) -> list[Item] | None:
    """Return the files of a directory of a commit in path order, with links replaced by what they lead to.

    Args:
        items: all of the commit, with paths in it.
        targets: of the links among them, by path.
        directory: may be a link, or below one.
        limits: of paths, and of the number of files and folders in the result.

    Returns: paths in the directory, what must not be read with a refusal; None if there is no such directory.
        Submodules in the directory are among them; a link to one must not be read.
    Raises: Rejection over the limits, and if the directory is outside the repository.
    """
    root = make_root()
    found = {_add(root, item, targets, limits): item for item in items}
    way = Node(name=directory, kind=EntryKind.SYMBOLIC_LINK, target=directory, origin=root)
    folder = resolve(way, tree=_TREE)
    if folder is not None and folder.refusal:
        raise Unusable.of(folder.refusal)
    if folder is None or folder.kind is not EntryKind.DIRECTORY:
        return None
    budget, result = Budget(limits), []
    for link in (node for node in found if node.kind is EntryKind.SYMBOLIC_LINK):
        resolve(link, tree=_TREE)
    for path, node in copies(folder, "", limits):
        budget.charge_node()
        if node.kind is not EntryKind.DIRECTORY:
            result.append(_at(path, node, found.get(node), f"{folder.path}/{path}".lstrip("/")))
    return sorted(result, key=lambda item: item.path)


def _at(path: str, node: Node, item: Item | None, own: str) -> Item:
    """Return what is at a path of the directory: a file, what must not be read, or a submodule at its own place."""
    if item and item.mode == SUBMODULE and node.path == own:
        return replace(item, path=path, submodule=own)
    if item is None or node.refusal:
        return Item(path=path, mode=LINK, name="", refusal=node.refusal)
    return replace(item, path=path)


def _add(root: Node, item: Item, targets: Mapping[str, str], limits: Limits) -> Node:
    *folders, name = item.path.split("/")
    parent = root
    for folder in folders:
        parent = _attach(parent, Node(name=folder, kind=EntryKind.DIRECTORY))
    if item.mode not in (LINK, SUBMODULE):
        return _attach(parent, Node(name=name, kind=EntryKind.FILE))
    link = Node(name=name, kind=EntryKind.SYMBOLIC_LINK, target=targets.get(item.path, ""), origin=parent)
    link.refusal = _judge(item, link.target, limits)
    return _attach(parent, link)


def _judge(item: Item, target: str, limits: Limits) -> Refusal | None:
    try:
        check_target(item.path, len(target.encode(errors="surrogateescape")), limits)
    except Unusable as unusable:
        return unusable.refusal
    if target.startswith("/"):
        return leaving(item.path, target, _TREE).refusal
    return _submodule(item.path) if item.mode == SUBMODULE else None


def _submodule(path: str) -> Refusal:
    problem = f"{quote(path)} is a submodule, to which links of a directory do not lead"
    remedy = "use the whole repository, add that of the submodule as another source, or remove the link"
    return Refusal(problem=f"{problem}; {remedy}", reason=Reason.UNSUPPORTED_CONTENT)


def _attach(parent: Node, node: Node) -> Node:
    node.parent = parent
    return parent.children.setdefault(node.name, node)
