"""The files of a commit: what its trees list, and the bodies as one `git cat-file --batch` streams them.

Names, sizes and links are as git has them; content/archive.py judges them. What would only stand for content (pointers
of Git LFS) is refused here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from api.errors import BundleError
from api.plugins import Access, Entry, EntryKind
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.git.process import Child, GitRunner

FOLDER, LINK, SUBMODULE = "040000", "120000", "160000"
_EXECUTABLE = "100755"
FILES = ("100644", _EXECUTABLE, "100664")  # the last one is of the oldest gits

_CHUNK = 64 * 1024
# https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: shorter than 1024 bytes, in this order.
_LFS_BYTES = 1024
_LFS = re.compile(
    rb"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/v1\n(?:[a-z0-9.-]+ .*\n)*oid sha256:"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What a tree says about a path."""

    path: str
    mode: str
    name: str
    """Of the object."""


def parse_listing(listing: bytes) -> list[Item]:
    """Read what `ls-tree -z` writes; names that are not UTF-8 keep their bytes, for the writer to refuse."""
    items = []
    for line in listing.split(b"\0"):
        if line:
            about, _, path = line.partition(b"\t")
            mode, _, name = about.decode().split()
            items.append(Item(path=path.decode(errors="surrogateescape"), mode=mode, name=name))
    return items


def read_items(
    runner: GitRunner, items: Sequence[Item], directory: str, access: Access, missing: BundleError
) -> Iterator[Entry]:
    """Yield an entry for each item, in their order.

    Args:
        runner: of the folder that the objects are in.
        items: files and links.
        directory: that the items are in, for messages.
        access: of the call.
        missing: raised for an object that is not there, also from the body of an entry.

    Raises: GitFailed; BundleError (UnsupportedContent, `missing`, Unreachable at the deadline).
    """
    if not items:
        return
    with runner.start("cat-file", "--batch", "--buffer", lines=[item.name for item in items]) as child:
        for item in items:
            body = _Body(child, item, missing)
            yield _make_link(item, body, access) if item.mode == LINK else _make_file(item, body, directory, access)
            body.finish()


def _make_link(item: Item, body: _Body, access: Access) -> Entry:
    # One byte over the budget is enough for the writer to refuse it.
    target = body.read(access.limits.path_bytes + 1)
    return Entry(path=item.path, kind=EntryKind.SYMBOLIC_LINK, target=os.fsdecode(target))


def _make_file(item: Item, body: _Body, directory: str, access: Access) -> Entry:
    head = body.read(_LFS_BYTES) if body.size < _LFS_BYTES else b""
    if _LFS.match(head):
        path = quote(f"{directory}/{item.path}".lstrip("/"))
        message = f"{path} is a pointer of Git LFS, whose file is not fetched; keep the file itself in the repository"
        raise BundleError(Reason.UNSUPPORTED_CONTENT, f"{access.path}: {message}")
    body.put_back(head)
    return Entry(path=item.path, size=body.size, data=body, executable=item.mode == _EXECUTABLE)


class _Body:
    """One object in what `cat-file --batch` writes: a line about it, the bytes, a line end.

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
        """Give back what was read so far, to be read again."""
        self._head = head

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end. Valid until the next entry is asked for.

        Raises: BundleError, if git has ended before the object did.
        """
        if self._head:
            found, self._head = self._head[:size], self._head[size:]
            return found
        found = self._take(min(size, self._left))
        self._left -= len(found)
        return found

    def finish(self) -> None:
        """Read what nobody wanted, and the line end after it."""
        self._head = b""
        while self.read(_CHUNK):
            pass
        self._take(1)

    def _take(self, size: int) -> bytes:
        found = self._child.read(size)
        if len(found) < size:
            raise self._child.stopped or self._missing
        return found
