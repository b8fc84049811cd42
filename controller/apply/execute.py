"""Execute the steps of a plan: tasks that are ready run at the same time, the others return why they wait.

Nothing blocks here: the event that ends a wait starts the next pass. A failure blocks only what needs the object: the
content of a namespace, the instances of a CustomResourceDefinition, the last stage, and what is new in later waves.

The API server is asked which rights an account lacks only after a refusal that is about rights, and before another
account takes over installed objects. The account asks about itself, which every account may; a question without an
answer adds nothing. Where objects change hands, the account of the giver is asked whether it may still apply them, so
that a hand-over launders nobody's rights.

Not here: the requests for one object (sender.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.crd_upgrade import inspect_upgrade
from rukpak.controller.apply.drift import DriftedObject
from rukpak.controller.apply.order import Stage, served_group
from rukpak.controller.apply.ownership import CRD, Giver, is_changing_hands
from rukpak.controller.apply.plan import (
    Action,
    ApplyOptions,
    Outcome,
    Plan,
    Step,
    Task,
    WaveError,
    is_drift,
    out_of_date,
)
from rukpak.controller.apply.replies import classify
from rukpak.controller.apply.requests import ObjectReader, Pool
from rukpak.controller.apply.rights import (
    LackOfRightsError,
    MissingRightsError,
    RbacRight,
    Rules,
    grants_in,
    lack_of,
    list_all,
    narrow,
    rights_to_apply,
)
from rukpak.controller.apply.sender import Sender, waiting_for
from rukpak.controller.apply.targets import NO_LOSSES, Target
from rukpak.controller.content.limits import some
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import CLUSTER_ROLES, RBAC, ROLES, Resource
from rukpak.controller.observe.health.rules import STATUS_NOT_REPORTED
from rukpak.controller.observe.health.verdict import State
from rukpak.controller.observe.kinds import ManagedObjects
from rukpak.controller.observe.records import Record
from rukpak.controller.observe.watches import Watches

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MAX_QUESTIONS = 1000
"""For one refusal. The next one, once these rights are granted, reports the others."""
_MOST_RIGHTS = 20 * MAX_QUESTIONS
"""That are looked at for the questions: rules may repeat rights."""
Served = list[tuple[Task, Resource]]
"""Tasks, and the resources that serve their objects."""
_ROLES = {each.kind: each for each in (ROLES, CLUSTER_ROLES)}
_REVIEW = "review of rights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a comparison without writing has found."""

    drifted: tuple[DriftedObject, ...]
    same: tuple[Record, ...]
    """Objects that are as the last apply left them."""
    handed_over: Mapping[ObjectKey, str]
    """Objects that another BundleDeployment has taken over, with its name."""
    refused: Mapping[ObjectKey, BundleError]
    """Objects that belong to others, and to whom."""


