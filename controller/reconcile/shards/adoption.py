"""Adopts the objects of a BundleDeployment that came from another shard, so that the watches of this one show them.

Until all have the label of this shard, `status.relabeling` is set: a process that is killed meanwhile continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.failures.replies import classify
from controller.apply.object.labels import Relabeled, Relabeler
from controller.kube.client import ApiError, User
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.ownership.holdings import Holdings
from controller.reconcile.requeue import UNLISTED, Requeue
from controller.revisions.accounts.account import account_of
from controller.revisions.accounts.service_accounts import Accounts
from controller.revisions.kept import KeptRevisions
from controller.status.writer import StatusWriter


class Adoption:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(
        self,
        *,
        watches: Watches,
        kept: KeptRevisions,
        holdings: Holdings,
        accounts: Accounts,
        relabeler: Relabeler,
        writer: StatusWriter,
    ) -> None:
        self._watches, self._kept, self._holdings = watches, kept, holdings
        self._accounts, self._relabeler, self._writer = accounts, relabeler, writer

    def finish(self, context: Context) -> Context | Requeue | BundleError:
        """Relabel what other shards have left.

        At a deletion, what the account may not change is left as it is: it may not be deleted either.

        Returns: the context with the new status, when to continue, or why an object was not relabeled.
        Raises: CrowdedError, ApiError.
        """
        if not context.status.relabeling:
            return context
        kinds = sorted({*context.recorded_kinds, *self._holdings.kinds(context)})
        if self._watches.require(context.name, kinds):
            return UNLISTED
        user, hindrance = self._find_user(context)
        is_deletion = context.metadata.deletion_timestamp is not None
        if hindrance and not is_deletion:
            return hindrance
        # Objects of kinds that may not be listed are read by name, whatever their labels are.
        listed = [] if hindrance else [kind for kind in kinds if not self._watches.is_forbidden(kind.group, kind.kind)]
        for kind in listed:
            relabeled = self._relabeler.relabel(kind, context.owner, user, orphan=context.orphan)
            for failure in self._learn(relabeled):
                if not (is_deletion and failure.reason is Reason.FORBIDDEN):
                    return failure
        status = context.status.model_copy(update={"relabeling": None})
        return replace(context, deployment=self._writer.write_status(context.deployment, status))

    def _find_user(self, context: Context) -> tuple[User | None, BundleError | None]:
        """Return the account that applied the objects, None for the controller, and why it may not act."""
        revision = self._kept.last_good(context)
        account = account_of(revision.terms) if revision else context.account
        hindrance = self._accounts.hindrance(context.deployment, account, [revision.terms] if revision else ())
        return account.user if account else None, hindrance

    def _learn(self, relabeled: Relabeled) -> Iterator[BundleError]:
        for key, found in relabeled.items():
            if isinstance(found, ApiError):
                failure = classify(found, key, install_namespace="")
                yield BundleError(failure.reason, failure.message, retry_after=failure.retry_after)
            else:
                self._watches.learn(found)
