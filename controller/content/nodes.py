"""The tree that an archive describes, in memory: paths, their layers, and where links lead.

Pure: archive.py keeps the disk in step with it. Only folders and files exist on disk; links are copied when all entries
are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from api.plugins import EntryKind
from controller.content.limits import Rejection, leaving, quote

_MAX_CHAIN = 40  # links that lead to links, as in Linux


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """A folder, a file or a link of the tree."""

    name: str
    kind: EntryKind
    """FILE, DIRECTORY or SYMBOLIC_LINK."""
    layer: int = 0
    """The last one that contains or names it."""
    parent: Node | None = None
    children: dict[str, Node] = field(default_factory=dict)
    executable: bool = False
    target: str = ""
    """Of a link: a path from `origin`."""
    origin: Node | None = None
    cleared: int = -1
    """The last layer whose whiteouts were applied here: to apply them again would be quadratic."""
    resolved: Node | None = None
    """Of a link: where it leads, once `is_resolved`; None for nowhere."""
    is_resolved: bool = False

    @property
    def path(self) -> str:
        """Relative to the root; '' for the root."""
        if self.parent is None:
            return ""
        above = self.parent.path
        return f"{above}/{self.name}" if above else self.name

    def ancestors(self) -> Iterator[Node]:
        """Yield the folders that contain the node, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


def make_root() -> Node:
    """Return an empty tree."""
    return Node(name="", kind=EntryKind.DIRECTORY)


def find(root: Node, path: str) -> Node | None:
    """Return the node at a normal path, without following links."""
    node: Node | None = root
    for name in path.split("/") if path else ():
        node = node.children.get(name) if node else None
    return node


def links(node: Node) -> Iterator[Node]:
    """Yield the links at and below a node, in the order in which they were added."""
    if node.kind is EntryKind.SYMBOLIC_LINK:
        yield node
    for child in node.children.values():
        yield from links(child)


def resolve(link: Node, chain: int = 0) -> Node | None:
    """Return the file or folder that a link leads to in the end; None if it dangles or leads to itself.

    Each link is followed only once, so that long chains of long targets cost no more than their length.

    Raises: Rejection for a link that leaves the tree, and for a chain of more than 40.
    """
    if link.is_resolved:
        return link.resolved
    if chain > _MAX_CHAIN:
        raise Rejection(f"entry {quote(link.path)} is a chain of more than {_MAX_CHAIN} links; link directly")
    link.is_resolved = True  # to nowhere, for now: what leads back here is a cycle
    link.resolved = _follow(link, chain)
    return link.resolved


def _follow(link: Node, chain: int) -> Node | None:
    here: Node | None = link.origin if link.target else None
    for name in link.target.split("/"):
        if here is None or here.kind is not EntryKind.DIRECTORY:
            return None
        if name == "..":
            here = here.parent
            if here is None:
                raise leaving(link.path, link.target)
        elif name not in ("", "."):
            here = here.children.get(name)
        if here is not None and here.kind is EntryKind.SYMBOLIC_LINK:
            here = resolve(here, chain + 1)
    return here
