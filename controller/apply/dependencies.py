"""Why it is not an object's turn yet: what it needs has failed, or has not come that far.

Nothing waits here: the reason is said, and the event that ends the wait brings the next pass. A failure holds up only
what needs the object: the content of a namespace, the instances of a CustomResourceDefinition, and the last stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply import order
from controller.apply.options import ApplyOptions
from controller.apply.outcome import Outcome
from controller.apply.plan import Action, Step, Task
from controller.observe.health.verdict import State
from controller.observe.records import ObjectKey
from controller.observe.watches import Watches
from controller.retries import Retries


@dataclass(slots=True)
class StepResults:
    """What the steps so far have done."""

    outcomes: list[Outcome] = field(default_factory=list)
    failed: dict[ObjectKey, BundleError] = field(default_factory=dict)
    created_namespaces: set[str] = field(default_factory=set)
    gate: BundleError | None = None
    """Why everything that is still to come has to wait."""

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Note what a step has done."""
        self.outcomes += outcomes
        for outcome in outcomes:
            key = outcome.task.target.key
            if outcome.error:
                self.failed[key] = outcome.error
            elif key.kind == "Namespace" and outcome.task.action is Action.CREATE:
                self.created_namespaces.add(key.name)


class Dependencies:
    """Knows what has to be so before an object is sent."""

    def __init__(self, watches: Watches, retries: Retries) -> None:
        self._watches, self._retries = watches, retries

    def hindrance(self, task: Task, step: Step, options: ApplyOptions, results: StepResults) -> BundleError | None:
        """Return why it is not this task's turn; None: it is."""
        target = task.target
        if not options.proceed():
            return out_of_date(task)
        held = self._retries.holding(options.owner.name, target.key, options.attempt(target))
        if held and not (
            held.reason is Reason.IMMUTABLE and task.record is None
        ):  # gone: nothing is immutable any more
            return held
        if error := results.failed.get(ObjectKey("", "Namespace", "", target.key.namespace)):
            return BundleError(Reason.APPLYING, f"{target.key}: waits for its namespace: {error.message}")
        if target.kind[::2] in options.wanted.resources:
            return self._crd_hindrance(task, options, results)
        if step.position.stage is order.Stage.GATES and results.failed:
            return BundleError(Reason.APPLYING, f"{target.key}: waits for what it serves: {next(iter(results.failed))}")
        return None

    def _crd_hindrance(self, task: Task, options: ApplyOptions, results: StepResults) -> BundleError | None:
        """An instance waits until the CustomResourceDefinition of the same bundle is established."""
        resource = options.wanted.resources[task.target.kind[::2]]
        name = f"{resource.plural}.{resource.group}"
        key = ObjectKey("apiextensions.k8s.io", "CustomResourceDefinition", "", name)
        if error := results.failed.get(key):
            return BundleError(
                Reason.WAITING_FOR_CRD, f"{task.target.key}: waits for its CustomResourceDefinition: {error.message}"
            )
        record = self._watches.managed(options.owner.name).get(key)
        if record is None or record.verdict is None or record.verdict.state is not State.HEALTHY:
            message = f'{task.target.key}: waits until CustomResourceDefinition "{name}" is established'
            return BundleError(Reason.WAITING_FOR_CRD, message)
        return None


def out_of_date(task: Task) -> BundleError:
    """Return why nothing more is sent: the spec has changed since this was decided."""
    return BundleError(Reason.APPLYING, f"{task.target.key}: waits until the changed spec was looked at")
