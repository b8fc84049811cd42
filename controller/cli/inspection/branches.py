"""A tree of objects: what `rukpak tree` shows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.untrusted import mapping, mappings, text

_LEVELS = 20
"""Of objects that own each other; those of Kubernetes have three."""
_FORK, _LAST, _LINE, _NOTHING = "├─ ", "└─ ", "│  ", "   "
CHILD_KINDS: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("apps", "Deployment"): (("apps", "ReplicaSet"),),
    ("apps", "ReplicaSet"): (("", "Pod"),),
    ("apps", "StatefulSet"): (("", "Pod"),),
    ("apps", "DaemonSet"): (("", "Pod"),),
    ("", "ReplicationController"): (("", "Pod"),),
    ("batch", "CronJob"): (("batch", "Job"),),
    ("batch", "Job"): (("", "Pod"),),
}
"""What workloads own: the kinds that their controllers create."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """An object and what it owns."""

    name: str
    """Such as `Deployment shop/web`."""
    health: str
    message: str = ""
    drift: str = ""
    """The field that another client has modified; empty: none, or not known."""
    children: Sequence[Branch] = field(default_factory=tuple)

    def to_value(self) -> dict[str, Any]:
        """Return it as data."""
        kind, _, name = self.name.partition(" ")
        namespace, _, own = name.rpartition("/")
        return {
            "kind": kind,
            "namespace": namespace,
            "name": own,
            "health": self.health,
            "message": self.message,
            "drift": self.drift,
            "children": [child.to_value() for child in self.children],
        }


def draw(branch: Branch) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for an object and each below it: its name in the tree, health, drift and message."""
    yield branch.name, branch.health, branch.drift, branch.message
    yield from _draw_children(branch.children, "")


def _draw_children(children: Sequence[Branch], margin: str) -> Iterator[tuple[str, str, str, str]]:
    for index, child in enumerate(children):
        is_last = index == len(children) - 1
        yield f"{margin}{_LAST if is_last else _FORK}{child.name}", child.health, child.drift, child.message
        yield from _draw_children(child.children, margin + (_NOTHING if is_last else _LINE))


def find_child_kinds(kinds: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the kinds of objects that objects of some kinds own, directly or not."""
    found: list[tuple[str, str]] = []
    waiting = list(kinds)
    while waiting:
        children = [child for child in CHILD_KINDS.get(waiting.pop(), ()) if child not in found]
        found += children
        waiting += children
    return sorted(set(found))


def by_owner(values: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return objects by the UID of the object that controls them."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for value in values:
        for reference in mappings(value, "metadata", "ownerReferences"):
            if reference.get("controller"):
                found.setdefault(text(reference, "uid"), []).append(value)
    return found


def grow(
    value: Mapping[str, Any],
    owned: Mapping[str, Sequence[Mapping[str, Any]]],
    make: Callable[[Mapping[str, Any], Sequence[Branch]], Branch],
    above: frozenset[str] = frozenset(),
) -> list[Branch]:
    """Return what an object owns, without the ReplicaSets of earlier rollouts.

    Args:
        value: the object.
        owned: as `by_owner` returns it.
        make: returns the branch of an object from that and what it owns.
        above: UIDs of its owners: anybody can write an object that owns itself, or a long line of owners.
    """
    found = []
    uid = text(value, "metadata", "uid")
    for child in sorted(owned.get(uid, ()), key=lambda item: text(item, "metadata", "name")):
        if uid in above or len(above) == _LEVELS:
            break
        children = grow(child, owned, make, above | {uid})
        if children or not _is_left(child):
            found.append(make(child, children))
    return found


def _is_left(value: Mapping[str, Any]) -> bool:
    """Whether a ReplicaSet only remembers an earlier rollout."""
    return value["kind"] == "ReplicaSet" and not mapping(value, "spec").get("replicas")
