"""One pass over a BundleDeployment that is being deleted: what was installed goes in order, then it may go itself.

Nothing is repaired any more. What goes when is apply/teardown.py's to say; what is kept is named in an Event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment
from controller.accounts import Account, Accounts, account_in, account_of
from controller.apply.hooks import Event
from controller.apply.ownership import loses_reference
from controller.apply.prune import Cause, Removal, Remover
from controller.apply.teardown import BLOCKED_AFTER_SECONDS, Teardown, blockers, plan_teardown
from controller.hooks import Hooks
from controller.kube.client import ApiError, User
from controller.memory import Memory
from controller.observe.records import Record
from controller.observe.watches import Watches
from controller.publisher import Publisher
from controller.questions import owner_of, recorded_kinds
from controller.report import NEVER, UNKNOWN_SECONDS, Deletion, Requeue
from controller.retries import SLOW_SECONDS, Retries
from controller.revisions import RevisionStore
from controller.status import note_on_absence, notes_on_abandoned, notes_on_removals, summarize_deletion
from controller.wanted import Finder

log = logging.getLogger(__name__)

ORPHAN_FINALIZER = "orphan"
LOOK_AGAIN_SECONDS = 1.0


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
        revisions: RevisionStore,
        publisher: Publisher,
        retries: Retries,
        now: Callable[[], datetime],
    ) -> None:
        self._watches, self._finder, self._accounts = watches, finder, accounts
        self._remover, self._hooks, self._revisions = remover, hooks, revisions
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
            deletion = Deletion(remaining=0, error=BundleError(Reason.API_UNAVAILABLE, message))
            self._publisher.write_status(deployment, summarize_deletion(deployment, deletion, self._now()))
            return Requeue(failed=True)
        orphan = deployment.spec.deletion_policy == "Orphan" or ORPHAN_FINALIZER in deployment.metadata.finalizers
        account = self._account(deployment, memory)
        absence = self._accounts.absence(name, account)
        observed = self._watches.managed(name)
        if absence and not orphan:
            memory.abandoned |= {key for key, record in observed.items() if _goes_by_itself(record)}
        left = {key: record for key, record in observed.items() if key not in memory.abandoned}
        teardown = plan_teardown(left, owner_of(deployment), orphan=orphan)
        event = Event.PRE_DELETE if teardown.remaining else Event.POST_DELETE
        # Hooks are run as the account: without it there is nobody to run them.
        hook_failure = None if orphan or absence else self._hooks.around_teardown(deployment, event, memory)
        if hook_failure:
            return self._await_hook(deployment, teardown, hook_failure, memory)
        if not teardown.remaining:
            return self._let_go(deployment, absence)
        deployment = self._announce(deployment, teardown)
        cause = Cause.ORPHAN if orphan else Cause.TEARDOWN
        user = account.user if account and not absence else None
        removals = self._remove(deployment, teardown, cause, user, memory)
        self._publisher.say(deployment, notes_on_removals(removals))
        deletion = self._deletion(deployment, teardown, removals)
        self._publisher.write_status(deployment, summarize_deletion(deployment, deletion, self._now()))
        memory.waits = True
        if deletion.error:
            return Requeue(after=deletion.error.retry_after, failed=True)
        # What changed meanwhile was not deleted (409), and where only its status did no event says so.
        return Requeue(after=LOOK_AGAIN_SECONDS if teardown.now else BLOCKED_AFTER_SECONDS)

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

    def _account(self, deployment: BundleDeployment, memory: Memory) -> Account | None:
        """Return as whom objects go: as they were applied, whatever the spec has come to say since (DESIGN, rule 2)."""
        revision = self._finder.last_good(deployment, memory)
        return account_of(revision.terms) if revision else account_in(deployment.spec)

    def _remove(
        self, deployment: BundleDeployment, teardown: Teardown, cause: Cause, user: User | None, memory: Memory
    ) -> list[Removal]:
        """Delete and release what goes now; what an account has no right to never blocks.

        Then ordinary objects are left to the garbage collector. Those without ownerReference are released by the
        controller, which deletes nothing that the account may not.
        """
        name = deployment.metadata.name
        removals = self._remover.remove(teardown.now, name, cause, user)
        denied = [
            removal for removal in removals if user and removal.error and removal.error.reason is Reason.FORBIDDEN
        ]
        if not denied or user is None:
            return removals
        abandoned = [removal for removal in denied if cause is not Cause.ORPHAN and _goes_by_itself(removal.record)]
        memory.abandoned |= {removal.record.key for removal in abandoned}
        self._publisher.say(deployment, notes_on_abandoned(abandoned))
        kept = [removal.record for removal in denied if removal not in abandoned]
        released = self._remover.remove(kept, name, Cause.ORPHAN, None)
        why = f'kept, since "{user.name}" may not delete it'
        return [
            *(removal for removal in removals if removal not in denied),
            *(removal if removal.error else replace(removal, kept=why) for removal in released),
        ]

    def _deletion(self, deployment: BundleDeployment, teardown: Teardown, removals: Iterable[Removal]) -> Deletion:
        begun = deployment.metadata.deletion_timestamp
        is_late = begun is not None and (self._now() - begun).total_seconds() >= BLOCKED_AFTER_SECONDS
        error = next((removal.error for removal in removals if removal.error), None)
        return Deletion(
            remaining=len(teardown.remaining), blockers=blockers(teardown.awaited) if is_late else "", error=error
        )

    def _let_go(self, deployment: BundleDeployment, absence: BundleError | None) -> Requeue:
        """The revisions go last: until now they were needed; then nothing holds the BundleDeployment any more."""
        self._revisions.keep_only(deployment.metadata.name, ())
        finalizers = [finalizer for finalizer in deployment.metadata.finalizers if finalizer != names.FINALIZER]
        try:
            self._publisher.set_finalizers(deployment, finalizers)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        if absence:
            self._publisher.say(deployment, [note_on_absence(absence)])
        log.info("BundleDeployment removed", extra={"BundleDeployment": deployment.metadata.name})
        return NEVER


def _goes_by_itself(record: Record) -> bool:
    """Whether the garbage collector takes an object once its BundleDeployment is gone."""
    return bool(record.controller_uid) and not loses_reference(record, orphan=False)
