"""Recognizes a BundleDeployment with nothing to do, since no object has changed. This costs no request."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.apply.ownership import is_unfinished
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey, Record, managed_state
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.health import Assessor
from controller.reconcile.strays import notes_on_strays
from controller.status.report import Report
from controller.status.writer import StatusWriter


class Settled:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(self, watches: Watches, assessor: Assessor, writer: StatusWriter) -> None:
        self._watches, self._assessor, self._writer = watches, assessor, writer

    def report(self, context: Context) -> Report | None:
        """Return a report if everything is installed and unchanged; None if there is something to do."""
        if not context.is_current:
            return None
        observed = self._watches.managed(context.name)
        if not self._is_as_left(context, observed):
            return None
        status, state = context.status, context.state
        if len(observed) > len(state.ledger.left):
            self._writer.record_events(
                context.deployment, notes_on_strays(context, observed, state.ledger.left, state.older)
            )
        return Report(
            wanted=status.revision,
            revision=status.installed_revision,
            applied=True,
            awaiting_prune=tuple(_kept(context, observed, state.older)),
            conflicts=tuple(state.ledger.conflicts()),
            progress=self._assessor.assess(context, status.revision, state.ledger.digests()),
            install_namespace=status.install_namespace,
            managed_state=status.managed_state,
            managed_kinds=status.managed_kinds,
        )

    def _is_as_left(self, context: Context, observed: Mapping[ObjectKey, Record]) -> bool:
        """Whether no object has changed since the last pass or, after a restart, since status was written."""
        status, ledger = context.status, context.state.ledger
        if not ledger.left:
            own = context.own_records(observed)
            is_interrupted = any(is_unfinished(record, leaves=True) for record in own)
            if is_interrupted or managed_state(own) != status.managed_state:
                return False
            ledger.expect_all(own)  # none if the revision has no objects
        if ledger.drifted(observed):
            return False
        return not any(self._watches.has_appeared(GroupVersionKind.parse(kind)) for kind in status.skipped_kinds)

    def forget(self, name: str) -> None:
        """Drop the explanations for a BundleDeployment that is gone."""
        self._assessor.forget(name)


def _kept(context: Context, observed: Mapping[ObjectKey, Record], older: Collection[ObjectKey]) -> list[Record]:
    """Return the objects of older revisions that spec.prune keeps for good."""
    if context.spec.prune != "Never":
        return []
    return [r for r in context.own_records(observed) if r.key in older and not r.deleting]
