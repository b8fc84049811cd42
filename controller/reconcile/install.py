"""Working on one revision: from its targets to a plan, carried out, pruned, and told.

What is applied is the wanted revision, or what was applied last where that cannot be had; who decides which is
reconciler.py. Here nothing waits either: what cannot be done in this pass has its reason in the report.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from api.errors import BundleError
from api.v1alpha2.conditions import Reason, Retry
from api.v1alpha2.types import BundleDeployment
from controller.apply.drift.ledger import Ledger
from controller.apply.execute import Applier
from controller.apply.optional import leave_out_missing
from controller.apply.options import ApplyOptions
from controller.apply.outcome import Outcome
from controller.apply.plan import Action, Plan, is_finished, make_plan
from controller.apply.possession import find_surplus
from controller.apply.prune import Removal, RemovalCause, Remover
from controller.apply.targets import Target, TargetSet, find_dropped_replicas, find_missing_labels, make_targets
from controller.build.revision import Revision
from controller.kube.resources import GroupVersionKind
from controller.observe.contested import Contested, ContestedWatches
from controller.observe.progress import Progress
from controller.observe.records import ObjectKey, Record, managed_state
from controller.observe.watches import Watches
from controller.reconcile.context import is_same_wish, own_records, owner_of, recorded_kinds
from controller.reconcile.health import Appraiser
from controller.reconcile.holdings import Holdings
from controller.reconcile.hooks import Hooks
from controller.reconcile.state import Memory
from controller.reconcile.strays import describe_strays, tell_strays
from controller.retries import Retries
from controller.revisions.account import account_of
from controller.revisions.finder import Finder, Wanted, requested_at
from controller.revisions.service_accounts import OF_ABSENCE, Accounts
from controller.sharing.shares import share_of
from controller.status.notes import describe_unseen, notes_on_removals, notes_on_repairs
from controller.status.report import Report
from controller.status.summary import summarize
from controller.status.writer import Publisher
from controller.telemetry import DEAF, Observer, Phase


class Installer:
    """Brings the cluster towards revisions, and keeps it there.

    Args:
        now: the time of day.
        observer: is told how long applying and pruning take, and of drift.
    """

    def __init__(
        self,
        *,
        watches: Watches,
        finder: Finder,
        applier: Applier,
        remover: Remover,
        hooks: Hooks,
        holdings: Holdings,
        accounts: Accounts,
        appraiser: Appraiser,
        publisher: Publisher,
        retries: Retries,
        contested: ContestedWatches,
        now: Callable[[], datetime],
        observer: Observer = DEAF,
    ) -> None:
        self._watches, self._finder, self._applier, self._remover = watches, finder, applier, remover
        self._hooks, self._accounts, self._appraiser, self._publisher = hooks, accounts, appraiser, publisher
        self._holdings, self._retries, self._contested = holdings, retries, contested
        self._now, self._observer = now, observer

    def work_on(
        self, revision: Revision, deployment: BundleDeployment, wanted: Wanted, memory: Memory
    ) -> tuple[Report, BundleDeployment]:
        """Do what can be done now for a revision.

        Returns: what was found and done, and the BundleDeployment with what was announced in its status.
        Raises: ApiError.
        """
        targets, leftovers, warnings = self._targets(deployment, revision, memory)
        kinds = {*targets.kinds, *(target.kind for target in leftovers), *recorded_kinds(deployment)}
        if unknown := self._watches.need(deployment.metadata.name, kinds):
            return replace(wanted.report(deployment), unknown=tuple(unknown)), deployment
        job = replace(
            self._job(deployment, revision, targets, warnings, memory),
            older=self._holdings.older(deployment, revision, memory),
        )
        plan = make_plan(job, leftovers, self._watches.managed(job.owner.name))
        if deployment.spec.paused or not self._accounts.policy.allows(revision.terms):
            return self._survey(deployment, wanted, plan, job, memory), deployment
        if plan.writes:
            account = account_of(revision.terms)
            if hindrance := self._accounts.hindrance(deployment, account, [revision.terms]):
                # What is another's now is not even looked at.
                seen = plan if hindrance.reason in OF_ABSENCE else Plan()
                return replace(self._survey(deployment, wanted, seen, job, memory), failure=hindrance), deployment
            deployment = self._announce(deployment, wanted, plan, job)
        outcomes = self._execute(plan, job)
        self._observer.drift_found(*memory.drifting.repair(outcomes, job))
        _remember(memory.ledger, outcomes)
        self._contested.watch(deployment.metadata.name, _contested_in(outcomes), share=share_of(deployment))
        return self._conclude(
            deployment=deployment, wanted=wanted, job=job, outcomes=outcomes, memory=memory
        ), deployment

    def _targets(
        self, deployment: BundleDeployment, revision: Revision, memory: Memory
    ) -> tuple[TargetSet, tuple[Target, ...], tuple[str, ...]]:
        """Return the targets of a revision, those that only the one before has, and warnings about the difference."""
        wanted = self._without_missing(deployment, self._target_set(deployment, revision, memory), memory)
        before = self._finder.revision_before(deployment, revision.digest, memory)
        if before is None or before.digest == revision.digest:
            return wanted, (), ()
        others = self._without_missing(deployment, self._target_set(deployment, before, memory), memory)
        left = memory.ledger.left.keys() | self._watches.managed(deployment.metadata.name).keys()
        leftovers = tuple(t for t in others.targets if not t.bare and t.key not in wanted.by_key and t.key in left)
        return wanted, leftovers, find_dropped_replicas(others, wanted)

    def _without_missing(self, deployment: BundleDeployment, targets: TargetSet, memory: Memory) -> TargetSet:
        """Skip what is optional and not served; while paused also what has come since, as it was never applied."""
        held = deployment.status.skipped_kinds if deployment.spec.paused else ()
        present = leave_out_missing(targets, lambda kind: str(kind) in held or self._watches.is_missing(kind))
        memory.ledger.forget(target.key for target in present.skipped)
        for target in present.skipped:
            self._retries.succeeded(deployment.metadata.name, target.key)
        return present

    def _target_set(self, deployment: BundleDeployment, revision: Revision, memory: Memory) -> TargetSet:
        orphan = deployment.spec.deletion_policy == "Orphan"
        identity = (revision.digest, json.dumps([orphan, revision.terms.drift]))
        if identity not in memory.targets or memory.targets[identity].undecided:
            memory.targets[identity] = make_targets(
                revision,
                owner_of(deployment),
                orphan=orphan,
                is_namespaced=self._watches.is_namespaced,
            )
        return memory.targets[identity]

    def _job(
        self,
        deployment: BundleDeployment,
        revision: Revision,
        targets: TargetSet,
        warnings: tuple[str, ...],
        memory: Memory,
    ) -> ApplyOptions:
        return ApplyOptions(
            owner=owner_of(deployment),
            user=account.user if (account := account_of(revision.terms)) else None,
            orphan=deployment.spec.deletion_policy == "Orphan",
            collision_protection=deployment.spec.collision_protection,
            install_namespace=revision.terms.install_namespace,
            wish=f"{deployment.metadata.generation} {requested_at(deployment)}",
            wanted=targets,
            warnings=warnings,
            repairs=(revision.terms.drift or {}).get("mode", "Repair") == "Repair",
            installed=deployment.status.installed_revision == targets.revision,
            ledger=memory.ledger,
            exists=self._watches.exists,
            crd_upgrade_safety=deployment.spec.crd_upgrade_safety,
            proceed=lambda: is_same_wish(deployment, self._watches.deployment(deployment.metadata.name)),
            gate=self._hooks.before_install(deployment, revision, targets, memory),
        )

    def _announce(
        self, deployment: BundleDeployment, wanted: Wanted, plan: Plan, job: ApplyOptions
    ) -> BundleDeployment:
        """Write what a kill in the midst of applying must not lose: the revision, and where to look for its objects."""
        status = deployment.status
        report = replace(
            wanted.report(deployment),
            revision=job.wanted.revision,
            install_namespace=job.install_namespace,
            managed_state="" if plan.upgrades or status.revision != job.wanted.revision else status.managed_state,
            managed_kinds=_merge_kinds(status.managed_kinds, job.wanted.kinds),
        )
        essential = (report.wanted or status.revision, report.managed_state, report.managed_kinds)
        if essential == (status.revision, status.managed_state, status.managed_kinds):
            return deployment
        return self._publisher.write_status(deployment, summarize(deployment, report, self._now()))

    def _execute(self, plan: Plan, job: ApplyOptions) -> list[Outcome]:
        """Carry out a plan, and tell how long that took if something was sent.

        Raises: ApiError.
        """
        started = time.monotonic()
        outcomes = self._applier.execute(plan, job)
        if any(outcome.tried for outcome in outcomes):
            succeeded = not any(outcome.error for outcome in outcomes)
            self._observer.phase_ended(Phase.APPLY, time.monotonic() - started, succeeded=succeeded)
        return outcomes

    def _survey(
        self, deployment: BundleDeployment, wanted: Wanted, plan: Plan, job: ApplyOptions, memory: Memory
    ) -> Report:
        """Look, and touch nothing: what has drifted, and how healthy it is (rule 8)."""
        drifted, same = self._applier.survey(plan, job)
        memory.ledger.learn(same)
        self._observer.drift_found(memory.drifting.see([each.key for each in drifted]), 0)
        return replace(
            wanted.report(deployment),
            revision=job.wanted.revision,
            drifted=tuple(drifted),
            skipped_kinds=job.wanted.skipped_kinds,
            progress=self._progress(deployment, job, memory),
        )

    def _conclude(
        self,
        *,
        deployment: BundleDeployment,
        wanted: Wanted,
        job: ApplyOptions,
        outcomes: list[Outcome],
        memory: Memory,
    ) -> Report:
        """Prune if it is time, and say what is left to do."""
        applied = not any(outcome.error for outcome in outcomes)
        hook_failure = self._hooks.after_apply(deployment, wanted, memory) if applied else None
        applied = applied and hook_failure is None and not self._hooks.are_left(deployment, wanted, memory)
        progress = self._progress(deployment, job, memory, outcomes)
        prune_now = (
            applied and wanted.current and _may_prune(deployment.spec.prune, health_allows=progress.health.settled)
        )
        removals, waiting = self._take_surplus(deployment, job, memory, prune_now=prune_now)
        self._publisher.say(deployment, [*notes_on_repairs(outcomes), *notes_on_removals(removals)])
        observed = self._watches.managed(job.owner.name)
        self._publisher.say(deployment, tell_strays(deployment, memory, observed, job.wanted.by_key, job.older))
        finished = (
            applied
            and (not waiting or deployment.spec.prune == "Never")
            and not any(outcome.spared for outcome in outcomes)
            and _is_as_left(job, observed)
            # Of a kind that is not wanted any more nobody would look for what is left.
            and not self._watches.find_unknown(job.owner.name, recorded_kinds(deployment))
        )
        skipped = [observed[target.key] for target in job.wanted.skipped if target.key in observed]
        kinds = {*job.wanted.kinds, *_kinds_of([*waiting, *skipped], deployment)}
        report = replace(
            wanted.report(deployment),
            failure=wanted.failure or hook_failure,
            revision=job.wanted.revision,
            applied=applied,
            outcomes=tuple(outcomes),
            drifted=tuple(outcome.drift for outcome in outcomes if outcome.drift),
            removals=tuple(removals),
            awaiting_prune=tuple(waiting),
            conflicts=tuple(memory.ledger.conflicts()),
            progress=progress,
            install_namespace=job.install_namespace,
            managed_state=self._finish(
                deployment=deployment, wanted=wanted, job=job, kinds=kinds, observed=observed, memory=memory
            )
            if finished
            else deployment.status.managed_state,
            skipped_kinds=job.wanted.skipped_kinds,
            warnings=_warnings(outcomes, self._concerns(job, memory), job, wanted.revision),
        )
        if not finished:
            return report
        memory.rest(() if wanted.current else (job.wanted.revision, wanted.pending))
        return replace(report, managed_kinds=_merge_kinds((), kinds))

    def _take_surplus(
        self, deployment: BundleDeployment, job: ApplyOptions, memory: Memory, *, prune_now: bool
    ) -> tuple[list[Removal], list[Record]]:
        """Prune if it is time; returns what became of that, and which objects of older revisions stay for now."""
        # As it is after applying: what was only in the revision before may just have been repaired from it.
        unreadable = self._holdings.look(deployment, job.older, job.user)
        observed = self._watches.managed(job.owner.name)
        surplus = find_surplus(job.wanted.by_key, job.older, observed, job.owner, orphan=job.orphan)
        removals = self._prune(surplus, unreadable, job) if prune_now else []
        gone = [removal.record.key for removal in removals if not removal.error]
        memory.ledger.forget(gone)
        self._holdings.forget(gone)
        waiting = [*surplus, *(Record(key=key) for key in unreadable)]
        if prune_now:
            waiting = [removal.record for removal in removals if removal.error]
        memory.older = frozenset(record.key for record in waiting)
        return removals, waiting

    def _concerns(self, job: ApplyOptions, memory: Memory) -> list[str]:
        """Return warnings about what is not seen, and about what only looks like ours."""
        unseen = (kind for kind in job.wanted.kinds if self._watches.is_unseen(kind.group, kind.kind))
        return [*describe_unseen(unseen), *([describe_strays(memory.strays)] if memory.strays else [])]

    def _prune(
        self, surplus: list[Record], unreadable: Mapping[ObjectKey, BundleError], job: ApplyOptions
    ) -> list[Removal]:
        if not (surplus or unreadable):
            self._retries.succeeded(job.owner.name, RemovalCause.PRUNE)
            return []
        started = time.monotonic()
        removals = self._remover.remove(surplus, job.owner.name, RemovalCause.PRUNE, job.user)
        removals += [Removal(record=Record(key=key), error=error) for key, error in unreadable.items()]
        failures = [removal.error for removal in removals if removal.error]
        self._observer.phase_ended(Phase.PRUNE, time.monotonic() - started, succeeded=not failures)
        if failures:  # what ends by itself soon is not left until the net comes by
            passing = next((error for error in failures if error.reason.retry is Retry.TRANSIENT), failures[0])
            self._retries.failed(job.owner.name, RemovalCause.PRUNE, job.wanted.revision, passing)
        else:
            self._retries.succeeded(job.owner.name, RemovalCause.PRUNE)
        return removals

    def _finish(
        self,
        *,
        deployment: BundleDeployment,
        wanted: Wanted,
        job: ApplyOptions,
        kinds: Iterable[GroupVersionKind],
        observed: Mapping[ObjectKey, Record],
        memory: Memory,
    ) -> str:
        """Nothing is left to do: expect everything as it was compared, and drop the revisions that nobody needs.

        Not as it is by now: an edit that has come since would pass for expected, and never be repaired.
        """
        records = {key: record for key, record in observed.items() if key in job.wanted.by_key}
        memory.ledger.expect_all(own_records(records, deployment))
        if not wanted.pending:
            # Where another one is wanted, status names it: it has been made, and waits.
            kept = [job.wanted.revision, *([] if wanted.current else [deployment.status.revision])]
            drops = deployment.status.installed_revision not in ("", kept[0]) or len(memory.digests) > 1
            left = {key: named for key, named in job.older.items() if key in memory.older}
            self._holdings.keep_only(deployment, kept, left, memory, drops=drops)
            self._watches.need_only(job.owner.name, kinds)
        return managed_state(own_records(records, deployment))

    def _progress(
        self, deployment: BundleDeployment, job: ApplyOptions, memory: Memory, outcomes: Iterable[Outcome] = ()
    ) -> Progress:
        observed = self._watches.managed(job.owner.name)
        digests = {
            t.key: t.digest
            for t in job.wanted.targets
            if not t.bare
            and t.key not in memory.ledger.used
            and not is_finished(t, observed.get(t.key), installed=job.installed)
        }
        refusals = {outcome.task.target.key: outcome.error for outcome in outcomes if outcome.error}
        return self._appraiser.judge(deployment, memory, job.wanted.revision, digests, refusals)


def _is_as_left(job: ApplyOptions, observed: Mapping[ObjectKey, Record]) -> bool:
    """Whether no object awaits its repair, or was edited since it was compared: that must not pass for expected."""
    return not any(key in job.wanted.by_key for key in job.ledger.drifted(observed))


def _kinds_of(records: Iterable[Record], deployment: BundleDeployment) -> list[GroupVersionKind]:
    wanted = {(record.key.group, record.key.kind) for record in records}
    return [kind for kind in recorded_kinds(deployment) if (kind.group, kind.kind) in wanted]


def _merge_kinds(recorded: Iterable[str], kinds: Iterable[GroupVersionKind]) -> tuple[str, ...]:
    return tuple(sorted({*recorded, *map(str, kinds)}))


def _may_prune(prune: str, *, health_allows: bool) -> bool:
    return prune == "AfterApply" or (prune == "AfterHealthy" and health_allows)


def _contested_in(outcomes: Iterable[Outcome]) -> Iterator[Contested]:
    """Yield the objects that somebody else has, or that are going, but for what is watched as a BundleDeployment's."""
    for outcome in outcomes:
        target, record = outcome.task.target, outcome.task.record
        is_held = outcome.task.action is Action.AWAIT or _collides(outcome)
        if is_held and not (record and record.owner):
            yield Contested(kind=target.kind, key=target.key, record=record)


