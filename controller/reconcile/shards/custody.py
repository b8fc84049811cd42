"""Decides whether this controller may act for a BundleDeployment, and hands it over to another shard (kube/shard.py).

A BundleDeployment that moves is handed over in a pass of its own, when no other pass over it is running. Its new
controller waits for that, reports it after a while, and takes it over if the Lease of the earlier shard is free.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.kube.shard import Shard, Tenure, is_shard_name, wanted_shard
from controller.kube.takeovers import Takeovers
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.requeue import Requeue
from controller.reconcile.shards.adoption import Adoption
from controller.retries import SLOW_SECONDS
from controller.revisions.storage.store import RevisionStore
from controller.status.report import Deletion, Report
from controller.status.summary import summarize, summarize_deletion
from controller.status.writer import StatusWriter

log = logging.getLogger(__name__)

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
        match self._watches.shard.tenure_of(context.deployment):
            case Tenure.HELD:
                pass
            case Tenure.FREE:
                if self._watches.shard.name:
                    return self._claim(context)
            case Tenure.AWAITED:
                if not self._may_take(context):
                    return self._wait(context)
                context = self._record(context, version=context.metadata.resource_version)
            case Tenure.LEAVING:
                self._record(context)
                context.state.torn_down = True
                return None
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

    def _record(self, context: Context, version: str = "") -> Context:
        """Record the shard that the label names as the one that may act."""
        before, now = context.status.shard, wanted_shard(context.metadata.labels)
        status = context.status.model_copy(update={"shard": now, "relabeling": True})
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
        holder = Shard(context.status.shard)
        whose = f'shard "{holder.name}"' if holder.name else "the default shard"
        failure = BundleError(
            Reason.WAITING_FOR_SHARD,
            f'moved from {whose}, whose controller has not finished; continues when that has, or when its Lease "'
            f'{holder.lease}" has expired',
        )
        self._report(context, failure, version=context.metadata.resource_version)
        return Requeue(after=SLOW_SECONDS, cause="another shard has not finished")

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