class Applier:
    """Executes plans.

    Args:
        workers: concurrent requests, for all BundleDeployments.

    Attributes:
        pool: sends these requests.
        reader: reads objects.
    """

    def __init__(self, client: Client, discovery: Discovery, watches: Watches, workers: int) -> None:
        self._discovery = discovery
        self._client, self._watches = client, watches
        self.pool = Pool(workers, client.supervisor)
        self.reader = ObjectReader(client, self.pool)
        self._reviewer = AccessReviewer(client, self.pool)
        self._sender = Sender(client, discovery, watches.objects, self.reader)

    def stop(self) -> None:
        """Start no more requests."""
        self.pool.stop()

    def execute(self, plan: Plan, options: ApplyOptions) -> list[Outcome]:
        """Execute the steps in order.

        Raises: ApiError if discovery does not answer; CancelledError after `stop`.
        """
        results = StepResults()
        for wave, steps in groupby(plan.steps, key=attrgetter("wave")):
            if wave > options.reached and not results.wave:
                results.wave = find_unfinished(results.outcomes[results.last :], options, self._watches.objects)
            results.last = len(results.outcomes)
            for step in steps:
                is_gated = step.position.stage is not Stage.DEFINITIONS
                if is_gated and not (results.is_gate_known or results.wave):
                    results.gate, results.is_gate_known = options.gate(), True
                results.add(self._run_step(step, options, results))
        return self._with_all_rights(results.outcomes, options)

    def _with_all_rights(self, outcomes: list[Outcome], options: ApplyOptions) -> list[Outcome]:
        """List all missing rights in every failure that is about rights, so that they can be granted at once.

        They are reviewed only after a new refusal; from then on the remembered failure lists them.
        """
        errors = [narrow(o.error, o.task.target.manifest, options.wanted.by_key) for o in outcomes]
        denied = list_all(errors, options.owner.name)
        if denied is None:
            return outcomes
        failed = [outcome.task.target for outcome in outcomes if outcome.error]
        missing = self._reviewer.missing(self._with_resources(failed, options), options)
        lack = list_all(errors, options.owner.name, missing) or denied
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
        lack = self._reviewer.lack(self._applied(options), options)
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
        items = self._applied(options)
        lack = self._reviewer.lack(items, options)
        upgraded = [item for item in items if item[0].key[:2] == CRD and item[0].key in changed]
        unsafe = self.pool.run(lambda item: self._judge_upgrade(*item, options), upgraded, options.user)
        return [error for error in (lack, *unsafe) if error]

    def _judge_upgrade(self, target: Target, resource: Resource, options: ApplyOptions) -> BundleError | None:
        client, path = self._client.acting_as(options.user), resource.path("", target.key.name)
        try:
            inspect_upgrade(client, path, target.manifest, options.crd_upgrade_safety)
        except BundleError as error:
            return error
        except ApiError as error:
            return classify(error, target.key, install_namespace="").to_error()
        return None

    def survey(self, plan: Plan, options: ApplyOptions) -> Survey:
        """Compare without writing.

        Raises: ApiError if discovery does not answer; CancelledError after `stop`.
        """
        tasks = [(task, resource) for task in plan.tasks if (resource := self._find_resource(task.target, options))]
        settled = self._compared(self._read_unknown(tasks, options, StepResults()), options)
        staying = [item for item in settled if not is_changing_hands(item[0].record, options.hand_over)]
        changed = [item for item in staying if is_drift(item[0], options, installed=options.installed)]
        return Survey(
            drifted=tuple(found for found in self._explanations(changed, options) if found),
            same=tuple(task.record for task, _ in settled if task.action is Action.NONE and task.record),
            handed_over={task.target.key: task.handed_to for task, _ in settled if task.handed_to},
            refused={t.target.key: t.refusal for t, _ in settled if t.refusal and not t.handed_to},
        )

    def _run_step(self, step: Step, options: ApplyOptions, results: StepResults) -> list[Outcome]:
        held: list[Outcome] = []
        ready: Served = []
        for task in step.tasks:
            outcome = self._held(task, step, options, results)
            resource = None if outcome else self._find_resource(task.target, options)
            error = _unaddressable(task, resource) if resource else self._unserved(task)
            if outcome:
                held.append(outcome)
            elif resource is None or error:
                held.append(Outcome(task=task, error=error))
            else:
                ready.append((task, resource))
        ready = self._compared(self._read_unknown(ready, options, results), options)
        ready = refuse_unheld(ready, options, self._reviewer)
        spared, ready = self._spare(ready, options)
        outcomes = held + spared + self._carry_out(ready, options)
        if results.wave and step.meanwhile:
            repairs = replace(step, tasks=step.meanwhile, meanwhile=())
            outcomes += self._run_step(repairs, replace(options, losses=NO_LOSSES), results)
        return outcomes

    def _carry_out(self, items: Served, options: ApplyOptions) -> list[Outcome]:
        # What was refused is tried again if another object may have given up what it needs.
        sent = self.pool.run(lambda item: self._sender.carry_out(*item, options), items, options.user)
        written = {outcome.task.target.key[:2] for outcome in sent if outcome.record and not outcome.error}
        again = [
            item
            for item, outcome in zip(items, sent, strict=True)
            if outcome.contested and outcome.task.target.key[:2] in written
        ]
        if not again:
            return sent
        retried = {task.target.key for task, _ in again}
        return [each for each in sent if each.task.target.key not in retried] + self._carry_out(again, options)

    def _held(self, task: Task, step: Step, options: ApplyOptions, results: StepResults) -> Outcome | None:
        if task.action in (Action.NONE, Action.USE):
            return Outcome(task=task, record=task.record if task.action is Action.NONE else None)
        # What is going to be pruned is found by its label: where it has lost that, it is taken back at once.
        is_lost = task.action is Action.READ and options.is_dropped(task.target.key)
        if options.ledger.postpones(task.target.key, task.target.digest) and not is_lost:
            return Outcome(task=task, postponed=True)
        held = results.wave if options.is_news(task) else None
        error = held or results.gate or hindrance(task, step, options, results, self._watches.objects)
        return Outcome(task=task, error=error) if error else None

    def _unserved(self, task: Task) -> BundleError:
        group = task.target.kind.group
        if group not in self._discovery.failed_groups():
            return _not_served(task)
        return _not_served(task, f': discovery of API group "{group}" failed; repair its APIService')

    def _applied(self, options: ApplyOptions) -> list[tuple[Target, Resource]]:
        targets = (t for t in options.wanted.targets if not t.bare and t.key not in options.ledger.used)
        return self._with_resources(targets, options)

    def _with_resources(self, targets: Iterable[Target], options: ApplyOptions) -> list[tuple[Target, Resource]]:
        return [(each, resource) for each in targets if (resource := self._find_resource(each, options))]

    def _find_resource(self, target: Target, options: ApplyOptions) -> Resource | None:
        defined = options.wanted.resources.get(target.kind[::2])
        if defined:
            return replace(defined, version=target.kind.version)
        return self._discovery.resource(target.kind)

    def _spare(self, items: Served, options: ApplyOptions) -> tuple[list[Outcome], Served]:
        if options.repairs:
            return [], items
        changed = [item for item in items if is_drift(item[0], options, installed=options.installed)]
        pairs = zip(changed, self._explanations(changed, options), strict=True)
        spared = [Outcome(task=task, spared=True, drift=drift) for (task, _), drift in pairs]
        keys = {task.target.key for task, _ in changed}
        return spared, [item for item in items if item[0].target.key not in keys]

    def _explanations(self, items: Served, options: ApplyOptions) -> list[DriftedObject | None]:
        return self.pool.run(lambda item: self.reader.explain_drift(*item, options), items, options.user)

    # reading what the watches do not know

    def _read_unknown(self, items: Served, options: ApplyOptions, results: StepResults) -> Served:
        unknown = [item for item in items if item[0].action is Action.READ]
        to_read = [(t.target.key, r) for t, r in unknown if not self._is_absent(t.target, results)]
        found = self.reader.read_all(to_read, options.user)
        is_forbidden = self._watches.objects.is_forbidden
        for record in found.values():
            # Objects of a kind that is not watched are known only from here.
            if isinstance(record, Record) and record.owner == options.owner.name and is_forbidden(*record.key[:2]):
                self._watches.objects.learn(record)
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

    def _compared(self, items: Served, options: ApplyOptions) -> Served:
        to_compare = [item for item in items if item[0].action is Action.COMPARE]
        same = self.reader.compare(to_compare, options) if to_compare else {}

        def _settle(task: Task) -> Task:
            if task.action is not Action.COMPARE:
                return task
            found = same[task.target.key]
            if isinstance(found, ApiError):
                return self._sender.refuse(task, found, options)
            return replace(task, action=Action.NONE if found else Action.REPAIR)

        return [(_settle(task), resource) for task, resource in items]


