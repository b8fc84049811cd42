"""One pass over a BundleDeployment that is being deleted: deletes its objects in order, then removes its finalizer.

Nothing is repaired any more. The order is left to apply/teardown.py; objects that are kept are named in an Event.
"""

from __future__ import annotations

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.hooks.hook import HookEvent
from controller.apply.order import served_group
from controller.apply.prune import RemovalCause
from controller.apply.teardown import Teardown, is_orphaned, plan_teardown
from controller.kube.resources import GroupVersionKind
from controller.observe.deployments import ORPHAN_FINALIZER
from controller.observe.records import ObjectKey, Record
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.deletion.mandate import Mandate, Mandates
from controller.reconcile.deletion.removing import TeardownRemover, is_garbage_collected
from controller.reconcile.deletion.reporting import DeletionReporter
from controller.reconcile.hooks import Hooks
from controller.reconcile.ownership.handovers import HandOvers
from controller.reconcile.ownership.holdings import Holdings
from controller.reconcile.ownership.strays import look_for_strays, notes_on_strays
from controller.reconcile.requeue import NEVER, UNLISTED, Requeue
from controller.status.notes import (
    note_on_dependents,
    note_on_hindrance,
    note_on_hooks,
    notes_on_abandoned,
    notes_on_removals,
    notes_on_teardown,
)
from controller.status.report import Deletion

RECHECK_SECONDS = 1.0
TAKERS_SECONDS = 5.0
"""Until the next look at what others take over: no event reports that they know what."""


