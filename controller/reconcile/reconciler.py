"""One pass over one BundleDeployment: the table of contents of the controller.

A pass is level-based: it compares what is wanted with what the watches know, does what can be done now, and ends.
Nothing waits here: whatever ends a wait brings the next pass. An unchanged BundleDeployment costs no request.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from controller.kube.client import ApiError
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.contexts import Contexts
from controller.reconcile.deletion.deleter import Deleter
from controller.reconcile.installation.installer import Installer
from controller.reconcile.installation.work import Planner
from controller.reconcile.reporter import Reporter, awaits_change, stay_silent
from controller.reconcile.requeue import NEVER, UNKNOWN_SECONDS, Requeue, Scheduler
from controller.reconcile.search import Search
from controller.reconcile.settled import Settled
from controller.retries import SLOW_SECONDS, Retries
from controller.revisions.large import CrowdedError, LargeRevisions
from controller.revisions.service_accounts import OF_RIGHTS, RIGHTS_SECONDS
from controller.status.report import Report

log = logging.getLogger(__name__)

MISSED_SECONDS = 0.2
"""When to come back where what is waited for may have come in the midst of the pass; discovery may be behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of a pass, in order."""

    search: Search
    settled: Settled
    planner: Planner
    installer: Installer
    deleter: Deleter
    reporter: Reporter
    scheduler: Scheduler


class Reconciler:
    """Runs passes; one at a time for each BundleDeployment, many at the same time over all."""

    def __init__(
        self, *, watches: Watches, contexts: Contexts, steps: Steps, retries: Retries, large: LargeRevisions
    ) -> None:
        self._watches, self._contexts, self._steps = watches, contexts, steps
        self._retries, self._large = retries, large

    def reconcile(self, name: str) -> Requeue:
        """Run one pass over one BundleDeployment.

        Returns: when to come back if no event comes first.
        Raises: ApiError if the pass could not go on; nothing that a user can cause: that has become a condition.
        """
        deployment = self._watches.deployment(name)
        if deployment is None:
            return self._forget(name)
        if self._contexts.is_another(deployment.metadata):
            self._forget(name)  # it was made again before a pass saw it gone
        context = self._contexts.begin(deployment)
        try:
            requeue = self._tear_down(context) if deployment.metadata.deletion_timestamp else self._advance(context)
        except CrowdedError:  # woken when its turn has come
            requeue = Requeue(after=SLOW_SECONDS, cause="there is no room for a large revision")
        else:
            self._large.leave(name)
        context.state.drop_large()
        log.debug("pass ended", extra={"BundleDeployment": name, "after": requeue.after, "cause": requeue.cause})
        return requeue

    def _tear_down(self, context: Context) -> Requeue:
        self._steps.search.forget(context.name)
        self._steps.installer.forget(context.name)
        return self._steps.deleter.tear_down(context)

    def _advance(self, context: Context) -> Requeue:
        """Find, plan, apply, report, and write status."""
        steps = self._steps
        if context.deployment.problem:
            return steps.reporter.refuse_spec(context)
        if self._watches.require(context.name, context.recorded_kinds):  # nothing is said until they are known
            return Requeue(after=UNKNOWN_SECONDS, cause="the objects of a kind are not known yet")
        try:
            context = steps.search.prepare(context)
            report = steps.settled.report(context)
            if report is None:
                context, report = self._install(context)
        except ApiError as error:
            return steps.reporter.refuse(context, error)
        context.state.awaits_change = awaits_change(context, report)
        if silence := stay_silent(context, report):
            return silence
        context = steps.reporter.publish(context, report)
        if self._contexts.missed(context.state):  # the pass that comes back ends what waits
            return Requeue(after=MISSED_SECONDS, cause="the cluster has changed in the midst of the pass")
        return steps.scheduler.next_pass(context, report)

    def _install(self, context: Context) -> tuple[Context, Report]:
        context, wanted = self._steps.search.find(context)
        work = self._steps.planner.plan(context, wanted)
        if isinstance(work, Report):
            return context, work
        work = self._steps.installer.announce(work)
        return work.context, self._steps.installer.apply(work)

    def retry_sources(self, name: str) -> None:
        """Let the sources of a BundleDeployment be tried at once: a Secret that they use has changed."""
        self._steps.search.retry_sources(name)

    def retry_rights(self, name: str) -> None:
        """Let a BundleDeployment try again at once what it had no right to do: rights have changed."""
        self._retries.end(name, OF_RIGHTS, lag=RIGHTS_SECONDS)

    def retry_objects(self, name: str) -> None:
        """Let the objects of a BundleDeployment that wait for something be tried at once: one of them may be free."""
        self._retries.end_waits(name)

    def cluster_changed(self) -> list[str]:
        """Note that something on the cluster has changed; returns the BundleDeployments that wait for such a thing.

        Their next pass lets what waits be tried again.
        """
        return self._contexts.cluster_changed()

    def _forget(self, name: str) -> Requeue:
        self._steps.search.forget(name)
        self._large.leave(name)
        self._steps.reporter.forget(name)
        self._watches.forget(name)
        self._steps.installer.forget(name)
        self._steps.settled.forget(name)
        self._contexts.forget(name)
        return NEVER
