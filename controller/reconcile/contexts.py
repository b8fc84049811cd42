"""Makes the context of each pass from what is remembered of its BundleDeployment."""

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
        policy: gives the default account.
        retries: failures that wait for the cluster are retried when it has changed.
        abandoned: called when a BundleDeployment is gone without its teardown: its revisions are left.
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
        """Return the context of a new pass."""
        deployment = self._policy.complete(deployment)
        state = self._states.of(deployment.metadata)
        if self._states.begin_pass(state):
            self._retries.end_waits(deployment.metadata.name)
        return Context(deployment=deployment, state=state, now=self._now)

    def is_another(self, metadata: ObjectMeta) -> bool:
        """Whether the remembered state belongs to a deleted BundleDeployment of the same name."""
        return self._states.is_another(metadata)

    def missed(self, state: State) -> bool:
        """Whether the cluster has changed during the pass of one that waits for a change."""
        return self._states.missed(state)

    def cluster_changed(self) -> list[str]:
        """Record a change of the cluster; returns the BundleDeployments that wait for one."""
        return self._states.cluster_changed()

    def forget(self, name: str) -> None:
        """Drop the state of a BundleDeployment that is gone."""
        self._retries.forget(name)
        state = self._states.forget(name)
        if state and not state.torn_down:  # a user has removed its finalizer
            self._abandoned()
