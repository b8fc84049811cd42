"""One pass over one BundleDeployment: the table of contents of the controller.

A pass is level-based: it compares what is wanted with what the watches know, does what can be done now, and ends.
It never waits: an event or a timer triggers the next pass. An unchanged BundleDeployment costs no request.

If its revision is installed, a pass only repairs objects, and costs what has changed. Only the usual repair is handled
that way: everything that is needed is in memory, and every repair succeeds. For anything else a whole pass follows,
which plans again and reports what it finds.

The targets of installed revisions are kept compressed, so that a repair reads neither the revision store nor every
target: in memory only, and so many as fit. Those that were used longest ago are dropped, and a pass that finds none
reads the revision.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import OF_ABSENCE, ConditionType, Reason
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.ownership import find_strays, is_unfinished
from rukpak.controller.apply.plan import Action, Outcome, OvertakenError
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import ApiError
from rukpak.controller.kube.resources import read_kinds
from rukpak.controller.observe.records import Look, Record
from rukpak.controller.reconcile import deletion, gates, installation, stored
from rukpak.controller.reconcile.context import NEVER, UNKNOWN_SECONDS, UNLISTED, UNSYNCED, Context, Requeue, Services
from rukpak.controller.reconcile.finding import Wanted, find_wanted, follow_config, poll_sources, seconds_to_poll
from rukpak.controller.reconcile.gates import find_dependency_cycle
from rukpak.controller.reconcile.inventory import had_any, read_kept, report_strays
from rukpak.controller.reconcile.memory import KNOWN, LISTING, Memories
from rukpak.controller.reconcile.planning import make_work, plan_repair
from rukpak.controller.retries import SLOW_SECONDS, Retries, waits_for_cluster
from rukpak.controller.revisions.accounts import is_up_to_date, judge, record
from rukpak.controller.revisions.polling import is_polled
from rukpak.controller.revisions.source_access import watch_secrets
from rukpak.controller.revisions.store import CrowdedError
from rukpak.controller.status.history import begin_rollback, seconds_to_rollback
from rukpak.controller.status.notes import notes_on_repairs
from rukpak.controller.status.report import Report, short
from rukpak.controller.status.summary import skipped_kinds
from rukpak.controller.telemetry import InternalError, keep_first

log = logging.getLogger(__name__)
OVERTAKEN = Requeue(failed=True, cause="the BundleDeployment has changed, as its watch has not shown yet")
MISSED_SECONDS = 0.2
"""Until the next pass after a change of the cluster during this one; discovery may lag behind."""


class Reconciler:
    """Runs passes: one at a time for each BundleDeployment, many BundleDeployments in parallel.

    Args:
        services: of all passes.
        abandoned: called when a BundleDeployment is gone without its teardown: its revisions are left.
        make_retries: creates the register of failures of a BundleDeployment.
    """

    def __init__(
        self, services: Services, abandoned: Callable[[], None], make_retries: Callable[[], Retries] = Retries
    ) -> None:
        self._services, self._abandoned = services, abandoned
        self.memories = Memories(make_retries)
        """Watches report here what has changed, so that the next pass retries."""

    def reconcile(self, name: str) -> Requeue:
        """Run one pass over one BundleDeployment.

        Returns: when the next pass runs if no event triggers one before.
        Raises: ApiError if the pass was aborted; failures that a user can cause become conditions.
        """
        watches = self._services.watches
        history = watches.history
        if not watches.deployments.synced:
            return UNSYNCED
        deployment = watches.deployments.find(name)
        if deployment is None:
            return self._forget(name)
        if self.memories.is_another(deployment.metadata):
            self._forget(name)  # deleted and recreated between two passes
        context = self._begin(deployment)
        if watches.history != history:
            self.memories.drop(name)  # of what does not count any more
            return UNSYNCED
        try:
            requeue = self._act(context)
        except CrowdedError:  # woken when there is room
            requeue = Requeue(after=SLOW_SECONDS, cause="no room for a large revision")
        except OvertakenError:
            requeue = OVERTAKEN
        else:
            self._services.large.leave(name)
        context.memory.stored.drop_large()
        context.memory.bug = None
        log.debug("pass ended", extra={"BundleDeployment": name, "after": requeue.after, "cause": requeue.cause})
        return requeue

    def _begin(self, deployment: BundleDeployment) -> Context:
        deployment = self._services.signatures.complete(self._services.accounts.policy.complete(deployment))
        context = self._context_of(deployment)
        if self.memories.begin_pass(context.memory):
            context.memory.retries.end_waits()
        return context

    def _context_of(self, deployment: BundleDeployment) -> Context:
        memory = self.memories.of(deployment.metadata)
        return Context(deployment=deployment, memory=memory, services=self._services)

    def _act(self, context: Context) -> Requeue:
        if context.metadata.deletion_timestamp is None:
            return self._advance(context)
        self._services.background.cancel(context.name)  # it needs no content any more
        watch_secrets(self._services.follower, context.name, ())
        follow_config(context, {})
        requeue = deletion.tear_down(context)
        installation.watch_contested(context)
        return requeue

    def _advance(self, context: Context) -> Requeue:
        if context.deployment.problem:
            return _refuse_spec(context)
        # Report nothing until all objects are known.
        if self._services.watches.objects.require(context.name, context.recorded_kinds):
            return UNLISTED
        try:
            context = _prepare(context)
            report = _report_settled(context)
            if report is None or stored.is_lost(context):
                context, report = _install(context, report)
            report = _complete(context, report)
            report = replace(report, rollback=begin_rollback(context.deployment, report, context.now()))
        except ApiError as error:
            return _refuse(context, error)
        context.memory.awaits_change = _awaits_change(context, report)
        if deferred := _defer(context, report):
            return deferred
        context = _publish(context, report)
        if self.memories.missed(context.memory):  # the next pass retries what waits
            return Requeue(after=MISSED_SECONDS, cause="the cluster changed during the pass")
        return _next_pass(context, report)

    def report_bug(self, name: str, bug: BaseException) -> None:
        """Report in status that a bug ended the pass over a BundleDeployment; of equal ones in a row only the first.

        Raises: ApiError.
        """
        if deployment := self._services.watches.deployments.find(name):
            context = self._context_of(deployment)
            context.memory.bug = keep_first(context.memory.bug, InternalError(bug))
            context.report(context.memory.bug)

    def start_over(self) -> None:
        """Forget everything, as after a restart: the cluster is in an older state than known."""
        self._services.watches.refresh()
        self.memories.clear()

    def _forget(self, name: str) -> Requeue:
        services = self._services
        services.background.cancel(name)
        services.follower.forget(name)
        services.large.leave(name)
        services.watches.objects.forget(name)
        services.installed.keep(name, None)
        memory, left = self.memories.drop(name), services.watches.deployments.outline(name)
        has_moved = memory is not None and left is not None and left.metadata.uid == memory.uid  # to another shard
        if memory and not (memory.torn_down or has_moved):  # a user has removed its finalizer
            self._abandoned()
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
        return context, _describe_unkept(unkept, wanted)
    work = make_work(context, wanted)
    if isinstance(work, Report):
        return context, work
    work = installation.announce(work)
    gates.commit(work)
    return work.context, installation.apply(work)


def _prepare(context: Context) -> Context:
    context = replace(context, deployment=context.services.writer.with_finalizer(context.deployment))
    if any(map(is_polled, context.spec.sources)):
        context, _ = _record_account(context)
    return poll_sources(context)


def _record_account(context: Context) -> tuple[Context, BundleError | None]:
    """Record the account of a spec, unless status records it already.

    Returns: the context with the new status, and why the account may not be used.
    Raises: ApiError.
    """
    deployment, account, before = context.deployment, context.account, context.status.account
    if account is None or not account.namespace or is_up_to_date(deployment):
        return context, None
    try:
        found = context.services.accounts.identify(account)
    except BundleError as error:
        if error.reason not in OF_ABSENCE:
            return context, error
        # Reported when it is needed.
        used = before and before.model_copy(update={"generation": context.metadata.generation})
    else:
        kept = [] if before else [each.terms for each in read_kept(context)]
        if refusal := judge(deployment, account, found, kept):
            return context, refusal
        used = record(deployment, account, found)
    if used != before:
        context = context.note(account=used)
        if before:
            context.memory.retries.clear()  # another account may not fail
    return context, None


SOON_SECONDS = 20.0
"""For so long status does not report that a kind has not been listed yet."""
FIRST_SECONDS = 3.0
"""For so long status does not report that the sources of a new BundleDeployment are being resolved or fetched."""
RETRIED_SECONDS = 20.0
"""For so long after a restart status keeps a failure while it is retried."""
# Another client has changed or deleted the BundleDeployment: the watch reports it.
_OVERTAKEN = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


def _next_pass(context: Context, report: Report) -> Requeue:
    due = [(seconds, cause) for seconds, cause in _times(context, report) if seconds is not None]
    after, cause = min(due, default=(None, ""))
    return Requeue(after=after, cause=cause)


def _times(context: Context, report: Report) -> Iterator[tuple[float | None, str]]:
    name, ledger = context.name, context.memory.ledger
    yield context.memory.retries.seconds_to_next(), "a failure is retried"
    yield seconds_to_poll(context), "a source is polled"
    yield ledger.seconds_of_conflict(), "a conflict over an object may have ended"
    for outcome in report.outcomes:
        if outcome.postponed:
            yield ledger.seconds_to_repair(outcome.task.target.key), "a repair was postponed"
    if report.progress:
        yield report.progress.next_change, "a deadline of an object expires"
    yield context.memory.hooks.next_change, "a deadline of a hook expires"
    blind = context.services.watches.objects.has_unwatched(name)
    if report.unknown or blind:
        yield UNKNOWN_SECONDS, "a kind is not listed yet"
    if context.memory.awaits_change or blind:
        yield context.services.discovery.seconds_to_recheck(), "a kind may be served"
    yield seconds_to_rollback(context.deployment, report, context.now()), "an upgrade is rolled back"
    if report.held and report.held.problems:
        yield SLOW_SECONDS, "what would prevent a pending revision may be resolved"
    if report.errors or report.drifted:  # no event reports that a modified field was reverted
        yield SLOW_SECONDS, "something failed or has drifted"


def _complete(context: Context, report: Report) -> Report:
    """Add to an apply which API groups fail discovery, and drop those that do no more.

    A group that starts to fail later is not added: it changes nothing about what is installed.

    Raises: ApiError if all of discovery fails.
    """
    known = context.status.failing_groups
    if report.warnings is None and not known:
        return report
    failing = context.services.discovery.failed_groups()
    found = failing.intersection(known) if report.warnings is None else failing
    return replace(report, failing_groups=tuple(sorted(found)))


def _publish(context: Context, report: Report) -> Context:
    lost = stored.drop_lost(context)  # while the history still names them
    report = replace(report, poll_failure=context.memory.sources.poll.failure, lost=lost)
    problems = report.held.problems if report.held else ()
    errors = [error for error in (*report.errors, report.poll_failure, report.unkept, *problems) if error]
    for error in errors:
        error.without_frames()  # what is kept for later passes was raised in this one again
    context.services.accounts.note(context.name, errors)
    return context.report(report)


def _refuse(context: Context, error: ApiError) -> Requeue:
    """Report a request that the API server refuses to the controller itself; transient failures are only retried.

    Raises: ApiError.
    """
    if error.transient or error.status in _OVERTAKEN:
        raise error
    reason = Reason.FORBIDDEN if error.status == HTTPStatus.FORBIDDEN else Reason.API_UNAVAILABLE
    _publish(
        context,
        Report(failure=BundleError(reason, f"the controller cannot read or write its own state: {error}")),
    )
    return Requeue(after=error.retry_after, failed=True, cause="the API server rejected a request of the controller")


def _refuse_spec(context: Context) -> Requeue:
    # Objects remain as they are until it changes.
    problem = f"{context.deployment.problem}; correct it or upgrade RukPak"
    _publish(context, Report(failure=BundleError(Reason.INVALID_CONFIG, problem)))
    return NEVER


def _defer(context: Context, report: Report) -> Requeue | None:
    """Return when the next pass runs if there is nothing to report yet; None if there is something.

    Work that has just started is not reported; its end triggers a pass.
    """
    status, memory = context.status, context.memory
    if report.unknown and memory.seconds_since(LISTING) < SOON_SECONDS:
        return UNLISTED
    # Its pins are needed once something is applied, and recorded before that at the latest.
    is_new = not (status.sources or status.conditions)
    if report.fetching and is_new and memory.seconds_since(KNOWN) < FIRST_SECONDS:
        return Requeue(after=FIRST_SECONDS, cause="resolving the sources")
    # A failure is reported until its retry has ended, also after a restart.
    if report.fetching and _shows_failure(context) and memory.seconds_since(KNOWN) < RETRIED_SECONDS:
        return Requeue(after=RETRIED_SECONDS, cause="retrying after a restart")
    return None


def _shows_failure(context: Context) -> bool:
    ready = context.status.condition(ConditionType.READY)
    is_failure = ready is not None and ready.status == "False" and ready.reason != Reason.FETCHING
    return is_failure and context.status.observed_generation == context.metadata.generation


def _awaits_change(context: Context, report: Report) -> bool:
    is_awaited = any(outcome.task.action is Action.AWAIT for outcome in report.outcomes)
    is_failure = any(waits_for_cluster(error.reason) for error in report.errors)
    return is_awaited or is_failure or bool(skipped_kinds(context.deployment, report) or report.failing_groups)


def _report_settled(context: Context) -> Report | None:
    """Return a report if everything is installed, and unchanged or repaired; None if there is more to do.

    Raises: ApiError.
    """
    if not (context.is_current and context.is_config_known) or find_dependency_cycle(context):
        return None
    look = _look(context)
    outcomes = _repair(context, look)
    if outcomes is None:
        return None
    look = _look(context) if outcomes else look
    status, memory, observed = context.status, context.memory, look.records
    strays: tuple[ObjectKey, ...] = ()
    if outcomes or len(observed) > len(memory.ledger.left):
        found = find_strays(observed, memory.ledger.left, memory.stored.older, owner=context.owner)
        if found and had_any(context, [record.key for record in found]):
            return None  # a pass over everything prunes them
        strays = report_strays(context, found)
    return Report(
        wanted=status.revision,
        revision=status.installed_revision,
        applied=True,
        outcomes=tuple(outcomes),
        drifted=tuple(outcome.drift for outcome in outcomes if outcome.drift),
        awaiting_prune=tuple(_kept(context, observed, memory.stored.older)),
        conflicts=tuple(memory.ledger.conflicts()),
        strays=strays,
        progress=installation.assess_installed(context),
        managed_state=memory.ledger.managed_state if outcomes and not memory.ledger.drifted(look) else None,
        leftovers=installation.review_leftovers(context, outcomes),
        warnings=_warnings_after_repairs(context, outcomes),
    )


def _describe_unkept(report: Report, wanted: Wanted) -> Report:
    consequence = "was deleted or changed by another client; until it is stored again, no object can be repaired"
    cause = wanted.failure or BundleError(Reason.FETCHING, wanted.fetching)
    message = f"the stored revision {short(report.revision)} {consequence}: {cause.message}"
    return replace(report, unkept=BundleError(cause.reason, message, retry_after=cause.retry_after))


def _look(context: Context) -> Look:
    return context.services.watches.objects.look(context.name, context.memory.ledger.reader.seen)


def _repair(context: Context, look: Look) -> Sequence[Outcome] | None:
    ledger = context.memory.ledger
    if not (ledger.complete or _is_as_recorded(context, look.records)):
        return None
    if ledger.left and not context.status.managed_kinds:  # another client has removed them
        return None
    if any(map(context.services.discovery.has_appeared, read_kinds(context.status.skipped_kinds))):
        return None
    if any(map(context.services.watches.served.is_withdrawn, context.recorded_kinds)):
        return None
    drifted = ledger.drifted(look)
    return _repair_drifted(context, drifted, look.records) if drifted else ()


def _is_as_recorded(context: Context, observed: Mapping[ObjectKey, Record]) -> bool:
    own = context.own_records(observed)
    is_interrupted = any(is_unfinished(record, leaves=True) for record in own)
    # A kind that is not served has no objects: status named it if it was edited, and a pass drops it again.
    known = {(kind.group, kind.kind) for kind in context.recorded_kinds}
    if is_interrupted or any(record.key[:2] not in known for record in own):
        return False
    if context.services.watches.objects.has_unwatched(context.name):
        return False
    return context.memory.ledger.resume(own, context.status.managed_state)


def _kept(context: Context, observed: Mapping[ObjectKey, Record], older: Collection[ObjectKey]) -> list[Record]:
    if context.spec.prune != "Never":
        return []
    return [r for r in context.own_records({key: observed[key] for key in older if key in observed}) if not r.deleting]


def _repair_drifted(
    context: Context, drifted: Collection[ObjectKey], observed: Mapping[ObjectKey, Record]
) -> list[Outcome] | None:
    """Repair objects of the installed revision.

    Args:
        context: of the pass.
        drifted: all of them that are not as they were left.
        observed: objects with our label.

    Returns: the outcomes; None if a whole pass is necessary.
    Raises: ApiError.
    """
    installed = installation.find_installed(context)
    targets = installed.targets.unpack(drifted) if installed else None
    if installed is None or targets is None or not targets.by_key.keys() >= set(drifted):
        return None
    planned = plan_repair(context, installed.terms, targets, observed)
    if planned is None:
        return None
    outcomes = installation.execute(context, *planned)
    context.record(notes_on_repairs(outcomes))
    return None if any(outcome.error for outcome in outcomes) else outcomes


def _warnings_after_repairs(context: Context, outcomes: Collection[Outcome]) -> tuple[str, ...] | None:
    installed = installation.find_installed(context)
    if installed is None or not outcomes:
        return None
    on_cluster = installation.warnings_on_cluster(context, installed.targets.rest, context.recorded_kinds)
    return installation.collect_warnings(outcomes, [*installed.warnings, *on_cluster])
