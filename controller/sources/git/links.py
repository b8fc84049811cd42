"""Where links of a commit lead, if they lead out of the directory that is wanted: to other files of the same commit.

Pure. Links that stay inside remain links, for content/archive.py to follow; so do all if the whole commit is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from api.plugins import EntryKind, Limits, Refusal
from api.v1alpha2.conditions import Reason
from controller.content.archive import Node, copies, make_root, resolve
from controller.content.limits import Budget, Unusable, check_target, leaving, quote
from controller.sources.git.files import LINK, SUBMODULE, Item

_TREE = "repository"


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
