"""Decides whether this controller may act for a BundleDeployment, and hands it over to another shard (kube/shard.py).

A BundleDeployment that moves is handed over in a pass of its own, when no other pass over it is running. Its new
controller waits for that, reports it after a while, and takes it over if the Lease of the earlier shard is free. If its
new shard has no controller, status says that nobody has taken it, and after a while the default shard takes it back.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.kube.shard import Shard, Tenure, is_shard_name, wanted_shard
from controller.kube.takeovers import TURN_SECONDS, Takeovers
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.requeue import Requeue
from controller.reconcile.shards.adoption import Adoption
from controller.revisions.storage.store import RevisionStore
from controller.status.conditions import conditions_of_move
from controller.status.report import Deletion, Report
from controller.status.summary import summarize, summarize_deletion
from controller.status.writer import StatusWriter

log = logging.getLogger(__name__)

SURVEY_SECONDS = 1.0
"""Between two looks whether the default shard knows which other shards are served."""
REPORTED_SECONDS = 3.0
"""For so long a wait for another shard is neither reported nor is its Lease looked at: most moves take a moment."""


class Custody:
    """Thread-safe; one pass at a time for each BundleDeployment.

    Args:
        takeovers: None without leader election, where no Lease says who has stopped.
    """

    def __init__(
        self,
        *,
        watches: Watches,
        writer: StatusWriter,
        revisions: RevisionStore,
        adoption: Adoption,
        takeovers: Takeovers | None,
    ) -> None:
        self._watches, self._writer, self._revisions = watches, writer, revisions
        self._adoption, self._takeovers = adoption, takeovers

    def take(self, context: Context) -> Context | Requeue | None:
        """Return the context with which the pass may act; or when to try again; None to forget the BundleDeployment.

        Raises: CrowdedError, ApiError.
        """
        own = self._watches.shard
        match own.tenure_of(context.deployment, self._watches.abandoned):
            case Tenure.HELD:
                context.state.is_own |= wanted_shard(context.metadata.labels) == own.name
            case Tenure.FREE:
                if own.name:
                    return self._claim(context)
            case Tenure.AWAITED:
                if not self._may_take(context):
                    return self._wait(context)
                context = self._record(context, own.name, version=context.metadata.resource_version)
            case Tenure.LEAVING if not self._still_stands_in(context):
                return self._leave(context)
            case Tenure.ELSEWHERE:
                return None
        self.end_wait(context.name)
        found = self._adoption.finish(context)
        if isinstance(found, BundleError):
            self._report(context, found)
            return Requeue(after=found.retry_after, failed=True, cause="objects cannot be adopted")
        return found

    def _claim(self, context: Context) -> Requeue:
        """Record a named shard; the default one claims with the first status that it writes."""
        # There are revisions if another client has wiped the status.
        is_known = bool(self._revisions.digests(context.name, context.metadata.uid))
        status = context.status.model_copy(update={"shard": self._watches.shard.name, "relabeling": is_known or None})
        self._writer.write_status(context.deployment, status)
        return Requeue(after=0.0, cause="it was claimed")

    def _still_stands_in(self, context: Context) -> bool:
        """Whether the default shard acts for another one since before this process started: nobody serves that yet.

        One that has just moved is handed over all the same: its controller may be starting.
        """
        unserved = self._watches.unserved or frozenset()
        return not context.state.is_own and wanted_shard(context.metadata.labels) in unserved

    def _leave(self, context: Context) -> Requeue | None:
        """Record the shard that the label names, and that nobody has taken it yet.

        After a start, the default shard waits until it knows which others are served.
        """
        looks = self._takeovers is not None and not self._watches.shard.name
        if looks and not context.state.is_own and self._watches.unserved is None:
            return Requeue(after=SURVEY_SECONDS, cause="not known yet whether its shard is served")
        now = wanted_shard(context.metadata.labels)
        self._record(context, now, conditions=conditions_of_move(context.deployment, now, context.now()))
        context.state.torn_down = True
        return None

    def _record(self, context: Context, now: str, version: str = "", **changes: object) -> Context:
        """Record a shard as the one that may act."""
        before = context.status.shard
        status = context.status.model_copy(update={"shard": now, "relabeling": True, **changes})
        deployment = self._writer.write_status(context.deployment, status, version=version)
        about = {"BundleDeployment": context.name, "from": before, "to": now}
        log.info("BundleDeployment handed over to another shard", extra=about)
        return replace(context, deployment=deployment)

    def _may_take(self, context: Context) -> bool:
        """Whether the Lease of the shard that may act is held by this process, or no controller can hold it."""
        if context.status.shard and not is_shard_name(context.status.shard):  # the label was a typo for a moment
            return True
        if self._takeovers is None or context.state.age() < REPORTED_SECONDS:
            return False
        return self._takeovers.wait(context.status.shard, context.name)

    def _wait(self, context: Context) -> Requeue:
        if (age := context.state.age()) < REPORTED_SECONDS:
            return Requeue(after=REPORTED_SECONDS - age, cause="another shard has not finished")
        if wanted_shard(context.metadata.labels) != self._watches.shard.name:  # nobody serves it: status says so
            return Requeue(after=TURN_SECONDS, cause="the Lease of its shard is not free")
        holder = Shard(context.status.shard)
        whose = f'shard "{holder.name}"' if holder.name else "the default shard"
        failure = BundleError(
            Reason.WAITING_FOR_SHARD,
            f'moved from {whose}, whose controller has not finished; continues when that has, or when its Lease "'
            f'{holder.lease}" has expired',
        )
        self._report(context, failure, version=context.metadata.resource_version)
        return Requeue(after=TURN_SECONDS, cause="another shard has not finished")

    def _report(self, context: Context, failure: BundleError, version: str = "") -> None:
        deployment, status, now = context.deployment, context.status, context.now()
        if context.metadata.deletion_timestamp:
            status = summarize_deletion(deployment, Deletion(remaining=status.objects.total, error=failure), now)
        else:
            report = Report(failure=failure, managed_state=status.managed_state, managed_kinds=status.managed_kinds)
            status = summarize(deployment, report, now)
        self._writer.write_status(deployment, status, version=version)

    def end_wait(self, name: str) -> None:
        """Wait for no other shard any more."""
        if self._takeovers:
            self._takeovers.end(name)
