"""Carries out the work on one revision: announces and applies it, or only compares.

What cannot be done in this pass has its reason in the report. Not here: the plan (work.py), how it is executed
(execution.py), and what follows (finish.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from api.v1alpha2.types import HistoryEntry
from controller.apply.differences import find_differences
from controller.kube.events import Note
from controller.reconcile.context import Context
from controller.reconcile.installation.execution import Executor
from controller.reconcile.installation.finish import Finisher
from controller.reconcile.installation.health import Assessor
from controller.reconcile.installation.installed_targets import InstalledTargetsCache
from controller.reconcile.installation.work import Work
from controller.status.notes import note_on_beginning
from controller.status.report import Report
from controller.status.summary import summarize
from controller.status.writer import StatusWriter


class Installer:
    """Installs and repairs revisions."""

    def __init__(
        self,
        *,
        executor: Executor,
        finisher: Finisher,
        assessor: Assessor,
        writer: StatusWriter,
        installed: InstalledTargetsCache,
    ) -> None:
        self._executor, self._finisher, self._assessor = executor, finisher, assessor
        self._writer, self._installed = writer, installed

    def announce(self, work: Work) -> Work:
        """Write to status what must survive a kill while applying: the revision and the kinds of its objects.

        Returns: the work with the new status.
        Raises: ApiError.
        """
        if work.only_compare:
            return work
        context, options = work.context, work.options
        context.state.unapplied.discard(options.wanted.revision)  # even if it only removes objects
        if not work.plan.writes:
            return work
        status = context.status
        is_begun = work.plan.upgrades or status.revision != options.wanted.revision
        report = replace(
            work.report(),
            # Not the one that must wait: without managedState, it would count as begun.
            wanted=options.wanted.revision,
            install_namespace=options.install_namespace,
            managed_state="" if is_begun else status.managed_state,
            managed_kinds=tuple(sorted({*status.managed_kinds, *map(str, options.wanted.kinds)})),
        )
        essential = (report.wanted, report.managed_state, report.managed_kinds)
        if essential == (status.revision, status.managed_state, status.managed_kinds):
            return work
        written = self._writer.write_status(context.deployment, summarize(context.deployment, report, context.now()))
        if status.installed_revision and written.status.history[:1] != status.history[:1]:
            self._writer.record_events(written, [_note_on_beginning(work, written.status.history)])
        return replace(work, context=replace(context, deployment=written))

    def apply(self, work: Work) -> Report:
        """Do what can be done now, and report it.

        Raises: CrowdedError, ApiError.
        """
        if work.only_compare:
            return self._compare(work)
        if work.is_new_account:
            work = replace(work, lack=self._executor.review(work.options))
        work.context.state.checked_account = None if work.lack else work.account
        outcomes = self._executor.execute(work.context, work.plan, work.options)
        report = self._finisher.finish(work, outcomes)
        self._executor.watch_contested(work.context, outcomes)
        if report.applied and work.wanted.current and work.wanted.revision:
            self._installed.keep(work.context, work.wanted.revision, work.options.wanted)
        return report

    def watch_hooks(self, context: Context) -> None:
        """Watch only what hooks of a deletion wait for.

        Raises: ApiError if discovery fails.
        """
        self._executor.watch_contested(context)

    def forget(self, name: str) -> None:
        """Drop what is known for a BundleDeployment that applies nothing any more."""
        self._executor.forget(name)

    def _compare(self, work: Work) -> Report:
        """Report drift and health, and change nothing (rule 8)."""
        report = work.report()
        survey = self._executor.compare(work.context, work.plan, work.options)
        return replace(
            report,
            failure=work.hindrance or report.failure,
            drifted=survey.drifted,
            handed_over=survey.handed_over,
            strays=self._finisher.find_strays(work),
            skipped_kinds=work.options.wanted.skipped_kinds,
            progress=self._assessor.assess_work(work, left_out=survey.handed_over, refusals=survey.refused),
        )


def _note_on_beginning(work: Work, history: Sequence[HistoryEntry]) -> Note:
    differences = find_differences(work.before, work.options.wanted, prunes=work.context.spec.prune != "Never")
    before = next((each for each in history if each.revision == work.context.status.installed_revision), None)
    return note_on_beginning(history[0], before, differences.counts)
