"""Plans the work on one revision: from its targets to a plan, or why its account may not carry it out.

Nothing is sent here except to check the account. Not here: which revision (finding.py, gates.py), and the plan of each
object (apply/plan.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import OF_ABSENCE
from rukpak.api.v1alpha2.policies import HealthCheck, IgnoreRule
from rukpak.api.v1alpha2.status import LookedUp
from rukpak.controller.apply.holders import find_replaced
from rukpak.controller.apply.plan import ApplyOptions, Plan, make_plan
from rukpak.controller.apply.targets import (
    NO_LOSSES,
    Differences,
    Target,
    TargetSet,
    describe_dropped_replicas,
    find_differences,
    find_losses,
    find_unmatched,
    leave_out_missing,
    make_targets,
)
from rukpak.controller.building.config_values import reads_secrets
from rukpak.controller.building.request import recall_pins
from rukpak.controller.building.revision import Revision, Terms, shows_secrets
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.records import Record
from rukpak.controller.reconcile import hook_phases, stored
from rukpak.controller.reconcile.context import Context
from rukpak.controller.reconcile.finding import Wanted
from rukpak.controller.reconcile.inventory import find_hand_over, make_confirmation, name_older, observe_with_takers
from rukpak.controller.revisions.accounts import Account, account_of
from rukpak.controller.status.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a pass does for one revision."""

    context: Context
    wanted: Wanted
    revision: Revision
    """That is applied or, while nothing may be, compared."""
    options: ApplyOptions
    warnings: tuple[str, ...]
    """About the revision, for status."""
    plan: Plan
    before: TargetSet | None = None
    """The targets of the revision before, if its objects may still exist."""
    only_compare: bool = False
    """Nothing may be sent: the spec is paused, or its account may not act."""
    hindrance: BundleError | None = None
    """Why the account may not act."""
    is_new_account: bool = False
    """Whether another account may have applied what is installed, so that it must be checked even without a change."""
    lack: BundleError | None = None
    """The rights that a new account lacks."""

    @property
    def earlier_kinds(self) -> list[GroupVersionKind]:
        """The kinds that objects of earlier passes may have: by status, and by older revisions in the store."""
        named = (each.kind for each in self.options.older.values())
        return list(dict.fromkeys((*self.context.recorded_kinds, *named)))

    def report(self) -> Report:
        """Return what is known before anything is compared."""
        return replace(
            self.wanted.report(self.context),
            revision=self.options.wanted.revision,
            bundle=self.revision.terms.bundle,
            pins=recall_pins(self.revision.terms.pins),
            looked_up=tuple(
                LookedUp(api_version=api_version, kind=kind, namespace=namespace, name=name, resource_version=version)
                for api_version, kind, namespace, name, version, _ in self.revision.terms.looked_up
            ),
        )


def make_work(context: Context, wanted: Wanted) -> Work | Report:
    """Return what to do; a report instead if there is no revision or a kind is not listed yet.

    Raises: CrowdedError, ApiError.
    """
    # While paused the revision that was applied last is compared, since nothing newer is.
    revision = stored.last_good(context) if context.spec.paused else wanted.revision
    if revision is None:
        return replace(wanted.report(context), is_lost=bool(context.status.installed_revision))
    held = context.status.skipped_kinds if context.spec.paused else ()
    previous = stored.revision_before(context, revision.digest)
    targets = _targets(context, revision, held)
    before = _targets(context, previous, held) if previous else None
    earlier = _earlier_targets(context, targets, before) if before else ()
    losses = find_losses(before, targets) if before else NO_LOSSES
    options = replace(
        _options(context, revision.terms, targets),
        losses=losses,
        older=name_older(context, revision),
        makes_way=wanted.current and context.spec.prune != "Never" and not context.owner.orphan,
        replaces=find_replaced(targets, before),
        gate=partial(hook_phases.before_install, context, revision, targets),
    )
    is_new = _is_new(context, account_of(revision.terms))
    work = Work(
        context=context,
        wanted=wanted,
        revision=revision,
        before=before,
        options=options,
        warnings=(*describe_dropped_replicas(losses.replicas), *find_unmatched(_selectors(context), targets)),
        plan=Plan(),
        is_new_account=is_new,
    )
    kinds = {
        *targets.kinds,
        *(target.kind for target in earlier if target.key not in targets.by_key),
        *work.earlier_kinds,
    }
    if unknown := context.services.watches.objects.require(context.name, kinds):
        return replace(wanted.report(context), unknown=tuple(unknown))
    work = replace(work, plan=make_plan(options, earlier, observe_with_takers(context)))
    if context.spec.paused or not context.services.accounts.policy.allows(revision.terms):
        return replace(work, only_compare=True)
    return _with_hindrance(work, revision.terms) if work.plan.writes or is_new else work


def plan_repair(
    context: Context, terms: Terms, targets: TargetSet, observed: Mapping[ObjectKey, Record]
) -> tuple[Plan, ApplyOptions] | None:
    """Return what to do about some objects of the installed revision; None if that is more than to repair them.

    Args:
        context: of the pass.
        terms: of the installed revision.
        targets: of these objects.
        observed: objects with our label.

    Raises: ApiError.
    """
    options = _options(context, terms, targets)
    plan = make_plan(options, (), observed)
    if plan.upgrades or not context.services.accounts.policy.allows(terms) or _hindrance(context, terms):
        return None
    return plan, options