def _not_served(task: Task, why: str = "; install its API") -> BundleError:
    problem = f"the cluster does not serve {task.target.kind}{why}"
    return BundleError(Reason.KIND_NOT_SERVED, problem, place=str(task.target.key))


def _unaddressable(task: Task, resource: Resource) -> BundleError | None:
    if resource.namespaced and not task.target.key.namespace:
        return _not_served(task)  # the kind appeared after the targets were made; the next pass sets the namespace
    try:
        resource.path(task.target.key.namespace, task.target.key.name)
    except ValueError as error:
        return BundleError(Reason.REFUSED, str(error), place=str(task.target.key))
    return None


@dataclass(slots=True)
class StepResults:
    """The results of the previous steps."""

    outcomes: list[Outcome] = field(default_factory=list)
    failed: dict[ObjectKey, BundleError] = field(default_factory=dict)
    created_namespaces: set[str] = field(default_factory=set)
    gate: BundleError | None = None
    """Why all following steps wait."""
    is_gate_known: bool = False
    wave: WaveError | None = None
    """Why what is new in all following waves waits."""
    last: int = 0
    """Where the outcomes of the last wave begin."""

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Add the outcomes of a step."""
        self.outcomes += outcomes
        for outcome in outcomes:
            key = outcome.task.target.key
            if isinstance(outcome.error, WaveError):
                continue  # nobody waits for what has not been tried
            if outcome.error:
                self.failed[key] = outcome.error
            elif key.kind == "Namespace" and outcome.task.action is Action.CREATE:
                self.created_namespaces.add(key.name)


def find_unfinished(outcomes: Iterable[Outcome], options: ApplyOptions, objects: ManagedObjects) -> WaveError | None:
    """Return why what is new in the next wave waits; None if everything in the last one is applied and healthy.

    What may never change by itself, such as a LoadBalancer without provider, holds up nothing, as it does not delay
    pruning.

    Args:
        outcomes: of the last wave.
        options: of the revision.
        objects: as the watches show them.
    """
    own = [outcome for outcome in outcomes if outcome.task.target.key in options.wanted.by_key]
    observed = objects.of(options.owner.name)
    awaited = frozenset(outcome.task.target.key for outcome in own if _is_unfinished(outcome, observed, options))
    return WaveError(own[0].task.target.wave, awaited) if awaited else None


def _is_unfinished(outcome: Outcome, observed: Mapping[ObjectKey, Record], options: ApplyOptions) -> bool:
    task = outcome.task
    is_done = task.action is Action.NONE and task.record is None
    if outcome.error or task.target.bare or task.action is Action.USE or is_done:
        return outcome.error is not None
    # Of a kind that may not be watched only the reply is known.
    verdict = options.judge(task.target.key, observed.get(task.target.key) or outcome.record, task.target.digest)
    # What declares a status and has none has just been created, or its operator is down.
    may_change = verdict.deadline or verdict.reason == STATUS_NOT_REPORTED
    return verdict.state is not State.HEALTHY and may_change


def hindrance(
    task: Task, step: Step, options: ApplyOptions, results: StepResults, objects: ManagedObjects
) -> BundleError | None:
    """Return why a task must wait; None if it is ready."""
    target = task.target
    if not options.proceed():
        return out_of_date(task)
    if held := _await_holders(task, options, objects) or options.retries.holding(
        target.key, options.attempt(target, task.seen)
    ):
        return held
    if error := results.failed.get(ObjectKey("", "Namespace", "", target.key.namespace)):
        return BundleError(Reason.APPLYING, f"waiting for its namespace: {error.message}", place=str(target.key))
    if target.kind[::2] in options.wanted.resources:
        return _crd_hindrance(task, options, results, objects)
    if step.position.stage is Stage.GATES and (blocker := _find_blocker(task, step, results)):
        problem = f"waiting for all other objects; not applied: {blocker}"
        return BundleError(Reason.APPLYING, problem, place=str(target.key))
    return None


def _await_holders(task: Task, options: ApplyOptions, objects: ManagedObjects) -> BundleError | None:
    key = task.target.key
    if not (holders := options.ledger.holders.get(key)):
        return None
    observed = objects.of(options.owner.name)
    records = [observed[each] for each in holders if each in observed]
    if len(records) < len(holders):
        del options.ledger.holders[key]
        options.retries.succeeded(key)
        # The API server frees what it had only a moment after the event.
        options.ledger.note_making_way(key, options.attempt(task.target, ""), ())
        return None
    return next((waiting_for(task, record) for record in records if record.deleting), None)


def _crd_hindrance(
    task: Task, options: ApplyOptions, results: StepResults, objects: ManagedObjects
) -> BundleError | None:
    resource = options.wanted.resources[task.target.kind[::2]]
    name = f"{resource.plural}.{resource.group}"
    key = ObjectKey(*CRD, "", name)
    if error := results.failed.get(key):
        problem = f"waiting for its CustomResourceDefinition: {error.message}"
        return BundleError(Reason.WAITING_FOR_CRD, problem, place=str(task.target.key))
    record = objects.of(options.owner.name).get(key)
    if record is None or record.verdict is None or record.verdict.state is not State.HEALTHY:
        problem = f'waiting for CustomResourceDefinition "{name}" to be established'
        return BundleError(Reason.WAITING_FOR_CRD, problem, place=str(task.target.key))
    return None


def _find_blocker(task: Task, step: Step, results: StepResults) -> ObjectKey | None:
    """Return an object that was not applied, and that a task of the last stage waits for.

    An APIService does not wait for objects of the groups that those of this bundle add: these wait for it.
    """
    own = served_group(task.target.key)
    added = {served_group(each.target.key) for each in step.tasks} - {""} if own else set()
    return next((key for key in results.failed if key.group not in added), None)


class AccessReviewer:
    """Thread-safe.

    Args:
        client: acts as the controller.
        pool: sends concurrent requests.
    """

    def __init__(self, client: Client, pool: Pool) -> None:
        self._client, self._pool = client, pool

    def missing(self, items: Sequence[tuple[Target, Resource]], options: ApplyOptions) -> list[RbacRight]:
        """Return the rights that objects need and the account does not have.

        Raises: CancelledError if the pool was stopped.
        """
        client = self._client.acting_as(options.user)
        granting = grants_in((target.manifest for target, _ in items), partial(self._rules, options))
        grants = list(islice(granting, MAX_QUESTIONS))
        held_instead = self._held(client, options, [grant.instead for grant in grants])
        to_hold = (
            (right, grant.instead if grant.needs_only_one(options.wanted.by_key) else right)
            for grant in grants
            if grant.instead not in held_instead
            for right in grant.rights
        )
        some = list(islice(chain(((right, right) for right in rights_to_apply(items)), to_hold), _MOST_RIGHTS))
        needed = list(islice(dict.fromkeys(right for right, _ in some), MAX_QUESTIONS))
        lacked = set(needed) - self._held(client, options, needed)
        return list(dict.fromkeys(to_ask_for for right, to_ask_for in some if right in lacked))

    def lack(self, items: Sequence[tuple[Target, Resource]], options: ApplyOptions) -> LackOfRightsError | None:
        """Return all rights that an account lacks if it could not repair the objects; None if it could.

        Raises: CancelledError if the pool was stopped.
        """
        missing = self.missing_to_repair(items, options) if options.user else []
        return lack_of(missing, options.user.name, options.owner.name) if options.user and missing else None

    def missing_to_repair(self, items: Sequence[tuple[Target, Resource]], options: ApplyOptions) -> list[RbacRight]:
        """Return all rights that an account lacks if it could not repair the objects; none if it could.

        Raises: CancelledError if the pool was stopped.
        """
        missing = self.missing(items, options)
        deletions = {right for right in rights_to_apply(items) if right.verbs == ("delete",)}  # no repair needs them
        return [] if deletions.issuperset(missing) else missing

    def _held(self, client: Client, options: ApplyOptions, rights: Iterable[RbacRight]) -> set[RbacRight]:
        asked = list(dict.fromkeys(rights))
        denied = self._pool.run(partial(_is_denied, client), asked, options.user)
        return {right for right, is_denied in zip(asked, denied, strict=True) if not is_denied}

    def _rules(self, options: ApplyOptions, kind: str, namespace: str, name: str) -> Rules:
        bundled = options.wanted.by_key.get(ObjectKey(RBAC, kind, namespace, name))
        if bundled:
            return bundled.manifest.get("rules") or ()
        return read_rules(self._client, kind, namespace, name)


def read_rules(client: Client, kind: str, namespace: str, name: str) -> Rules:
    """Return the rules of a Role or ClusterRole; none if it cannot be read."""
    try:
        found: Mapping[str, Any] = client.get(_ROLES[kind].path(namespace, name)).value
    except (ApiError, KeyError, ValueError):
        return ()
    return found.get("rules") or ()


def _is_denied(client: Client, right: RbacRight) -> bool:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": _question(right)}
    try:
        value = client.create(REVIEWS, body).value
    except ApiError:
        return False
    return not (value.get("status") or {}).get("allowed")


def _question(right: RbacRight) -> dict[str, Any]:
    [verb] = right.verbs
    if right.paths:
        return {"nonResourceAttributes": {"path": right.paths[0], "verb": verb}}
    plural, _, subresource = right.resources[0].partition("/")
    attributes = {
        "namespace": right.namespace,
        "group": right.groups[0],
        "resource": plural,
        "subresource": subresource,
        "name": "".join(right.resource_names),
        "verb": verb,
    }
    return {"resourceAttributes": {name: value for name, value in attributes.items() if value}}


def refuse_unheld(items: Served, options: ApplyOptions, reviewer: AccessReviewer) -> Served:
    """Return tasks with those refused that take over objects which the giver's account may not apply.

    Raises: CancelledError if the pool was stopped.
    """
    found = items
    for giver in options.hand_over.givers.values():
        taken = [item for item in found if _is_taken_from(item[0], giver)]
        if not taken or giver.user in (None, options.user):
            continue
        as_giver = replace(options, user=giver.user)
        if missing := reviewer.missing([(task.target, resource) for task, resource in taken], as_giver):
            found = [
                (_refuse(task, giver, missing) if _is_taken_from(task, giver) else task, resource)
                for task, resource in found
            ]
    return found


def _is_taken_from(task: Task, giver: Giver) -> bool:
    return task.action is Action.TAKE_OVER and task.record is not None and task.record.owner == giver.owner.name


def _refuse(task: Task, giver: Giver, missing: Sequence[RbacRight]) -> Task:
    account = giver.user.name if giver.user else ""
    problem = f'"{account}", the account of BundleDeployment "{giver.owner.name}", may not hand it over'
    refusal = BundleError(Reason.FORBIDDEN, f"{problem}; grant it {some(missing, ';')}", place=str(task.target.key))
    return replace(task, action=Action.REFUSE, refusal=refusal)
