"""What BundleDeployments have to do with each other: `spec.dependsOn` and `spec.takeOver`. Pure, but for the indexer.

Not here: what waits for a dependency (reconcile/gates.py), and which objects pass (apply/ownership.py).
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from rukpak.api.v1alpha2.conditions import ConditionType
from rukpak.api.v1alpha2.types import BundleDeployment

MISSING = "does not exist"


@dataclass(frozen=True, slots=True)
class Dependency:
    """What others need to know of a BundleDeployment."""

    depends_on: tuple[str, ...]
    """Names of those that it depends on itself."""
    hindrance: str
    """Why others wait for it: a reason such as Progressing, or a few words. Empty: it is ready."""


def dependency_of(deployment: BundleDeployment) -> Dependency:
    """Return what others need to know of a BundleDeployment."""
    return Dependency(deployment.spec.required_deployments, _find_hindrance(deployment))


def _find_hindrance(deployment: BundleDeployment) -> str:
    """Return why it is not Ready at its current generation.

    The message of its condition is left out: not everybody who may read one BundleDeployment may read another.
    """
    metadata, status = deployment.metadata, deployment.status
    ready = status.condition(ConditionType.READY)
    if metadata.deletion_timestamp:
        return "is being deleted"
    if ready is None or ready.observed_generation != metadata.generation:
        return "has not been looked at since it changed" if ready else "is new"
    return "" if ready.status == "True" else ready.reason


def find_cycle(depends_on: Mapping[str, Collection[str]], name: str) -> tuple[str, ...]:
    """Return the shortest way from a BundleDeployment back to itself, both included; empty if there is none.

    Args:
        depends_on: for each known BundleDeployment, the names of those that it depends on.
        name: where to start.
    """
    dependents: dict[str, str] = {}
    left = deque([name])
    while left:
        dependent = left.popleft()
        for each in depends_on.get(dependent, ()):
            if each not in dependents:
                dependents[each] = dependent
                left.append(each)
            if each == name:
                return _way_to(name, dependents)
    return ()


def _way_to(name: str, dependents: Mapping[str, str]) -> tuple[str, ...]:
    way = [name, dependents[name]]
    while way[-1] != name:
        way.append(dependents[way[-1]])
    return tuple(way[::-1])


@dataclass(frozen=True, slots=True)
class Party:
    """What those that a BundleDeployment takes from, or that take from it, need to know."""

    uid: str
    takes_from: frozenset[str]
    """Names of those that it takes over objects of."""
    state: tuple[bool, bool, bool]
    """Whether it is paused and needs no approval, is being deleted, and its deletionPolicy is Orphan."""


def party_of(deployment: BundleDeployment) -> Party:
    """Return what others need to know of a BundleDeployment."""
    metadata, spec = deployment.metadata, deployment.spec
    state = (
        spec.paused and not spec.requires_approval,
        metadata.deletion_timestamp is not None,
        spec.deletion_policy == "Orphan",
    )
    return Party(metadata.uid, frozenset(each.name for each in spec.take_over), state)


def find_hindrance(deployment: BundleDeployment) -> str:
    """Return why nothing may be taken from a BundleDeployment now, for a message; empty if it is paused.

    The deletion of one that is paused waits until all is taken (reconcile/inventory.py). From one whose
    revisions need approval nothing is taken: its objects would change without that. Turning approval off takes the verb
    approve on it (config/policy/approvals.yaml).
    """
    name = deployment.metadata.name
    if not deployment.spec.paused and deployment.metadata.deletion_timestamp:
        return "which is being deleted; continues when it is gone"
    if not deployment.spec.paused:
        return f"which must be paused before its objects are taken over: kubectl rukpak pause {name}"
    if deployment.spec.requires_approval:
        remedy = "spec.approval must be Automatic there first, which takes the verb approve on it"
        return f"whose revisions need approval; {remedy}"
    return ""


@dataclass(frozen=True, slots=True)
class Relations:
    """What others need to know of a BundleDeployment."""

    dependency: Dependency
    party: Party | None
    """None if it cannot be read."""


def _giver_names(party: Party | None) -> frozenset[str]:
    return party.takes_from if party else frozenset()


DEPENDENTS = "spec.dependsOn"
TAKERS = "spec.takeOver"
_INDEX_FUNCTIONS: Mapping[str, Callable[[Relations], Collection[str]]] = {
    DEPENDENTS: lambda each: each.dependency.depends_on,
    TAKERS: lambda each: _giver_names(each.party),
}


class RelationsIndexer:
    """Thread-safe: what is known of each BundleDeployment, indexed by the others that it names, which need not exist.

    As client-go's Indexer, it has an index function for each index.
    """

    def __init__(self) -> None:
        self._known: dict[str, Relations] = {}
        self._indexes = {name: defaultdict[str, set[str]](set) for name in _INDEX_FUNCTIONS}
        self._lock = threading.RLock()

    def index(self, index: str, name: str) -> list[str]:
        """Return the names of those that name a BundleDeployment in a field, in order.

        Args:
            index: `DEPENDENTS` or `TAKERS`.
            name: of the BundleDeployment.
        """
        with self._lock:
            return sorted(self._indexes[index].get(name, ()))

    def put(self, name: str, now: Relations | None) -> tuple[set[str], set[str]]:
        """Learn the latest state of a BundleDeployment; None if it is gone.

        Returns: the names of those that this concerns: as dependents, the ones that wait for it, or may be in a cycle
            with it; and the ones that take from it, and those that it takes from, or does not any more.
        """
        with self._lock:
            before = self._known.pop(name, None)
            if now:
                self._known[name] = now
            if before == now:  # most writes of a status change nothing of it
                return set(), set()
            for index, function in _INDEX_FUNCTIONS.items():
                self._update(
                    self._indexes[index], name, function(before) if before else (), function(now) if now else ()
                )
            return self._find_dependents(name, before, now), self._find_parties(name, before, now)

    @staticmethod
    def _update(index: defaultdict[str, set[str]], name: str, old: Collection[str], new: Collection[str]) -> None:
        for each in old:
            index[each].discard(name)
        for each in new:
            index[each].add(name)
        for each in old:
            if not index[each]:
                del index[each]

    def _find_dependents(self, name: str, before: Relations | None, now: Relations | None) -> set[str]:
        old, new = before.dependency if before else None, now.dependency if now else None
        if old == new:
            return set()
        if (old.depends_on if old else ()) == (new.depends_on if new else ()):
            return set(self.index(DEPENDENTS, name))
        found: set[str] = set()
        left = [name]
        while left:  # directly or through others
            further = set(self.index(DEPENDENTS, left.pop())) - found
            found |= further
            left.extend(further)
        return found - {name}

    def _find_parties(self, name: str, before: Relations | None, now: Relations | None) -> set[str]:
        old, new = before.party if before else None, now.party if now else None
        if old == new:
            return set()
        givers, same = (_giver_names(old), _giver_names(new)), old and new and old.uid == new.uid
        changed = givers[0] ^ givers[1] if same else givers[0] | givers[1]
        return {*self.index(TAKERS, name), *changed} - {name}
