"""One pass over a BundleDeployment that is being deleted: deletes its objects in order, then removes its finalizer.

Nothing is repaired any more. Objects are deleted as the account that applied them, even if the spec names another one
now. If it cannot act, the controller does not act in its place, unless an administrator requests that. Missing rights
never block a deletion: objects that the account may not touch are abandoned, and named in an Event.

A deletion is slow after 5 s. From then on a Terminating Namespace is read now and then, since only its conditions say
what is left in it (observe/explanations.py). The order is left to apply/order.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import ConditionType, Reason, Retry
from rukpak.controller.apply.hooks import HookEvent
from rukpak.controller.apply.order import (
    BLOCKED_AFTER_SECONDS,
    SLOW_AFTER_SECONDS,
    Teardown,
    describe_awaited,
    is_orphaned,
    plan_teardown,
    served_group,
)
from rukpak.controller.apply.ownership import Owner, RemovalCause, RevisionObject, find_strays, loses_reference
from rukpak.controller.apply.removal import Removal
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.configuration import User
from rukpak.controller.kube.errors import attempt
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.deployments import ORPHAN_FINALIZER
from rukpak.controller.observe.explanations import Question, may_explain
from rukpak.controller.observe.records import Record
from rukpak.controller.reconcile import hook_phases, inventory, stored
from rukpak.controller.reconcile.context import NEVER, UNLISTED, Context, Requeue
from rukpak.controller.reconcile.memory import DELETED
from rukpak.controller.revisions.accounts import account_of
from rukpak.controller.status.notes import (
    note_on_dependents,
    note_on_hindrance,
    note_on_hooks,
    notes_on_abandoned,
    notes_on_removals,
    notes_on_teardown,
)
from rukpak.controller.status.report import Deletion

RECHECK_SECONDS = 1.0
TAKERS_SECONDS = 5.0
"""Until the next look at what others take over: no event says that the revision of a taker has become known."""
_LOST = "no kept revision can be read, so the installed objects are not known"
log = logging.getLogger(__name__)


def tear_down(context: Context) -> Requeue:
    """Delete what was installed, in order, and remove the finalizer when nothing is left.

    Returns: when the next pass runs if no event triggers one before.
    Raises: CrowdedError, or ApiError if the pass was aborted.
    """
    if names.FINALIZER not in context.metadata.finalizers:
        return NEVER
    if not _is_announced(context) and (dependents := context.services.watches.deployments.dependents(context.name)):
        context.record([note_on_dependents(dependents)])
    was_orphaned = context.services.watches.deployments.was_orphaned(context.name, context.metadata.uid)
    context.memory.deletion.orphaned |= was_orphaned or ORPHAN_FINALIZER in context.metadata.finalizers
    kinds = sorted({*context.recorded_kinds, *inventory.named_kinds(context)})
    if context.services.watches.objects.require(context.name, kinds):
        return UNLISTED
    return _delete(context, kinds)


def _delete(context: Context, kinds: list[GroupVersionKind]) -> Requeue:
    if unknown := context.services.watches.objects.find_unknown(context.name, _kinds_with_objects(context, kinds)):
        message = f"{', '.join(unknown)}: cannot be listed; check the APIService of the API group"
        return _fail(context, BundleError(Reason.API_UNAVAILABLE, message))
    mandate = find_mandate(context)
    left = _left(context, mandate)
    context.memory.deletion.orphaned |= is_orphaned(left.values(), context.owner)
    # What --cascade=orphan has stripped of references is kept, but is nobody's to give.
    is_stripped = context.memory.deletion.orphaned and not context.owner.orphan
    if awaited := "" if is_stripped else inventory.describe_awaited_takers(context, left.keys()):
        _write(context, Deletion(remaining=len(left), handing_over=awaited))
        context.memory.awaits_change = True
        return Requeue(after=TAKERS_SECONDS, cause="others take over objects")
    if mandate.hindrance:
        return _abandon(context, mandate, mandate.hindrance)
    _abandon_denied(context, mandate.unreadable)
    left = {key: each for key, each in left.items() if key not in context.memory.deletion.abandoned}
    owner = _owner(context)
    teardown = plan_teardown(left, owner)
    event = HookEvent.PRE_DELETE if teardown.remaining else HookEvent.POST_DELETE
    runs_hooks = not (owner.orphan or mandate.without_hooks)
    if hook_failure := hook_phases.around_teardown(context, event) if runs_hooks else None:
        return _await_hook(context, teardown, hook_failure)
    error = next((each for each in mandate.unreadable.values() if each.reason is not Reason.FORBIDDEN), None)
    if not (teardown.remaining or error):
        waits = None if owner.orphan else _tidy_hooks(context, mandate)
        context.memory.torn_down = waits is None
        return waits or _finish(context)
    if not _is_announced(context):  # many objects take a while to delete
        context = _write(context, Deletion(remaining=len(teardown.remaining)))
    return _remove(context, teardown, mandate, error)


def _kinds_with_objects(context: Context, kinds: list[GroupVersionKind]) -> list[GroupVersionKind]:
    """Leave out kinds that only an APIService of this BundleDeployment could serve, and never did.

    These have no objects, and cannot be listed before their APIService is deleted.
    """
    records = context.own_records(context.services.watches.objects.of(context.name))
    own = {served_group(record.key) for record in records} - {""}
    if not any(kind.group in own for kind in kinds):
        return kinds
    revision = stored.read(context, context.status.installed_revision)
    installed = {GroupVersionKind.of(manifest) for manifest in revision.objects} if revision else set()
    return [kind for kind in kinds if kind.group not in own or kind in installed]


def _remove(context: Context, teardown: Teardown, mandate: Mandate, unreadable: BundleError | None) -> Requeue:
    cause = RemovalCause.ORPHAN if _owner(context).orphan else RemovalCause.TEARDOWN
    removals = _remove_now(context, teardown, cause, mandate.user)
    context.record([*notes_on_teardown(removals), *notes_on_removals(removals)])
    deletion = _describe(context, teardown, removals, unreadable)
    _write(context, deletion)
    context.memory.awaits_change = True
    if deletion.error:
        return Requeue(after=deletion.error.retry_after, failed=True, cause="an object cannot be deleted")
    # An object that has changed was not deleted (409), and no event reports a change of its status alone.
    after = RECHECK_SECONDS if teardown.now else deletion.next_change
    return Requeue(after=after, cause="objects are being deleted")


def _left(context: Context, mandate: Mandate) -> dict[ObjectKey, Record]:
    observed = context.services.watches.objects.of(context.name)
    named = observed if mandate.named is None else mandate.named
    inventory.report_strays(context, find_strays(observed, named, owner=context.owner))
    return {
        key: each for key, each in observed.items() if key in named and key not in context.memory.deletion.abandoned
    }


def _abandon(context: Context, mandate: Mandate, hindrance: BundleError) -> Requeue:
    if hindrance.reason is Reason.FORBIDDEN:  # to the controller itself, not to the account
        return _fail(context, hindrance)
    observed = context.services.watches.objects.of(context.name)
    ours = plan_teardown(observed, _owner(context)).remaining
    named = observed if mandate.named is None else mandate.named
    staying = {record.key for record in ours if record.key in named and not is_garbage_collected(record)}
    staying |= {
        key
        for key, each in (mandate.named or {}).items()
        if not each.carries_reference and context.services.watches.objects.is_forbidden(*key[:2])
    }
    context.record([note_on_hindrance(hindrance, staying)])
    return _finish(context)


def _fail(context: Context, error: BundleError) -> Requeue:
    _write(context, Deletion(remaining=0, error=error))
    return Requeue(failed=True, cause="nothing can be deleted")


def _is_announced(context: Context) -> bool:
    return context.status.observed_generation == context.metadata.generation


def _await_hook(context: Context, teardown: Teardown, failure: BundleError) -> Requeue:
    _write(context, Deletion(remaining=len(teardown.remaining), error=failure))
    context.memory.awaits_change = True
    is_failure = failure.reason is not Reason.WAITING_FOR_HOOK
    return Requeue(after=hook_phases.seconds_to_retry(context), failed=is_failure, cause="a hook has not finished")


def _tidy_hooks(context: Context, mandate: Mandate) -> Requeue | None:
    """Delete what is left of hooks that are done; returns when that is tried again, None if nothing waits for it.

    What the account may not delete is left to users, as any object.
    """
    remains = hook_phases.tidy(context, inventory.revisions_with_hooks(context), mandate.user)
    if remains.unknown:
        return UNLISTED
    denied = list(filter(_is_denied, remains.failures)) if mandate.user else []
    if len(denied) < len(remains.failures):
        error = next(each.error for each in remains.failures if each not in denied)
        _write(context, Deletion(remaining=len(remains.failures), error=error))
        return Requeue(after=hook_phases.seconds_to_retry(context), failed=True, cause="a hook cannot be deleted")
    left = [note_on_hooks(sorted(remains.running))] if remains.running else []
    context.record([*notes_on_abandoned(denied), *left])
    return None


def _finish(context: Context) -> Requeue:
    # The revisions were needed until now.
    context.services.revisions.keep_only(context.name, ())
    finalizers = [finalizer for finalizer in context.metadata.finalizers if finalizer != names.FINALIZER]
    attempt(lambda: context.services.writer.set_finalizers(context.deployment, finalizers), HTTPStatus.NOT_FOUND)
    log.info("BundleDeployment removed", extra={"BundleDeployment": context.name})
    return NEVER


def _owner(context: Context) -> Owner:
    return replace(context.owner, orphan=context.owner.orphan or context.memory.deletion.orphaned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandate:
    """As which account objects are deleted, and which objects."""

    user: User | None
    """None: as the controller."""
    named: Mapping[ObjectKey, RevisionObject] | None
    """What revisions name; None: none can be read, and only the marks identify objects."""
    hindrance: BundleError | None = None
    """Why the account may not act."""
    without_hooks: bool = False
    """No account may run them."""
    unreadable: Mapping[ObjectKey, BundleError] = field(default_factory=dict)
    """Why named objects that are not watched cannot be read."""


def find_mandate(context: Context) -> Mandate:
    """Return the account and the objects, after reading those that are not watched.

    Raises: CrowdedError, ApiError.
    """
    named, revision = inventory.name_all(context), stored.last_good(context)
    account = account_of(revision.terms) if revision else context.account
    hindrance = context.services.accounts.hindrance(context.deployment, account, [revision.terms] if revision else ())
    user, without_hooks = account.user if account else None, False
    if context.metadata.annotations.get(names.TEARDOWN_AS) == names.CONTROLLER:
        user, without_hooks, hindrance = None, hindrance is not None, None
    elif account is None and named is None and context.services.watches.objects.of(context.name):
        hindrance = BundleError(Reason.REVISION_LOST, _LOST)
    unreadable = {} if hindrance else inventory.read_unwatched(context, named or {}, user)
    return Mandate(user=user, named=named, hindrance=hindrance, without_hooks=without_hooks, unreadable=unreadable)


def _remove_now(context: Context, teardown: Teardown, cause: RemovalCause, user: User | None) -> list[Removal]:
    """Delete or release the objects of one step of a teardown.

    Of those that the account may not delete, ordinary ones are left to the garbage collector, and those without
    ownerReference are released as that account, or left as they are if it may not change them either.

    Args:
        context: of the pass; records abandoned objects in its memory.
        teardown: what to delete now.
        cause: of the removal.
        user: the account; None: the controller.

    Raises: ApiError.
    """
    removals = context.services.remover.remove(teardown.now, context.name, cause, user)
    denied = [each for each in removals if user and _is_denied(each)]
    if not denied or user is None:
        return removals
    abandoned = [each for each in denied if cause is not RemovalCause.ORPHAN and is_garbage_collected(each.record)]
    kept = [each.record for each in denied if each not in abandoned]
    released = context.services.remover.remove(kept, context.name, RemovalCause.ORPHAN, user)
    stuck = [each for each in released if _is_denied(each)]
    _give_up(context, [*abandoned, *stuck])
    why = f'kept because "{user.name}" may not delete it'
    return [
        *(each for each in removals if each not in denied),
        *(each if each.error else replace(each, kept=why) for each in released if each not in stuck),
    ]


def _abandon_denied(context: Context, failures: Mapping[ObjectKey, BundleError]) -> None:
    known = context.memory.deletion.abandoned
    news = (Removal(record=Record(key=key), error=each) for key, each in failures.items() if key not in known)
    _give_up(context, list(filter(_is_denied, news)))


def _give_up(context: Context, removals: list[Removal]) -> None:
    context.memory.deletion.abandoned |= {each.record.key for each in removals}
    context.record(notes_on_abandoned(removals))


def _is_denied(removal: Removal) -> bool:
    return removal.error is not None and removal.error.reason is Reason.FORBIDDEN


def is_garbage_collected(record: Record) -> bool:
    """Whether the garbage collector deletes an object once its BundleDeployment is gone."""
    return bool(record.controller_uid) and not loses_reference(record, orphan=False)


def _describe(
    context: Context, teardown: Teardown, removals: Iterable[Removal], unreadable: BundleError | None
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
    next_request = _explain(context, teardown.awaited) if is_slow else None
    return Deletion(
        remaining=len(teardown.remaining),
        awaited=tuple(_name(context, record) for record in teardown.awaited) if is_slow else (),
        blocked=seconds >= BLOCKED_AFTER_SECONDS,
        error=next((removal.error for removal in removals if removal.error), unreadable),
        next_change=min(_seconds_to_report(seconds), next_request or BLOCKED_AFTER_SECONDS),
    )


def _explain(context: Context, awaited: Iterable[Record]) -> float | None:
    namespaces = [Question(record=record) for record in awaited if may_explain(record)]
    explainer, inquiries = context.services.explainer, context.memory.health.inquiries
    return explainer.explain(context.name, inquiries, namespaces) if namespaces else None


def _write(context: Context, deletion: Deletion) -> Context:
    last, error = context.status.condition(ConditionType.READY), deletion.error
    if error and error.reason.retry is not Retry.WAIT and (last is None or last.message != error.message):
        log.warning("objects not deleted", extra=context.about(error))
    return context.report(deletion)


def _name(context: Context, record: Record) -> str:
    answer = context.memory.health.inquiries.answer_on(record.key) if may_explain(record) else None
    verdict = answer.verdict if answer else None
    return describe_awaited(record, f"{verdict.reason}: {verdict.message}" if verdict else "")


def _seconds_to_report(seconds: float) -> float:
    due = (at - seconds for at in (SLOW_AFTER_SECONDS, BLOCKED_AFTER_SECONDS) if at > seconds)
    return next(due, BLOCKED_AFTER_SECONDS)


def _age(context: Context) -> float:
    # Of both ages the greater: by the time of day, which a restart keeps, and as seen by this process.
    since = context.metadata.deletion_timestamp
    return max((context.now() - since).total_seconds() if since else 0.0, context.memory.seconds_since(DELETED))
