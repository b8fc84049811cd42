"""The end of a pass: what was found and done becomes status, where there is anything to tell."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

from api.errors import BundleError
from api.v1alpha2.conditions import ConditionType, Reason, Retry
from controller.apply.plan import Action
from controller.kube.client import ApiError
from controller.reconcile.context import Context
from controller.reconcile.requeue import NEVER, UNKNOWN_SECONDS, Requeue
from controller.revisions.service_accounts import Accounts
from controller.status.conditions import skipped_kinds
from controller.status.report import Report
from controller.status.summary import summarize
from controller.status.writer import StatusWriter

FIRST_SECONDS = 1.0
"""For so long it is not told that the sources of a new BundleDeployment are being resolved: most are by then."""
RETRIED_SECONDS = 20.0
"""For so long after a restart the failure that status tells stays there while it is tried again."""
# Somebody was faster, or the BundleDeployment is gone: the watch tells.
_OVERTAKEN = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class Reporter:
    """Writes the status of passes."""

    def __init__(self, accounts: Accounts, writer: StatusWriter) -> None:
        self._accounts, self._writer = accounts, writer

    def publish(self, context: Context, report: Report) -> Context:
        """Write what has changed in status.

        Returns: the context with that.
        Raises: ApiError.
        """
        report = replace(report, poll_failure=context.state.poll.failure)
        self._accounts.note(context.name, [*report.errors, report.poll_failure])
        status = summarize(context.deployment, report, context.now())
        return replace(context, deployment=self._writer.write_status(context.deployment, status))

    def refuse(self, context: Context, error: ApiError) -> Requeue:
        """Say what the API server refuses to the controller itself; what ends by itself is only tried again.

        Raises: ApiError.
        """
        if error.transient or error.status in _OVERTAKEN:
            raise error
        reason = Reason.FORBIDDEN if error.status == HTTPStatus.FORBIDDEN else Reason.API_UNAVAILABLE
        self._fail(context, BundleError(reason, f"the controller cannot read or write its own state: {error}"))
        return Requeue(after=error.retry_after, failed=True, cause="the API server refuses the controller")

    def refuse_spec(self, context: Context) -> Requeue:
        """Say what of a spec cannot be read; what is installed stays as it is until the spec is another.

        Raises: ApiError.
        """
        problem = f"{context.deployment.problem}; correct it, or install a release of RukPak that reads it"
        self._fail(context, BundleError(Reason.INVALID_CONFIG, problem))
        return NEVER

    def _fail(self, context: Context, failure: BundleError) -> None:
        status = context.status
        self.publish(
            context, Report(failure=failure, managed_state=status.managed_state, managed_kinds=status.managed_kinds)
        )

    def forget(self, name: str) -> None:
        """Watch nothing for a BundleDeployment that is gone."""
        self._accounts.forget(name)


def stay_silent(context: Context, report: Report) -> Requeue | None:
    """Return when to come back where there is nothing to tell; None where there is something.

    What has just begun is no news, and its end brings a pass.
    """
    status, state = context.status, context.state
    if report.unknown and state.knows_soon():
        return Requeue(after=UNKNOWN_SECONDS, cause="the objects of a kind are not known yet")
    is_new = not (report.sources or status.conditions)
    if report.fetching and is_new and state.age() < FIRST_SECONDS:
        return Requeue(after=FIRST_SECONDS, cause="the sources are being resolved")
    # After a restart, too, a failure that is tried again stays what it is until it is another.
    if report.fetching and _tells_of_failure(context) and state.age() < RETRIED_SECONDS:
        return Requeue(after=RETRIED_SECONDS, cause="what failed is being tried again")
    return None


def _tells_of_failure(context: Context) -> bool:
    """Whether status says why this spec is not installed."""
    ready = context.status.condition(ConditionType.READY)
    is_failure = ready is not None and ready.status == "False" and ready.reason != Reason.FETCHING
    return is_failure and context.status.observed_generation == context.metadata.generation


def awaits_change(context: Context, report: Report) -> bool:
    """Whether something on the cluster has to change before it can go on."""
    is_awaited = any(outcome.task.action is Action.AWAIT for outcome in report.outcomes)
    is_failure = any(error.reason.retry is Retry.WAIT for error in report.errors)
    return is_awaited or is_failure or bool(skipped_kinds(context.deployment, report))
