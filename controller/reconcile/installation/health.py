"""The health of the objects of a revision, with explanations from the pods of failing ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType

from api.errors import BundleError
from controller.apply.outcome import Outcome
from controller.apply.plan import is_finished
from controller.observe.explanations import Explainer, oldest_answer
from controller.observe.journal import Reader
from controller.observe.progress import Explain, Progress
from controller.observe.records import ObjectKey
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.installation.work import Work

NOTHING_REFUSED: Mapping[ObjectKey, BundleError] = MappingProxyType({})


class Assessor:
    """Assesses health from what the watches know."""

    def __init__(self, watches: Watches, explainer: Explainer) -> None:
        self._watches, self._explainer = watches, explainer

    def assess_installed(self, context: Context) -> Progress:
        """Return the health of the objects of the installed revision; judges only what has changed."""
        tracker, ledger = context.state.health, context.state.ledger
        look = self._watches.look(context.name, tracker.reader.seen)
        changed = tracker.reader.read(look, ledger.changes)
        return tracker.summarize(
            ledger.left,
            look.records,
            _version(context, context.status.revision),
            context.spec.progress_deadline_seconds,
            changed=changed,
            recreates=context.spec.drift.mode == "Repair",
            explain=self._explain(context),
        )

    def assess_work(
        self,
        work: Work,
        outcomes: Iterable[Outcome] = (),
        left_out: Collection[ObjectKey] = (),
        refusals: Mapping[ObjectKey, BundleError] = NOTHING_REFUSED,
    ) -> Progress:
        """Return the health of all objects of the revision that the pass works on, but those that are left out.

        Args:
            work: of the pass.
            outcomes: of what was applied.
            left_out: objects that do not count.
            refusals: why objects would not be applied.
        """
        context, options = work.context, work.options
        observed = self._watches.managed(context.name)
        wanted = {
            t.key: t
            for t in options.wanted.targets
            if not t.bare
            and t.key not in left_out
            and t.key not in context.state.ledger.used
            and not is_finished(t, observed.get(t.key), started=options.is_started(t))
        }
        tracker = context.state.health
        tracker.reader = Reader()
        return tracker.summarize(
            wanted,
            observed,
            _version(context, options.wanted.revision),
            context.spec.progress_deadline_seconds,
            refusals={**refusals, **{each.task.target.key: each.error for each in outcomes if each.error}},
            recreates=options.repairs and not work.only_compare,
            explain=self._explain(context),
        )

    def _explain(self, context: Context) -> Explain:
        most = oldest_answer(context.spec.progress_deadline_seconds)
        return partial(self._explainer.explain, context.name, most=most)

    def forget(self, name: str) -> None:
        """Drop the explanations for a BundleDeployment that is gone."""
        self._explainer.forget(name)


def _version(context: Context, revision: str) -> str:
    """Return what restarts all deadlines when it changes."""
    return f"{revision} {context.metadata.generation}"
