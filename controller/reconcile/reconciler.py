"""One pass over one BundleDeployment: the table of contents of the controller.

A pass is level-based: it compares what is wanted with what the watches know, does what can be done now, and ends.
It never waits: an event or a timer triggers the next pass. An unchanged BundleDeployment costs no request.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.status import AccountUsed
from api.v1alpha2.types import BundleDeployment
from controller.apply.plan import OvertakenError
from controller.kube.client import ApiError
from controller.reconcile import deletion, gates, reporting, settled, shards, stored
from controller.reconcile.context import NEVER, UNLISTED, UNSYNCED, Context, Requeue, Services
from controller.reconcile.finding import find_wanted, poll_sources
from controller.reconcile.installation import announce, apply, watch_contested
from controller.reconcile.memory import Memories
from controller.reconcile.ownership import kept_terms
from controller.reconcile.planning import make_work
from controller.retries import SLOW_SECONDS
from controller.revisions.accounts import OF_ABSENCE, is_up_to_date, judge, record
from controller.revisions.large import CrowdedError
from controller.revisions.polling import is_polled
from controller.status.history import begin_rollback
from controller.status.report import Report

log = logging.getLogger(__name__)
OVERTAKEN = Requeue(failed=True, cause="the BundleDeployment has changed, as its watch has not shown yet")
MISSED_SECONDS = 0.2
"""Until the next pass after a change of the cluster during this one; discovery may lag behind."""


class Reconciler:
    """Runs passes: one at a time for each BundleDeployment, many BundleDeployments in parallel."""

    def __init__(self, services: Services) -> None:
        self._services, self._memories = services, Memories(services.retries)

    def reconcile(self, name: str) -> Requeue:
        """Run one pass over one BundleDeployment.

        Returns: when the next pass runs if no event triggers one before.
        Raises: ApiError if the pass was aborted; failures that a user can cause become conditions.
        """
        watches = self._services.watches
        history = watches.history
        if not watches.synced:
            return UNSYNCED
        deployment = watches.deployment(name)
        if deployment is None:
            return self._forget(name)
        if self._memories.is_another(deployment.metadata):
            self._forget(name)  # deleted and recreated between two passes
        context = self._begin(deployment)
        if watches.history != history:
            self._memories.drop(name)  # of what does not count any more
            return UNSYNCED
        try:
            requeue = self._act(context)
        except CrowdedError:  # woken when there is room
            requeue = Requeue(after=SLOW_SECONDS, cause="no room for a large revision")
        except OvertakenError:
            requeue = OVERTAKEN
        else:
            self._services.large.leave(name)
        context.memory.drop_large()
        context.memory.bug = None
        log.debug("pass ended", extra={"BundleDeployment": name, "after": requeue.after, "cause": requeue.cause})
        return requeue

    def _begin(self, deployment: BundleDeployment) -> Context:
        """Return the context of a new pass; failures that wait for the cluster are retried when it has changed."""
        deployment = self._services.accounts.policy.complete(deployment)
        context = self._context_of(deployment)
        if self._memories.begin_pass(context.memory):
            context.memory.retries.end_waits()
        return context

    def _context_of(self, deployment: BundleDeployment) -> Context:
        memory = self._memories.of(deployment.metadata)
        return Context(deployment=deployment, memory=memory, services=self._services)

    def _act(self, context: Context) -> Requeue:
        """Advance or tear down a BundleDeployment, unless another shard has it."""
        taken = shards.take(context)
        if taken is None:
            return self._forget(context.name)
        if isinstance(taken, Requeue):
            return taken
        if taken.metadata.deletion_timestamp is None:
            return self._advance(taken)
        self._services.background.cancel(taken.name)  # it needs no content any more
        self._services.access.watch_secrets(taken.name, ())
        self._services.configs.release(taken.name)
        requeue = deletion.tear_down(taken)
        watch_contested(taken)
        return requeue

    def _advance(self, context: Context) -> Requeue:
        """Find, plan, apply, report, and write status."""
        if context.deployment.problem:
            return reporting.refuse_spec(context)
        # Report nothing until all objects are known.
        if self._services.watches.require(context.name, context.recorded_kinds):
            return UNLISTED
        try:
            context = _prepare(context)
            report = settled.report(context)
            if report is None or not settled.is_kept(context):
                context, report = _install(context, report)
            report = reporting.complete(context, report)
            report = replace(report, rollback=begin_rollback(context.deployment, report, context.now()))
        except ApiError as error:
            return reporting.refuse(context, error)
        context.memory.awaits_change = reporting.awaits_change(context, report)
        if deferred := reporting.defer(context, report):
            return deferred
        context = reporting.publish(context, report)
        if self._memories.missed(context.memory):  # the next pass retries what waits
            return Requeue(after=MISSED_SECONDS, cause="the cluster changed during the pass")
        return reporting.next_pass(context, report)

    def report_bug(self, name: str, bug: BaseException) -> None:
        """Report in status that a bug ended the pass over a BundleDeployment.

        Raises: ApiError.
        """
        deployment = self._services.watches.deployment(name)
        if deployment is not None:
            reporting.report_bug(self._context_of(deployment), bug)

    def retry_sources(self, name: str) -> None:
        """Retry failed sources in the next pass, and read local content again: a Secret or ConfigMap has changed."""
        self._memories.sources_changed(name)

    def config_changed(self, name: str) -> None:
        """Read the ConfigMaps and Secrets of `spec.configFrom` again in the next pass: one of them has changed."""
        self._memories.config_changed(name)

    def retry_rights(self, name: str) -> None:
        """Retry in the next pass what was forbidden: RBAC rules have changed."""
        self._memories.rights_changed(name)

    def retry_objects(self, name: str) -> None:
        """Retry in the next pass the objects that wait for another owner or a deletion: one of them may be free."""
        self._memories.objects_changed(name)

    def cluster_changed(self) -> list[str]:
        """Record a change of the cluster; returns the BundleDeployments that wait for one, to be requeued."""
        return self._memories.cluster_changed()

    def start_over(self) -> None:
        """Forget everything, as after a restart: the cluster is in an older state than known."""
        self._services.watches.refresh()
        self._memories.clear()

    def _forget(self, name: str) -> Requeue:
        """Drop all that is known of a BundleDeployment that is gone or has another shard."""
        services = self._services
        if services.takeovers:
            services.takeovers.end(name)
        services.background.cancel(name)
        services.follower.release(name)
        services.large.leave(name)
        services.accounts.note(name, ())
        services.watches.release(name)
        services.installed.keep(name, None)
        memory = self._memories.drop(name)
        if memory and not memory.torn_down:  # a user has removed its finalizer
            services.abandoned()
        return NEVER


def _install(context: Context, unkept: Report | None) -> tuple[Context, Report]:
    """Work on the wanted revision.

    Args:
        context: of the pass.
        unkept: the report if nothing but the stored revision is missing; it must be built again first.
    """
    context, refusal = _record_account(context)
    wanted = find_wanted(context, refusal)
    stored.restore(context)
    wanted = gates.admit(context, wanted)
    if unkept and not (wanted.current or wanted.held):
        return context, settled.describe_unkept(unkept, wanted)
    work = make_work(context, wanted)
    if isinstance(work, Report):
        return context, work
    work = announce(work)
    gates.commit(work)
    return work.context, apply(work)


def _prepare(context: Context) -> Context:
    """Set the finalizer, and poll the sources that are due.

    Returns: the context with the new status.
    Raises: ApiError.
    """
    context = replace(context, deployment=context.services.writer.with_finalizer(context.deployment))
    if any(map(is_polled, context.spec.sources)):
        context, _ = _record_account(context)
    return poll_sources(context)


def _record_account(context: Context) -> tuple[Context, BundleError | None]:
    """Record the account before it is used; returns also why it may not be used."""
    before = context.status.account
    context, refusal = _register(context)
    if before and context.status.account != before:
        context.memory.retries.clear()  # another account may not fail
    return context, refusal


def _register(context: Context) -> tuple[Context, BundleError | None]:
    """Record the account of a spec, unless status records it already.

    Returns: the context with the new status, and why the account may not be used.
    Raises: ApiError.
    """
    account = context.account
    if account is None or not account.namespace or is_up_to_date(context.deployment):
        return context, None
    used = context.status.account
    try:
        found = context.services.accounts.identify(account)
    except BundleError as error:
        if error.reason not in OF_ABSENCE:
            return context, error
        return _note_generation(context), None  # reported when it is needed
    kept = [] if used else kept_terms(context)
    if refusal := judge(context.deployment, account, found, kept):
        return context, refusal
    return _record_used(context, record(context.deployment, account, found)), None


def _note_generation(context: Context) -> Context:
    """Record that this spec is older than the next account of that name, and so does not accept it."""
    used = context.status.account
    if used is None:
        return context
    return _record_used(context, used.model_copy(update={"generation": context.metadata.generation}))


def _record_used(context: Context, used: AccountUsed) -> Context:
    if used == context.status.account:
        return context
    return context.note(account=used)