class Deleter:
    """Deletes what BundleDeployments have installed."""

    def __init__(
        self,
        *,
        watches: Watches,
        mandates: Mandates,
        hooks: Hooks,
        remover: TeardownRemover,
        reporter: DeletionReporter,
        holdings: Holdings,
        hand_overs: HandOvers,
    ) -> None:
        self._watches, self._mandates, self._hooks = watches, mandates, hooks
        self._remover, self._reporter, self._holdings = remover, reporter, holdings
        self._hand_overs = hand_overs

    def tear_down(self, context: Context) -> Requeue:
        """Delete what was installed, in order, and remove the finalizer when nothing is left.

        Returns: when the next pass runs if no event triggers one before.
        Raises: CrowdedError, or ApiError if the pass was aborted.
        """
        if names.FINALIZER not in context.metadata.finalizers:
            return NEVER
        self._report_dependents(context)
        context.state.orphaned |= ORPHAN_FINALIZER in context.metadata.finalizers
        context.state.orphaned |= self._watches.was_orphaned(context.name, context.metadata.uid)
        kinds = sorted({*context.recorded_kinds, *self._holdings.kinds(context)})
        if self._watches.require(context.name, kinds):
            return UNLISTED
        return self._delete(context, kinds)

    def _report_dependents(self, context: Context) -> None:
        """Report, until status says that it is being deleted, which BundleDeployments depend on it."""
        is_announced = context.status.observed_generation == context.metadata.generation
        if not is_announced and (dependents := self._watches.dependents(context.name)):
            self._reporter.record(context, [note_on_dependents(dependents)])

    def _delete(self, context: Context, kinds: list[GroupVersionKind]) -> Requeue:
        if unknown := self._watches.find_unknown(context.name, self._kinds_with_objects(context, kinds)):
            message = f"{', '.join(unknown)}: cannot be listed; check the APIService of the API group"
            return self._fail(context, BundleError(Reason.API_UNAVAILABLE, message))
        mandate = self._mandates.of(context)
        left = self._left(context, mandate)
        context.state.orphaned |= is_orphaned(left.values(), context.owner)
        # What --cascade=orphan has stripped of references is kept, but is nobody's to give.
        is_stripped = context.state.orphaned and not context.orphan
        if awaited := "" if is_stripped else self._hand_overs.describe_awaited(context, left.keys()):
            self._reporter.write(context, Deletion(remaining=len(left), handing_over=awaited))
            context.state.awaits_change = True
            return Requeue(after=TAKERS_SECONDS, cause="others take over objects")
        if mandate.hindrance:
            return self._abandon(context, mandate, mandate.hindrance)
        self._remover.abandon_denied(context, mandate.unreadable)
        left = {key: each for key, each in left.items() if key not in context.state.abandoned}
        teardown = plan_teardown(left, context.owner, orphan=_orphans(context))
        event = HookEvent.PRE_DELETE if teardown.remaining else HookEvent.POST_DELETE
        runs_hooks = not (_orphans(context) or mandate.without_hooks)
        if hook_failure := self._hooks.around_teardown(context, event) if runs_hooks else None:
            return self._await_hook(context, teardown, hook_failure)
        error = next((each for each in mandate.unreadable.values() if each.reason is not Reason.FORBIDDEN), None)
        if not (teardown.remaining or error):
            waits = None if _orphans(context) else self._tidy_hooks(context, mandate)
            context.state.torn_down = waits is None
            return waits or self._finish(context)
        return self._remove(self._announce(context, teardown), teardown, mandate, error)

    def _kinds_with_objects(self, context: Context, kinds: list[GroupVersionKind]) -> list[GroupVersionKind]:
        """Return these kinds without those that only its own APIService could serve, and never did.

        These have no objects, and cannot be listed before their APIService is deleted.
        """
        records = context.own_records(self._watches.managed(context.name))
        own = {served_group(record.key) for record in records} - {""}
        if not any(kind.group in own for kind in kinds):
            return kinds
        installed = self._holdings.installed_kinds(context)
        return [kind for kind in kinds if kind.group not in own or kind in installed]

    def _remove(
        self, context: Context, teardown: Teardown, mandate: Mandate, unreadable: BundleError | None
    ) -> Requeue:
        cause = RemovalCause.ORPHAN if _orphans(context) else RemovalCause.TEARDOWN
        removals = self._remover.remove(context, teardown, cause, mandate.user)
        self._reporter.record(context, [*notes_on_teardown(removals), *notes_on_removals(removals)])
        deletion = self._reporter.describe(context, teardown, removals, unreadable)
        self._reporter.write(context, deletion)
        context.state.awaits_change = True
        if deletion.error:
            return Requeue(after=deletion.error.retry_after, failed=True, cause="an object cannot be deleted")
        # An object that has changed was not deleted (409), and no event reports a change of its status alone.
        after = RECHECK_SECONDS if teardown.now else deletion.next_change
        return Requeue(after=after, cause="objects are being deleted")

    def _left(self, context: Context, mandate: Mandate) -> dict[ObjectKey, Record]:
        """Return the existing objects that revisions name or, without any revision, those that carry the marks."""
        observed = self._watches.managed(context.name)
        named = observed if mandate.named is None else mandate.named
        look_for_strays(context, observed, named)
        self._reporter.record(context, notes_on_strays(context))
        return {key: each for key, each in observed.items() if key in named and key not in context.state.abandoned}

    def _abandon(self, context: Context, mandate: Mandate, hindrance: BundleError) -> Requeue:
        """Finish without an account that may act: what the garbage collector does not delete is kept."""
        if hindrance.reason is Reason.FORBIDDEN:  # to the controller itself, not to the account
            return self._fail(context, hindrance)
        observed = self._watches.managed(context.name)
        ours = plan_teardown(observed, context.owner, orphan=_orphans(context)).remaining
        named = observed if mandate.named is None else mandate.named
        staying = {record.key for record in ours if record.key in named and not is_garbage_collected(record)}
        unseen = {
            key: each for key, each in (mandate.named or {}).items() if self._watches.is_forbidden(*each.group_kind)
        }
        staying |= {key for key, each in unseen.items() if not each.carries_reference}
        self._reporter.record(context, [note_on_hindrance(hindrance, staying)])
        return self._finish(context)

    def _fail(self, context: Context, error: BundleError) -> Requeue:
        self._reporter.write(context, Deletion(remaining=0, error=error))
        return Requeue(failed=True, cause="nothing can be deleted")

    def _announce(self, context: Context, teardown: Teardown) -> Context:
        """Report the deletion once before the first object is deleted, since many objects take a while."""
        if context.status.observed_generation == context.metadata.generation:
            return context
        return self._reporter.write(context, Deletion(remaining=len(teardown.remaining)))

    def _await_hook(self, context: Context, teardown: Teardown, failure: BundleError) -> Requeue:
        self._reporter.write(context, Deletion(remaining=len(teardown.remaining), error=failure))
        context.state.awaits_change = True
        is_failure = failure.reason is not Reason.WAITING_FOR_HOOK
        return Requeue(after=self._hooks.seconds_to_retry(context), failed=is_failure, cause="a hook has not finished")

    def _tidy_hooks(self, context: Context, mandate: Mandate) -> Requeue | None:
        """Delete what is left of hooks that are done; returns when that is tried again, None if nothing waits for it.

        What the account may not delete is left to users, as any object.
        """
        remains = self._hooks.tidy(context, self._holdings.with_hooks(context), mandate.user)
        if remains.unknown:
            return UNLISTED
        failures = [each for each in remains.failures if each.error]
        denied = [each for each in failures if mandate.user and each.error and each.error.reason is Reason.FORBIDDEN]
        if len(denied) < len(failures):
            error = next(each.error for each in failures if each not in denied)
            self._reporter.write(context, Deletion(remaining=len(failures), error=error))
            return Requeue(after=self._hooks.seconds_to_retry(context), failed=True, cause="a hook cannot be deleted")
        left = [note_on_hooks(sorted(remains.running))] if remains.running else []
        self._reporter.record(context, [*notes_on_abandoned(denied), *left])
        return None

    def _finish(self, context: Context) -> Requeue:
        """Delete the revisions, which were needed until now, and then remove the finalizer."""
        self._holdings.drop_all(context)
        self._reporter.finish(context)
        return NEVER


def _orphans(context: Context) -> bool:
    """Whether the objects are kept: by the spec, or by `--cascade=orphan` at the deletion."""
    return context.orphan or context.state.orphaned
