"""A BundleDeployment whose revision is installed: nothing to do, or only objects to repair. It costs what has changed.

If no object has changed, this costs no request. Only the usual repair is handled here: everything that is needed is in
memory, and every repair succeeds. For anything else a whole pass follows, which plans again and reports what it finds.

The targets of installed revisions are kept compressed, so that a repair reads neither the revision store nor every
target: in memory only, and so many as fit. Those that were used longest ago are dropped, and a pass that finds none
reads the revision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.ownership import is_unfinished
from rukpak.controller.apply.plan import Outcome
from rukpak.controller.kube.resources import read_kinds
from rukpak.controller.observe.records import Look, ObjectKey, Record
from rukpak.controller.reconcile import stored
from rukpak.controller.reconcile.context import Context
from rukpak.controller.reconcile.finding import Wanted
from rukpak.controller.reconcile.gates import find_dependency_cycle
from rukpak.controller.reconcile.installation import (
    assess_installed,
    collect_warnings,
    execute,
    find_installed,
    review_leftovers,
    warnings_on_cluster,
    with_leftovers,
)
from rukpak.controller.reconcile.inventory import had_any, look_for_strays, notes_on_strays
from rukpak.controller.reconcile.planning import plan_repair
from rukpak.controller.status.notes import notes_on_repairs
from rukpak.controller.status.report import Report, short


def report(context: Context) -> Report | None:
    """Return a report if everything is installed, and unchanged or repaired; None if there is more to do.

    Raises: ApiError.
    """
    if not (context.is_current and context.is_config_known) or find_dependency_cycle(context):
        return None
    look = _look(context)
    outcomes = _repair(context, look)
    if outcomes is None:
        return None
    look = _look(context) if outcomes else look
    status, memory, observed = context.status, context.memory, look.records
    memory.strays.keys = frozenset()
    if outcomes or len(observed) > len(memory.ledger.left):
        strays = look_for_strays(context, observed, memory.ledger.left, memory.stored.older)
        if strays and had_any(context, strays):
            return None  # a pass over everything prunes them
        context.record(notes_on_strays(context))
    return Report(
        wanted=status.revision,
        revision=status.installed_revision,
        applied=True,
        outcomes=tuple(outcomes),
        drifted=tuple(outcome.drift for outcome in outcomes if outcome.drift),
        awaiting_prune=tuple(_kept(context, observed, memory.stored.older)),
        conflicts=tuple(memory.ledger.conflicts()),
        strays=tuple(sorted(memory.strays.keys)),
        progress=assess_installed(context),
        install_namespace=status.install_namespace,
        managed_state=_managed_state(context, outcomes, look),
        managed_kinds=status.managed_kinds,
        warnings=warnings_after_repairs(context, outcomes),
    )


def is_kept(context: Context) -> bool:
    """Whether the installed revision is stored, as far as the watch of its Secrets shows."""
    return not stored.is_lost(context)


def describe_unkept(report: Report, wanted: Wanted) -> Report:
    """Return the report of objects that are as they should be while their revision cannot be stored again."""
    consequence = "was deleted or changed by another client; until it is stored again, no object can be repaired"
    cause = wanted.failure or BundleError(Reason.FETCHING, wanted.fetching)
    message = f"the stored revision {short(report.revision)} {consequence}: {cause.message}"
    return replace(report, unkept=BundleError(cause.reason, message, retry_after=cause.retry_after))


def _look(context: Context) -> Look:
    return context.services.watches.objects.look(context.name, context.memory.ledger.reader.seen)


def _repair(context: Context, look: Look) -> Sequence[Outcome] | None:
    ledger = context.memory.ledger
    if not (ledger.complete or _is_as_recorded(context, look.records)):
        return None
    if ledger.left and not context.status.managed_kinds:  # another client has removed them
        return None
    if any(map(context.services.discovery.has_appeared, read_kinds(context.status.skipped_kinds))):
        return None
    if any(map(context.services.watches.served.is_withdrawn, context.recorded_kinds)):
        return None
    drifted = ledger.drifted(look)
    return repair(context, drifted, look.records) if drifted else ()


def _is_as_recorded(context: Context, observed: Mapping[ObjectKey, Record]) -> bool:
    own = context.own_records(observed)
    is_interrupted = any(is_unfinished(record, leaves=True) for record in own)
    # A kind that is not served has no objects: status named it if it was edited, and a pass drops it again.
    if is_interrupted or not _names_kinds(context, own) or context.services.watches.objects.has_unwatched(context.name):
        return False
    return context.memory.ledger.resume(own, context.status.managed_state)


def _managed_state(context: Context, outcomes: Sequence[Outcome], look: Look) -> str:
    ledger = context.memory.ledger
    return ledger.managed_state if outcomes and not ledger.drifted(look) else context.status.managed_state


def _names_kinds(context: Context, own: Collection[Record]) -> bool:
    known = {(kind.group, kind.kind) for kind in context.recorded_kinds}
    return all((record.key.group, record.key.kind) in known for record in own)


def _kept(context: Context, observed: Mapping[ObjectKey, Record], older: Collection[ObjectKey]) -> list[Record]:
    if context.spec.prune != "Never":
        return []
    return [r for r in context.own_records({key: observed[key] for key in older if key in observed}) if not r.deleting]


def repair(
    context: Context, drifted: Collection[ObjectKey], observed: Mapping[ObjectKey, Record]
) -> list[Outcome] | None:
    """Repair objects of the installed revision.

    Args:
        context: of the pass.
        drifted: all of them that are not as they were left.
        observed: objects with our label.

    Returns: the outcomes; None if a whole pass is necessary.
    Raises: ApiError.
    """
    installed = find_installed(context)
    targets = installed.targets.unpack(drifted) if installed else None
    if installed is None or targets is None or not targets.by_key.keys() >= set(drifted):
        return None
    planned = plan_repair(context, installed.terms, targets, observed)
    if planned is None:
        return None
    outcomes = execute(context, *planned)
    context.record(notes_on_repairs(outcomes))
    return None if any(outcome.error for outcome in outcomes) else outcomes


def warnings_after_repairs(context: Context, outcomes: Iterable[Outcome]) -> tuple[str, ...] | None:
    """Return the warnings after repairs; None if nothing was sent, and none is over."""
    installed, outcomes = find_installed(context), list(outcomes)
    left = review_leftovers(context, outcomes)
    if installed is None or not outcomes:
        return with_leftovers(context.status.warnings, left)
    kinds = context.recorded_kinds
    on_cluster = warnings_on_cluster(context, installed.targets.rest, kinds, context.services.watches)
    return collect_warnings(outcomes, [*installed.warnings, *on_cluster, *left])
