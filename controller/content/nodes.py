"""The tree that an archive describes, in memory: paths, their layers, and where links lead.

Pure: archive.py keeps the disk in step with it. Only folders and files exist on disk; links are copied when all entries
are read. What must not be read is a link without a target, whatever it was, and so is each link that leads to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from api.plugins import EntryKind, Limits, Refusal
from controller.content.limits import Unusable, check_path, leaving, quote

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
    refusal: Refusal | None = None
    """Of a link: why it must not be read."""
    cleared: int = -1
    """The last layer whose whiteouts were applied here: to apply them again would be quadratic."""
    resolved: Node | None = None
    """Of a link: where it leads, once `is_resolved`; None for nowhere, a refused link for what must not be read."""
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
