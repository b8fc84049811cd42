"""The health of the objects of a revision, with explanations from the pods of failing ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from api.errors import BundleError
from controller.apply.outcome import Outcome
from controller.apply.plan import is_finished
from controller.observe.explanations import Explainer
from controller.observe.progress import Progress
from controller.observe.records import ObjectKey
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.installation.work import Work


class Assessor:
    """Assesses health from what the watches know."""

    def __init__(self, watches: Watches, explainer: Explainer) -> None:
        self._watches, self._explainer = watches, explainer

    def assess(
        self,
        context: Context,
        revision: str,
        digests: Mapping[ObjectKey, str],
        refusals: Mapping[ObjectKey, BundleError] | None = None,
    ) -> Progress:
        """Return the health of the objects of a revision.

        Args:
            context: of the pass; its state tracks when the health of each object has changed.
            revision: its digest: another one restarts all deadlines.
            digests: the expected applied digest of each object.
            refusals: why objects could not be applied in this pass.
        """
        return context.state.health.summarize(
            digests,
            self._watches.managed(context.name),
            f"{revision} {context.metadata.generation}",
            context.spec.progress_deadline_seconds,
            refusals=refusals,
            explain=partial(self._explainer.explain, context.name),
        )

    def assess_work(self, work: Work, outcomes: Iterable[Outcome] = ()) -> Progress:
        """Return the health of the objects of the revision that the pass works on."""
        context, options = work.context, work.options
        observed = self._watches.managed(context.name)
        digests = {
            t.key: t.digest
            for t in options.wanted.targets
            if not t.bare
            and t.key not in context.state.ledger.used
            and not is_finished(t, observed.get(t.key), installed=options.installed)
        }
        refusals = {outcome.task.target.key: outcome.error for outcome in outcomes if outcome.error}
        return self.assess(context, options.wanted.revision, digests, refusals)

    def forget(self, name: str) -> None:
        """Drop the explanations for a BundleDeployment that is gone."""
        self._explainer.forget(name)
