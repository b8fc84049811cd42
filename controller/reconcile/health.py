"""How a revision does: the health of its objects, with what the pods of those in trouble say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from api.errors import BundleError
from api.v1alpha2.types import BundleDeployment
from controller.observe.explanations import Explainer
from controller.observe.progress import Progress
from controller.observe.records import ObjectKey
from controller.observe.watches import Watches
from controller.reconcile.state import Memory


class Appraiser:
    """Judges what the watches know."""

    def __init__(self, watches: Watches, explainer: Explainer) -> None:
        self._watches, self._explainer = watches, explainer

    def judge(
        self,
        deployment: BundleDeployment,
        memory: Memory,
        revision: str,
        digests: Mapping[ObjectKey, str],
        refusals: Mapping[ObjectKey, BundleError] | None = None,
    ) -> Progress:
        """Return how the objects of a revision do.

        Args:
            deployment: whose they are.
            memory: since when each is as it is.
            revision: its digest: with another one, deadlines begin anew.
            digests: the objects, and the applied digest that each is to have.
            refusals: why objects could not be applied in this pass.
        """
        name = deployment.metadata.name
        return memory.health.summarize(
            digests,
            self._watches.managed(name),
            f"{revision} {deployment.metadata.generation}",
            deployment.spec.progress_deadline_seconds,
            refusals=refusals,
            explain=partial(self._explainer.explain, name),
        )

    def forget(self, name: str) -> None:
        """Drop what is known of the objects of a BundleDeployment that is gone."""
        self._explainer.forget(name)
