"""Carries out the work on one revision: announces and applies it, or only compares; then prunes, and finds its health.

What cannot be done in this pass has its reason in the report. When nothing is left to do, the compared state is the
expected one from then on, and unneeded revisions are deleted. Not here: the plan (planning.py), and which objects may
be deleted (apply/ownership.py).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import ConditionType, Reason, Retry
from rukpak.api.v1alpha2.status import HistoryEntry, Leftover, Wave
from rukpak.controller.apply import leftovers
from rukpak.controller.apply.execute import Survey
from rukpak.controller.apply.hooks import HookRemains
from rukpak.controller.apply.ledger import Ledger
from rukpak.controller.apply.order import last_wave
from rukpak.controller.apply.ownership import RemovalCause, find_strays, find_surplus
from rukpak.controller.apply.plan import Action, ApplyOptions, Outcome, Plan, WaveError, find_started, is_finished
from rukpak.controller.apply.removal import Removal
from rukpak.controller.apply.targets import (
    UNMATCHED,
    Target,
    TargetSet,
    find_differences,
    find_missing_labels,
    pack_targets,
)
from rukpak.controller.building.config_values import reads_secrets
from rukpak.controller.building.revision import Revision
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.events import Note
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.following import Contested, follow_contested
from rukpak.controller.observe.progress import Explain, Progress
from rukpak.controller.observe.records import Look, Reader, Record, key_of
from rukpak.controller.reconcile import hook_phases, inventory
from rukpak.controller.reconcile.context import Context
from rukpak.controller.reconcile.memory import InstalledTargets
from rukpak.controller.reconcile.planning import Work
from rukpak.controller.revisions.accounts import account_of
from rukpak.controller.status.notes import (
    describe_unseen,
    note_on_beginning,
    note_on_hooks,
    notes_on_making_way,
    notes_on_pruning,
    notes_on_recreations,
    notes_on_removals,
    notes_on_repairs,
    notes_on_taking_over,
)
from rukpak.controller.status.report import Report
from rukpak.controller.telemetry import Phase

log = logging.getLogger(__name__)


def announce(work: Work) -> Work:
    """Write to status what must survive a kill while applying: the revision and the kinds of its objects.

    Returns: the work with the new status.
    Raises: ApiError.
    """
    if work.only_compare:
        return work
    context, options = work.context, work.options
    context.memory.stored.unapplied.discard(options.wanted.revision)  # even if it only removes objects
    if not work.plan.writes:
        return work
    status = context.status
    is_begun = work.plan.upgrades or status.revision != options.wanted.revision
    report = replace(
        work.report(),
        # Not the one that must wait: without managedState, it would count as begun.
        wanted=options.wanted.revision,
        install_namespace=options.install_namespace,
        managed_state="" if is_begun else status.managed_state,
        managed_kinds=tuple(sorted({*status.managed_kinds, *map(str, options.wanted.kinds)})),
    )
    essential = (report.wanted, report.managed_state, report.managed_kinds)
    if essential == (status.revision, status.managed_state, status.managed_kinds):
        return work
    context = context.report(report)
    if status.installed_revision and context.status.history[:1] != status.history[:1]:
        context.record([_note_on_beginning(work, context.status.history)])
    return replace(work, context=context)


def apply(work: Work) -> Report:
    """Do what can be done now, and report it.

    Raises: CrowdedError, ApiError.
    """
    if work.only_compare:
        return _compare(work)
    if work.is_new_account:
        work = replace(work, lack=work.context.services.applier.review(work.options))
    work.context.memory.checked_account = None if work.lack else account_of(work.revision.terms)
    _trust_status(work.context, work.options.wanted.revision)  # waves are judged while the plan is executed
    outcomes = execute(work.context, work.plan, work.options)
    report = finish(work, outcomes)
    watch_contested(work.context, outcomes)
    if report.applied and work.wanted.current and work.wanted.revision:
        keep_installed(work.context, work.wanted.revision, work.options.wanted)
    return report


def find_installed(context: Context) -> InstalledTargets | None:
    """Return the targets of the installed revision, if they are known and of this spec."""
    found = context.services.installed.find(context.name)
    if found is None or found.ledger is not context.memory.ledger or found.spec_version != context.spec_version:
        return None
    return found if found.targets.rest.revision == context.status.installed_revision else None


def keep_installed(context: Context, revision: Revision, wanted: TargetSet) -> None:
    """Keep the targets of a revision that is installed now, for repairs."""
    ledger = context.memory.ledger
    packed = None if wanted.skipped or context.memory.stored.older else pack_targets(wanted, ledger.used)
    targets = None
    if packed is not None:
        targets = InstalledTargets(
            terms=revision.terms,
            targets=packed,
            warnings=warnings_on_revision(revision.warnings, wanted),
            spec_version=context.spec_version,
            ledger=ledger,
        )
    context.services.installed.keep(context.name, targets)


def _compare(work: Work) -> Report:
    # Rule 8: nothing is changed.
    report, context, options = work.report(), work.context, work.options
    survey = context.services.applier.survey(work.plan, options)
    context.memory.ledger.learn(survey.same)
    context.services.observer.drift_found(context.memory.drift.see([each.key for each in survey.drifted]), 0)
    observed = context.services.watches.objects.of(context.name)
    strays = find_strays(observed, options.wanted.by_key, options.older, owner=options.owner)
    return replace(
        report,
        failure=work.hindrance or report.failure,
        drifted=survey.drifted,
        handed_over=survey.handed_over,
        strays=inventory.report_strays(context, strays),
        skipped_kinds=options.wanted.skipped_kinds,
        progress=assess_work(
            work, left_out=survey.handed_over, refusals={**_find_unapplied(work, survey), **survey.refused}
        ),
    )


def _find_unapplied(work: Work, survey: Survey) -> dict[ObjectKey, BundleError]:
    options = work.options
    if options.installed:
        return {}
    known = {record.key for record in survey.same}
    unapplied = [task.target for task in work.plan.tasks if options.is_news(task) and task.target.key not in known]
    return {target.key: _describe_unapplied(target, options.reached) for target in unapplied}


def _describe_unapplied(target: Target, reached: float) -> BundleError:
    if math.isfinite(reached) and target.wave > reached:
        return WaveError(int(reached), ())
    return BundleError(Reason.APPLYING, "not applied yet", place=str(target.key))


def _note_on_beginning(work: Work, history: Sequence[HistoryEntry]) -> Note:
    differences = find_differences(work.before, work.options.wanted, prunes=work.context.spec.prune != "Never")
    before = next((each for each in history if each.revision == work.context.status.installed_revision), None)
    return note_on_beginning(history[0], before, differences.counts)


def execute(context: Context, plan: Plan, options: ApplyOptions) -> list[Outcome]:
    """Execute a plan.

    Raises: ApiError.
    """
    memory, observer, started = context.memory, context.services.observer, time.monotonic()
    outcomes = context.services.applier.execute(plan, options)
    if any(outcome.tried for outcome in outcomes):
        succeeded = not any(outcome.error for outcome in outcomes)
        observer.phase_ended(Phase.APPLY, time.monotonic() - started, succeeded=succeeded)
    observer.drift_found(*memory.drift.repair(outcomes, options))
    _remember(memory.ledger, outcomes)
    return outcomes


def watch_contested(context: Context, outcomes: Iterable[Outcome] = ()) -> None:
    """Watch the objects that hooks and these outcomes wait for, and no others.

    Raises: ApiError if discovery fails.
    """
    hooks = context.memory.hooks.contested
    contested = (*((hooks,) if hooks else ()), *_contested_in(outcomes))
    services = context.services
    follow_contested(services.follower, services.discovery, context.name, contested, share=context.share)


def _contested_in(outcomes: Iterable[Outcome]) -> Iterator[Contested]:
    for outcome in outcomes:
        target, record = outcome.task.target, outcome.task.record
        collides = outcome.error is not None and outcome.error.reason is Reason.COLLISION
        is_held = outcome.task.action is Action.AWAIT or collides
        if is_held and not (record and record.owner):
            yield Contested(kind=target.kind, key=target.key, record=record)


def _remember(ledger: Ledger, outcomes: Iterable[Outcome]) -> None:
    done = [outcome for outcome in outcomes if not outcome.error and not outcome.postponed]
    ledger.learn(outcome.record for outcome in done if outcome.record)
    ledger.drop(o.task.target.key for o in done if o.task.action is Action.NONE and not o.task.record)
    # What was used without a look was in the ledger, and is still, unless a failure has shown that it has gone.
    seen = [o.task for o in done if o.task.record or o.task.action is not Action.USE]
    used = {task.target.key: task.record for task in seen if task.action is Action.USE or task.target.bare}
    ledger.used |= {key: record or ledger.used.get(key) for key, record in used.items()}


def finish(work: Work, outcomes: list[Outcome]) -> Report:
    """Run the hooks after applying, prune if it is time, and report what is left to do.

    Raises: CrowdedError, ApiError.
    """
    context, options = work.context, work.options
    is_applied, hook_failure = _finish_hooks(work, outcomes)
    progress = assess_work(work, outcomes)
    is_time = context.spec.prune == "AfterApply" or (context.spec.prune == "AfterHealthy" and progress.health.settled)
    removals, waiting = prune(work, is_time=is_applied and work.wanted.current and is_time)
    applied = [*notes_on_repairs(outcomes), *notes_on_recreations(outcomes), *notes_on_taking_over(outcomes)]
    pruned = [
        *notes_on_making_way(outcomes),
        *notes_on_pruning(removals, options.wanted.revision),
        *notes_on_removals(removals),
    ]
    context.record([*applied, *pruned])
    remains = _tidy_hooks(work, is_applied=is_applied)
    look = work.context.services.watches.objects.look(context.name, context.memory.ledger.reader.seen)
    observed = look.records
    strays = find_strays(observed, options.wanted.by_key, options.older, owner=options.owner)
    has_remains = bool(remains.failures or remains.unknown)
    is_done = is_applied and not (has_remains or work.wanted.fetching)
    is_over = is_done and _is_over(work, outcomes, waiting, look)
    is_left = has_remains or (bool(waiting) and context.spec.prune != "Never")
    kinds = _kinds_to_watch(work, waiting, observed)
    report = replace(
        work.report(),
        failure=work.wanted.failure or work.lack or hook_failure,
        applied=is_applied,
        wave=_find_wave(work, outcomes),
        outcomes=tuple(outcomes),
        drifted=tuple(outcome.drift for outcome in outcomes if outcome.drift),
        handed_over={o.task.target.key: o.task.handed_to for o in outcomes if o.error and o.task.handed_to},
        removals=(*removals, *remains.failures),
        awaiting_prune=tuple(waiting),
        conflicts=tuple(context.memory.ledger.conflicts()),
        strays=inventory.report_strays(context, strays),
        progress=progress,
        install_namespace=options.install_namespace,
        # No event reports that something is left to delete: managedState stays empty until it is gone.
        managed_state=_settle(work, kinds, observed) if is_over else "" if is_left else None,
        skipped_kinds=options.wanted.skipped_kinds,
        leftovers=review_leftovers(context, outcomes),
        warnings=_warnings(work, outcomes),
        started_jobs=find_started(options, outcomes, observed),
    )
    if not is_over:
        return report
    context.memory.rest(_still_needed(work))
    wanted = work.wanted.pending or report.wanted
    return replace(report, wanted=wanted, managed_kinds=tuple(sorted(map(str, kinds))))


def _find_wave(work: Work, outcomes: Iterable[Outcome]) -> Wave | None:
    revision, reached = work.options.wanted.revision, work.options.reached
    waves = {target.wave for target in work.options.wanted.targets}
    if len(waves) <= 1 or reached == math.inf:
        return None
    waiting = (outcome.error.wave for outcome in outcomes if isinstance(outcome.error, WaveError))
    number = next(waiting, max(waves))
    if number == reached:
        return work.context.status.wave
    return Wave(revision=revision, number=number, since=work.context.now())


def _finish_hooks(work: Work, outcomes: list[Outcome]) -> tuple[bool, BundleError | None]:
    # Whether all objects are applied and the hooks of the revision have run, and why hooks have not.
    if work.lack or any(outcome.error for outcome in outcomes):
        return False, None
    return hook_phases.after_apply(work.context, work.wanted, work.options.wanted)


def _tidy_hooks(work: Work, *, is_applied: bool) -> HookRemains:
    context, wanted = work.context, work.options.wanted.revision
    unfinished = "" if is_applied else wanted
    # While the hooks of a pending revision are under way, the others wait.
    revisions = [] if work.wanted.pending else inventory.revisions_with_hooks(context)
    remains = hook_phases.tidy(context, revisions, work.options.user, unfinished) if revisions else HookRemains()
    own = {key_of(hook["manifest"]) for each in revisions if each.digest == wanted for hook in each.hooks}
    left = set(remains.running) - own - context.memory.hooks.reported
    if left and is_applied:
        context.memory.hooks.reported |= left
        context.record([note_on_hooks(sorted(left))])
    return remains


def _is_over(work: Work, outcomes: list[Outcome], waiting: list[Record], look: Look) -> bool:
    return (
        (not waiting or work.context.spec.prune == "Never")
        and not any(outcome.spared for outcome in outcomes)
        and work.options.wanted.by_key.keys().isdisjoint(work.options.ledger.drifted(look))
        # Remaining objects of a kind that is no longer wanted would be forgotten.
        and not work.context.services.watches.objects.find_unknown(work.context.name, work.earlier_kinds)
    )


def _warnings(work: Work, outcomes: Iterable[Outcome]) -> tuple[str, ...] | None:
    revision, options = work.wanted.revision, work.options
    about = warnings_on_revision([*(revision.warnings if revision else ()), *work.warnings], options.wanted)
    ours = [*about, *warnings_on_cluster(work.context, options.wanted, options.wanted.kinds)]
    # A revision without objects has nothing to send, and its warning says so; nor have Namespaces that are used.
    is_empty = revision is not None and not revision.objects
    lacking = find_missing_labels(options.wanted, work.context.memory.ledger.used, conceals=options.conceals)
    told = set(work.context.status.warnings)
    unmatched = {each for each in work.warnings if UNMATCHED in each}
    is_new = not set(lacking) <= told or unmatched != {each for each in told if UNMATCHED in each}
    return collect_warnings(outcomes, ours, is_due=is_empty or is_new)


def _settle(work: Work, kinds: Collection[GroupVersionKind], observed: Mapping[ObjectKey, Record]) -> str:
    """Expect everything as it was compared, and delete the revisions that are not needed.

    Not as it is now: an edit made since would count as expected, and never be repaired.
    """
    context, options, wanted = work.context, work.options, work.wanted
    records = context.own_records({key: record for key, record in observed.items() if key in options.wanted.by_key})
    context.memory.ledger.expect_all(records)
    if not wanted.pending:
        # If another revision is wanted, status names it: it is kept until it can be applied.
        proposed = [wanted.held.revision] if wanted.held else []
        kept = [options.wanted.revision, *([] if wanted.current else [context.status.revision]), *proposed]
        inventory.keep_only(context, kept, options.older)
        work.context.services.watches.objects.require_only(context.name, kinds)
    return context.memory.ledger.managed_state


def _still_needed(work: Work) -> tuple[str, ...]:
    wanted, applied = work.wanted, work.options.wanted.revision
    if wanted.held:
        return (applied, wanted.held.revision)
    if wanted.recalled:
        return (applied,)
    return () if wanted.current and not wanted.failure else (applied, wanted.pending)


def _kinds_to_watch(
    work: Work, waiting: Iterable[Record], observed: Mapping[ObjectKey, Record]
) -> set[GroupVersionKind]:
    skipped = [observed[target.key] for target in work.options.wanted.skipped if target.key in observed]
    left = {record.key[:2] for record in (*waiting, *skipped)}
    return {*work.options.wanted.kinds, *(kind for kind in work.earlier_kinds if (kind.group, kind.kind) in left)}


def prune(work: Work, *, is_time: bool) -> tuple[list[Removal], list[Record]]:
    """Prune if it is time.

    Returns: the removals, and the objects of older revisions that are kept for now, or are being deleted.
    Raises: ApiError.
    """
    # Observed after applying: an object of the previous revision may just have been repaired.
    context, options = work.context, work.options
    unreadable = inventory.read_unwatched(context, options.older, options.user)
    observed = work.context.services.watches.objects.of(options.owner.name)
    named = (options.wanted.by_key, options.older, observed, options.owner)
    surplus, terminating = find_surplus(*named), find_surplus(*named, deleting=True)
    last = last_wave([*surplus, *terminating])
    due = [record for record in surplus if record.key in last]
    removals = _remove(context, due, unreadable, options) if is_time else []
    terminating += [removal.remaining for removal in removals if removal.remaining]
    done = [removal for removal in removals if not removal.error]
    context.memory.ledger.drop(removal.record.key for removal in done)
    inventory.forget_unwatched(context, (removal.record.key for removal in done if not removal.remaining))
    waiting = [*surplus, *(Record(key=key) for key in unreadable)]
    if is_time:
        waiting = [removal.record for removal in removals if removal.error]
        waiting += [record for record in surplus if record.key not in last]
    waiting += terminating
    context.memory.stored.older = frozenset(record.key for record in waiting)
    return removals, waiting


def _remove(
    context: Context, surplus: list[Record], unreadable: Mapping[ObjectKey, BundleError], options: ApplyOptions
) -> list[Removal]:
    if not (surplus or unreadable):
        context.memory.retries.succeeded(RemovalCause.PRUNE)
        return []
    if surplus:
        options.confirm()
    started = time.monotonic()
    removals = context.services.remover.remove(surplus, options.owner.name, RemovalCause.PRUNE, options.user)
    removals += [Removal(record=Record(key=key), error=error) for key, error in unreadable.items()]
    failures = [removal.error for removal in removals if removal.error]
    context.services.observer.phase_ended(Phase.PRUNE, time.monotonic() - started, succeeded=not failures)
    if failures:  # a transient failure is retried soon, not only with the slow ones
        passing = next((error for error in failures if error.reason.retry is Retry.TRANSIENT), failures[0])
        if context.note_failure(RemovalCause.PRUNE, options.wanted.revision, passing):
            log.warning("objects not pruned", extra=context.about(passing))
    else:
        context.memory.retries.succeeded(RemovalCause.PRUNE)
    return removals


def assess_installed(context: Context) -> Progress:
    """Return the health of the objects of the installed revision; judges only what has changed."""
    tracker, ledger = context.memory.health, context.memory.ledger
    look = context.services.watches.objects.look(context.name, tracker.reader.seen)
    changed = tracker.reader.read(look, ledger.changes)
    _trust_status(context, context.status.revision)
    return tracker.summarize(
        ledger.left,
        look.records,
        _version(context, context.status.revision),
        context.spec.progress_deadline_seconds,
        changed=changed,
        recreates=context.spec.drift.mode == "Repair",
        explain=_explain(context),
    )


def assess_work(
    work: Work,
    outcomes: Collection[Outcome] = (),
    left_out: Collection[ObjectKey] = (),
    refusals: Mapping[ObjectKey, BundleError] | None = None,
) -> Progress:
    """Return the health of all objects of the revision that the pass works on, but those that are left out.

    Args:
        work: of the pass.
        outcomes: of what was applied.
        left_out: objects that do not count.
        refusals: why objects would not be applied.
    """
    context, options = work.context, work.options
    observed = work.context.services.watches.objects.of(context.name)
    wanted = {
        t.key: t
        for t in options.wanted.targets
        if not t.bare
        and t.key not in left_out
        and t.key not in context.memory.ledger.used
        and not is_finished(t, observed.get(t.key), started=options.is_started(t))
    }
    held = next((each.error for each in outcomes if isinstance(each.error, WaveError)), None)
    tracker = context.memory.health
    tracker.reader = Reader()
    _trust_status(context, options.wanted.revision)
    return tracker.summarize(
        wanted,
        observed,
        # What a wave waits for is told at once when that is another wave.
        _version(context, f"{options.wanted.revision} {held.wave}" if held else options.wanted.revision),
        context.spec.progress_deadline_seconds,
        refusals={**(refusals or {}), **{each.task.target.key: each.error for each in outcomes if each.error}},
        recreates=options.repairs and not work.only_compare,
        awaited=held.awaited if held else (),
        explain=_explain(context),
    )


def _explain(context: Context) -> Explain:
    return partial(context.services.explainer.explain, context.name)


def _trust_status(context: Context, revision: str) -> None:
    # Only what status says about rollouts is believed.
    healthy, newest = context.status.condition(ConditionType.HEALTHY), next(iter(context.status.history), None)
    tracker = context.memory.health
    tracker.was_healthy = newest is not None and (newest.revision, newest.outcome) == (revision, "Healthy")
    tracker.confirmed = tracker.was_healthy and healthy is not None and healthy.status == "True"


def _version(context: Context, revision: str) -> str:
    return f"{revision} {context.metadata.generation}"


def collect_warnings(
    outcomes: Iterable[Outcome], ours: Iterable[str], *, is_due: bool = False
) -> tuple[str, ...] | None:
    """Return each warning once; None if nothing was sent, to keep those of the last apply.

    Args:
        outcomes: of the pass.
        ours: see `warnings_on_revision` and `warnings_on_cluster`.
        is_due: whether there are warnings although nothing was sent.
    """
    sent = [outcome for outcome in outcomes if outcome.tried]
    if not (sent or is_due):
        return None
    return tuple(dict.fromkeys([*ours, *(text for outcome in sent for text in outcome.warnings)]))


def review_leftovers(context: Context, outcomes: Collection[Outcome]) -> tuple[Leftover, ...]:
    """Return what is left on objects: what status has, as far as it still holds, and what was just found.

    Objects are read if they have changed since, or this process has not read them; watches tell of the next changes.

    Args:
        context: of the pass.
        outcomes: of the pass. What they tell replaces what was known of an object; one that was made again has none.
    """
    objects, known = context.services.watches.objects, context.status.leftovers
    found = {outcome.task.target.key: outcome.left for outcome in outcomes if outcome.left}
    made = {o.task.target.key for o in outcomes if o.tried and not o.error and o.task.action is Action.CREATE}
    observed = objects.of(context.name) if known or found else {}
    still: dict[ObjectKey, list[Leftover]] = {}
    for each in known:
        key = leftovers.key_of_left(each)
        if key in found or key in made:
            continue
        left = _still_left(context, observed[key], each) if key in observed else each
        if left.fields and (key in observed or objects.is_forbidden(key.group, key.kind)):
            still.setdefault(key, []).append(left)
    seen = {key: observed[key].resource_version for key in (*still, *found) if key in observed}
    context.memory.ledger.looked_at = seen
    objects.heed(context.name, frozenset(seen))
    return (*chain.from_iterable(still.values()), *chain.from_iterable(found.values()))


def _still_left(context: Context, record: Record, left: Leftover) -> Leftover:
    if context.memory.ledger.looked_at.get(record.key) == record.resource_version:
        return left
    kind = next((each for each in context.recorded_kinds if (each.group, each.kind) == record.key[:2]), None)
    resource = context.services.discovery.resource(kind) if kind else None
    user = context.account.user if context.account else None
    live = context.services.applier.reader.read_whole((record.key, resource), user) if resource else None
    return leftovers.still_left(left, live) if live else left


def warnings_on_revision(found: Iterable[str], wanted: TargetSet) -> tuple[str, ...]:
    """Return the warnings about a revision: those found before, and those about its targets."""
    return (*found, *(text for target in wanted.targets for text in target.ignored.warnings))


def warnings_on_cluster(context: Context, wanted: TargetSet, kinds: Iterable[GroupVersionKind]) -> list[str]:
    """Return the warnings about labels that Namespaces lack, and kinds that are not watched.

    Args:
        context: of the pass.
        wanted: with the targets of all Namespaces that are used.
        kinds: of the objects of the revision.
    """
    objects = context.services.watches.objects
    unseen = (kind for kind in kinds if objects.is_forbidden(kind.group, kind.kind))
    looked_up = any(each.kind == "Secret" for each in context.status.looked_up)
    conceals = reads_secrets(context.spec) or looked_up
    lacking = find_missing_labels(wanted, context.memory.ledger.used, conceals=conceals)
    return [*lacking, *describe_unseen(unseen)]
