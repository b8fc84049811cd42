"""How a pass begins: with what is remembered of its BundleDeployment, and whether the cluster has changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from api.v1alpha2.types import BundleDeployment, ObjectMeta
from controller.reconcile.context import Context
from controller.reconcile.state import State, States
from controller.retries import Retries
from controller.revisions.service_accounts import AccountPolicy


class Contexts:
    """Thread-safe; one pass at a time for each BundleDeployment.

    Args:
        policy: of the administrator: which account counts.
        retries: end with what they wait for.
        abandoned: told when a BundleDeployment has gone before its teardown was over: its revisions are left.
        now: the time of day.
    """

    def __init__(
        self,
        *,
        policy: AccountPolicy,
        retries: Retries,
        abandoned: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self._policy, self._retries = policy, retries
        self._abandoned, self._now = abandoned, now
        self._states = States()

    def begin(self, deployment: BundleDeployment) -> Context:
        """Return the context of a pass that begins.

        Args:
            deployment: as the watches know it.
        """
        deployment = self._policy.complete(deployment)
        state = self._states.of(deployment.metadata)
        if self._states.begin_pass(state):
            self._retries.end_waits(deployment.metadata.name)
        return Context(deployment=deployment, state=state, now=self._now)

    def is_another(self, metadata: ObjectMeta) -> bool:
        """Whether what is remembered under this name is of one that is gone, and was made again since."""
        return self._states.is_another(metadata)

    def missed(self, state: State) -> bool:
        """Whether what one waits for may have come in the midst of the pass that found out that it has to wait."""
        return self._states.missed(state)

    def cluster_changed(self) -> list[str]:
        """Note that something on the cluster has changed; returns the names of those that wait for such a thing."""
        return self._states.cluster_changed()

    def forget(self, name: str) -> None:
        """Drop what is remembered of a BundleDeployment that is gone."""
        self._retries.forget(name)
        state = self._states.forget(name)
        if state and not state.let_go:  # somebody has taken its finalizer off
            self._abandoned()