def preview_work(
    context: Context, revision: Revision, target: Revision | None
) -> tuple[ApplyOptions, Differences, BundleError | None]:
    """Return what a revision that waits would change.

    Args:
        context: of the pass.
        revision: that waits.
        target: the one on the cluster; None before the first.

    Returns: the options to apply it, what it changes, and why its account may not act.
    Raises: ApiError.
    """
    is_missing = context.services.watches.served.is_missing
    after = leave_out_missing(_target_set(context, revision), is_missing)
    before = leave_out_missing(_target_set(context, target), is_missing) if target else None
    differences = find_differences(before, after, prunes=context.spec.prune != "Never")
    return _options(context, revision.terms, after), differences, _hindrance(context, revision.terms)


def _selectors(context: Context) -> dict[str, HealthCheck | IgnoreRule]:
    checks, ignored = context.spec.health_checks, context.spec.drift.ignore
    found: dict[str, HealthCheck | IgnoreRule] = {f"spec.healthChecks[{i}]": each for i, each in enumerate(checks)}
    return {**found, **{f"spec.drift.ignore[{i}]": each for i, each in enumerate(ignored)}}


def _hindrance(context: Context, terms: Terms) -> BundleError | None:
    return context.services.accounts.hindrance(context.deployment, account_of(terms), [terms])


def _with_hindrance(work: Work, terms: Terms) -> Work:
    hindrance = _hindrance(work.context, terms)
    if hindrance is None:
        return work
    # Objects in a replaced namespace belong to another tenant, and are not even compared.
    plan = work.plan if hindrance.reason in OF_ABSENCE else Plan()
    return replace(work, plan=plan, hindrance=hindrance, only_compare=True)


def _targets(context: Context, revision: Revision, held: Collection[str]) -> TargetSet:
    present = leave_out_missing(
        _target_set(context, revision),
        lambda kind: str(kind) in held or context.services.watches.served.is_missing(kind),
    )
    context.memory.ledger.drop(target.key for target in present.skipped)
    for target in present.skipped:
        context.memory.retries.succeeded(target.key)
    return present


def _earlier_targets(context: Context, wanted: TargetSet, others: TargetSet) -> tuple[Target, ...]:
    observed = context.services.watches.objects.of(context.name)
    ledger = context.memory.ledger
    # What is being deleted and was not left so has been pruned.
    left = ledger.left.keys() | ledger.restored() | {key for key, record in observed.items() if not record.deleting}
    may_exist = [t for t in others.targets if not t.bare and t.key in left and _is_another(t, wanted)]
    # What the cluster does not serve any more is gone: there is nothing to repair until it is pruned.
    gone = {kind for kind in {target.kind for target in may_exist} if context.services.watches.served.is_missing(kind)}
    return tuple(target for target in may_exist if target.kind not in gone)


def _is_another(target: Target, wanted: TargetSet) -> bool:
    found = wanted.by_key.get(target.key)
    return found is None or found.digest != target.digest


def _target_set(context: Context, revision: Revision) -> TargetSet:
    known, owner = context.memory.stored.targets, context.owner
    identity = (revision.digest, json.dumps([owner.orphan, revision.terms.drift]))
    if identity not in known or known[identity].undecided:
        known[identity] = make_targets(revision, owner, context.services.watches.served.is_namespaced)
    return known[identity]


def _options(context: Context, terms: Terms, targets: TargetSet) -> ApplyOptions:
    account = account_of(terms)
    return ApplyOptions(
        owner=context.owner,
        user=account.user if account else None,
        collision_protection=context.spec.collision_protection,
        install_namespace=terms.install_namespace,
        spec_version=context.spec_version,
        wanted=targets,
        conceals=reads_secrets(context.spec) or shows_secrets(terms),
        repairs=(terms.drift or {}).get("mode", "Repair") == "Repair",
        installed=context.status.installed_revision == targets.revision,
        reached=_wave_reached(context, targets.revision),
        started=context.status.started_jobs,
        ledger=context.memory.ledger,
        retries=context.memory.retries,
        exists=context.services.watches.deployments.exists,
        hand_over=find_hand_over(context),
        withdrawn=frozenset(
            kind
            for kind in targets.kinds
            if kind[::2] not in targets.resources and context.services.watches.served.is_withdrawn(kind)
        ),
        crd_upgrade_safety=context.spec.crd_upgrade_safety,
        proceed=context.may_proceed,
        confirm=make_confirmation(context, targets.revision),
        judge=context.memory.health.judge,
    )


def _wave_reached(context: Context, revision: str) -> float:
    status, newest = context.status, next(iter(context.status.history), None)
    is_replaced = newest is not None and (newest.revision != revision or newest.installed_at is None)
    if status.installed_revision == revision and not is_replaced:  # another one may have been applied in part
        return math.inf
    return status.wave.number if status.wave and status.wave.revision == revision else -math.inf


def _is_new(context: Context, account: Account | None) -> bool:
    is_known = account is None or context.memory.checked_account == account or context.is_installed
    return bool(context.status.installed_revision) and not is_known
