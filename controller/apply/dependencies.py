"""What an object must wait for: something it needs has failed or is not ready.

Nothing blocks here: the reason is returned, and the event that ends the wait starts the next pass. A failure blocks
only what needs the object: the content of a namespace, the instances of a CustomResourceDefinition, the last stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.order import Stage, served_group
from controller.apply.plan import Action, ApplyOptions, Outcome, Step, Task
from controller.observe.health.verdict import State
from controller.observe.records import ObjectKey
from controller.observe.watches import Watches


@dataclass(slots=True)
class StepResults:
    """The results of the previous steps."""

    outcomes: list[Outcome] = field(default_factory=list)
    failed: dict[ObjectKey, BundleError] = field(default_factory=dict)
    created_namespaces: set[str] = field(default_factory=set)
    gate: BundleError | None = None
    """Why all following steps wait."""

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Add the outcomes of a step."""
        self.outcomes += outcomes
        for outcome in outcomes:
            key = outcome.task.target.key
            if outcome.error:
                self.failed[key] = outcome.error
            elif key.kind == "Namespace" and outcome.task.action is Action.CREATE:
                self.created_namespaces.add(key.name)


def hindrance(
    task: Task, step: Step, options: ApplyOptions, results: StepResults, watches: Watches
) -> BundleError | None:
    """Return why a task must wait; None if it is ready."""
    target = task.target
    if not options.proceed():
        return out_of_date(task)
    if held := options.retries.holding(target.key, options.attempt(target, task.seen)):
        return held
    if error := results.failed.get(ObjectKey("", "Namespace", "", target.key.namespace)):
        return BundleError(Reason.APPLYING, f"{target.key}: waiting for its namespace: {error.message}")
    if target.kind[::2] in options.wanted.resources:
        return _crd_hindrance(task, options, results, watches)
    if step.position.stage is Stage.GATES and (blocker := _find_blocker(task, step, results)):
        return BundleError(Reason.APPLYING, f"{target.key}: waiting for all other objects; not applied: {blocker}")
    return None


def _crd_hindrance(task: Task, options: ApplyOptions, results: StepResults, watches: Watches) -> BundleError | None:
    """Return why an instance of a CustomResourceDefinition of the same bundle must wait for that."""
    resource = options.wanted.resources[task.target.kind[::2]]
    name = f"{resource.plural}.{resource.group}"
    key = ObjectKey("apiextensions.k8s.io", "CustomResourceDefinition", "", name)
    if error := results.failed.get(key):
        message = f"{task.target.key}: waiting for its CustomResourceDefinition: {error.message}"
        return BundleError(Reason.WAITING_FOR_CRD, message)
    record = watches.managed(options.owner.name).get(key)
    if record is None or record.verdict is None or record.verdict.state is not State.HEALTHY:
        message = f'{task.target.key}: waiting for CustomResourceDefinition "{name}" to be established'
        return BundleError(Reason.WAITING_FOR_CRD, message)
    return None


def _find_blocker(task: Task, step: Step, results: StepResults) -> ObjectKey | None:
    """Return an object that was not applied, and that a task of the last stage waits for.

    An APIService does not wait for objects of the groups that those of this bundle add: these wait for it.
    """
    own = served_group(task.target.key)
    added = {served_group(each.target.key) for each in step.tasks} - {""} if own else set()
    return next((key for key in results.failed if key.group not in added), None)


def out_of_date(task: Task) -> BundleError:
    """Return why nothing more is sent: the spec has changed since the plan was made."""
    return BundleError(Reason.APPLYING, f"{task.target.key}: spec changed; waiting for the next reconcile")
