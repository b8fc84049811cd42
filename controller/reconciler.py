"""One pass over one BundleDeployment: the table of contents of the controller.

A pass is level-based: it compares what is wanted with what the watches know, does what can be done now, and ends.
Nothing waits here: whatever ends a wait brings the next pass. An unchanged BundleDeployment costs no request.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from http import HTTPStatus

from api.errors import BundleError
from api.v1alpha2.conditions import Reason, Retry
from api.v1alpha2.types import BundleDeployment, Status
from controller.accounts import OF_RIGHTS, Accounts, account_of
from controller.apply.execute import Applier
from controller.apply.job import Job
from controller.apply.ledger import Ledger
from controller.apply.optional import leave_out_missing
from controller.apply.outcome import Outcome
from controller.apply.plan import Action, Plan, find_surplus, is_finished, make_plan
from controller.apply.prune import Cause, Removal, Remover
from controller.apply.targets import Target, TargetSet, find_dropped_replicas, make_targets
from controller.deletion import Deleter
from controller.hooks import Hooks
from controller.kube.client import ApiError
from controller.kube.resources import GroupVersionKind
from controller.memory import Memories, Memory
from controller.observe.contested import Contested, ContestedWatches
from controller.observe.explanations import Explainer
from controller.observe.progress import Progress
from controller.observe.records import ObjectKey, Record, managed_state
from controller.observe.watches import Watches
from controller.observer import DEAF, Observer, Phase
from controller.publisher import Publisher
from controller.questions import is_current, is_same_wish, own_records, owner_of, recorded_kinds
from controller.report import NEVER, UNKNOWN_SECONDS, Report, Requeue
from controller.retries import SLOW_SECONDS, Retries
from controller.revision import Revision
from controller.revisions import RevisionStore
from controller.status import notes_on_removals, notes_on_repairs, skipped_kinds, summarize
from controller.wanted import Finder, Wanted, requested_at

# Somebody was faster, or the BundleDeployment is gone: the watch tells.
_OVERTAKEN = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class Reconciler:
    """Runs passes; one at a time for each BundleDeployment, many at the same time over all."""

    def __init__(
        self,
        *,
        watches: Watches,
        finder: Finder,
        applier: Applier,
        remover: Remover,
        deleter: Deleter,
        hooks: Hooks,
        accounts: Accounts,
        publisher: Publisher,
        revisions: RevisionStore,
        retries: Retries,
        explainer: Explainer,
        contested: ContestedWatches,
        now: Callable[[], datetime],
        observer: Observer = DEAF,
    ) -> None:
        self._contested = contested
        self._watches, self._finder, self._applier, self._remover = watches, finder, applier, remover
        self._deleter, self._hooks, self._accounts = deleter, hooks, accounts
        self._publisher, self._explainer = publisher, explainer
        self._revisions, self._retries, self._now = revisions, retries, now
        self._observer = observer
        self._memories = Memories()

    def reconcile(self, name: str) -> Requeue:
        """Run one pass over one BundleDeployment.

        Returns: when to come back if no event comes first.
        Raises: ApiError if the pass could not go on; nothing that a user can cause: that has become a condition.
        """
        deployment = self._watches.deployment(name)
        if deployment is None:
            return self._forget(name)
        deployment = self._accounts.policy.complete(deployment)
        memory = self._memories.of(deployment.metadata)
        if deployment.metadata.deletion_timestamp:
            self._finder.forget(name)
            self._contested.watch(name, ())
            return self._deleter.tear_down(deployment, memory)
        if self._watches.need(name, recorded_kinds(deployment)):
            return Requeue(after=UNKNOWN_SECONDS)  # woken when they are known; nothing is said until then
        try:
            deployment = self._publisher.with_finalizer(deployment)
            deployment = self._finder.poll(deployment, memory)
            report = self._settled(deployment, memory)
            if report is None:
                report, deployment = self._advance(deployment, memory)
        except ApiError as error:
            return self._publish_refusal(deployment, error, memory)
        if report.unknown and memory.knows_soon():
            return Requeue(after=UNKNOWN_SECONDS)  # woken when they are known: nothing to tell yet
        return self._publish(deployment, report, memory)

    def retry_sources(self, name: str) -> None:
        """Let the sources of a BundleDeployment be tried at once: a Secret that they use has changed."""
        self._finder.retry(name)

    def retry_rights(self, name: str) -> None:
        """Let a BundleDeployment try again at once what it had no right to do: rights have changed."""
        self._retries.end(name, OF_RIGHTS)

    def retry_objects(self, name: str) -> None:
        """Let the objects of a BundleDeployment that wait for something be tried at once: one of them may be free."""
        self._retries.end_waits(name)

    def end_waits(self) -> list[str]:
        """Let what waits for something on the cluster be tried again; returns the BundleDeployments to look at."""
        waiting = self._memories.waiting()
        for name in waiting:
            self._retries.end_waits(name)
        return waiting

    def remove_orphans(self) -> None:
        """Remove the revisions of BundleDeployments that went while nobody looked.

        Raises: ApiError.
        """
        self._revisions.remove_orphans(self._watches.deployment_names())

    # nothing to do

    def _settled(self, deployment: BundleDeployment, memory: Memory) -> Report | None:
        """Return a report if all that is installed is as it was left; None if there is something to do."""
        if not is_current(deployment):
            return None
        observed = self._watches.managed(deployment.metadata.name)
        status, ledger = deployment.status, memory.ledger
        if not ledger.left and managed_state(own_records(observed, deployment)) == status.managed_state:
            ledger.expect_all(own_records(observed, deployment))
        if not ledger.left or ledger.drifted(observed):
            return None
        if any(self._watches.has_come(GroupVersionKind.parse(kind)) for kind in status.skipped_kinds):
            return None
        return Report(
            wanted=status.revision,
            revision=status.installed_revision,
            applied=True,
            awaiting_prune=tuple(_kept(deployment, observed, ledger.left)),
            conflicts=tuple(ledger.conflicts()),
            progress=self._judge(deployment, memory, status.revision, ledger.digests()),
            install_namespace=status.install_namespace,
            managed_state=status.managed_state,
            managed_kinds=status.managed_kinds,
        )

    # something to do

    def _advance(self, deployment: BundleDeployment, memory: Memory) -> tuple[Report, BundleDeployment]:
        wanted, deployment = self._finder.find(deployment, memory)
        wanted = self._hooks.before_upgrade(deployment, wanted, memory)
        revision = self._to_work_on(deployment, wanted, memory)
        if revision is None:
            return self._report(deployment, wanted), deployment
        targets, leftovers, warnings = self._targets(deployment, revision, memory)
        kinds = {*targets.kinds, *(target.kind for target in leftovers), *recorded_kinds(deployment)}
        if unknown := self._watches.need(deployment.metadata.name, kinds):
            return replace(self._report(deployment, wanted), unknown=tuple(unknown)), deployment
        job = self._job(deployment, revision, targets, warnings, memory)
        plan = make_plan(job, leftovers, self._watches.managed(job.owner.name))
        if deployment.spec.paused or not self._accounts.policy.allows(revision.terms):
            return self._survey(deployment, wanted, plan, job, memory), deployment
        if plan.writes:
            if absence := self._accounts.absence(job.owner.name, account_of(revision.terms)):
                return replace(self._survey(deployment, wanted, plan, job, memory), failure=absence), deployment
            deployment = self._announce(deployment, wanted, plan, job)
        outcomes = self._execute(plan, job)
        self._observer.drift_found(*memory.drifting.repair(outcomes, job))
        _remember(memory.ledger, outcomes)
        self._contested.watch(deployment.metadata.name, _contested(outcomes))
        return self._conclude(
            deployment=deployment, wanted=wanted, job=job, outcomes=outcomes, memory=memory
        ), deployment

    def _to_work_on(self, deployment: BundleDeployment, wanted: Wanted, memory: Memory) -> Revision | None:
        """Return the revision to compare the cluster with: while paused what was applied last, as nothing else is."""
        return self._finder.last_good(deployment, memory) if deployment.spec.paused else wanted.revision

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
    ) -> Job:
        return Job(
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

    def _announce(self, deployment: BundleDeployment, wanted: Wanted, plan: Plan, job: Job) -> BundleDeployment:
        """Write what a kill in the midst of applying must not lose: the revision, and where to look for its objects."""
        status = deployment.status
        report = replace(
            self._report(deployment, wanted),
            revision=job.wanted.revision,
            install_namespace=job.install_namespace,
            managed_state="" if plan.upgrades or status.revision != job.wanted.revision else status.managed_state,
            managed_kinds=_merge_kinds(status.managed_kinds, job.wanted.kinds),
        )
        essential = (report.wanted or status.revision, report.managed_state, report.managed_kinds)
        if essential == (status.revision, status.managed_state, status.managed_kinds):
            return deployment
        return self._publisher.write_status(deployment, summarize(deployment, report, self._now()))

    def _execute(self, plan: Plan, job: Job) -> list[Outcome]:
        """Carry out a plan, and tell how long that took if something was sent.

        Raises: ApiError.
        """
        started = time.monotonic()
        outcomes = self._applier.execute(plan, job)
        if any(outcome.tried for outcome in outcomes):
            succeeded = not any(outcome.error for outcome in outcomes)
            self._observer.phase_ended(Phase.APPLY, time.monotonic() - started, succeeded=succeeded)
        return outcomes

    def _survey(self, deployment: BundleDeployment, wanted: Wanted, plan: Plan, job: Job, memory: Memory) -> Report:
        """Look, and touch nothing: what has drifted, and how healthy it is (DESIGN, rule 8)."""
        drifted, same = self._applier.survey(plan, job)
        memory.ledger.learn(same)
        self._observer.drift_found(memory.drifting.see([each.key for each in drifted]), 0)
        return replace(
            self._report(deployment, wanted),
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
        job: Job,
        outcomes: list[Outcome],
        memory: Memory,
    ) -> Report:
        """Prune if it is time, and say what is left to do."""
        applied = not any(outcome.error for outcome in outcomes)
        hook_failure = self._hooks.after_apply(deployment, wanted, memory) if applied else None
        applied = applied and hook_failure is None
        progress = self._progress(deployment, job, memory, outcomes)
        prune_now = (
            applied and wanted.current and _may_prune(deployment.spec.prune, health_allows=progress.health.settled)
        )
        # As it is after applying: what was only in the revision before may just have been repaired from it.
        surplus = find_surplus(job.wanted, self._watches.managed(job.owner.name), job.owner, orphan=job.orphan)
        removals = self._prune(surplus, job) if prune_now and surplus else []
        self._publisher.say(deployment, [*notes_on_repairs(outcomes), *notes_on_removals(removals)])
        memory.ledger.forget(removal.record.key for removal in removals if not removal.error)
        waiting = [record for record in surplus if not prune_now] + [r.record for r in removals if r.error]
        observed = self._watches.managed(job.owner.name)
        finished = (
            applied
            and (not waiting or deployment.spec.prune == "Never")
            and not any(outcome.spared for outcome in outcomes)
            and _is_as_left(job, observed)
        )
        skipped = [observed[target.key] for target in job.wanted.skipped if target.key in observed]
        kinds = {*job.wanted.kinds, *_kinds_of([*waiting, *skipped], deployment)}
        report = replace(
            self._report(deployment, wanted),
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
            warnings=_warnings(outcomes, job, wanted.revision),
        )
        if not finished:
            return report
        memory.rest(() if wanted.current else (job.wanted.revision, wanted.pending))
        return replace(report, managed_kinds=_merge_kinds((), kinds))

    def _prune(self, surplus: list[Record], job: Job) -> list[Removal]:
        started = time.monotonic()
        removals = self._remover.remove(surplus, job.owner.name, Cause.PRUNE, job.user)
        succeeded = not any(removal.error for removal in removals)
        self._observer.phase_ended(Phase.PRUNE, time.monotonic() - started, succeeded=succeeded)
        return removals

    def _finish(
        self,
        *,
        deployment: BundleDeployment,
        wanted: Wanted,
        job: Job,
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
            if deployment.status.installed_revision not in ("", job.wanted.revision) or len(memory.revisions) > 1:
                self._revisions.keep_only(job.owner.name, {job.wanted.revision, deployment.status.revision})
            self._watches.need_only(job.owner.name, kinds)
        return managed_state(own_records(records, deployment))

    def _progress(
        self, deployment: BundleDeployment, job: Job, memory: Memory, outcomes: Iterable[Outcome] = ()
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
        return self._judge(deployment, memory, job.wanted.revision, digests, refusals)

    def _judge(
        self,
        deployment: BundleDeployment,
        memory: Memory,
        revision: str,
        digests: Mapping[ObjectKey, str],
        refusals: Mapping[ObjectKey, BundleError] | None = None,
    ) -> Progress:
        name = deployment.metadata.name
        return memory.health.summarize(
            digests,
            self._watches.managed(name),
            f"{revision} {deployment.metadata.generation}",
            deployment.spec.progress_deadline_seconds,
            refusals=refusals,
            explain=partial(self._explainer.explain, name),
        )

    def _report(self, deployment: BundleDeployment, wanted: Wanted) -> Report:
        """Return what is known before anything is compared: the rest stays as status has it."""
        status = deployment.status
        return Report(
            wanted=wanted.revision.digest if wanted.current and wanted.revision else _pending(status, wanted),
            failure=wanted.failure,
            fetching=wanted.fetching,
            install_namespace=status.install_namespace,
            managed_state=status.managed_state,
            managed_kinds=status.managed_kinds,
        )

    # the end of a pass

    def _publish(self, deployment: BundleDeployment, report: Report, memory: Memory) -> Requeue:
        """Write what has changed in status, and say when to come back."""
        waits = any(error.reason.retry is Retry.WAIT for error in _errors(report))
        memory.waits = waits or bool(skipped_kinds(deployment, report))
        report = replace(report, poll_failure=memory.poll.failure)
        self._accounts.note(deployment.metadata.name, [*_errors(report), report.poll_failure])
        self._publisher.write_status(deployment, summarize(deployment, report, self._now()))
        return self._requeue(deployment, report, memory)

    def _publish_refusal(self, deployment: BundleDeployment, error: ApiError, memory: Memory) -> Requeue:
        """Say what the API server refuses to the controller itself; what ends by itself is only tried again.

        Raises: ApiError.
        """
        if error.transient or error.status in _OVERTAKEN:
            raise error
        reason = Reason.FORBIDDEN if error.status == HTTPStatus.FORBIDDEN else Reason.API_UNAVAILABLE
        failure = BundleError(reason, f"the controller cannot read or write its own state: {error}")
        status = deployment.status
        report = Report(failure=failure, managed_state=status.managed_state, managed_kinds=status.managed_kinds)
        self._publish(deployment, report, memory)
        return Requeue(after=error.retry_after, failed=True)

    def _requeue(self, deployment: BundleDeployment, report: Report, memory: Memory) -> Requeue:
        seconds = [
            self._retries.seconds_to_next(deployment.metadata.name),
            self._finder.seconds_to_poll(deployment, memory),
            memory.ledger.seconds_of_conflict(),
        ]
        seconds += [
            memory.ledger.seconds_to_repair(outcome.task.target.key) for outcome in report.outcomes if outcome.postponed
        ]
        if report.progress:
            seconds.append(report.progress.next_change)
        if report.unknown:
            seconds.append(UNKNOWN_SECONDS)
        if _errors(report) or report.drifted:  # what is changed back shows in no mark: no event says so
            seconds.append(SLOW_SECONDS)
        known = [each for each in seconds if each is not None]
        return Requeue(after=min(known) if known else None)

    def _forget(self, name: str) -> Requeue:
        self._finder.forget(name)
        self._accounts.forget(name)
        self._watches.forget(name)
        self._contested.watch(name, ())
        self._retries.forget(name)
        self._explainer.forget(name)
        self._memories.forget(name)
        return NEVER


def _pending(status: Status, wanted: Wanted) -> str:
    """Return the revision that waits for its hooks; nothing where status has to tell which one was begun."""
    return wanted.pending if status.managed_state else ""


def _is_as_left(job: Job, observed: Mapping[ObjectKey, Record]) -> bool:
    """Whether no object awaits its repair, or was edited since it was compared: that must not pass for expected."""
    return not any(key in job.wanted.by_key for key in job.ledger.drifted(observed))


def _kinds_of(records: Iterable[Record], deployment: BundleDeployment) -> list[GroupVersionKind]:
    wanted = {(record.key.group, record.key.kind) for record in records}
    return [kind for kind in recorded_kinds(deployment) if (kind.group, kind.kind) in wanted]


def _kept(
    deployment: BundleDeployment, observed: Mapping[ObjectKey, Record], wanted: Collection[ObjectKey]
) -> list[Record]:
    """Return the objects of older revisions that stay for good, as spec.prune says."""
    if deployment.spec.prune != "Never":
        return []
    return [record for record in own_records(observed, deployment) if record.key not in wanted and not record.deleting]


def _merge_kinds(recorded: Iterable[str], kinds: Iterable[GroupVersionKind]) -> tuple[str, ...]:
    return tuple(sorted({*recorded, *map(str, kinds)}))


def _may_prune(prune: str, *, health_allows: bool) -> bool:
    return prune == "AfterApply" or (prune == "AfterHealthy" and health_allows)


def _errors(report: Report) -> list[BundleError]:
    failures = [report.failure, *(outcome.error for outcome in report.outcomes), *(r.error for r in report.removals)]
    return [error for error in failures if error]


def _contested(outcomes: Iterable[Outcome]) -> Iterator[Contested]:
    """Yield the objects that somebody else has, but for those of other BundleDeployments, which are watched anyway."""
    for outcome in outcomes:
        target, record = outcome.task.target, outcome.task.record
        if outcome.error and outcome.error.reason is Reason.COLLISION and not (record and record.owner):
            yield Contested(kind=target.kind, key=target.key, record=record)


def _remember(ledger: Ledger, outcomes: Iterable[Outcome]) -> None:
    """Note how the objects were left, which Jobs are done with, and which Namespaces are there without being ours."""
    done = [outcome for outcome in outcomes if not outcome.error and not outcome.postponed]
    ledger.learn(outcome.record for outcome in done if outcome.record)
    ledger.forget(o.task.target.key for o in done if o.task.action is Action.NONE and not o.task.record)
    ledger.used |= {o.task.target.key for o in done if o.task.action is Action.USE or o.task.target.bare}


def _warnings(outcomes: Iterable[Outcome], job: Job, revision: Revision | None) -> tuple[str, ...] | None:
    """Return each warning once, ours first; None if nothing was sent, so that those of the last apply stay."""
    sent = [outcome for outcome in outcomes if outcome.tried]
    leeway = (text for target in job.wanted.targets for text in target.leeway.warnings)
    ours = [*(revision.warnings if revision else ()), *job.warnings, *leeway]
    return tuple(dict.fromkeys([*ours, *(text for outcome in sent for text in outcome.warnings)])) if sent else None
