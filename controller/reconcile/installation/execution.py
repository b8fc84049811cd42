"""Executes plans, and remembers in the state how objects were left.

Not here: the plan (work.py), and what follows (finish.py, installed/repair.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.drift.ledger import Ledger
from controller.apply.execute import Applier, Survey
from controller.apply.options import ApplyOptions
from controller.apply.outcome import Outcome
from controller.apply.plan import Action, Plan
from controller.observe.following.contested import Contested, ContestedWatches
from controller.reconcile.context import Context
from controller.telemetry import DEAF, Observer, Phase


class Executor:
    """Thread-safe; one pass at a time for each BundleDeployment.

    Args:
        observer: gets the duration of applying, and counts of drift.
    """

    def __init__(self, applier: Applier, contested: ContestedWatches, observer: Observer = DEAF) -> None:
        self._applier, self._contested, self._observer = applier, contested, observer

    def execute(self, context: Context, plan: Plan, options: ApplyOptions) -> list[Outcome]:
        """Execute a plan.

        Raises: ApiError.
        """
        state, outcomes = context.state, self._execute(plan, options)
        self._observer.drift_found(*state.drift.repair(outcomes, options))
        _remember(state.ledger, outcomes)
        return outcomes

    def review(self, options: ApplyOptions) -> BundleError | None:
        """Return the rights that the account lacks to repair what is installed.

        Raises: ApiError.
        """
        return self._applier.review(options)

    def watch_contested(self, context: Context, outcomes: Iterable[Outcome] = ()) -> None:
        """Watch the objects that hooks and these outcomes wait for, and no others.

        Raises: ApiError if discovery fails.
        """
        contested = (*_contested_by_hooks(context), *_contested_in(outcomes))
        self._contested.watch(context.name, contested, share=context.share)

    def compare(self, context: Context, plan: Plan, options: ApplyOptions) -> Survey:
        """Return what has drifted or was handed over, and change nothing (rule 8).

        Raises: ApiError.
        """
        survey = self._applier.survey(plan, options)
        context.state.ledger.learn(survey.same)
        self._observer.drift_found(context.state.drift.see([each.key for each in survey.drifted]), 0)
        return survey

    def forget(self, name: str) -> None:
        """Stop watching contested objects for a BundleDeployment that applies nothing any more."""
        self._contested.watch(name, ())

    def _execute(self, plan: Plan, options: ApplyOptions) -> list[Outcome]:
        """Execute a plan, and report the duration if something was sent."""
        started = time.monotonic()
        outcomes = self._applier.execute(plan, options)
        if any(outcome.tried for outcome in outcomes):
            succeeded = not any(outcome.error for outcome in outcomes)
            self._observer.phase_ended(Phase.APPLY, time.monotonic() - started, succeeded=succeeded)
        return outcomes


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
