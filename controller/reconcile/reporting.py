"""The end of a pass: what is written to status, and when the next pass runs if no event triggers one before.

Status is not written while there is nothing to report yet. Why a pass was requeued is logged at debug.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus

from api.errors import BundleError
from api.v1alpha2.conditions import ConditionType, Reason
from controller.apply.plan import Action
from controller.bugs import InternalError, keep_first
from controller.kube.client import ApiError
from controller.reconcile import stored
from controller.reconcile.context import NEVER, UNKNOWN_SECONDS, UNLISTED, Context, Requeue
from controller.reconcile.finding import seconds_to_poll
from controller.retries import SLOW_SECONDS, waits_for_cluster
from controller.status.conditions import skipped_kinds
from controller.status.history import seconds_to_rollback
from controller.status.notes import describe_failing, names_failing
from controller.status.report import Report, of_failure

FIRST_SECONDS = 3.0
"""For so long status does not report that the sources of a new BundleDeployment are being resolved or fetched."""
RETRIED_SECONDS = 20.0
"""For so long after a restart status keeps a failure while it is retried."""
# Another client has changed or deleted the BundleDeployment: the watch reports it.
_OVERTAKEN = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


def next_pass(context: Context, report: Report) -> Requeue:
    """Return when the next pass runs: at the first of all these times."""
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
    blind = context.services.watches.has_unwatched(name)
    if report.unknown or blind:
        yield UNKNOWN_SECONDS, "a kind is not listed yet"
    if context.memory.awaits_change or blind:
        yield context.services.watches.served.seconds_to_recheck(), "a kind may be served"
    yield seconds_to_rollback(context.deployment, report, context.now()), "an upgrade is rolled back"
    if report.held and report.held.problems:
        yield SLOW_SECONDS, "what would prevent a pending revision may be resolved"
    if report.errors or report.drifted:  # no event reports that a modified field was reverted
        yield SLOW_SECONDS, "something failed or has drifted"


def complete(context: Context, report: Report) -> Report:
    """Add warnings about API groups that fail discovery to those of an apply; drop those that are over.

    A group that starts to fail later adds none: it changes nothing about what is installed.

    Raises: ApiError if all of discovery fails.
    """
    known = context.status.warnings if report.warnings is None else report.warnings
    if report.warnings is None and not any(map(names_failing, known)):
        return report
    failing = describe_failing(context.services.watches.served.failing_groups())
    kept = [text for text in known if text in failing or not names_failing(text)]
    if report.warnings is not None:
        kept = list(dict.fromkeys([*failing, *kept]))
    return replace(report, warnings=tuple(kept))


def publish(context: Context, report: Report) -> Context:
    """Write the report of a pass to status, if it has changed.

    Returns: the context with the new status.
    Raises: ApiError.
    """
    lost = stored.find_lost(context)
    stored.drop_remnants(context, lost)  # while the history still names them
    report = replace(report, poll_failure=context.memory.poll.failure, lost=lost)
    problems = report.held.problems if report.held else ()
    errors = [error for error in (*report.errors, report.poll_failure, report.unkept, *problems) if error]
    for error in errors:
        error.without_frames()  # what is kept for later passes was raised in this one again
    context.services.accounts.note(context.name, errors)
    return context.report(report)


def refuse(context: Context, error: ApiError) -> Requeue:
    """Report a request that the API server refuses to the controller itself; transient failures are only retried.

    Raises: ApiError.
    """
    if error.transient or error.status in _OVERTAKEN:
        raise error
    reason = Reason.FORBIDDEN if error.status == HTTPStatus.FORBIDDEN else Reason.API_UNAVAILABLE
    publish(
        context,
        of_failure(context.status, BundleError(reason, f"the controller cannot read or write its own state: {error}")),
    )
    return Requeue(after=error.retry_after, failed=True, cause="the API server rejected a request of the controller")


def refuse_spec(context: Context) -> Requeue:
    """Report a spec that cannot be read; objects remain as they are until it changes.

    Raises: ApiError.
    """
    problem = f"{context.deployment.problem}; correct it or upgrade RukPak"
    publish(context, of_failure(context.status, BundleError(Reason.INVALID_CONFIG, problem)))
    return NEVER


def report_bug(context: Context, bug: BaseException) -> None:
    """Report a bug that ended a pass; of equal ones in a row only the first is written.

    Raises: ApiError.
    """
    error = context.memory.bug = keep_first(context.memory.bug, InternalError(bug))
    context.report(error)


def defer(context: Context, report: Report) -> Requeue | None:
    """Return when the next pass runs if there is nothing to report yet; None if there is something.

    Work that has just started is not reported; its end triggers a pass.
    """
    status, memory = context.status, context.memory
    if report.unknown and memory.is_listing_new():
        return UNLISTED
    # Its pins are needed once something is applied, and recorded before that at the latest.
    is_new = not (status.sources or status.conditions)
    if report.fetching and is_new and memory.age() < FIRST_SECONDS:
        return Requeue(after=FIRST_SECONDS, cause="resolving the sources")
    # A failure is reported until its retry has ended, also after a restart.
    if report.fetching and _shows_failure(context) and memory.age() < RETRIED_SECONDS:
        return Requeue(after=RETRIED_SECONDS, cause="retrying after a restart")
    return None


def _names_failing(report: Report) -> bool:
    """Whether a warning is about an API group, and must be dropped when that recovers."""
    return any(map(names_failing, report.warnings or ()))


def _shows_failure(context: Context) -> bool:
    """Whether status reports why this spec is not installed."""
    ready = context.status.condition(ConditionType.READY)
    is_failure = ready is not None and ready.status == "False" and ready.reason != Reason.FETCHING
    return is_failure and context.status.observed_generation == context.metadata.generation


def awaits_change(context: Context, report: Report) -> bool:
    """Whether the cluster must change before the BundleDeployment can be installed."""
    is_awaited = any(outcome.task.action is Action.AWAIT for outcome in report.outcomes)
    is_failure = any(waits_for_cluster(error.reason) for error in report.errors)
    return is_awaited or is_failure or bool(skipped_kinds(context.deployment, report)) or _names_failing(report)
