"""Execute the steps of a plan: tasks that are ready run at the same time, the others return why they wait.

Nothing blocks here: the event that ends a wait starts the next pass. Not here: what a task waits for (dependencies.py),
and the requests for one object (object/).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.dependencies import StepResults, hindrance
from controller.apply.drift import DriftedObject
from controller.apply.lookup import ObjectReader
from controller.apply.order import Stage
from controller.apply.ownership import is_changing_hands
from controller.apply.plan import Action, ApplyOptions, Outcome, Plan, Step, Task
from controller.apply.pool import ConcurrencyLimits, Pool
from controller.apply.removal import Relabeler
from controller.apply.reviews import AccessReviewer, Examiner, GiverRights
from controller.apply.rights import LackOfRightsError, MissingRightsError, list_all
from controller.apply.sender import Sender
from controller.apply.targets import Target
from controller.kube.client import ApiError, Client
from controller.kube.discovery import Discovery
from controller.kube.resources import Resource
from controller.observe.records import ObjectKey, Record
from controller.observe.watches import Watches

_REVIEW = "review of rights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a comparison without writing has found."""

    drifted: tuple[DriftedObject, ...]
    same: tuple[Record, ...]
    """Objects that are as the last apply left them."""
    handed_over: Mapping[ObjectKey, str]
    refused: Mapping[ObjectKey, BundleError]
    """Objects that belong to others, and to whom."""
    """Objects that another BundleDeployment has taken over, with its name."""


