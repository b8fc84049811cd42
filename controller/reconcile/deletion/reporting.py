"""Reports a deletion: how far it is, what holds it if it is slow, and what it has deleted.

A deletion is slow after 5 s. From then on a Terminating Namespace is read now and then, since only its conditions say
what is left in it (observe/explanations.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import ConditionType, Retry
from controller.apply.prune import Removal
from controller.apply.teardown import BLOCKED_AFTER_SECONDS, SLOW_AFTER_SECONDS, Teardown, describe_awaited
from controller.kube.client import ApiError
from controller.kube.events import Note
from controller.observe.explanations import NOTHING, Explainer, Explanations, may_explain
from controller.observe.records import Record
from controller.reconcile.context import Context
from controller.status.report import Deletion
from controller.status.summary import summarize_deletion
from controller.status.writer import StatusWriter

log = logging.getLogger(__name__)


class DeletionReporter:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(self, writer: StatusWriter, explainer: Explainer) -> None:
        self._writer, self._explainer = writer, explainer

    def record(self, context: Context, found: Iterable[Note]) -> None:
        """Queue Events about the BundleDeployment."""
        self._writer.record_events(context.deployment, found)

    def describe(
        self, context: Context, teardown: Teardown, removals: Iterable[Removal], unreadable: BundleError | None
    ) -> Deletion:
        """Return what a pass has achieved, with what it waits for once the deletion is slow.

        Args:
            context: of the pass.
            teardown: the objects that existed when it started.
            removals: of the pass.
            unreadable: why some objects cannot be read.
        """
        seconds = _age(context)
        is_slow = seconds >= SLOW_AFTER_SECONDS
        found = self._explain(context, teardown.awaited) if is_slow else NOTHING
        return Deletion(
            remaining=len(teardown.remaining),
            awaited=tuple(_name(record, found) for record in teardown.awaited) if is_slow else (),
            blocked=seconds >= BLOCKED_AFTER_SECONDS,
            error=next((removal.error for removal in removals if removal.error), unreadable),
            next_change=min(_seconds_to_report(seconds), found.next_change or BLOCKED_AFTER_SECONDS),
        )

    def _explain(self, context: Context, awaited: Iterable[Record]) -> Explanations:
        namespaces = [record for record in awaited if may_explain(record)]
        return self._explainer.explain(context.name, namespaces) if namespaces else NOTHING

    def write(self, context: Context, deletion: Deletion) -> Context:
        """Write status if it has changed; returns the context with it.

        Raises: ApiError.
        """
        if deletion.error:
            _log(context, deletion.error)
        status = summarize_deletion(context.deployment, deletion, context.now())
        return replace(context, deployment=self._writer.write_status(context.deployment, status))

    def finish(self, context: Context) -> None:
        """Remove our finalizer.

        Raises: ApiError.
        """
        finalizers = [finalizer for finalizer in context.metadata.finalizers if finalizer != names.FINALIZER]
        try:
            self._writer.set_finalizers(context.deployment, finalizers)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        log.info("BundleDeployment removed", extra={"BundleDeployment": context.name})


def _log(context: Context, error: BundleError) -> None:
    """Log a failure that is news; what only waits is none."""
    last = context.status.condition(ConditionType.READY)
    if error.reason.retry is not Retry.WAIT and (last is None or last.message != error.message):
        about = {"BundleDeployment": context.name, "reason": error.reason.value, "problem": error.message}
        log.warning("objects not deleted", extra=about)


def _name(record: Record, explanations: Explanations) -> str:
    known = explanations.known.get(record.key)
    return describe_awaited(record, f"{known.reason}: {known.message}" if known else "")


def _seconds_to_report(seconds: float) -> float:
    """Return in how many seconds a deletion of this age is slow, or blocked."""
    due = (at - seconds for at in (SLOW_AFTER_SECONDS, BLOCKED_AFTER_SECONDS) if at > seconds)
    return next(due, BLOCKED_AFTER_SECONDS)


def _age(context: Context) -> float:
    """Return for how long it has taken: by the time of day, which a restart keeps, or as seen by this process."""
    since = context.metadata.deletion_timestamp
    return max((context.now() - since).total_seconds() if since else 0.0, context.state.deletion_age())
