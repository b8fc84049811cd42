"""Recognizes an installed revision with nothing to do but to repair objects: that costs what has changed.

If no object has changed, this costs no request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from controller.apply.outcome import Outcome
from controller.apply.ownership import is_unfinished
from controller.kube.resources import GroupVersionKind
from controller.observe.journal import Look
from controller.observe.records import ObjectKey, Record
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.health import Assessor
from controller.reconcile.repair import Repairer
from controller.reconcile.strays import notes_on_strays
from controller.status.report import Report
from controller.status.writer import StatusWriter


class Settled:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(self, watches: Watches, repairer: Repairer, assessor: Assessor, writer: StatusWriter) -> None:
        self._watches, self._repairer, self._assessor, self._writer = watches, repairer, assessor, writer

    def report(self, context: Context) -> Report | None:
        """Return a report if everything is installed, and unchanged or repaired; None if there is more to do.

        Raises: ApiError.
        """
        if not context.is_current:
            return None
        look = self._look(context)
        outcomes = self._repair(context, look)
        if outcomes is None:
            return None
        look = self._look(context) if outcomes else look
        status, state, observed = context.status, context.state, look.records
        if outcomes or len(observed) > len(state.ledger.left):
            self._writer.record_events(
                context.deployment, notes_on_strays(context, observed, state.ledger.left, state.older)
            )
        return Report(
            wanted=status.revision,
            revision=status.installed_revision,
            applied=True,
            outcomes=tuple(outcomes),
            drifted=tuple(outcome.drift for outcome in outcomes if outcome.drift),
            awaiting_prune=tuple(_kept(context, observed, state.older)),
            conflicts=tuple(state.ledger.conflicts()),
            progress=self._assessor.assess_installed(context),
            install_namespace=status.install_namespace,
            managed_state=_managed_state(context, outcomes, look),
            managed_kinds=status.managed_kinds,
            warnings=self._repairer.warnings(context, outcomes) if outcomes else None,
        )

    def _look(self, context: Context) -> Look:
        return self._watches.look(context.name, context.state.ledger.reader.seen)

    def _repair(self, context: Context, look: Look) -> Sequence[Outcome] | None:
        """Return the outcomes of repairs, none if no object has changed; None if there is more to do."""
        ledger = context.state.ledger
        if not (ledger.complete or self._is_as_recorded(context, look.records)):
            return None
        if any(self._watches.has_appeared(GroupVersionKind.parse(kind)) for kind in context.status.skipped_kinds):
            return None
        drifted = ledger.drifted(look)
        return self._repairer.repair(context, drifted, look.records) if drifted else ()

    def _is_as_recorded(self, context: Context, observed: Mapping[ObjectKey, Record]) -> bool:
        """Whether after a restart no object has changed since status was written."""
        own = context.own_records(observed)
        is_interrupted = any(is_unfinished(record, leaves=True) for record in own)
        return not is_interrupted and context.state.ledger.resume(own, context.status.managed_state)

    def forget(self, name: str) -> None:
        """Drop what is known of a BundleDeployment that is gone."""
        self._assessor.forget(name)
        self._repairer.forget(name)


def _managed_state(context: Context, outcomes: Sequence[Outcome], look: Look) -> str:
    """Return the state of all objects after repairs, unless one was not repaired, or has changed since."""
    ledger = context.state.ledger
    return ledger.managed_state if outcomes and not ledger.drifted(look) else context.status.managed_state


def _kept(context: Context, observed: Mapping[ObjectKey, Record], older: Collection[ObjectKey]) -> list[Record]:
    """Return the objects of older revisions that spec.prune keeps for good."""
    if context.spec.prune != "Never":
        return []
    return [r for r in context.own_records({key: observed[key] for key in older if key in observed}) if not r.deleting]
