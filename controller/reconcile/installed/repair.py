"""Repairs the objects of an installed revision that have drifted, and looks at no others.

Only the usual case is handled here: everything that is needed is in memory, and every repair succeeds. For anything
else a whole pass follows, which plans again and reports what it finds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from controller.apply.outcome import Outcome
from controller.observe.records import ObjectKey, Record
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.installation.execution import Executor
from controller.reconcile.installation.installed_targets import InstalledTargetsCache
from controller.reconcile.installation.warnings import collect_warnings, warnings_on_cluster
from controller.reconcile.installation.work import Planner
from controller.status.notes import notes_on_repairs
from controller.status.writer import StatusWriter


class Repairer:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(
        self,
        *,
        watches: Watches,
        installed: InstalledTargetsCache,
        planner: Planner,
        executor: Executor,
        writer: StatusWriter,
    ) -> None:
        self._watches, self._installed, self._planner = watches, installed, planner
        self._executor, self._writer = executor, writer

    def repair(
        self, context: Context, drifted: Collection[ObjectKey], observed: Mapping[ObjectKey, Record]
    ) -> list[Outcome] | None:
        """Repair objects of the installed revision.

        Args:
            context: of the pass.
            drifted: all of them that are not as they were left.
            observed: objects with our label.

        Returns: the outcomes; None if a whole pass is necessary.
        Raises: ApiError.
        """
        installed = self._installed.find(context)
        targets = installed.targets.unpack(drifted) if installed else None
        if installed is None or targets is None or not targets.by_key.keys() >= set(drifted):
            return None
        planned = self._planner.plan_repair(context, installed.terms, targets, observed)
        if planned is None:
            return None
        outcomes = self._executor.execute(context, *planned)
        self._writer.record_events(context.deployment, notes_on_repairs(outcomes))
        return None if any(outcome.error for outcome in outcomes) else outcomes

    def warnings(self, context: Context, outcomes: Iterable[Outcome]) -> tuple[str, ...] | None:
        """Return the warnings after repairs; None if nothing was sent."""
        installed = self._installed.find(context)
        if installed is None:
            return None
        kinds = context.recorded_kinds
        on_cluster = warnings_on_cluster(context, installed.targets.rest, kinds, self._watches)
        return collect_warnings(outcomes, [*installed.warnings, *on_cluster])

    def forget(self, name: str) -> None:
        """Drop what is known of a BundleDeployment that is gone."""
        self._installed.forget(name)
