"""What BundleDeployments have to do with each other: `spec.dependsOn` and `spec.takeOver`, purely.

Not here: what waits for a dependency (reconcile/gates.py), and which objects pass (apply/ownership.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
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


def dependency_of(deployment: BundleDeployment | None) -> Dependency:
    """Return what others need to know of a BundleDeployment; None: of one that cannot be read."""
    if deployment is None:
        return Dependency((), "cannot be read")
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


DEPENDENTS = "spec.dependsOn"
TAKERS = "spec.takeOver"
INDEX_FUNCTIONS: Mapping[str, Callable[[BundleDeployment], Collection[str]]] = {
    DEPENDENTS: lambda each: each.spec.required_deployments,
    TAKERS: lambda each: {giver.name for giver in each.spec.take_over},
}
"""By index, the names of those that a BundleDeployment names there, which need not exist."""


def find_dependents(
    name: str, before: Dependency | None, now: Dependency | None, index: Callable[[str], Iterable[str]]
) -> set[str]:
    """Return those that a change concerns: they wait for what has changed, or may be in a cycle with it.

    Args:
        name: of the BundleDeployment that has changed.
        before: as others knew it; None if it did not exist.
        now: None if it is gone.
        index: returns the names of those that depend on one.
    """
    if before == now:  # most writes of a status change nothing of it
        return set()
    if (before.depends_on if before else ()) == (now.depends_on if now else ()):
        return set(index(name))
    found: set[str] = set()
    left = [name]
    while left:  # directly or through others
        further = set(index(left.pop())) - found
        found |= further
        left.extend(further)
    return found - {name}


def find_parties(name: str, before: Party | None, now: Party | None, index: Callable[[str], Iterable[str]]) -> set[str]:
    """Return those that a change concerns: they take from it, or it takes from them, or does not any more.

    Args:
        name: of the BundleDeployment that has changed.
        before: as others knew it; None if it did not exist, or could not be read.
        now: likewise.
        index: returns the names of those that take from one.
    """
    if before == now:
        return set()
    old, new = (each.takes_from if each else frozenset[str]() for each in (before, now))
    is_same = before and now and before.uid == now.uid
    return {*index(name), *(old ^ new if is_same else old | new)} - {name}