class Applier:
    """Executes plans.

    Args:
        workers: concurrent requests, for all BundleDeployments.

    Attributes:
        pool: sends these requests.
        reader: reads objects.
        relabeler: changes the shard of objects.
    """

    def __init__(self, client: Client, discovery: Discovery, watches: Watches, workers: int) -> None:
        self._discovery = discovery
        limits = ConcurrencyLimits(workers)
        self.pool = Pool(workers, limits, client.supervisor)
        self.reader = self._reader = ObjectReader(client, self.pool)
        self.relabeler = Relabeler(client, discovery, self.pool)
        self._watches = watches
        self._reviewer = AccessReviewer(client, self.pool)
        self._examiner = Examiner(client, self.pool, self._reviewer)
        self._giver_rights = GiverRights(self._reviewer)
        self._sender = Sender(client, discovery, watches, self._reader, limits=limits)

    def stop(self) -> None:
        """Start no more requests."""
        self.pool.stop()

    def execute(self, plan: Plan, options: ApplyOptions) -> list[Outcome]:
        """Execute the steps in order.

        Raises: ApiError if discovery does not answer; CancelledError after `stop`.
        """
        results = StepResults()
        definitions = [step for step in plan.steps if step.position.stage is Stage.DEFINITIONS]
        for step in definitions:
            results.add(self._run_step(step, options, results))
        results.gate = options.gate()
        for step in plan.steps[len(definitions) :]:
            results.add(self._run_step(step, options, results))
        return self._with_all_rights(results.outcomes, options)

    def _with_all_rights(self, outcomes: list[Outcome], options: ApplyOptions) -> list[Outcome]:
        """List all missing rights in every failure that is about rights, so that they can be granted at once.

        They are reviewed only after a new refusal; from then on the remembered failure lists them.
        """
        errors = [outcome.error for outcome in outcomes]
        denied = list_all(errors)
        if denied is None:
            return outcomes
        failed = [(o.task, resource) for o in outcomes if o.error and (resource := self._resource(o.task, options))]
        lack = (
            list_all(errors, self._reviewer.missing([(task.target, each) for task, each in failed], options)) or denied
        )
        about_rights = MissingRightsError | LackOfRightsError
        revised = [replace(o, error=lack) if isinstance(o.error, about_rights) else o for o in outcomes]
        for outcome in revised:
            if outcome.error is lack:
                options.retries.revise(outcome.task.target.key, lack)
        return revised

    def review(self, options: ApplyOptions) -> BundleError | None:
        """Return all rights that the account lacks to repair the objects of the revision; None if it lacks none.

        A lack is reviewed again when rights have changed, and as often as its reason is retried.

        Raises: ApiError if discovery does not answer; CancelledError after `stop`.
        """
        if options.user is None:
            return None
        attempt = f"{options.user.name} {options.wanted.revision} {options.spec_version}"
        if held := options.retries.holding(_REVIEW, attempt):
            return held
        lack = self._reviewer.lack(self._applied(options), options, options.user)
        if lack:
            options.retries.failed(_REVIEW, attempt, lack)
        else:
            options.retries.succeeded(_REVIEW)
        return lack

    def find_problems(self, options: ApplyOptions, changed: Collection[ObjectKey]) -> list[BundleError]:
        """Return what would prevent applying a revision, as far as reading shows; nothing is written.

        Args:
            options: of the revision.
            changed: its objects that differ from those of the revision on the cluster.

        Returns: the rights that the account lacks, and unsafe upgrades of CustomResourceDefinitions.
        Raises: ApiError if discovery does not answer; CancelledError after `stop`.
        """
        return self._examiner.find_problems(self._applied(options), options, changed)

    def survey(self, plan: Plan, options: ApplyOptions) -> Survey:
        """Compare without writing.

        Raises: ApiError if discovery does not answer; CancelledError after `stop`.
        """
        tasks = [(task, resource) for task in plan.tasks if (resource := self._resource(task, options))]
        settled = self._compared(self._read_unknown(tasks, options, StepResults()), options)
        staying = [item for item in settled if not is_changing_hands(item[0].record, options.hand_over)]
        changed = [item for item in staying if _is_drift(item[0], options)]
        return Survey(
            drifted=tuple(found for found in self._explanations(changed, options) if found),
            same=tuple(task.record for task, _ in settled if task.action is Action.NONE and task.record),
            handed_over={task.target.key: task.handed_to for task, _ in settled if task.handed_to},
            refused={t.target.key: t.refusal for t, _ in settled if t.refusal and not t.handed_to},
        )

    def _run_step(self, step: Step, options: ApplyOptions, results: StepResults) -> list[Outcome]:
        held: list[Outcome] = []
        ready: list[tuple[Task, Resource]] = []
        for task in step.tasks:
            outcome = self._held(task, step, options, results)
            resource = None if outcome else self._resource(task, options)
            error = _unaddressable(task, resource) if resource else self._unserved(task)
            if outcome:
                held.append(outcome)
            elif resource is None or error:
                held.append(Outcome(task=task, error=error))
            else:
                ready.append((task, resource))
        ready = self._compared(self._read_unknown(ready, options, results), options)
        ready = self._giver_rights.examine(ready, options)
        spared, ready = self._spare(ready, options)
        return held + spared + self.pool.run(lambda item: self._sender.carry_out(*item, options), ready, options.user)

    def _held(self, task: Task, step: Step, options: ApplyOptions, results: StepResults) -> Outcome | None:
        """Return the outcome of a task that is not executed now; None if it is ready."""
        if task.action in (Action.NONE, Action.USE):
            return Outcome(task=task, record=task.record if task.action is Action.NONE else None)
        if options.ledger.postpones(task.target.key, task.target.digest):
            return Outcome(task=task, postponed=True)
        error = results.gate or hindrance(task, step, options, results, self._watches)
        return Outcome(task=task, error=error) if error else None

    def _unserved(self, task: Task) -> BundleError:
        group = task.target.kind.group
        if group not in self._discovery.failed_groups():
            return _not_served(task)
        return _not_served(task, f': discovery of API group "{group}" failed; repair its APIService')

    def _resource(self, task: Task, options: ApplyOptions) -> Resource | None:
        return self._find_resource(task.target, options)

    def _applied(self, options: ApplyOptions) -> list[tuple[Target, Resource]]:
        """Return the objects that are applied, of kinds that are served."""
        targets = [t for t in options.wanted.targets if not t.bare and t.key not in options.ledger.used]
        return [(each, resource) for each in targets if (resource := self._find_resource(each, options))]

    def _find_resource(self, target: Target, options: ApplyOptions) -> Resource | None:
        defined = options.wanted.resources.get(target.kind[::2])
        if defined:
            return replace(defined, version=target.kind.version)
        return self._discovery.resource(target.kind)

    def _spare(
        self, items: list[tuple[Task, Resource]], options: ApplyOptions
    ) -> tuple[list[Outcome], list[tuple[Task, Resource]]]:
        """Split off drifted objects if drift is only reported; returns their outcomes and the other items."""
        changed = [] if options.repairs else [item for item in items if _is_drift(item[0], options)]
        explanations = self._explanations(changed, options)
        keys = {task.target.key for task, _ in changed}
        pairs = zip(changed, explanations, strict=True)
        spared = [Outcome(task=task, spared=True, drift=drift) for (task, _), drift in pairs]
        return spared, [item for item in items if item[0].target.key not in keys]

    def _explanations(self, items: list[tuple[Task, Resource]], options: ApplyOptions) -> list[DriftedObject | None]:
        return self.pool.run(lambda item: self._reader.explain_drift(*item, options), items, options.user)

    # reading what the watches do not know

    def _read_unknown(
        self, items: list[tuple[Task, Resource]], options: ApplyOptions, results: StepResults
    ) -> list[tuple[Task, Resource]]:
        """Read the objects of `READ` tasks, unless they are known to be absent, and decide about them."""
        unknown = [item for item in items if item[0].action is Action.READ]
        to_read = [(t.target.key, r) for t, r in unknown if not self._is_absent(t.target, results)]
        found = self._reader.read_all(to_read, options.user)
        for record in found.values():
            # Objects of a kind that is not watched are known only from here.
            if isinstance(record, Record) and record.owner == options.owner.name and self._is_unseen(record):
                self._watches.learn(record)
        settled = {
            task.target.key: self._sender.decide(task, found.get(task.target.key), options) for task, _ in unknown
        }
        return [(settled.get(task.target.key, task), resource) for task, resource in items]

    def _is_absent(self, target: Target, results: StepResults) -> bool:
        """Whether an object is in a namespace that these steps created, or is an install namespace that is missing.

        If another client creates that in the meantime, an apply that sets no fields does not change it.
        """
        key = target.key
        is_empty = target.bare and target.manifest["metadata"].keys() == {"name"}
        return key.namespace in results.created_namespaces or (is_empty and self._watches.lacks_namespace(key.name))

    def _is_unseen(self, record: Record) -> bool:
        return self._watches.is_forbidden(record.key.group, record.key.kind)

    def _compared(self, items: list[tuple[Task, Resource]], options: ApplyOptions) -> list[tuple[Task, Resource]]:
        """Compare the objects of `COMPARE` tasks and decide about them."""
        to_compare = [item for item in items if item[0].action is Action.COMPARE]
        same = self._reader.compare(to_compare, options) if to_compare else {}

        def _settle(task: Task) -> Task:
            if task.action is not Action.COMPARE:
                return task
            found = same[task.target.key]
            if isinstance(found, ApiError):
                return self._sender.refuse(task, found, options)
            return replace(task, action=Action.NONE if found else Action.REPAIR)

        return [(_settle(task), resource) for task, resource in items]


def _is_drift(task: Task, options: ApplyOptions) -> bool:
    """Whether another client has modified or deleted an object that was applied."""
    if task.action in (Action.CREATE, Action.TAKE_BACK, Action.AWAIT):
        return not task.target.bare and (options.installed or task.target.key in options.ledger.left)
    return task.action is Action.REPAIR


def _not_served(task: Task, why: str = "; install its API") -> BundleError:
    return BundleError(Reason.KIND_NOT_SERVED, f"{task.target.key}: the cluster does not serve {task.target.kind}{why}")


def _unaddressable(task: Task, resource: Resource) -> BundleError | None:
    """Return why an object has no path on the API server."""
    if resource.namespaced and not task.target.key.namespace:
        return _not_served(task)  # the kind appeared after the targets were made; the next pass sets the namespace
    try:
        resource.path(task.target.key.namespace, task.target.key.name)
    except ValueError as error:
        return BundleError(Reason.REFUSED, f"{task.target.key}: {error}")
    return None
