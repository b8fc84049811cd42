"""When the hooks of a revision run: before and after it is applied, again or not, and around a teardown.

They run until the wanted revision is installed, and never for drift. Before an upgrade they delay the whole revision,
while the installed one is still repaired; before a first install only what follows Namespaces and
CustomResourceDefinitions, which hooks may need. How one hook runs is left to apply/hooks.py.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from rukpak.api.errors import BundleError
from rukpak.controller.apply.hooks import HookEvent, HookOptions, HookRemains, has_run, kinds_of
from rukpak.controller.apply.order import Stage, position_of
from rukpak.controller.apply.targets import TargetSet, make_install_namespace
from rukpak.controller.building.config_values import reads_secrets
from rukpak.controller.building.revision import Revision, shows_secrets
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.configuration import User
from rukpak.controller.reconcile import stored
from rukpak.controller.reconcile.context import Context
from rukpak.controller.reconcile.finding import Wanted
from rukpak.controller.reconcile.inventory import make_confirmation
from rukpak.controller.retries import SLOW_SECONDS
from rukpak.controller.revisions.accounts import account_of


def before_upgrade(context: Context, wanted: Wanted, revision: Revision) -> BundleError | None:
    """Run the hooks before an upgrade or a rollback to the wanted revision; returns why they are not done.

    Raises: ApiError.
    """
    status = context.status
    is_installed = status.installed_revision == revision.digest
    if is_installed:
        context.memory.hooks.contested = None  # of an upgrade that was given up
    has_begun = status.revision == revision.digest and not status.managed_state
    is_untouched = is_installed and (not wanted.recalled or status.managed_state)
    if not status.installed_revision or has_begun or is_untouched:
        return None
    return _run(revision, HookEvent.PRE_ROLLBACK if wanted.recalled else HookEvent.PRE_UPGRADE, context)


def before_install(context: Context, revision: Revision, targets: TargetSet) -> BundleError | None:
    """Run the hooks before the workloads of a first install; returns why they are not done.

    Raises: ApiError.
    """
    if not revision.hooks or context.status.installed_revision:
        return None
    own = {record.key for record in context.own_records(context.services.watches.objects.of(context.name))}
    has_begun = any(key in own for key in targets.by_key if _waits_for_hooks(key))
    return None if has_begun else _run(revision, HookEvent.PRE_INSTALL, context)


def after_apply(context: Context, wanted: Wanted, targets: TargetSet) -> tuple[bool, BundleError | None]:
    """Run the hooks after a revision was applied, unless another one is wanted.

    If a first install has nothing that waits for the hooks before it, these run here, too.

    Returns: whether they have run: the revision is not installed before; and why they are not done.
    Raises: ApiError.
    """
    revision, failure = wanted.revision, None
    if revision is None or _is_done(context, wanted):
        return True, None
    event = _event_after(context, wanted)
    if wanted.current:
        is_ungated = not context.status.installed_revision and not any(map(_waits_for_hooks, targets.by_key))
        before = _run(revision, HookEvent.PRE_INSTALL, context) if is_ungated else None
        failure = before or _run(revision, event, context)
    return failure is None and has_run(revision, event, context.memory.hooks), failure


def around_teardown(context: Context, event: HookEvent) -> BundleError | None:
    """Run the hooks before or after a teardown; returns why they are not done.

    Raises: ApiError.
    """
    revision = stored.last_good(context)
    return _run(revision, event, context) if revision else None


def tidy(context: Context, revisions: Collection[Revision], user: User | None, unfinished: str = "") -> HookRemains:
    """Delete the hooks of revisions that are done and that their policies do not keep, until that has succeeded.

    Args:
        context: of the pass.
        revisions: whose hooks these are.
        user: the account that deletes; None: the controller.
        unfinished: the digest of the one whose hooks may not all have run.

    Raises: ApiError if discovery does not answer.
    """
    kinds = {kind for revision in revisions for kind in kinds_of(revision)}
    if unknown := context.services.watches.objects.require(context.name, kinds):
        return HookRemains(unknown=tuple(unknown))
    remains = []
    for revision in revisions:
        over = set(HookEvent)
        if revision.digest == unfinished:
            over = {event for event in HookEvent if has_run(revision, event, context.memory.hooks)}
        remains.append(context.services.hook_runner.tidy(revision, _options(context, revision, user), over))
    return HookRemains(
        failures=tuple(failure for each in remains for failure in each.failures),
        running=tuple(key for each in remains for key in each.running),
    )


def seconds_to_retry(context: Context) -> float:
    """Return the seconds until the next pass for a hook that is not done, if no event triggers one before."""
    times = (context.memory.retries.seconds_to_next(), context.memory.hooks.next_change)
    return min(SLOW_SECONDS, *(seconds for seconds in times if seconds is not None))


def _run(revision: Revision, event: HookEvent, context: Context) -> BundleError | None:
    if not revision.hooks:
        return None
    name, account = context.name, account_of(revision.terms)
    if hindrance := context.services.accounts.hindrance(context.deployment, account, [revision.terms]):
        return hindrance
    context.memory.stored.unapplied.discard(revision.digest)  # it names its hooks until these are tidied up
    context.services.watches.objects.require(name, kinds_of(revision))  # the watches report when a hook has finished
    options = _options(context, revision, account.user if account else None)
    if not event.is_of_teardown:
        options = replace(options, proceed=context.may_proceed)
    return context.services.hook_runner.run(revision, event, options)


def _options(context: Context, revision: Revision, user: User | None) -> HookOptions:
    return HookOptions(
        owner=context.owner,
        user=user,
        spec_version=context.spec_version,
        collision_protection=context.spec.collision_protection,
        install_namespace=make_install_namespace(revision),
        proceed=lambda: context.services.watches.deployments.synced,
        progress=context.memory.hooks,
        retries=context.memory.retries,
        deadline=context.spec.progress_deadline_seconds,
        conceals=reads_secrets(context.spec) or shows_secrets(revision.terms),
        explain=partial(context.services.explainer.explain, context.name),
        confirm=make_confirmation(context, revision.digest),
    )


def _waits_for_hooks(key: ObjectKey) -> bool:
    return position_of(key).stage is not Stage.DEFINITIONS


def _is_done(context: Context, wanted: Wanted) -> bool:
    if wanted.revision is None or context.status.installed_revision != wanted.revision.digest:
        return False
    newest = next(iter(context.status.history), None)
    is_again = newest is not None and newest.revision == wanted.revision.digest and newest.installed_at is None
    return not (wanted.recalled and is_again)


def _event_after(context: Context, wanted: Wanted) -> HookEvent:
    if wanted.recalled and context.status.installed_revision:
        return HookEvent.POST_ROLLBACK
    return HookEvent.POST_UPGRADE if context.status.installed_revision else HookEvent.POST_INSTALL
