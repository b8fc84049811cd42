"""Carrying out the steps of a plan: what is ready is applied at the same time, what has to wait says for what.

Nothing here waits: a task whose turn has not come ends with the reason for it, and the event that ends the wait brings
the next pass. Not here: why it has not come (dependencies.py), and the requests about one object (object/).
"""

from __future__ import annotations

from dataclasses import replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.dependencies import Dependencies, StepResults
from controller.apply.drift.explanation import DriftedObject
from controller.apply.failures.access_review import AccessReviewer
from controller.apply.failures.missing_rights import LackOfRightsError, MissingRightsError, list_all
from controller.apply.object.concurrency import ConcurrencyLimits
from controller.apply.object.lookup import ObjectReader
from controller.apply.object.pool import Pool
from controller.apply.object.sender import Sender
from controller.apply.options import ApplyOptions
from controller.apply.order import Stage
from controller.apply.outcome import Outcome
from controller.apply.plan import Action, Plan, Step, Task
from controller.kube.client import ApiError, Client
from controller.kube.discovery import Discovery
from controller.kube.resources import Resource
from controller.observe.records import Record
from controller.observe.watches import Watches
from controller.retries import Retries


class Applier:
    """Carries out plans.

    Args:
        workers: requests at the same time, over all BundleDeployments.

    Attributes:
        pool: sends these requests.
        looker: reads objects.
    """

    def __init__(self, client: Client, discovery: Discovery, watches: Watches, retries: Retries, workers: int) -> None:
        self._discovery = discovery
        hastes = ConcurrencyLimits(workers)
        self.pool = Pool(workers, hastes, client.supervisor)
        self.looker = self._looker = ObjectReader(client, self.pool)
        self._watches = watches
        self._reviewer = AccessReviewer(client, self.pool)
        self._waits, self._retries = Dependencies(watches, retries), retries
        self._sender = Sender(client, discovery, watches, retries, self._looker, hastes=hastes)

    def stop(self) -> None:
        """Start nothing more."""
        self.pool.stop()

    def execute(self, plan: Plan, job: ApplyOptions) -> list[Outcome]:
        """Carry out the steps in order.

        Raises: ApiError if discovery does not answer.
        """
        progress = StepResults()
        definitions = [step for step in plan.steps if step.position.stage is Stage.DEFINITIONS]
        for step in definitions:
            progress.add(self._run_step(step, job, progress))
        progress.gate = job.gate()
        for step in plan.steps[len(definitions) :]:
            progress.add(self._run_step(step, job, progress))
        return self._with_all_rights(progress.outcomes, job)

    def _with_all_rights(self, outcomes: list[Outcome], job: ApplyOptions) -> list[Outcome]:
        """Let every failure for want of rights name all that are missing: nobody grants them one by one.

        What they are is asked only when something was refused anew: from then on its failure is remembered with them.
        """
        errors = [outcome.error for outcome in outcomes]
        told = list_all(errors)
        if told is None:
            return outcomes
        failed = [(o.task, resource) for o in outcomes if o.error and (resource := self._resource(o.task, job))]
        lack = list_all(errors, self._reviewer.missing([(task.target, each) for task, each in failed], job)) or told
        concerned = [o for o in outcomes if isinstance(o.error, MissingRightsError | LackOfRightsError)]
        for outcome in concerned:
            self._retries.revise(job.owner.name, outcome.task.target.key, lack)
        return [replace(o, error=lack) if o in concerned else o for o in outcomes]

    def survey(self, plan: Plan, job: ApplyOptions) -> tuple[list[DriftedObject], list[Record]]:
        """Compare without touching anything; returns what has drifted, and what is as it was left."""
        tasks = [(task, resource) for task in plan.tasks if (resource := self._resource(task, job))]
        settled = self._compared(self._looked_at(tasks, job, StepResults()), job)
        changed = [item for item in settled if _is_drift(item[0], job)]
        drifted = [found for found in self._accounts(changed, job) if found]
        return drifted, [task.record for task, _ in settled if task.action is Action.NONE and task.record]

    def _run_step(self, step: Step, job: ApplyOptions, progress: StepResults) -> list[Outcome]:
        held: list[Outcome] = []
        ready: list[tuple[Task, Resource]] = []
        for task in step.tasks:
            outcome = self._held(task, step, job, progress)
            resource = None if outcome else self._resource(task, job)
            error = _unaddressable(task, resource) if resource else _not_served(task)
            if outcome:
                held.append(outcome)
            elif resource is None or error:
                held.append(Outcome(task=task, error=error))
            else:
                ready.append((task, resource))
        ready = self._compared(self._looked_at(ready, job, progress), job)
        told, ready = self._told(ready, job)
        return held + told + self.pool.run(lambda item: self._sender.carry_out(*item, job), ready, job.user)

    def _held(self, task: Task, step: Step, job: ApplyOptions, progress: StepResults) -> Outcome | None:
        """Return the outcome of a task about which nothing is done now; None if it is ready."""
        if task.action in (Action.NONE, Action.USE):
            return Outcome(task=task, record=task.record if task.action is Action.NONE else None)
        if job.ledger.postpones(task.target.key, task.target.digest):
            return Outcome(task=task, postponed=True)
        error = progress.gate or self._waits.hindrance(task, step, job, progress)
        return Outcome(task=task, error=error) if error else None

    def _resource(self, task: Task, job: ApplyOptions) -> Resource | None:
        defined = job.wanted.resources.get(task.target.kind[::2])
        if defined:
            return replace(defined, version=task.target.kind.version)
        return self._discovery.resource(task.target.kind)

    def _told(
        self, items: list[tuple[Task, Resource]], job: ApplyOptions
    ) -> tuple[list[Outcome], list[tuple[Task, Resource]]]:
        """Take out what has drifted where that is only to be told; returns the outcomes of that, and the rest."""
        changed = [] if job.repairs else [item for item in items if _is_drift(item[0], job)]
        accounts = self._accounts(changed, job)
        keys = {task.target.key for task, _ in changed}
        told = [
            Outcome(task=task, spared=True, drift=drift) for (task, _), drift in zip(changed, accounts, strict=True)
        ]
        return told, [item for item in items if item[0].target.key not in keys]

    def _accounts(self, items: list[tuple[Task, Resource]], job: ApplyOptions) -> list[DriftedObject | None]:
        return self.pool.run(lambda item: self._looker.account(*item, job), items, job.user)

    # what the watches do not know

    def _looked_at(
        self, items: list[tuple[Task, Resource]], job: ApplyOptions, progress: StepResults
    ) -> list[tuple[Task, Resource]]:
        """Settle what LOOK means for each object; nothing is read in a namespace that these steps created."""
        unknown = [item for item in items if item[0].action is Action.LOOK]
        to_read = [(t.target.key, r) for t, r in unknown if t.target.key.namespace not in progress.created_namespaces]
        found = self._looker.look(to_read, job.user)
        for record in found.values():
            # What nobody watches is known from here alone; other marks than ours say nothing.
            if isinstance(record, Record) and record.owner == job.owner.name and self._is_unseen(record):
                self._watches.learn(record)
        settled = {task.target.key: self._sender.decide(task, found.get(task.target.key), job) for task, _ in unknown}
        return [(settled.get(task.target.key, task), resource) for task, resource in items]

    def _is_unseen(self, record: Record) -> bool:
        return self._watches.is_unseen(record.key.group, record.key.kind)

    def _compared(self, items: list[tuple[Task, Resource]], job: ApplyOptions) -> list[tuple[Task, Resource]]:
        """Settle what COMPARE means for each object."""
        to_compare = [item for item in items if item[0].action is Action.COMPARE]
        same = self._looker.compare(to_compare, job) if to_compare else {}

        def settle(task: Task) -> Task:
            if task.action is not Action.COMPARE:
                return task
            found = same[task.target.key]
            if isinstance(found, ApiError):
                return self._sender.refuse(task, found, job)
            return replace(task, action=Action.NONE if found else Action.REPAIR)

        return [(settle(task), resource) for task, resource in items]


def _is_drift(task: Task, job: ApplyOptions) -> bool:
    """Whether somebody has changed an object; one that was never applied has not been taken away."""
    if task.action in (Action.CREATE, Action.TAKE_BACK, Action.AWAIT):
        return not task.target.bare and (job.installed or task.target.key in job.ledger.left)
    return task.action is Action.REPAIR


def _not_served(task: Task) -> BundleError:
    return BundleError(
        Reason.KIND_NOT_SERVED,
        f"{task.target.key}: the cluster does not serve {task.target.kind}; install what serves it",
    )


def _unaddressable(task: Task, resource: Resource) -> BundleError | None:
    """Return why an object can be at no path of the API server, so that nothing about it can be asked."""
    if resource.namespaced and not task.target.key.namespace:
        return _not_served(task)  # when its namespace was to be decided; now it is, and the next pass does that
    try:
        resource.path(task.target.key.namespace, task.target.key.name)
    except ValueError as error:
        return BundleError(Reason.REFUSED, f"{task.target.key}: {error}")
    return None
