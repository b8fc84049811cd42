"""Carrying out the steps of a plan: what is ready is applied at the same time, what has to wait says for what.

Nothing here waits: a task whose turn has not come ends with the reason for it, and the event that ends the wait brings
the next pass. Every failure holds up only what needs the object: the content of a namespace, the instances of a
CustomResourceDefinition, and the last stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply import order
from controller.apply.ledger import Ledger
from controller.apply.look import Looker, run_each
from controller.apply.ownership import Exists, Owner, make_body
from controller.apply.plan import Action, Plan, Step, Task, decide_about
from controller.apply.release import make_way
from controller.apply.replies import classify
from controller.apply.targets import TargetSet
from controller.kube.client import ApiError, Client
from controller.kube.discovery import Discovery
from controller.kube.resources import Resource
from controller.observe.health import needs_full_object
from controller.observe.health.verdict import State
from controller.observe.records import ObjectKey, Record, project
from controller.observe.watches import NOT_OBSERVED, Watches
from controller.retries import Retries

CONFLICT = 409
NOT_SERVED_YET_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a task."""

    task: Task
    error: BundleError | None = None
    """Why the object is not as it is wanted; None: it is."""
    postponed: bool = False
    """It was changed again and again: it is repaired later."""
    tried: bool = False
    """Whether something was sent, so that a failure is news."""
    record: Record | None = None
    """The object as the reply to our write showed it."""
    warnings: tuple[str, ...] = ()
    """Of the API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """For whom, and under which rules, a plan is carried out."""

    owner: Owner
    orphan: bool
    collision_protection: str
    install_namespace: str
    wanted: TargetSet
    ledger: Ledger
    exists: Exists
    proceed: Callable[[], bool]
    """False as soon as the BundleDeployment is paused, deleted or changed: then nothing more is sent."""


@dataclass(slots=True)
class _Progress:
    """What the steps so far have done."""

    outcomes: list[Outcome] = field(default_factory=list)
    failed: dict[ObjectKey, BundleError] = field(default_factory=dict)
    created_namespaces: set[str] = field(default_factory=set)

    def add(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes += outcomes
        for outcome in outcomes:
            key = outcome.task.target.key
            if outcome.error:
                self.failed[key] = outcome.error
            elif key.kind == "Namespace" and outcome.task.action is Action.CREATE:
                self.created_namespaces.add(key.name)


class Applier:
    """Carries out plans.

    Args:
        workers: requests at the same time, over all BundleDeployments.
    """

    def __init__(self, client: Client, discovery: Discovery, watches: Watches, retries: Retries, workers: int) -> None:
        self._client, self._discovery, self._watches, self._retries = client, discovery, watches, retries
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="apply")
        self._window = 4 * workers
        self._looker = Looker(client, self._pool, self._window)

    def stop(self) -> None:
        """Start nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def execute(self, plan: Plan, job: Job) -> list[Outcome]:
        """Carry out the steps in order; no exception but a bug."""
        progress = _Progress()
        for step in plan.steps:
            progress.add(self._run_step(step, job, progress))
        return progress.outcomes

    def survey(self, plan: Plan, job: Job) -> tuple[list[ObjectKey], list[Record]]:
        """Compare without touching anything; returns what has drifted, and what is as it was left."""
        tasks = [(task, resource) for task in plan.tasks if (resource := self._resource(task, job))]
        settled = [task for task, _ in self._compared(tasks, job)]
        drifted = [
            t.target.key
            for t in settled
            if t.action in (Action.REPAIR, Action.LOOK, Action.TAKE_BACK, Action.AWAIT) and not t.target.bare
        ]
        return drifted, [t.record for t in settled if t.action is Action.NONE and t.record]

    def _run_step(self, step: Step, job: Job, progress: _Progress) -> list[Outcome]:
        held: list[Outcome] = []
        ready: list[tuple[Task, Resource]] = []
        for task in step.tasks:
            error = self._hindrance(task, step, job, progress)
            resource = None if error else self._resource(task, job)
            if task.action in (Action.NONE, Action.USE):
                held.append(Outcome(task=task))
            elif job.ledger.postpones(task.target.key, task.target.digest):
                held.append(Outcome(task=task, postponed=True))
            elif error or resource is None:
                held.append(Outcome(task=task, error=error or _not_served(task)))
            else:
                ready.append((task, resource))
        ready = self._looked_at(ready, job, progress)
        ready = self._compared(ready, job)
        return held + run_each(self._pool, lambda item: self._carry_out(*item, job), ready, self._window)

    # what has to be so before an object is sent

    def _hindrance(self, task: Task, step: Step, job: Job, progress: _Progress) -> BundleError | None:
        """Return why it is not this task's turn; None: it is."""
        target = task.target
        if not job.proceed():
            return BundleError(Reason.APPLYING, f"{target.key}: waits until the changed spec was looked at")
        if held := self._retries.holding(job.owner.name, target.key, target.digest):
            return held
        if error := progress.failed.get(ObjectKey("", "Namespace", "", target.key.namespace)):
            return BundleError(Reason.APPLYING, f"{target.key}: waits for its namespace: {error.message}")
        if target.kind[::2] in job.wanted.resources:
            return self._crd_hindrance(task, job, progress)
        if step.position.stage is order.Stage.GATES and progress.failed:
            return BundleError(
                Reason.APPLYING, f"{target.key}: waits for what it serves: {next(iter(progress.failed))}"
            )
        return None

    def _crd_hindrance(self, task: Task, job: Job, progress: _Progress) -> BundleError | None:
        """An instance waits until the CustomResourceDefinition of the same bundle is established."""
        resource = job.wanted.resources[task.target.kind[::2]]
        name = f"{resource.plural}.{resource.group}"
        key = ObjectKey("apiextensions.k8s.io", "CustomResourceDefinition", "", name)
        if error := progress.failed.get(key):
            return BundleError(
                Reason.WAITING_FOR_CRD, f"{task.target.key}: waits for its CustomResourceDefinition: {error.message}"
            )
        record = self._watches.managed(job.owner.name).get(key)
        if record is None or record.verdict is None or record.verdict.state is not State.HEALTHY:
            message = f'{task.target.key}: waits until CustomResourceDefinition "{name}" is established'
            return BundleError(Reason.WAITING_FOR_CRD, message)
        return None

    def _resource(self, task: Task, job: Job) -> Resource | None:
        defined = job.wanted.resources.get(task.target.kind[::2])
        if defined:
            return replace(defined, version=task.target.kind.version)
        return self._discovery.resource(task.target.kind)

    # what the watches do not know

    def _looked_at(
        self, items: list[tuple[Task, Resource]], job: Job, progress: _Progress
    ) -> list[tuple[Task, Resource]]:
        """Settle what LOOK means for each object; nothing is read in a namespace that these steps created."""
        unknown = [item for item in items if item[0].action is Action.LOOK]
        to_read = [(t.target.key, r) for t, r in unknown if t.target.key.namespace not in progress.created_namespaces]
        found = self._looker.look(to_read)
        settled = {task.target.key: self._decide(task, found.get(task.target.key), job) for task, _ in unknown}
        return [(settled.get(task.target.key, task), resource) for task, resource in items]

    def _decide(self, task: Task, found: Record | ApiError | None, job: Job) -> Task:
        if isinstance(found, ApiError):
            return self._refuse(task, found, job)
        return decide_about(
            found,
            task.target,
            owner=job.owner,
            exists=job.exists,
            ledger=job.ledger,
            collision_protection=job.collision_protection,
        )

    def _refuse(self, task: Task, error: ApiError, job: Job) -> Task:
        """Leave an object alone that could not be read."""
        return replace(task, action=Action.REFUSE, record=None, refusal=self._error(error, task, job))

    def _compared(self, items: list[tuple[Task, Resource]], job: Job) -> list[tuple[Task, Resource]]:
        """Settle what COMPARE means for each object."""
        to_compare = [item for item in items if item[0].action is Action.COMPARE]
        same = self._looker.compare(to_compare, job.owner, orphan=job.orphan) if to_compare else {}

        def settle(task: Task) -> Task:
            if task.action is not Action.COMPARE:
                return task
            found = same[task.target.key]
            if isinstance(found, ApiError):
                return self._refuse(task, found, job)
            return replace(task, action=Action.NONE if found else Action.REPAIR)

        return [(settle(task), resource) for task, resource in items]

    # sending

    def _carry_out(self, task: Task, resource: Resource, job: Job) -> Outcome:
        match task.action:
            case Action.NONE:
                return Outcome(task=task, record=task.record)
            case Action.USE:
                return Outcome(task=task)
            case Action.REFUSE:
                return self._failed(task, task.refusal, job) if task.refusal else Outcome(task=task)
            case Action.AWAIT:
                return Outcome(task=task, error=_terminating(task))
            case _:
                return self._send(task, resource, job)

    def _send(self, task: Task, resource: Resource, job: Job) -> Outcome:
        if not job.proceed():
            return Outcome(
                task=task,
                error=BundleError(Reason.APPLYING, f"{task.target.key}: waits until the changed spec was looked at"),
            )
        try:
            return self._apply(task, resource, job)
        except ApiError as error:
            if error.status == CONFLICT:
                return self._judge_again(task, resource, job)
            return self._failed(task, self._error(error, task, job), job)

    def _apply(self, task: Task, resource: Resource, job: Job) -> Outcome:
        target = task.target
        body = dict(target.manifest) if target.bare else make_body(target.manifest, job.owner, orphan=job.orphan)
        if task.action is Action.TAKE_BACK and task.record:
            version = make_way(self._client, resource, target.key, task.record.resource_version)
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        reply = self._client.apply(
            resource.path(target.key.namespace, target.key.name),
            body,
            manager=names.field_manager(job.owner.name),
            force=task.action is not Action.CREATE,
        )
        self._retries.succeeded(job.owner.name, target.key)
        verdict = NOT_OBSERVED if needs_full_object(target.key.group, target.key.kind) else None
        record = project(reply.value, target.key.group, target.key.kind, verdict)
        if target.bare:
            return Outcome(task=task, tried=True, warnings=reply.warnings)
        record = self._watches.learn(record)
        error = _terminating(task) if record.deleting else None
        if task.action is Action.REPAIR or (task.action is Action.CREATE and target.key in job.ledger.left):
            job.ledger.repaired(target.key)
        return Outcome(task=task, error=error, tried=True, record=record, warnings=reply.warnings)

    def _judge_again(self, task: Task, resource: Resource, job: Job) -> Outcome:
        """Somebody was faster: look at the object, and send once more what follows from that."""
        # Not by the pool, of which this thread is one: all of them might wait for each other.
        found = self._looker.read((task.target.key, resource))
        judged = self._decide(task, found, job)
        if judged.action in (Action.REFUSE, Action.AWAIT, Action.USE):
            return self._carry_out(judged, resource, job)
        try:
            return self._apply(judged, resource, job)
        except ApiError as error:
            return self._failed(task, self._error(error, task, job), job)

    def _failed(self, task: Task, error: BundleError, job: Job) -> Outcome:
        self._retries.failed(job.owner.name, task.target.key, task.target.digest, error)
        if error.reason is Reason.NAMESPACE_NOT_FOUND:
            job.ledger.used.discard(ObjectKey("", "Namespace", "", task.target.key.namespace))
        return Outcome(task=task, error=error, tried=True)

    def _error(self, error: ApiError, task: Task, job: Job) -> BundleError:
        failure = classify(error, task.target.key, install_namespace=job.install_namespace)
        if failure.reason is Reason.KIND_NOT_SERVED:
            self._discovery.invalidate()
            if task.target.kind[::2] in job.wanted.resources:  # established, and not everywhere yet: under 0.3 s
                message = f"{task.target.key}: waits until its kind is served"
                return BundleError(Reason.WAITING_FOR_CRD, message, retry_after=NOT_SERVED_YET_SECONDS)
        return BundleError(failure.reason, failure.message, retry_after=failure.retry_after)


def _not_served(task: Task) -> BundleError:
    return BundleError(
        Reason.KIND_NOT_SERVED,
        f"{task.target.key}: the cluster does not serve {task.target.kind}; install what serves it",
    )


def _terminating(task: Task) -> BundleError:
    reason = Reason.NAMESPACE_TERMINATING if task.target.key.kind == "Namespace" else Reason.APPLYING
    return BundleError(reason, f"{task.target.key}: is being deleted; it is applied again when it is gone")
