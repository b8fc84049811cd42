"""Recognizes a BundleDeployment with nothing to do, since no object has changed. This costs no request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.ownership import is_unfinished
from controller.kube.resources import read_kinds
from controller.observe.records import ObjectKey, Record, managed_state
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.health import Assessor
from controller.reconcile.strays import notes_on_strays
from controller.revisions.finder import Wanted
from controller.revisions.kept import KeptRevisions
from controller.status.report import Report
from controller.status.texts import short
from controller.status.writer import StatusWriter


class Settled:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(self, watches: Watches, kept: KeptRevisions, assessor: Assessor, writer: StatusWriter) -> None:
        self._watches, self._kept = watches, kept
        self._assessor, self._writer = assessor, writer

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

    def is_kept(self, context: Context) -> bool:
        """Whether the installed revision is stored, as far as the watch of its Secrets shows."""
        return not self._kept.is_lost(context)

    def describe_unkept(self, report: Report, wanted: Wanted) -> Report:
        """Return the report of objects that are as they should be while their revision cannot be stored again."""
        consequence = "was deleted or changed by another client; until it is stored again, no object can be repaired"
        cause = wanted.failure or BundleError(Reason.FETCHING, wanted.fetching)
        message = f"the stored revision {short(report.revision)} {consequence}: {cause.message}"
        return replace(report, unkept=BundleError(cause.reason, message, retry_after=cause.retry_after))

    def _is_as_left(self, context: Context, observed: Mapping[ObjectKey, Record]) -> bool:
        """Whether no object has changed since the last pass or, after a restart, since status was written."""
        status, ledger = context.status, context.state.ledger
        if not ledger.left:
            own = context.own_records(observed)
            is_interrupted = any(is_unfinished(record, leaves=True) for record in own)
            if is_interrupted or not _matches_status(context, own):
                return False
            ledger.expect_all(own)  # none if the revision has no objects
        if ledger.drifted(observed):
            return False
        return not any(map(self._watches.has_appeared, read_kinds(status.skipped_kinds)))

    def forget(self, name: str) -> None:
        """Drop the explanations for a BundleDeployment that is gone."""
        self._assessor.forget(name)


def _matches_status(context: Context, own: Collection[Record]) -> bool:
    """Whether these objects are those that status describes, and of kinds that it names."""
    known = {(kind.group, kind.kind) for kind in context.recorded_kinds}
    is_named = all((record.key.group, record.key.kind) in known for record in own)
    return is_named and managed_state(own) == context.status.managed_state


def _kept(context: Context, observed: Mapping[ObjectKey, Record], older: Collection[ObjectKey]) -> list[Record]:
    """Return the objects of older revisions that spec.prune keeps for good."""
    if context.spec.prune != "Never":
        return []
    return [r for r in context.own_records(observed) if r.key in older and not r.deleting]
