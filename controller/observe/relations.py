"""What BundleDeployments have to do with each other: `spec.dependsOn` and `spec.takeOver`. Pure, but for two indexes.

Not here: what waits for a dependency (reconcile/gates.py), which objects pass (apply/ownership.py), and how one of
another shard is followed (reconcile/inventory.py).
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Collection, Mapping
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
    """Return the way from one to itself, of which each is known to depend on the next."""
    way = [name, dependents[name]]
    while way[-1] != name:
        way.append(dependents[way[-1]])
    return tuple(way[::-1])


class Dependents:
    """Thread-safe: an index of the BundleDeployments that depend on each one, also on those that do not exist."""

    def __init__(self) -> None:
        self._known: dict[str, Dependency] = {}
        self._dependents: defaultdict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()

    def learn(self, name: str, now: Dependency | None) -> set[str]:
        """Learn the latest state of a BundleDeployment; None if it is gone.

        Returns: the names of those that this concerns: the ones that wait for it, or may be in a cycle with it.
        """
        with self._lock:
            before = self._known.pop(name, None)
            if now:
                self._known[name] = now
            if before == now:
                return set()
            old, new = (before.depends_on if before else ()), (now.depends_on if now else ())
            if old == new:
                return set(self._dependents.get(name, ()))
            self._index(name, old, new)
            return self._all_dependents(name)

    def _index(self, name: str, old: Collection[str], new: Collection[str]) -> None:
        for each in old:
            self._dependents[each].discard(name)
            if not self._dependents[each]:
                del self._dependents[each]
        for each in new:
            self._dependents[each].add(name)

    def _all_dependents(self, name: str) -> set[str]:
        """Return those that depend on one, directly or through others."""
        found: set[str] = set()
        left = [name]
        while left:
            new = self._dependents.get(left.pop(), set()) - found
            found |= new
            left.extend(new)
        return found - {name}

    def of(self, name: str) -> list[str]:
        """Return the names of those that depend on a BundleDeployment directly, in order."""
        with self._lock:
            return sorted(self._dependents.get(name, ()))


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


class Takers:
    """Thread-safe: an index of the BundleDeployments that take from each one, also from those that do not exist."""

    def __init__(self) -> None:
        self._known: dict[str, Party] = {}
        self._takers: defaultdict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()

    def learn(self, name: str, now: Party | None) -> set[str]:
        """Learn the latest state of a BundleDeployment; None if it is gone.

        Returns: the names of those that this concerns: the ones that take from it, and those that it takes from, or
        does not any more.
        """
        with self._lock:
            before = self._known.pop(name, None)
            if now:
                self._known[name] = now
            if before == now:
                return set()
            old, new = (before.takes_from if before else frozenset()), (now.takes_from if now else frozenset())
            for each in old - new:
                self._takers[each].discard(name)
                if not self._takers[each]:
                    del self._takers[each]
            for each in new - old:
                self._takers[each].add(name)
            same = before and now and before.uid == now.uid
            return {*self._takers.get(name, ()), *((old ^ new) if same else (old | new))} - {name}

    def of(self, name: str) -> list[str]:
        """Return the names of those that take from a BundleDeployment, in order."""
        with self._lock:
            return sorted(self._takers.get(name, ()))
