"""After a revision was applied: its health, what is pruned, and whether anything is left to do.

When nothing is left, the compared state is the expected one from then on, and unneeded revisions are deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from api.errors import BundleError
from controller.apply.hooks.runner import HookRemains
from controller.apply.options import ApplyOptions
from controller.apply.outcome import Outcome, find_started
from controller.apply.targets import find_missing_labels
from controller.kube.resources import GroupVersionKind
from controller.observe.journal import Look
from controller.observe.progress import Progress
from controller.observe.records import ObjectKey, Record, key_of
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.hooks import Hooks
from controller.reconcile.installation.health import Assessor
from controller.reconcile.installation.pruning import Pruner
from controller.reconcile.installation.warnings import collect_warnings, warnings_on_cluster, warnings_on_revision
from controller.reconcile.installation.work import Work
from controller.reconcile.ownership.holdings import Holdings
from controller.reconcile.ownership.strays import look_for_strays, notes_on_strays
from controller.status.notes import (
    note_on_hooks,
    notes_on_pruning,
    notes_on_recreations,
    notes_on_removals,
    notes_on_repairs,
    notes_on_taking_over,
)
from controller.status.report import Report
from controller.status.writer import StatusWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """The result of applying."""

    applied: bool
    """All objects are applied, and the hooks of the revision have run."""
    hook_failure: BundleError | None
    progress: Progress


class Finisher:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(
        self,
        *,
        watches: Watches,
        hooks: Hooks,
        holdings: Holdings,
        pruner: Pruner,
        assessor: Assessor,
        writer: StatusWriter,
    ) -> None:
        self._watches, self._hooks, self._holdings = watches, hooks, holdings
        self._pruner, self._assessor, self._writer = pruner, assessor, writer

    def finish(self, work: Work, outcomes: list[Outcome]) -> Report:
        """Run the hooks after applying, prune if it is time, and report what is left to do.

        Raises: CrowdedError, ApiError.
        """
        context, options = work.context, work.options
        result = self._evaluate(work, outcomes)
        removals, waiting = self._pruner.prune(work, is_time=_may_prune(work, result))
        applied = [*notes_on_repairs(outcomes), *notes_on_recreations(outcomes), *notes_on_taking_over(outcomes)]
        pruned = [*notes_on_pruning(removals, options.wanted.revision), *notes_on_removals(removals)]
        self._writer.record_events(context.deployment, [*applied, *pruned])
        remains = self._tidy_hooks(work, result)
        look = self._watches.look(context.name, context.state.ledger.reader.seen)
        observed = look.records
        strays = look_for_strays(context, observed, options.wanted.by_key, options.older)
        self._writer.record_events(context.deployment, notes_on_strays(context))
        has_remains = bool(remains.failures or remains.unknown)
        is_done = result.applied and not (has_remains or work.wanted.fetching)
        is_over = is_done and self._is_over(work, outcomes, waiting, look)
        kinds = _kinds_to_watch(work, waiting, observed)
        report = replace(
            work.report(),
            failure=work.wanted.failure or work.lack or result.hook_failure,
            applied=result.applied,
            outcomes=tuple(outcomes),
            drifted=tuple(outcome.drift for outcome in outcomes if outcome.drift),
            handed_over={o.task.target.key: o.task.handed_to for o in outcomes if o.error and o.task.handed_to},
            removals=(*removals, *remains.failures),
            awaiting_prune=tuple(waiting),
            conflicts=tuple(context.state.ledger.conflicts()),
            strays=tuple(sorted(strays)),
            progress=result.progress,
            install_namespace=options.install_namespace,
            managed_state=self._settle(work, kinds, observed)
            if is_over
            else _unsettled(context, waiting, has_remains=has_remains),
            skipped_kinds=options.wanted.skipped_kinds,
            warnings=self._warnings(work, outcomes),
            started_jobs=find_started(options, outcomes, observed),
        )
        if not is_over:
            return report
        context.state.rest(_still_needed(work))
        wanted = work.wanted.pending or report.wanted
        return replace(report, wanted=wanted, managed_kinds=tuple(sorted(map(str, kinds))))

    def find_strays(self, work: Work) -> tuple[ObjectKey, ...]:
        """Return the strays, and report new ones, while nothing may be applied."""
        context, options = work.context, work.options
        observed = self._watches.managed(context.name)
        strays = look_for_strays(context, observed, options.wanted.by_key, options.older)
        self._writer.record_events(context.deployment, notes_on_strays(context))
        return tuple(sorted(strays))

    def _evaluate(self, work: Work, outcomes: list[Outcome]) -> _Result:
        applied = not (work.lack or any(outcome.error for outcome in outcomes))
        hook_failure = self._hooks.after_apply(work.context, work.wanted, work.options.wanted) if applied else None
        applied = applied and hook_failure is None and not self._hooks.are_left(work.context, work.wanted)
        progress = self._assessor.assess_work(work, outcomes)
        return _Result(applied=applied, hook_failure=hook_failure, progress=progress)

    def _tidy_hooks(self, work: Work, result: _Result) -> HookRemains:
        """Delete what is left of hooks that are done, and report those of other revisions that may still run."""
        context, wanted = work.context, work.options.wanted.revision
        unfinished = "" if result.applied else wanted
        # While the hooks of a pending revision are under way, the others wait.
        revisions = [] if work.wanted.pending else self._holdings.with_hooks(context)
        remains = self._hooks.tidy(context, revisions, work.options.user, unfinished) if revisions else HookRemains()
        own = {key_of(hook["manifest"]) for each in revisions if each.digest == wanted for hook in each.hooks}
        left = set(remains.running) - own - context.state.hooks.reported
        if left and result.applied:
            context.state.hooks.reported |= left
            self._writer.record_events(context.deployment, [note_on_hooks(sorted(left))])
        return remains

    def _is_over(self, work: Work, outcomes: list[Outcome], waiting: list[Record], look: Look) -> bool:
        """Whether nothing is left to do after everything was applied."""
        return (
            (not waiting or work.context.spec.prune == "Never")
            and not any(outcome.spared for outcome in outcomes)
            and _is_as_left(work.options, look)
            # Remaining objects of a kind that is no longer wanted would be forgotten.
            and not self._watches.find_unknown(work.context.name, work.earlier_kinds)
        )

    def _warnings(self, work: Work, outcomes: Iterable[Outcome]) -> tuple[str, ...] | None:
        revision, options = work.wanted.revision, work.options
        about = warnings_on_revision([*(revision.warnings if revision else ()), *options.warnings], options.wanted)
        ours = [*about, *warnings_on_cluster(work.context, options.wanted, options.wanted.kinds, self._watches)]
        # A revision without objects has nothing to send, and its warning says so; nor have Namespaces that are used.
        is_empty = revision is not None and not revision.objects
        lacking = find_missing_labels(options.wanted, work.context.state.ledger.used)
        is_new = not set(lacking) <= set(work.context.status.warnings)
        return collect_warnings(outcomes, ours, is_due=is_empty or is_new)

    def _settle(self, work: Work, kinds: Collection[GroupVersionKind], observed: Mapping[ObjectKey, Record]) -> str:
        """Expect everything as it was compared, and delete the revisions that are not needed.

        Not as it is now: an edit made since would count as expected, and never be repaired.
        """
        context, options, wanted = work.context, work.options, work.wanted
        records = context.own_records({key: record for key, record in observed.items() if key in options.wanted.by_key})
        context.state.ledger.expect_all(records)
        if not wanted.pending:
            # If another revision is wanted, status names it: it is kept until it can be applied.
            proposed = [wanted.held.revision] if wanted.held else []
            kept = [options.wanted.revision, *([] if wanted.current else [context.status.revision]), *proposed]
            self._holdings.keep_only(context, kept, options.older)
            self._watches.require_only(context.name, kinds)
        return context.state.ledger.managed_state


def _still_needed(work: Work) -> tuple[str, ...]:
    """Return the revisions that every pass needs until the one that the spec asks for is installed."""
    wanted, applied = work.wanted, work.options.wanted.revision
    if wanted.held:
        return (applied, wanted.held.revision)
    if wanted.recalled:
        return (applied,)
    return () if wanted.current and not wanted.failure else (applied, wanted.pending)


def _unsettled(context: Context, waiting: Collection[Record], *, has_remains: bool) -> str:
    """Return the managedState while something is left to do: empty if that is to delete, which no event reports."""
    return "" if has_remains or (waiting and context.spec.prune != "Never") else context.status.managed_state


def _may_prune(work: Work, result: _Result) -> bool:
    prune = work.context.spec.prune
    is_allowed = prune == "AfterApply" or (prune == "AfterHealthy" and result.progress.health.settled)
    return result.applied and work.wanted.current and is_allowed


def _is_as_left(options: ApplyOptions, look: Look) -> bool:
    """Whether no object waits for its repair or was modified since it was compared."""
    return not any(key in options.wanted.by_key for key in options.ledger.drifted(look))


def _kinds_to_watch(
    work: Work, waiting: Iterable[Record], observed: Mapping[ObjectKey, Record]
) -> set[GroupVersionKind]:
    """Return the kinds that may have objects: those of the revision, and those of kept and skipped objects."""
    skipped = [observed[target.key] for target in work.options.wanted.skipped if target.key in observed]
    return {*work.options.wanted.kinds, *_kinds_of([*waiting, *skipped], work)}


def _kinds_of(records: Iterable[Record], work: Work) -> list[GroupVersionKind]:
    wanted = {(record.key.group, record.key.kind) for record in records}
    return [kind for kind in work.earlier_kinds if (kind.group, kind.kind) in wanted]
