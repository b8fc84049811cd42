"""One pass over one BundleDeployment: the table of contents of the controller.

A pass is level-based: it compares what is wanted with what the watches know, does what can be done now, and ends.
It never waits: an event or a timer triggers the next pass. An unchanged BundleDeployment costs no request.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from controller.apply.options import OvertakenError
from controller.kube.client import ApiError
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.contexts import Contexts
from controller.reconcile.deletion.deleter import Deleter
from controller.reconcile.hooks import Hooks
from controller.reconcile.installation.installer import Installer
from controller.reconcile.installation.work import Planner
from controller.reconcile.installed.settled import Settled
from controller.reconcile.reporter import Reporter, awaits_change, defer
from controller.reconcile.requeue import NEVER, UNLISTED, UNSYNCED, Requeue, Scheduler
from controller.reconcile.search import Search
from controller.reconcile.shards.custody import Custody
from controller.reconcile.waiting.approval import Approvals
from controller.retries import SLOW_SECONDS, Retries
from controller.revisions.accounts.service_accounts import OF_RIGHTS, RIGHTS_SECONDS
from controller.revisions.large import CrowdedError, LargeRevisions
from controller.status.report import Report
from controller.status.rollback import begin_rollback

log = logging.getLogger(__name__)

OVERTAKEN = Requeue(failed=True, cause="the BundleDeployment has changed, as its watch has not shown yet")
MISSED_SECONDS = 0.2
"""Until the next pass after a change of the cluster during this one; discovery may lag behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of a pass, in order."""

    custody: Custody
    search: Search
    settled: Settled
    approvals: Approvals
    hooks: Hooks
    planner: Planner
    installer: Installer
    deleter: Deleter
    reporter: Reporter
    scheduler: Scheduler


class Reconciler:
    """Runs passes: one at a time for each BundleDeployment, many BundleDeployments in parallel."""

    def __init__(
        self, *, watches: Watches, contexts: Contexts, steps: Steps, retries: Retries, large: LargeRevisions
    ) -> None:
        self._watches, self._contexts, self._steps = watches, contexts, steps
        self._retries, self._large = retries, large

    def reconcile(self, name: str) -> Requeue:
        """Run one pass over one BundleDeployment.

        Returns: when the next pass runs if no event triggers one before.
        Raises: ApiError if the pass was aborted; failures that a user can cause become conditions.
        """
        history = self._watches.history
        if not self._watches.synced:
            return UNSYNCED
        deployment = self._watches.deployment(name)
        if deployment is None:
            return self._forget(name)
        if self._contexts.states.is_another(deployment.metadata):
            self._forget(name)  # deleted and recreated between two passes
        context = self._contexts.begin(deployment)
        if self._watches.history != history:
            self._contexts.states.forget(name)  # of what does not count any more
            return UNSYNCED
        try:
            requeue = self._act(context)
        except CrowdedError:  # woken when there is room
            requeue = Requeue(after=SLOW_SECONDS, cause="no room for a large revision")
        except OvertakenError:
            requeue = OVERTAKEN
        else:
            self._large.leave(name)
        context.state.drop_large()
        context.state.bug = None
        log.debug("pass ended", extra={"BundleDeployment": name, "after": requeue.after, "cause": requeue.cause})
        return requeue

    def _act(self, context: Context) -> Requeue:
        """Advance or tear down a BundleDeployment, unless another shard has it."""
        taken = self._steps.custody.take(context)
        if taken is None:
            return self._forget(context.name)
        if isinstance(taken, Requeue):
            return taken
        return self._tear_down(taken) if taken.metadata.deletion_timestamp else self._advance(taken)

    def _tear_down(self, context: Context) -> Requeue:
        self._steps.search.forget(context.name)
        requeue = self._steps.deleter.tear_down(context)
        self._steps.installer.watch_hooks(context)
        return requeue

    def _advance(self, context: Context) -> Requeue:
        """Find, plan, apply, report, and write status."""
        steps = self._steps
        if context.deployment.problem:
            return steps.reporter.refuse_spec(context)
        if self._watches.require(context.name, context.recorded_kinds):  # report nothing until all objects are known
            return UNLISTED
        try:
            context = steps.search.prepare(context)
            report = steps.settled.report(context)
            if report is None or not steps.settled.is_kept(context):
                context, report = self._install(context, report)
            report = steps.reporter.complete(context, report)
            report = replace(report, rollback=begin_rollback(context.deployment, report, context.now()))
        except ApiError as error:
            return steps.reporter.refuse(context, error)
        context.state.awaits_change = awaits_change(context, report)
        if deferred := defer(context, report):
            return deferred
        context = steps.reporter.publish(context, report)
        if self._contexts.states.missed(context.state):  # the next pass retries what waits
            return Requeue(after=MISSED_SECONDS, cause="the cluster changed during the pass")
        return steps.scheduler.next_pass(context, report)

    def _install(self, context: Context, settled: Report | None) -> tuple[Context, Report]:
        """Work on the wanted revision.

        Args:
            context: of the pass.
            settled: the report if nothing but the stored revision is missing; it must be built again first.
        """
        steps = self._steps
        context, wanted = steps.search.find(context)
        wanted = steps.approvals.admit(context, wanted)
        if settled and not (wanted.current or wanted.held):
            return context, steps.settled.describe_unkept(settled, wanted)
        wanted = steps.hooks.before_upgrade(context, wanted)
        work = steps.planner.plan(context, wanted)
        if isinstance(work, Report):
            return context, work
        work = steps.installer.announce(work)
        steps.approvals.commit(work)
        return work.context, steps.installer.apply(work)

    def report_bug(self, name: str, bug: BaseException) -> None:
        """Report in status that a bug ended the pass over a BundleDeployment.

        Raises: ApiError.
        """
        deployment = self._watches.deployment(name)
        if deployment is not None:
            self._steps.reporter.report_bug(self._contexts.current(deployment), bug)

    def retry_sources(self, name: str) -> None:
        """Retry failed sources in the next pass, and read local content again: a Secret or ConfigMap has changed."""
        self._contexts.states.sources_changed(name)
        self._steps.search.retry_sources(name)

    def config_changed(self, name: str) -> None:
        """Read the ConfigMaps and Secrets of `spec.configFrom` again in the next pass: one of them has changed."""
        self._contexts.states.config_changed(name)

    def retry_rights(self, name: str) -> None:
        """Retry in the next pass what was forbidden: RBAC rules have changed."""
        self._retries.end(name, OF_RIGHTS, lag=RIGHTS_SECONDS)
        self._contexts.states.rights_changed(name)
        self._contexts.states.config_changed(name)

    def retry_objects(self, name: str) -> None:
        """Retry in the next pass the objects that wait for another owner or a deletion: one of them may be free."""
        self._retries.end_waits(name)

    def cluster_changed(self) -> list[str]:
        """Record a change of the cluster; returns the BundleDeployments that wait for one, to be requeued."""
        return self._contexts.states.cluster_changed()

    def start_over(self) -> None:
        """Forget everything, as after a restart: the cluster is in an older state than known."""
        self._watches.refresh()
        self._contexts.states.clear()
        self._retries.clear()

    def _forget(self, name: str) -> Requeue:
        self._steps.custody.end_wait(name)
        self._steps.search.forget(name)
        self._steps.approvals.forget(name)
        self._large.leave(name)
        self._steps.reporter.forget(name)
        self._watches.forget(name)
        self._steps.planner.forget(name)
        self._steps.installer.forget(name)
        self._steps.settled.forget(name)
        self._contexts.forget(name)
        return NEVER
