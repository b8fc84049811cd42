"""Writes what a pass found and did to status, unless there is nothing to report yet."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

from api.errors import BundleError
from api.v1alpha2.conditions import ConditionType, Reason
from controller.apply.plan import Action
from controller.bugs import InternalError, keep_first
from controller.kube.client import ApiError
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.requeue import NEVER, UNLISTED, Requeue
from controller.retries import waits_for_cluster
from controller.revisions.accounts.service_accounts import Accounts
from controller.revisions.kept import KeptRevisions
from controller.status.conditions import skipped_kinds
from controller.status.notes import describe_failing, names_failing
from controller.status.report import Report
from controller.status.summary import summarize, summarize_bug
from controller.status.writer import StatusWriter

FIRST_SECONDS = 3.0
"""For so long status does not report that the sources of a new BundleDeployment are being resolved or fetched."""
RETRIED_SECONDS = 20.0
"""For so long after a restart status keeps a failure while it is retried."""
# Another client has changed or deleted the BundleDeployment: the watch reports it.
_OVERTAKEN = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class Reporter:
    """Writes the status of passes."""

    def __init__(self, *, accounts: Accounts, watches: Watches, kept: KeptRevisions, writer: StatusWriter) -> None:
        self._accounts, self._watches, self._kept, self._writer = accounts, watches, kept, writer

    def complete(self, context: Context, report: Report) -> Report:
        """Add warnings about API groups that fail discovery to those of an apply; drop those that are over.

        A group that starts to fail later adds none: it changes nothing about what is installed.

        Raises: ApiError if all of discovery fails.
        """
        known = context.status.warnings if report.warnings is None else report.warnings
        if report.warnings is None and not any(map(names_failing, known)):
            return report
        failing = describe_failing(self._watches.served.failing_groups())
        kept = [text for text in known if text in failing or not names_failing(text)]
        if report.warnings is not None:
            kept = list(dict.fromkeys([*failing, *kept]))
        return replace(report, warnings=tuple(kept))

    def publish(self, context: Context, report: Report) -> Context:
        """Write the report of a pass to status, if it has changed.

        Returns: the context with the new status.
        Raises: ApiError.
        """
        lost = self._kept.find_lost(context)
        self._kept.drop_remnants(context, lost)  # while the history still names them
        report = replace(report, poll_failure=context.state.poll.failure, lost=lost)
        problems = report.held.problems if report.held else ()
        self._accounts.note(context.name, [*report.errors, report.poll_failure, report.unkept, *problems])
        status = summarize(context.deployment, report, context.now())
        return replace(context, deployment=self._writer.write_status(context.deployment, status))

    def refuse(self, context: Context, error: ApiError) -> Requeue:
        """Report a request that the API server refuses to the controller itself; transient failures are only retried.

        Raises: ApiError.
        """
        if error.transient or error.status in _OVERTAKEN:
            raise error
        reason = Reason.FORBIDDEN if error.status == HTTPStatus.FORBIDDEN else Reason.API_UNAVAILABLE
        self._fail(context, BundleError(reason, f"the controller cannot read or write its own state: {error}"))
        return Requeue(
            after=error.retry_after, failed=True, cause="the API server rejected a request of the controller"
        )

    def refuse_spec(self, context: Context) -> Requeue:
        """Report a spec that cannot be read; objects remain as they are until it changes.

        Raises: ApiError.
        """
        problem = f"{context.deployment.problem}; correct it or upgrade RukPak"
        self._fail(context, BundleError(Reason.INVALID_CONFIG, problem))
        return NEVER

    def report_bug(self, context: Context, bug: BaseException) -> None:
        """Report a bug that ended a pass; of equal ones in a row only the first is written.

        Raises: ApiError.
        """
        error = context.state.bug = keep_first(context.state.bug, InternalError(bug))
        self._writer.write_status(context.deployment, summarize_bug(context.deployment, error, context.now()))

    def _fail(self, context: Context, failure: BundleError) -> None:
        status = context.status
        self.publish(
            context, Report(failure=failure, managed_state=status.managed_state, managed_kinds=status.managed_kinds)
        )

    def forget(self, name: str) -> None:
        """Stop the watches for the account of a BundleDeployment that is gone."""
        self._accounts.forget(name)


def defer(context: Context, report: Report) -> Requeue | None:
    """Return when the next pass runs if there is nothing to report yet; None if there is something.

    Work that has just started is not reported; its end triggers a pass.
    """
    status, state = context.status, context.state
    if report.unknown and state.is_listing_new():
        return UNLISTED
    # Its pins are needed once something is applied, and recorded before that at the latest.
    is_new = not (status.sources or status.conditions)
    if report.fetching and is_new and state.age() < FIRST_SECONDS:
        return Requeue(after=FIRST_SECONDS, cause="resolving the sources")
    # A failure is reported until its retry has ended, also after a restart.
    if report.fetching and _shows_failure(context) and state.age() < RETRIED_SECONDS:
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
