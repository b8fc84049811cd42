"""One pass over a BundleDeployment that is being deleted: what was installed goes in order, then it may go itself.

Nothing is repaired any more. What goes when is apply/teardown.py's to say; what is kept is named in an Event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment
from controller.apply.hooks.hook import HookEvent
from controller.apply.ownership import loses_reference
from controller.apply.possession import Named
from controller.apply.prune import Removal, RemovalCause, Remover
from controller.apply.teardown import BLOCKED_AFTER_SECONDS, Teardown, blockers, plan_teardown
from controller.kube.client import ApiError, User
from controller.observe.records import ObjectKey, Record
from controller.observe.watches import Watches
from controller.reconcile.context import owner_of, recorded_kinds
from controller.reconcile.holdings import Holdings
from controller.reconcile.hooks import Hooks
from controller.reconcile.state import Memory
from controller.reconcile.strays import tell_strays
from controller.retries import SLOW_SECONDS, Retries
from controller.revisions.account import account_in, account_of
from controller.revisions.finder import Finder
from controller.revisions.service_accounts import Accounts
from controller.revisions.store import RevisionStore
from controller.status.notes import note_on_hindrance, notes_on_abandoned, notes_on_removals
from controller.status.report import NEVER, UNKNOWN_SECONDS, Deletion, Requeue
from controller.status.summary import summarize_deletion
from controller.status.writer import Publisher

log = logging.getLogger(__name__)

ORPHAN_FINALIZER = "orphan"
LOOK_AGAIN_SECONDS = 1.0
_LOST = "none of its revisions can be read, so that nothing says which objects it has installed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mandate:
    """As whom objects are taken away, and which."""

    user: User | None
    """None: as the controller."""
    named: Mapping[ObjectKey, Named] | None
    """What revisions name; None: none can be read, and only the marks say anything."""
    hindrance: BundleError | None = None
    """Why nobody may act."""
    without_hooks: bool = False
    """There is nobody to run them."""


class Deleter:
    """Takes away what BundleDeployments have installed.

    Args:
        now: the time of day.
    """

    def __init__(
        self,
        *,
        watches: Watches,
        finder: Finder,
        accounts: Accounts,
        remover: Remover,
        hooks: Hooks,
        holdings: Holdings,
        revisions: RevisionStore,
        publisher: Publisher,
        retries: Retries,
        now: Callable[[], datetime],
    ) -> None:
        self._watches, self._finder, self._accounts = watches, finder, accounts
        self._remover, self._hooks, self._revisions = remover, hooks, revisions
        self._holdings = holdings
        self._publisher, self._retries, self._now = publisher, retries, now

    def tear_down(self, deployment: BundleDeployment, memory: Memory) -> Requeue:
        """Take away what was installed, in order, and let the BundleDeployment go when nothing is left.

        Returns: when to come back if no event comes first.
        Raises: ApiError if the pass could not go on.
        """
        name = deployment.metadata.name
        if names.FINALIZER not in deployment.metadata.finalizers:
            return NEVER
        if self._watches.need(name, recorded_kinds(deployment)):
            return Requeue(after=UNKNOWN_SECONDS)
        return self._take_away(deployment, memory)

    def _take_away(self, deployment: BundleDeployment, memory: Memory) -> Requeue:
        name = deployment.metadata.name
        if unknown := self._watches.find_unknown(name, recorded_kinds(deployment)):
            message = f"{', '.join(unknown)}: its objects cannot be listed; see the APIService of its group"
            return self._fail(deployment, BundleError(Reason.API_UNAVAILABLE, message))
        orphan = deployment.spec.deletion_policy == "Orphan" or ORPHAN_FINALIZER in deployment.metadata.finalizers
        mandate = self._mandate(deployment, memory)
        if mandate.hindrance:
            return self._leave(deployment, mandate.hindrance, mandate, orphan=orphan)
        unreadable = self._holdings.look(deployment, mandate.named or {}, mandate.user)
        memory.abandoned |= self._give_up_unreadable(deployment, unreadable, memory)
        left = self._left(deployment, mandate, memory)
        teardown = plan_teardown(left, owner_of(deployment), orphan=orphan)
        event = HookEvent.PRE_DELETE if teardown.remaining else HookEvent.POST_DELETE
        runs_hooks = not (orphan or mandate.without_hooks)
        if hook_failure := self._hooks.around_teardown(deployment, event, memory) if runs_hooks else None:
            return self._await_hook(deployment, teardown, hook_failure, memory)
        error = next((each for each in unreadable.values() if each.reason is not Reason.FORBIDDEN), None)
        if not (teardown.remaining or error):
            memory.let_go = True
            return self._let_go(deployment)
        deployment = self._announce(deployment, teardown)
        cause = RemovalCause.ORPHAN if orphan else RemovalCause.TEARDOWN
        removals = self._remove(deployment, teardown, cause, mandate.user, memory)
        self._publisher.say(deployment, notes_on_removals(removals))
        deletion = self._deletion(deployment, teardown, removals, error)
        self._publisher.write_status(deployment, summarize_deletion(deployment, deletion, self._now()))
        memory.waits = True
        if deletion.error:
            return Requeue(after=deletion.error.retry_after, failed=True)
        # What changed meanwhile was not deleted (409), and where only its status did no event says so.
        return Requeue(after=LOOK_AGAIN_SECONDS if teardown.now else BLOCKED_AFTER_SECONDS)

    # as whom, and what

    def _mandate(self, deployment: BundleDeployment, memory: Memory) -> _Mandate:
        """Return as whom objects go, and which.

        As they were applied, whatever the spec has come to say since; where that account cannot act,
        nobody does for it, unless an administrator says that the controller is to.
        """
        named = self._holdings.all(deployment, memory)
        revision = self._finder.last_good(deployment, memory)
        account = account_of(revision.terms) if revision else account_in(deployment.spec)
        hindrance = self._accounts.hindrance(deployment, account, [revision.terms] if revision else ())
        if deployment.metadata.annotations.get(names.TEARDOWN_AS) == names.CONTROLLER:
            return _Mandate(user=None, named=named, without_hooks=hindrance is not None)
        if account is None and named is None and self._watches.managed(deployment.metadata.name):
            return _Mandate(user=None, named=named, hindrance=BundleError(Reason.REVISION_LOST, _LOST))
        return _Mandate(user=account.user if account else None, named=named, hindrance=hindrance)

    def _left(self, deployment: BundleDeployment, mandate: _Mandate, memory: Memory) -> dict[ObjectKey, Record]:
        """Return what a revision names, and is on the cluster; without any revision what carries the marks."""
        observed = self._watches.managed(deployment.metadata.name)
        named = observed if mandate.named is None else mandate.named
        self._publisher.say(deployment, tell_strays(deployment, memory, observed, named))
        return {key: each for key, each in observed.items() if key in named and key not in memory.abandoned}

    def _give_up_unreadable(
        self, deployment: BundleDeployment, failures: Mapping[ObjectKey, BundleError], memory: Memory
    ) -> set[ObjectKey]:
        """Return what its account may not even read, and say so once: it is the garbage collector's, or stays."""
        denied = {key: each for key, each in failures.items() if each.reason is Reason.FORBIDDEN}
        news = [
            Removal(record=Record(key=key), error=each) for key, each in denied.items() if key not in memory.abandoned
        ]
        self._publisher.say(deployment, notes_on_abandoned(news))
        return set(denied)

    def _leave(
        self, deployment: BundleDeployment, hindrance: BundleError, mandate: _Mandate, *, orphan: bool
    ) -> Requeue:
        """Let a BundleDeployment go for which nobody may act: what the garbage collector does not take, stays."""
        if hindrance.reason is Reason.FORBIDDEN:  # to the controller itself: that says nothing of the account
            return self._fail(deployment, hindrance)
        observed = self._watches.managed(deployment.metadata.name)
        ours = plan_teardown(observed, owner_of(deployment), orphan=orphan).remaining
        named = observed if mandate.named is None else mandate.named
        staying = {record.key for record in ours if record.key in named and not _goes_by_itself(record)}
        unseen = {key: each for key, each in (mandate.named or {}).items() if self._watches.is_unseen(*each.group_kind)}
        staying |= {key for key, each in unseen.items() if not each.carries_reference}
        self._publisher.say(deployment, [note_on_hindrance(hindrance, staying)])
        return self._let_go(deployment)

    def _fail(self, deployment: BundleDeployment, error: BundleError) -> Requeue:
        deletion = Deletion(remaining=0, error=error)
        self._publisher.write_status(deployment, summarize_deletion(deployment, deletion, self._now()))
        return Requeue(failed=True)

    def _announce(self, deployment: BundleDeployment, teardown: Teardown) -> BundleDeployment:
        """Say once, before the first object goes, that it is being deleted: many take a while."""
        if deployment.status.observed_generation == deployment.metadata.generation:
            return deployment
        deletion = Deletion(remaining=len(teardown.remaining))
        return self._publisher.write_status(deployment, summarize_deletion(deployment, deletion, self._now()))

    def _await_hook(
        self, deployment: BundleDeployment, teardown: Teardown, failure: BundleError, memory: Memory
    ) -> Requeue:
        deletion = Deletion(remaining=len(teardown.remaining), error=failure)
        self._publisher.write_status(deployment, summarize_deletion(deployment, deletion, self._now()))
        memory.waits = True
        seconds = self._retries.seconds_to_next(deployment.metadata.name)
        soon = SLOW_SECONDS if seconds is None else min(seconds, SLOW_SECONDS)
        return Requeue(after=soon, failed=failure.reason is not Reason.WAITING_FOR_HOOK)

    def _remove(
        self, deployment: BundleDeployment, teardown: Teardown, cause: RemovalCause, user: User | None, memory: Memory
    ) -> list[Removal]:
        """Delete and release what goes now; what an account has no right to never blocks.

        Then ordinary objects are left to the garbage collector. Those without ownerReference are released as that
        account; what it may not even change stays as it is.
        """
        name = deployment.metadata.name
        removals = self._remover.remove(teardown.now, name, cause, user)
        denied = [each for each in removals if user and _is_denied(each)]
        if not denied or user is None:
            return removals
        abandoned = [each for each in denied if cause is not RemovalCause.ORPHAN and _goes_by_itself(each.record)]
        kept = [each.record for each in denied if each not in abandoned]
        released = self._remover.remove(kept, name, RemovalCause.ORPHAN, user)
        stuck = [each for each in released if _is_denied(each)]
        memory.abandoned |= {each.record.key for each in (*abandoned, *stuck)}
        self._publisher.say(deployment, notes_on_abandoned([*abandoned, *stuck]))
        why = f'kept, since "{user.name}" may not delete it'
        return [
            *(each for each in removals if each not in denied),
            *(each if each.error else replace(each, kept=why) for each in released if each not in stuck),
        ]

    def _deletion(
        self,
        deployment: BundleDeployment,
        teardown: Teardown,
        removals: Iterable[Removal],
        unreadable: BundleError | None,
    ) -> Deletion:
        begun = deployment.metadata.deletion_timestamp
        is_late = begun is not None and (self._now() - begun).total_seconds() >= BLOCKED_AFTER_SECONDS
        error = next((removal.error for removal in removals if removal.error), unreadable)
        return Deletion(
            remaining=len(teardown.remaining), blockers=blockers(teardown.awaited) if is_late else "", error=error
        )

    def _let_go(self, deployment: BundleDeployment) -> Requeue:
        """The revisions go last: until now they were needed; then nothing holds the BundleDeployment any more."""
        self._revisions.keep_only(deployment.metadata.name, ())
        finalizers = [finalizer for finalizer in deployment.metadata.finalizers if finalizer != names.FINALIZER]
        try:
            self._publisher.set_finalizers(deployment, finalizers)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        log.info("BundleDeployment removed", extra={"BundleDeployment": deployment.metadata.name})
        return NEVER


def _is_denied(removal: Removal) -> bool:
    return removal.error is not None and removal.error.reason is Reason.FORBIDDEN


def _goes_by_itself(record: Record) -> bool:
    """Whether the garbage collector takes an object once its BundleDeployment is gone."""
    return bool(record.controller_uid) and not loses_reference(record, orphan=False)
