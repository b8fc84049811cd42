"""One pass over one BundleDeployment: the table of contents of the controller.

A pass is level-based: it compares what is wanted with what the watches know, does what can be done now, and ends.
Nothing waits here: whatever ends a wait brings the next pass. An unchanged BundleDeployment costs no request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus

from api.errors import BundleError
from api.v1alpha2.conditions import ConditionType, Reason, Retry
from api.v1alpha2.types import BundleDeployment
from controller.apply.plan import Action
from controller.build.revision import Revision
from controller.kube.client import ApiError
from controller.kube.resources import GroupVersionKind
from controller.observe.contested import ContestedWatches
from controller.observe.records import ObjectKey, Record, managed_state
from controller.observe.watches import Watches
from controller.reconcile.context import is_current, own_records, recorded_kinds
from controller.reconcile.deletion import Deleter
from controller.reconcile.health import Appraiser
from controller.reconcile.hooks import Hooks
from controller.reconcile.install import Installer
from controller.reconcile.registration import Registrar
from controller.reconcile.state import Memories, Memory
from controller.reconcile.strays import tell_strays
from controller.retries import SLOW_SECONDS, Retries
from controller.revisions.finder import Finder, Wanted
from controller.revisions.large import CrowdedError, LargeRevisions
from controller.revisions.service_accounts import OF_RIGHTS, RIGHTS_SECONDS, Accounts, tenant_of
from controller.status.conditions import skipped_kinds
from controller.status.report import NEVER, UNKNOWN_SECONDS, Report, Requeue
from controller.status.summary import summarize
from controller.status.writer import Publisher

FIRST_SECONDS = 1.0
"""For so long it is not told that the sources of a new BundleDeployment are being resolved: most are by then."""
MISSED_SECONDS = 0.2
"""When to come back where what is waited for may have come in the midst of the pass; discovery may be behind it."""
RETRIED_SECONDS = 20.0
"""For so long after a restart the failure that status tells stays there while it is tried again."""
# Somebody was faster, or the BundleDeployment is gone: the watch tells.
_OVERTAKEN = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class Reconciler:
    """Runs passes; one at a time for each BundleDeployment, many at the same time over all.

    Args:
        abandoned: told when a BundleDeployment has gone before its teardown was over: its revisions are left.
        now: the time of day.
    """

    def __init__(
        self,
        *,
        watches: Watches,
        finder: Finder,
        installer: Installer,
        deleter: Deleter,
        hooks: Hooks,
        accounts: Accounts,
        registrar: Registrar,
        publisher: Publisher,
        retries: Retries,
        appraiser: Appraiser,
        contested: ContestedWatches,
        abandoned: Callable[[], None],
        large: LargeRevisions,
        now: Callable[[], datetime],
    ) -> None:
        self._large = large
        self._watches, self._finder, self._installer = watches, finder, installer
        self._deleter, self._hooks, self._accounts = deleter, hooks, accounts
        self._publisher, self._appraiser, self._contested = publisher, appraiser, contested
        self._retries, self._abandoned, self._now = retries, abandoned, now
        self._registrar = registrar
        self._memories = Memories()

    def reconcile(self, name: str) -> Requeue:
        """Run one pass over one BundleDeployment.

        Returns: when to come back if no event comes first.
        Raises: ApiError if the pass could not go on; nothing that a user can cause: that has become a condition.
        """
        deployment = self._watches.deployment(name)
        if deployment is None:
            return self._forget(name)
        deployment = self._accounts.policy.complete(deployment)
        if self._memories.is_another(deployment.metadata):
            self._forget(name)  # it was made again before a pass saw it gone
        memory = self._memories.of(deployment.metadata)
        memory.share = tenant_of(deployment)
        if self._memories.begin_pass(memory):
            self._retries.end_waits(name)  # the pass before may have found out too late that it has to wait
        try:
            requeue = self._pass(deployment, memory)
        except CrowdedError:  # woken when its turn has come
            requeue = Requeue(after=SLOW_SECONDS)
        else:
            self._large.leave(name)
        memory.drop_large()
        return requeue

    def _pass(self, deployment: BundleDeployment, memory: Memory) -> Requeue:
        name = deployment.metadata.name
        if deployment.metadata.deletion_timestamp:
            self._finder.forget(name)
            self._contested.watch(name, ())
            return self._deleter.tear_down(deployment, memory)
        if self._watches.need(name, recorded_kinds(deployment)):
            return Requeue(after=UNKNOWN_SECONDS)  # woken when they are known; nothing is said until then
        try:
            deployment = self._publisher.with_finalizer(deployment)
            if any(source.poll_interval for source in deployment.spec.sources):
                deployment, _ = self._with_account(deployment, memory)
            deployment = self._finder.poll(deployment, memory)
            report = self._settled(deployment, memory)
            if report is None:
                report, deployment = self._advance(deployment, memory)
        except ApiError as error:
            return self._publish_refusal(deployment, error, memory)
        memory.waits = _waits(deployment, report)
        if seconds := _seconds_of_silence(deployment, report, memory):
            return Requeue(after=seconds)
        return self._publish(deployment, report, memory)

    def retry_sources(self, name: str) -> None:
        """Let the sources of a BundleDeployment be tried at once: a Secret that they use has changed."""
        self._finder.retry(name)

    def retry_rights(self, name: str) -> None:
        """Let a BundleDeployment try again at once what it had no right to do: rights have changed."""
        self._retries.end(name, OF_RIGHTS, lag=RIGHTS_SECONDS)

    def retry_objects(self, name: str) -> None:
        """Let the objects of a BundleDeployment that wait for something be tried at once: one of them may be free."""
        self._retries.end_waits(name)

    def end_waits(self) -> list[str]:
        """Let what waits be tried again, as the cluster has changed; returns the BundleDeployments to look at."""
        waiting = self._memories.cluster_changed()
        for name in waiting:
            self._retries.end_waits(name)
        return waiting

    # nothing to do

    def _settled(self, deployment: BundleDeployment, memory: Memory) -> Report | None:
        """Return a report if all that is installed is as it was left; None if there is something to do."""
        if not is_current(deployment):
            return None
        observed = self._watches.managed(deployment.metadata.name)
        status, ledger = deployment.status, memory.ledger
        if not ledger.left and managed_state(own_records(observed, deployment)) == status.managed_state:
            ledger.expect_all(own_records(observed, deployment))
        if not ledger.left or ledger.drifted(observed):
            return None
        if any(self._watches.has_come(GroupVersionKind.parse(kind)) for kind in status.skipped_kinds):
            return None
        if len(observed) > len(ledger.left):
            news = tell_strays(deployment, memory, observed, ledger.left, memory.older)
            self._publisher.say(deployment, news)
        return Report(
            wanted=status.revision,
            revision=status.installed_revision,
            applied=True,
            awaiting_prune=tuple(_kept(deployment, observed, memory.older)),
            conflicts=tuple(ledger.conflicts()),
            progress=self._appraiser.judge(deployment, memory, status.revision, ledger.digests()),
            install_namespace=status.install_namespace,
            managed_state=status.managed_state,
            managed_kinds=status.managed_kinds,
        )

    # something to do

    def _with_account(
        self, deployment: BundleDeployment, memory: Memory
    ) -> tuple[BundleDeployment, BundleError | None]:
        """Record which account is used, before it is; returns why it may not be.

        Raises: ApiError.
        """
        before = deployment.status.account
        deployment, refusal = self._registrar.register(deployment, memory)
        if before and deployment.status.account != before:
            self._retries.forget(deployment.metadata.name)  # whatever failed may not, where all is another's
        return deployment, refusal

    def _advance(self, deployment: BundleDeployment, memory: Memory) -> tuple[Report, BundleDeployment]:
        deployment, refusal = self._with_account(deployment, memory)
        wanted = self._finder.find(deployment, memory, refusal)
        wanted = self._hooks.before_upgrade(deployment, wanted, memory)
        revision = self._to_work_on(deployment, wanted, memory)
        if revision is None:
            return wanted.report(deployment), deployment
        return self._installer.work_on(revision, deployment, wanted, memory)

    def _to_work_on(self, deployment: BundleDeployment, wanted: Wanted, memory: Memory) -> Revision | None:
        """Return the revision to compare the cluster with: while paused what was applied last, as nothing else is."""
        return self._finder.last_good(deployment, memory) if deployment.spec.paused else wanted.revision

    # the end of a pass

    def _publish(self, deployment: BundleDeployment, report: Report, memory: Memory) -> Requeue:
        """Write what has changed in status, and say when to come back."""
        report = replace(report, poll_failure=memory.poll.failure)
        self._accounts.note(deployment.metadata.name, [*_errors(report), report.poll_failure])
        deployment = self._publisher.write_status(deployment, summarize(deployment, report, self._now()))
        return self._requeue(deployment, report, memory)

    def _publish_refusal(self, deployment: BundleDeployment, error: ApiError, memory: Memory) -> Requeue:
        """Say what the API server refuses to the controller itself; what ends by itself is only tried again.

        Raises: ApiError.
        """
        if error.transient or error.status in _OVERTAKEN:
            raise error
        reason = Reason.FORBIDDEN if error.status == HTTPStatus.FORBIDDEN else Reason.API_UNAVAILABLE
        failure = BundleError(reason, f"the controller cannot read or write its own state: {error}")
        status = deployment.status
        report = Report(failure=failure, managed_state=status.managed_state, managed_kinds=status.managed_kinds)
        self._publish(deployment, report, memory)
        return Requeue(after=error.retry_after, failed=True)

    def _requeue(self, deployment: BundleDeployment, report: Report, memory: Memory) -> Requeue:
        if self._memories.missed(memory):  # the pass that comes back ends what waits
            return Requeue(after=MISSED_SECONDS)
        seconds = [
            self._retries.seconds_to_next(deployment.metadata.name),
            self._finder.seconds_to_poll(deployment, memory),
            memory.ledger.seconds_of_conflict(),
        ]
        seconds += [
            memory.ledger.seconds_to_repair(outcome.task.target.key) for outcome in report.outcomes if outcome.postponed
        ]
        if report.progress:
            seconds.append(report.progress.next_change)
        blind = self._watches.is_blind(deployment.metadata.name)
        if report.unknown or blind:
            seconds.append(UNKNOWN_SECONDS)
        if memory.waits or blind:
            seconds.append(self._watches.seconds_to_look_again())
        if _errors(report) or report.drifted:  # what is changed back shows in no mark: no event says so
            seconds.append(SLOW_SECONDS)
        known = [each for each in seconds if each is not None]
        return Requeue(after=min(known) if known else None)

    def _forget(self, name: str) -> Requeue:
        self._finder.forget(name)
        self._large.leave(name)
        self._accounts.forget(name)
        self._watches.forget(name)
        self._contested.watch(name, ())
        self._retries.forget(name)
        self._appraiser.forget(name)
        memory = self._memories.forget(name)
        if memory and not memory.let_go:  # somebody has taken its finalizer off
            self._abandoned()
        return NEVER


def _seconds_of_silence(deployment: BundleDeployment, report: Report, memory: Memory) -> float | None:
    """Return for how long there is nothing to tell: what has just begun is no news, and its end brings a pass."""
    if report.unknown and memory.knows_soon():
        return UNKNOWN_SECONDS
    is_new = not (report.sources or deployment.status.conditions)
    if report.fetching and is_new and memory.age() < FIRST_SECONDS:
        return FIRST_SECONDS
    # After a restart, too, a failure that is tried again stays what it is until it is another.
    if report.fetching and _tells_of_failure(deployment) and memory.age() < RETRIED_SECONDS:
        return RETRIED_SECONDS
    return None


def _tells_of_failure(deployment: BundleDeployment) -> bool:
    """Whether status says why this spec is not installed."""
    status = deployment.status
    ready = status.condition(ConditionType.READY)
    is_failure = ready is not None and ready.status == "False" and ready.reason != Reason.FETCHING
    return is_failure and status.observed_generation == deployment.metadata.generation


def _kept(
    deployment: BundleDeployment, observed: Mapping[ObjectKey, Record], older: Collection[ObjectKey]
) -> list[Record]:
    """Return the objects of older revisions that stay for good, as spec.prune says."""
    if deployment.spec.prune != "Never":
        return []
    return [r for r in own_records(observed, deployment) if r.key in older and not r.deleting]


def _waits(deployment: BundleDeployment, report: Report) -> bool:
    """Whether something on the cluster has to change before it can go on."""
    is_awaited = any(outcome.task.action is Action.AWAIT for outcome in report.outcomes)
    is_failure = any(error.reason.retry is Retry.WAIT for error in _errors(report))
    return is_awaited or is_failure or bool(skipped_kinds(deployment, report))


def _errors(report: Report) -> list[BundleError]:
    failures = [report.failure, *(outcome.error for outcome in report.outcomes), *(r.error for r in report.removals)]
    return [error for error in failures if error]
