"""Makes the context of each pass from what is remembered of its BundleDeployment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from api.v1alpha2.types import BundleDeployment
from controller.reconcile.context import Context
from controller.reconcile.state import States
from controller.retries import Retries
from controller.revisions.accounts.service_accounts import AccountPolicy


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
        self.states = States()

    def begin(self, deployment: BundleDeployment) -> Context:
        """Return the context of a new pass."""
        deployment = self._policy.complete(deployment)
        state = self.states.of(deployment.metadata)
        if self.states.begin_pass(state):
            self._retries.end_waits(deployment.metadata.name)
        return Context(deployment=deployment, state=state, now=self._now)

    def current(self, deployment: BundleDeployment) -> Context:
        """Return a context for the pass that has just ended."""
        return Context(deployment=deployment, state=self.states.of(deployment.metadata), now=self._now)

    def forget(self, name: str) -> None:
        """Drop the state of a BundleDeployment that is gone."""
        self._retries.forget(name)
        state = self.states.forget(name)
        if state and not state.torn_down:  # a user has removed its finalizer
            self._abandoned()