def _collides(outcome: Outcome) -> bool:
    return outcome.error is not None and outcome.error.reason is Reason.COLLISION


def _remember(ledger: Ledger, outcomes: Iterable[Outcome]) -> None:
    """Note how the objects were left, which Jobs are done with, and which Namespaces are there without being ours."""
    done = [outcome for outcome in outcomes if not outcome.error and not outcome.postponed]
    ledger.learn(outcome.record for outcome in done if outcome.record)
    ledger.forget(o.task.target.key for o in done if o.task.action is Action.NONE and not o.task.record)
    used = {o.task.target.key: o.task.record for o in done if o.task.action is Action.USE or o.task.target.bare}
    ledger.used |= {key: record or ledger.used.get(key) for key, record in used.items()}


def _warnings(
    outcomes: Iterable[Outcome], found: Iterable[str], job: ApplyOptions, revision: Revision | None
) -> tuple[str, ...] | None:
    """Return each warning once, ours first; None if nothing was sent, so that those of the last apply stay."""
    sent = [outcome for outcome in outcomes if outcome.tried]
    leeway = (text for target in job.wanted.targets for text in target.ignored.warnings)
    lacking = find_missing_labels(job.wanted, job.ledger.used)
    ours = [*(revision.warnings if revision else ()), *job.warnings, *leeway, *lacking, *found]
    return tuple(dict.fromkeys([*ours, *(text for outcome in sent for text in outcome.warnings)])) if sent else None
