"""Counts drift: each object once when it is found modified and once when it is repaired, over any number of passes.

Not here: what drift is (apply/drift), and what is done about it (apply/plan.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from controller.apply.plan import Action, ApplyOptions, Outcome
from controller.observe.records import ObjectKey


@dataclass(slots=True)
class DriftCounter:
    """The objects of one BundleDeployment that are known to have drifted; used by one pass at a time."""

    known: set[ObjectKey] = field(default_factory=set)

    def repair(self, outcomes: Iterable[Outcome], options: ApplyOptions) -> tuple[int, int]:
        """Return how many objects were newly found drifted, and how many drifted ones were repaired.

        Args:
            outcomes: of a pass, before the ledger learns from them.
            options: of the same pass.
        """
        drifted = {o.task.target.key: o.tried and not o.error for o in outcomes if _is_drift(o, options)}
        detected = drifted.keys() - self.known
        self.known = {key for key, is_repaired in drifted.items() if not is_repaired}
        return len(detected), len(drifted) - len(self.known)

    def see(self, keys: Collection[ObjectKey]) -> int:
        """Return how many of these objects, which are drifted and not repaired, were not known to be."""
        detected = set(keys) - self.known
        self.known = set(keys)
        return len(detected)


def _is_drift(outcome: Outcome, options: ApplyOptions) -> bool:
    task = outcome.task
    if task.action is Action.CREATE:
        return not task.target.bare and task.target.key in options.ledger.left
    # An ignored field that has our value is no drift.
    return task.action is Action.REPAIR and (outcome.drift is not None or not outcome.spared)
