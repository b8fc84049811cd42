"""Recognizes an installed revision with nothing to do but to repair objects: that costs what has changed.

If no object has changed, this costs no request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.outcome import Outcome
from controller.apply.ownership import is_unfinished
from controller.kube.resources import read_kinds
from controller.observe.journal import Look
from controller.observe.records import ObjectKey, Record
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.installation.health import Assessor
from controller.reconcile.installed.repair import Repairer
from controller.reconcile.ownership.holdings import Holdings
from controller.reconcile.ownership.strays import look_for_strays, notes_on_strays
from controller.reconcile.waiting.dependencies import Dependencies
from controller.revisions.finder import Wanted
from controller.revisions.kept import KeptRevisions
from controller.status.report import Report
from controller.status.texts import short
from controller.status.writer import StatusWriter


class Settled:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(
        self,
        *,
        watches: Watches,
        kept: KeptRevisions,
        holdings: Holdings,
        dependencies: Dependencies,
        repairer: Repairer,
        assessor: Assessor,
        writer: StatusWriter,
    ) -> None:
        self._watches, self._kept, self._holdings, self._dependencies = watches, kept, holdings, dependencies
        self._repairer, self._assessor, self._writer = repairer, assessor, writer

    def report(self, context: Context) -> Report | None:
        """Return a report if everything is installed, and unchanged or repaired; None if there is more to do.

        Raises: ApiError.
        """
        if not (context.is_current and context.is_config_known) or self._dependencies.cycle(context):
            return None
        look = self._look(context)
        outcomes = self._repair(context, look)
        if outcomes is None:
            return None
        look = self._look(context) if outcomes else look
        status, state, observed = context.status, context.state, look.records
        state.strays = frozenset()
        if outcomes or len(observed) > len(state.ledger.left):
            strays = look_for_strays(context, observed, state.ledger.left, state.older)
            if strays and self._holdings.had(context, strays):
                return None  # a pass over everything prunes them
            self._writer.record_events(context.deployment, notes_on_strays(context))
        return Report(
            wanted=status.revision,
            revision=status.installed_revision,
            applied=True,
            outcomes=tuple(outcomes),
            drifted=tuple(outcome.drift for outcome in outcomes if outcome.drift),
            awaiting_prune=tuple(_kept(context, observed, state.older)),
            conflicts=tuple(state.ledger.conflicts()),
            strays=tuple(sorted(state.strays)),
            progress=self._assessor.assess_installed(context),
            install_namespace=status.install_namespace,
            managed_state=_managed_state(context, outcomes, look),
            managed_kinds=status.managed_kinds,
            warnings=self._repairer.warnings(context, outcomes) if outcomes else None,
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

    def _look(self, context: Context) -> Look:
        return self._watches.look(context.name, context.state.ledger.reader.seen)

    def _repair(self, context: Context, look: Look) -> Sequence[Outcome] | None:
        """Return the outcomes of repairs, none if no object has changed; None if there is more to do."""
        ledger = context.state.ledger
        if not (ledger.complete or self._is_as_recorded(context, look.records)):
            return None
        if any(map(self._watches.served.has_appeared, read_kinds(context.status.skipped_kinds))):
            return None
        if any(map(self._watches.served.is_withdrawn, context.recorded_kinds)):
            return None
        drifted = ledger.drifted(look)
        return self._repairer.repair(context, drifted, look.records) if drifted else ()

    def _is_as_recorded(self, context: Context, observed: Mapping[ObjectKey, Record]) -> bool:
        """Whether after a restart no object has changed since status was written, and status names their kinds."""
        own = context.own_records(observed)
        is_interrupted = any(is_unfinished(record, leaves=True) for record in own)
        # A kind that is not served has no objects: status named it if it was edited, and a pass drops it again.
        if is_interrupted or not _names_kinds(context, own) or self._watches.has_unwatched(context.name):
            return False
        return context.state.ledger.resume(own, context.status.managed_state)

    def forget(self, name: str) -> None:
        """Drop what is known of a BundleDeployment that is gone."""
        self._assessor.forget(name)
        self._repairer.forget(name)


def _managed_state(context: Context, outcomes: Sequence[Outcome], look: Look) -> str:
    """Return the state of all objects after repairs, unless one was not repaired, or has changed since."""
    ledger = context.state.ledger
    return ledger.managed_state if outcomes and not ledger.drifted(look) else context.status.managed_state


def _names_kinds(context: Context, own: Collection[Record]) -> bool:
    known = {(kind.group, kind.kind) for kind in context.recorded_kinds}
    return all((record.key.group, record.key.kind) in known for record in own)


def _kept(context: Context, observed: Mapping[ObjectKey, Record], older: Collection[ObjectKey]) -> list[Record]:
    """Return the objects of older revisions that spec.prune keeps for good."""
    if context.spec.prune != "Never":
        return []
    return [r for r in context.own_records({key: observed[key] for key in older if key in observed}) if not r.deleting]
