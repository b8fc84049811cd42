"""After a revision was applied: its health, what is pruned, and whether anything is left to do.

When nothing is left, the compared state is the expected one from then on, and unneeded revisions are deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from api.errors import BundleError
from controller.apply.options import ApplyOptions
from controller.apply.outcome import Outcome
from controller.apply.targets import find_missing_labels
from controller.build.revision import Revision
from controller.kube.resources import GroupVersionKind
from controller.observe.progress import Progress
from controller.observe.records import ObjectKey, Record, managed_state
from controller.observe.watches import Watches
from controller.reconcile.context import Context
from controller.reconcile.health import Assessor
from controller.reconcile.holdings import Holdings
from controller.reconcile.hooks import Hooks
from controller.reconcile.installation.pruning import Pruner
from controller.reconcile.installation.work import Work
from controller.reconcile.strays import describe_strays, notes_on_strays
from controller.status.notes import describe_unseen, notes_on_recreations, notes_on_removals, notes_on_repairs
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
        applied = [*notes_on_repairs(outcomes), *notes_on_recreations(outcomes)]
        self._writer.record_events(context.deployment, [*applied, *notes_on_removals(removals)])
        observed = self._watches.managed(context.name)
        self._writer.record_events(
            context.deployment, notes_on_strays(context, observed, options.wanted.by_key, options.older)
        )
        is_over = result.applied and self._is_over(work, outcomes, waiting, observed)
        kinds = _kinds_to_watch(work, waiting, observed)
        report = replace(
            work.report(),
            failure=work.wanted.failure or result.hook_failure,
            applied=result.applied,
            outcomes=tuple(outcomes),
            drifted=tuple(outcome.drift for outcome in outcomes if outcome.drift),
            removals=tuple(removals),
            awaiting_prune=tuple(waiting),
            conflicts=tuple(context.state.ledger.conflicts()),
            progress=result.progress,
            install_namespace=options.install_namespace,
            managed_state=self._settle(work, kinds, observed) if is_over else _unsettled(context, waiting),
            skipped_kinds=options.wanted.skipped_kinds,
            warnings=_warnings(outcomes, self._concerns(work), options, work.wanted.revision),
        )
        if not is_over:
            return report
        context.state.rest(() if work.wanted.current else (options.wanted.revision, work.wanted.pending))
        return replace(report, managed_kinds=tuple(sorted(map(str, kinds))))

    def _evaluate(self, work: Work, outcomes: list[Outcome]) -> _Result:
        applied = not any(outcome.error for outcome in outcomes)
        hook_failure = self._hooks.after_apply(work.context, work.wanted, work.options.wanted) if applied else None
        applied = applied and hook_failure is None and not self._hooks.are_left(work.context, work.wanted)
        progress = self._assessor.assess_work(work, outcomes)
        return _Result(applied=applied, hook_failure=hook_failure, progress=progress)

    def _is_over(
        self, work: Work, outcomes: list[Outcome], waiting: list[Record], observed: Mapping[ObjectKey, Record]
    ) -> bool:
        """Whether nothing is left to do after everything was applied."""
        return (
            (not waiting or work.context.spec.prune == "Never")
            and not any(outcome.spared for outcome in outcomes)
            and _is_as_left(work.options, observed)
            # Remaining objects of a kind that is no longer wanted would be forgotten.
            and not self._watches.find_unknown(work.context.name, work.context.recorded_kinds)
        )

    def _settle(self, work: Work, kinds: Collection[GroupVersionKind], observed: Mapping[ObjectKey, Record]) -> str:
        """Expect everything as it was compared, and delete the revisions that are not needed.

        Not as it is now: an edit made since would count as expected, and never be repaired.
        """
        context, options, wanted = work.context, work.options, work.wanted
        records = context.own_records({key: record for key, record in observed.items() if key in options.wanted.by_key})
        context.state.ledger.expect_all(records)
        if not wanted.pending:
            # If another revision is wanted, status names it: it is kept until it can be applied.
            kept = [options.wanted.revision, *([] if wanted.current else [context.status.revision])]
            drops = context.status.installed_revision not in ("", kept[0]) or len(context.state.digests) > 1
            left = {key: named for key, named in options.older.items() if key in context.state.older}
            self._holdings.keep_only(context, kept, left, drops=drops)
            self._watches.require_only(context.name, kinds)
        return managed_state(records)

    def _concerns(self, work: Work) -> list[str]:
        """Return warnings about kinds that are not watched, and about strays."""
        strays = work.context.state.strays
        unseen = (kind for kind in work.options.wanted.kinds if self._watches.is_forbidden(kind.group, kind.kind))
        return [*describe_unseen(unseen), *([describe_strays(strays)] if strays else [])]


def _unsettled(context: Context, waiting: Collection[Record]) -> str:
    """Return the managedState while something is left to do: empty if that is to prune, which no event reports."""
    return "" if waiting and context.spec.prune != "Never" else context.status.managed_state


def _may_prune(work: Work, result: _Result) -> bool:
    prune = work.context.spec.prune
    is_allowed = prune == "AfterApply" or (prune == "AfterHealthy" and result.progress.health.settled)
    return result.applied and work.wanted.current and is_allowed


def _is_as_left(options: ApplyOptions, observed: Mapping[ObjectKey, Record]) -> bool:
    """Whether no object waits for its repair or was modified since it was compared."""
    return not any(key in options.wanted.by_key for key in options.ledger.drifted(observed))


def _kinds_to_watch(
    work: Work, waiting: Iterable[Record], observed: Mapping[ObjectKey, Record]
) -> set[GroupVersionKind]:
    """Return the kinds that may have objects: those of the revision, and those of kept and skipped objects."""
    skipped = [observed[target.key] for target in work.options.wanted.skipped if target.key in observed]
    return {*work.options.wanted.kinds, *_kinds_of([*waiting, *skipped], work.context)}


def _kinds_of(records: Iterable[Record], context: Context) -> list[GroupVersionKind]:
    wanted = {(record.key.group, record.key.kind) for record in records}
    return [kind for kind in context.recorded_kinds if (kind.group, kind.kind) in wanted]


def _warnings(
    outcomes: Iterable[Outcome], found: Iterable[str], options: ApplyOptions, revision: Revision | None
) -> tuple[str, ...] | None:
    """Return each warning once, ours first; None if nothing was sent, to keep those of the last apply.

    A revision without objects has nothing to send, and its warning says so.
    """
    sent = [outcome for outcome in outcomes if outcome.tried]
    is_due = bool(sent) or (revision is not None and not revision.objects)
    ignored = (text for target in options.wanted.targets for text in target.ignored.warnings)
    lacking = find_missing_labels(options.wanted, options.ledger.used)
    ours = [*(revision.warnings if revision else ()), *options.warnings, *ignored, *lacking, *found]
    return tuple(dict.fromkeys([*ours, *(text for outcome in sent for text in outcome.warnings)])) if is_due else None
