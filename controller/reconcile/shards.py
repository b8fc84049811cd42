"""Whether this controller may act for a BundleDeployment, and the hand-over to another shard (kube/shard.py).

A BundleDeployment that moves is handed over in a pass of its own, when no other pass over it is running. Its new
controller waits for that, reports it after a while, and takes it over if the Lease of the earlier shard is free. If its
new shard has no controller, status says that nobody has taken it, and after a while the default shard takes it back.

Objects that came from another shard are labeled first, so that the watches of this one show them. Until all are,
`status.relabeling` is set: a process that is killed meanwhile continues.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.removal import Relabeled
from rukpak.controller.apply.replies import classify
from rukpak.controller.kube.client import ApiError
from rukpak.controller.kube.configuration import User
from rukpak.controller.kube.lease import TURN_SECONDS
from rukpak.controller.kube.shard import Shard, Tenure, is_shard_name, wanted_shard
from rukpak.controller.reconcile import stored
from rukpak.controller.reconcile.context import UNLISTED, Context, Requeue
from rukpak.controller.reconcile.inventory import named_kinds
from rukpak.controller.revisions.accounts import account_of
from rukpak.controller.status.conditions import conditions_of_move
from rukpak.controller.status.report import Deletion, of_failure

log = logging.getLogger(__name__)
SURVEY_SECONDS = 1.0
"""Between two looks whether the default shard knows which other shards are served."""
REPORTED_SECONDS = 3.0
"""For so long a wait for another shard is neither reported nor is its Lease looked at: most moves take a moment."""


def take(context: Context) -> Context | Requeue | None:
    """Return the context with which the pass may act; or when to try again; None to forget the BundleDeployment.

    Raises: CrowdedError, ApiError.
    """
    own = context.services.watches.shard
    match own.tenure_of(context.deployment, context.services.watches.abandoned):
        case Tenure.HELD:
            context.memory.is_own |= wanted_shard(context.metadata.labels) == own.name
        case Tenure.FREE:
            if own.name:
                return _claim(context)
        case Tenure.AWAITED:
            if not _may_take(context):
                return _wait(context)
            context = _record(context, own.name, version=context.metadata.resource_version)
        case Tenure.LEAVING if not _still_stands_in(context):
            return _leave(context)
        case Tenure.ELSEWHERE:
            return None
    if context.services.takeovers:
        context.services.takeovers.end(context.name)
    found = adopt(context)
    if isinstance(found, BundleError):
        _report(context, found)
        return Requeue(after=found.retry_after, failed=True, cause="objects cannot be adopted")
    return found


def _claim(context: Context) -> Requeue:
    """Record a named shard; the default one claims with the first status that it writes."""
    # There are revisions if another client has wiped the status.
    is_known = bool(context.services.revisions.digests(context.name, context.metadata.uid))
    context.note(shard=context.services.watches.shard.name, relabeling=is_known or None)
    return Requeue(after=0.0, cause="it was claimed")


def _still_stands_in(context: Context) -> bool:
    """Whether the default shard acts for another one since before this process started: nobody serves that yet.

    One that has just moved is handed over all the same: its controller may be starting.
    """
    unserved = context.services.watches.unserved or frozenset()
    return not context.memory.is_own and wanted_shard(context.metadata.labels) in unserved


def _leave(context: Context) -> Requeue | None:
    """Record the shard that the label names, and that nobody has taken it yet.

    After a start, the default shard waits until it knows which others are served.
    """
    looks = context.services.takeovers is not None and not context.services.watches.shard.name
    if looks and not context.memory.is_own and context.services.watches.unserved is None:
        return Requeue(after=SURVEY_SECONDS, cause="not known yet whether its shard is served")
    now = wanted_shard(context.metadata.labels)
    _record(context, now, conditions=conditions_of_move(context.deployment, now, context.now()))
    context.memory.torn_down = True
    return None


def _record(context: Context, now: str, version: str = "", **changes: object) -> Context:
    """Record a shard as the one that may act."""
    before = context.status.shard
    written = context.note(version, shard=now, relabeling=True, **changes)
    about = {"BundleDeployment": context.name, "from": before, "to": now}
    log.info("BundleDeployment handed over to another shard", extra=about)
    return written


def _may_take(context: Context) -> bool:
    """Whether the Lease of the shard that may act is held by this process, or no controller can hold it."""
    if context.status.shard and not is_shard_name(context.status.shard):  # the label was a typo for a moment
        return True
    if context.services.takeovers is None or context.memory.age() < REPORTED_SECONDS:
        return False
    return context.services.takeovers.wait(context.status.shard, context.name)


def _wait(context: Context) -> Requeue:
    if (age := context.memory.age()) < REPORTED_SECONDS:
        return Requeue(after=REPORTED_SECONDS - age, cause="another shard has not finished")
    if wanted_shard(context.metadata.labels) != context.services.watches.shard.name:  # nobody serves it: status says so
        return Requeue(after=TURN_SECONDS, cause="the Lease of its shard is not free")
    holder = Shard(context.status.shard)
    whose = f'shard "{holder.name}"' if holder.name else "the default shard"
    failure = BundleError(
        Reason.WAITING_FOR_SHARD,
        f'moved from {whose}, whose controller has not finished; continues when that has, or when its Lease "'
        f'{holder.lease}" has expired',
    )
    _report(context, failure, version=context.metadata.resource_version)
    return Requeue(after=TURN_SECONDS, cause="another shard has not finished")


def _report(context: Context, failure: BundleError, version: str = "") -> None:
    if context.metadata.deletion_timestamp:
        context.report(Deletion(remaining=context.status.objects.total, error=failure), version)
    else:
        context.report(of_failure(context.status, failure), version)


def adopt(context: Context) -> Context | Requeue | BundleError:
    """Relabel what other shards have left.

    At a deletion, what the account may not change is left as it is: it may not be deleted either.

    Returns: the context with the new status, when to continue, or why an object was not relabeled.
    Raises: CrowdedError, ApiError.
    """
    if not context.status.relabeling:
        return context
    kinds = sorted({*context.recorded_kinds, *named_kinds(context)})
    if context.services.watches.require(context.name, kinds):
        return UNLISTED
    user, hindrance = _find_user(context)
    is_deletion = context.metadata.deletion_timestamp is not None
    if hindrance and not is_deletion:
        return hindrance
    # Objects of kinds that may not be listed are read by name, whatever their labels are.
    listed = (
        []
        if hindrance
        else [kind for kind in kinds if not context.services.watches.is_forbidden(kind.group, kind.kind)]
    )
    for kind in listed:
        relabeled = context.services.remover.relabel(kind, context.owner, user, orphan=context.orphan)
        for failure in _learn(context, relabeled):
            if not (is_deletion and failure.reason is Reason.FORBIDDEN):
                return failure
    return context.note(relabeling=None)


def _find_user(context: Context) -> tuple[User | None, BundleError | None]:
    """Return the account that applied the objects, None for the controller, and why it may not act."""
    revision = stored.last_good(context)
    account = account_of(revision.terms) if revision else context.account
    hindrance = context.services.accounts.hindrance(context.deployment, account, [revision.terms] if revision else ())
    return account.user if account else None, hindrance


def _learn(context: Context, relabeled: Relabeled) -> Iterator[BundleError]:
    for key, found in relabeled.items():
        if isinstance(found, ApiError):
            failure = classify(found, key, install_namespace="")
            yield BundleError(failure.reason, failure.message, retry_after=failure.retry_after)
        else:
            context.services.watches.learn(found)
