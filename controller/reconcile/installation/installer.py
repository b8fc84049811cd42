"""Carries out the work on one revision: announces and applies it, or only compares.

What cannot be done in this pass has its reason in the report. Not here: the plan (work.py), and what follows applying
(finish.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from api.v1alpha2.conditions import Reason
from controller.apply.drift.ledger import Ledger
from controller.apply.execute import Applier
from controller.apply.outcome import Outcome
from controller.apply.plan import Action
from controller.observe.contested import Contested, ContestedWatches
from controller.reconcile.context import Context
from controller.reconcile.health import Assessor
from controller.reconcile.installation.finish import Finisher
from controller.reconcile.installation.work import Work
from controller.status.report import Report
from controller.status.summary import summarize
from controller.status.writer import StatusWriter
from controller.telemetry import DEAF, Observer, Phase


class Installer:
    """Installs and repairs revisions.

    Args:
        observer: gets the duration of applying, and counts of drift.
    """

    def __init__(
        self,
        *,
        applier: Applier,
        finisher: Finisher,
        assessor: Assessor,
        writer: StatusWriter,
        contested: ContestedWatches,
        observer: Observer = DEAF,
    ) -> None:
        self._applier, self._finisher, self._assessor = applier, finisher, assessor
        self._writer, self._contested, self._observer = writer, contested, observer

    def announce(self, work: Work) -> Work:
        """Write to status what must survive a kill while applying: the revision and the kinds of its objects.

        Returns: the work with the new status.
        Raises: ApiError.
        """
        if work.only_compare or not work.plan.writes:
            return work
        context, options = work.context, work.options
        status = context.status
        report = replace(
            work.report(),
            install_namespace=options.install_namespace,
            managed_state=""
            if work.plan.upgrades or status.revision != options.wanted.revision
            else status.managed_state,
            managed_kinds=tuple(sorted({*status.managed_kinds, *map(str, options.wanted.kinds)})),
        )
        essential = (report.wanted or status.revision, report.managed_state, report.managed_kinds)
        if essential == (status.revision, status.managed_state, status.managed_kinds):
            return work
        written = self._writer.write_status(context.deployment, summarize(context.deployment, report, context.now()))
        return replace(work, context=replace(context, deployment=written))

    def apply(self, work: Work) -> Report:
        """Do what can be done now, and report it.

        Raises: CrowdedError, ApiError.
        """
        if work.only_compare:
            return self._compare(work)
        state = work.context.state
        outcomes = self._execute(work)
        self._observer.drift_found(*state.drift.repair(outcomes, work.options))
        _remember(state.ledger, outcomes)
        report = self._finisher.finish(work, outcomes)
        contested = (*_contested_by_hooks(work.context), *_contested_in(outcomes))
        self._contested.watch(work.context.name, contested, share=work.context.share)
        return report

    def watch_hooks(self, context: Context) -> None:
        """Watch only what hooks of a deletion wait for.

        Raises: ApiError if discovery fails.
        """
        self._contested.watch(context.name, _contested_by_hooks(context), share=context.share)

    def forget(self, name: str) -> None:
        """Stop watching contested objects for a BundleDeployment that applies nothing any more."""
        self._contested.watch(name, ())

    def _execute(self, work: Work) -> list[Outcome]:
        """Carry out a plan, and report the duration if something was sent."""
        started = time.monotonic()
        outcomes = self._applier.execute(work.plan, work.options)
        if any(outcome.tried for outcome in outcomes):
            succeeded = not any(outcome.error for outcome in outcomes)
            self._observer.phase_ended(Phase.APPLY, time.monotonic() - started, succeeded=succeeded)
        return outcomes

    def _compare(self, work: Work) -> Report:
        """Report drift and health, and change nothing (rule 8)."""
        state, report = work.context.state, work.report()
        drifted, same = self._applier.survey(work.plan, work.options)
        state.ledger.learn(same)
        self._observer.drift_found(state.drift.see([each.key for each in drifted]), 0)
        return replace(
            report,
            failure=work.hindrance or report.failure,
            drifted=tuple(drifted),
            skipped_kinds=work.options.wanted.skipped_kinds,
            progress=self._assessor.assess_work(work),
        )


def _contested_by_hooks(context: Context) -> tuple[Contested, ...]:
    contested = context.state.hooks.contested
    return (contested,) if contested else ()


def _contested_in(outcomes: Iterable[Outcome]) -> Iterator[Contested]:
    """Yield the objects that have another owner or are being deleted, unless they are watched as managed objects."""
    for outcome in outcomes:
        target, record = outcome.task.target, outcome.task.record
        is_held = outcome.task.action is Action.AWAIT or _collides(outcome)
        if is_held and not (record and record.owner):
            yield Contested(kind=target.kind, key=target.key, record=record)


def _collides(outcome: Outcome) -> bool:
    return outcome.error is not None and outcome.error.reason is Reason.COLLISION


def _remember(ledger: Ledger, outcomes: Iterable[Outcome]) -> None:
    """Record how objects were left, which Jobs have finished, and which existing Namespaces are used."""
    done = [outcome for outcome in outcomes if not outcome.error and not outcome.postponed]
    ledger.learn(outcome.record for outcome in done if outcome.record)
    ledger.forget(o.task.target.key for o in done if o.task.action is Action.NONE and not o.task.record)
    used = {o.task.target.key: o.task.record for o in done if o.task.action is Action.USE or o.task.target.bare}
    ledger.used |= {key: record or ledger.used.get(key) for key, record in used.items()}
