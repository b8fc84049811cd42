"""When the next pass over a BundleDeployment runs if no event triggers one before, and why (logged at debug)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.retries import SLOW_SECONDS, Retries
from controller.revisions.finder import Finder
from controller.status.report import Report
from controller.status.rollback import seconds_to_rollback


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """When the next pass over a BundleDeployment runs if no event triggers one before."""

    after: float | None = None
    """Seconds; None: only an event triggers the next pass."""
    failed: bool = False
    """The pass was aborted: requeue with backoff, after `after` at the earliest."""
    cause: str = field(default="", compare=False)
    """Why, for the log."""


NEVER = Requeue()
UNKNOWN_SECONDS = 30.0
"""Until the next pass while a kind is not listed yet: its first list triggers a pass sooner, and so does a change that
may make the cluster serve it."""
UNLISTED = Requeue(after=UNKNOWN_SECONDS, cause="a kind is not listed yet")
UNSYNCED = Requeue(after=UNKNOWN_SECONDS, cause="BundleDeployments are not listed yet")


class Scheduler:
    """Knows the times that no event reports."""

    def __init__(self, watches: Watches, finder: Finder, retries: Retries) -> None:
        self._watches, self._finder, self._retries = watches, finder, retries

    def next_pass(self, context: Context, report: Report) -> Requeue:
        """Return when the next pass runs: at the first of all these times."""
        due = [(seconds, cause) for seconds, cause in self._times(context, report) if seconds is not None]
        after, cause = min(due, default=(None, ""))
        return Requeue(after=after, cause=cause)

    def _times(self, context: Context, report: Report) -> Iterator[tuple[float | None, str]]:
        name, ledger = context.name, context.state.ledger
        yield self._retries.seconds_to_next(name), "a failure is retried"
        yield self._finder.seconds_to_poll(context), "a source is polled"
        yield ledger.seconds_of_conflict(), "a conflict over an object may have ended"
        for outcome in report.outcomes:
            if outcome.postponed:
                yield ledger.seconds_to_repair(outcome.task.target.key), "a repair was postponed"
        if report.progress:
            yield report.progress.next_change, "a deadline of an object expires"
        yield context.state.hooks.next_change, "a deadline of a hook expires"
        blind = self._watches.has_unwatched(name)
        if report.unknown or blind:
            yield UNKNOWN_SECONDS, "a kind is not listed yet"
        if context.state.awaits_change or blind:
            yield self._watches.served.seconds_to_recheck(), "a kind may be served"
        yield seconds_to_rollback(context.deployment, report, context.now()), "an upgrade is rolled back"
        if report.held and report.held.problems:
            yield SLOW_SECONDS, "what would prevent a pending revision may be resolved"
        if report.errors or report.drifted:  # no event reports that a modified field was reverted
            yield SLOW_SECONDS, "something failed or has drifted"
