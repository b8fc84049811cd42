"""Which BundleDeployments take over objects of which others (`spec.takeOver`), and what the ones tell the others.

Pure, but for the index of those that take from one. Not here: which objects pass (apply/ownership.py).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass

from api.v1alpha2.types import BundleDeployment


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

    The deletion of one that is paused waits until all is taken (reconcile/ownership/handovers.py). From one whose
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
