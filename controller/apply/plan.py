"""What to do with each object, and what came of it. Pure.

A step is a stage of a wave (README.md, Order and Waves), or a rank in one. What the watches do not know (an object
without our label, a hash that this process never saw) is read when the step is executed, since an earlier step may make
that unnecessary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.policies import CrdUpgradeSafety
from rukpak.api.v1alpha2.status import Leftover
from rukpak.controller.apply import order
from rukpak.controller.apply.drift import DriftedObject
from rukpak.controller.apply.ledger import Ledger
from rukpak.controller.apply.ownership import (
    NO_HAND_OVER,
    Exists,
    HandOver,
    Judgement,
    Owner,
    RevisionObject,
    Situation,
    find_surplus,
    is_unfinished,
    judge,
)
from rukpak.controller.apply.targets import NO_LOSSES, Losses, Target, TargetSet
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import User
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.health.rules import assess_absent, goes_when_done
from rukpak.controller.observe.health.verdict import State, Verdict
from rukpak.controller.observe.progress import judge_object
from rukpak.controller.observe.records import Record
from rukpak.controller.retries import Retries

_WITHDRAWN = (
    "its CustomResourceDefinition does not serve {} any more; change the bundle to a version that it serves, or serve "
    "that version again"
)


class WaveError(BundleError):
    """Objects of later waves wait.

    Why its objects are not healthy is no part of the message, since that changes often; see `Health.awaited`.

    Args:
        wave: that is not applied and healthy yet.
        awaited: its objects that are not.
    """

    def __init__(self, wave: int, awaited: Collection[ObjectKey]) -> None:
        super().__init__(Reason.WAITING_FOR_WAVE, f"later waves wait for wave {wave}")
        self.wave, self.awaited = wave, awaited


class OvertakenError(Exception):
    """The BundleDeployment is not any more what a pass knows: the pass ends and writes nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One BundleDeployment in one pass."""

    owner: Owner
    user: User | None
    """The account that creates, reads, changes and deletes objects; None: the controller."""
    collision_protection: str
    spec_version: str
    """Generation and reconcile-requested-at: a new one retries every failure immediately."""
    conceals: bool = False
    """Whether values of Secrets were rendered, so that no text of an object may be shown with a refusal."""
    retries: Retries = field(default_factory=Retries)
    proceed: Callable[[], bool]
    """False once the BundleDeployment is paused, deleted or changed: then nothing more is sent."""
    confirm: Callable[[], None] = lambda: None
    """Called before objects are created or deleted; raises OvertakenError if the API server has another spec or
    revision now, whatever the watches say, and ApiError if it does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions(Options):
    """One BundleDeployment whose objects are applied."""

    install_namespace: str
    wanted: TargetSet
    older: Mapping[ObjectKey, RevisionObject] = field(default_factory=dict)
    """Objects that only older revisions name, and that may still exist."""
    makes_way: bool = False
    """Whether objects that only older revisions name may be deleted for those of the revision."""
    replaces: Mapping[ObjectKey, frozenset[ObjectKey]] = field(default_factory=dict)
    """By object, those that its annotation names; see `find_replaced`."""
    withdrawn: Collection[GroupVersionKind] = ()
    """Kinds of the revision whose CustomResourceDefinition serves other versions only."""
    losses: Losses = NO_LOSSES
    """What objects had in the revision before."""
    repairs: bool = True
    """Whether drift is repaired, and not only reported (spec.drift.mode)."""
    installed: bool
    """Whether the wanted revision is already installed in full."""
    reached: float = -math.inf
    """The wave that the revision has come to: objects of lower ones need not become healthy any more. `math.inf`: it
    has been through all of them."""
    started: Collection[str] = ()
    """The Jobs with a TTL that have been created, as `Target.started_as` says."""
    ledger: Ledger
    exists: Exists
    hand_over: HandOver = NO_HAND_OVER
    crd_upgrade_safety: CrdUpgradeSafety = field(default_factory=CrdUpgradeSafety)
    judge: Callable[[ObjectKey, Record | None, str], Verdict] = lambda _key, record, digest: judge_object(
        record, digest
    )
    """Returns the verdict on an object: by its key, as it was last seen, and the digest that its target has. As
    `HealthTracker.judge`, a wave waits until what it has applied has held; by default, what is now counts."""
    gate: Callable[[], BundleError | None] = lambda: None
    """Called once, after Namespaces, CustomResourceDefinitions and classes; returns why all other objects wait."""

    def is_started(self, target: Target) -> bool:
        """Whether an object has been created as it is, although it may be gone."""
        return self.installed or target.started_as in self.started

    def is_news(self, task: Task) -> bool:
        """Whether a task may do more than repair what this revision or, unchanged, another one had applied before."""
        left = self.ledger.left.get(task.target.key)
        known = {task.record.applied_digest if task.record else "", left.digest if left else ""}
        return task.action in _NEWS and task.target.digest not in known

    def is_dropped(self, key: ObjectKey) -> bool:
        """Whether only older revisions have an object: it is not created again, whoever deletes it."""
        return key not in self.wanted.by_key and key not in self.ledger.restored()

    def attempt(self, target: Target, seen: str) -> str:
        """Return the fingerprint under which a failure to apply an object in a state is remembered."""
        return f"{target.digest} {self.spec_version} {seen}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a task."""

    task: Task
    error: BundleError | None = None
    """Why the object is not as wanted; None: it is."""
    postponed: bool = False
    """Whether its repair was put off, since it is modified repeatedly."""
    tried: bool = False
    """Whether a request was sent, so that a failure is news."""
    record: Record | None = None
    """The object as the reply to our write shows it."""
    spared: bool = False
    """Whether drift was found and not repaired, since spec.drift.mode is Report."""
    drift: DriftedObject | None = None
    """What was modified, if it was spared; None: its values are still ours."""
    repaired: DriftedObject | None = None
    """What another client had modified or deleted, if it was repaired."""
    recreated: bool = False
    """Whether it was deleted because an immutable field changed; it is created again once it is gone."""
    made_way: tuple[ObjectKey, ...] = ()
    """Dropped objects that were deleted for it."""
    contested: bool = False
    """Whether it was refused because of what another object may have."""
    warnings: tuple[str, ...] = ()
    """From the API server."""
    left: tuple[Leftover, ...] = ()
    """What stays on the object although nobody sets it (leftovers.py)."""


def find_started(
    options: ApplyOptions, outcomes: Iterable[Outcome], observed: Mapping[ObjectKey, Record]
) -> tuple[str, ...]:
    """Return how `status.startedJobs` names the Jobs of a revision that have been created and go when they are done.

    Recorded before the revision is installed in full: what else it contains may fail for long, and a Job that its TTL
    has removed meanwhile must not run again.

    Args:
        options: of the BundleDeployment.
        outcomes: of the pass.
        observed: the objects that carry its label.
    """
    # Not by key: while its wave waits, a Job may be repaired as the revision before has it.
    written = {outcome.task.target.started_as for outcome in outcomes if outcome.record and not outcome.error}

    def _is_started(target: Target) -> bool:
        record = observed.get(target.key)
        is_there = record is not None and record.applied_digest == target.digest
        return is_there or target.started_as in written or options.is_started(target)

    jobs = (target for target in options.wanted.targets if goes_when_done(target.manifest))
    return tuple(sorted(target.started_as for target in jobs if _is_started(target)))


class Action(Enum):
    """What to do about one object."""

    NONE = "none"
    """It is as the last apply left it."""
    READ = "read"
    """The watches do not know it: read whether it exists, and who owns it."""
    CREATE = "create"
    APPLY = "apply"
    """It is ours, from an earlier revision."""
    REPAIR = "repair"
    """It is ours, and another client has modified it."""
    COMPARE = "compare"
    """It is ours and of this revision; whether it was modified must be read."""
    TAKE_BACK = "take back"
    TAKE_OVER = "take over"
    USE = "use"
    """A Namespace that is not ours."""
    REFUSE = "refuse"
    AWAIT = "await"
    """It is being deleted: apply it once it is gone."""


_NEWS = (Action.READ, Action.CREATE, Action.APPLY, Action.TAKE_BACK, Action.TAKE_OVER, Action.AWAIT)
"""What may apply an object that was not applied so before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One object and what to do about it."""

    target: Target
    action: Action
    record: Record | None = None
    refusal: BundleError | None = None
    """Why it may not be applied or read."""
    evicts: bool = False
    """Whether the reference of another controller must be removed first."""
    handed_to: str = ""
    """The BundleDeployment that has taken it over; empty: none has."""
    seen: str = ""
    """The state that the watches showed when the pass began; empty: none. A failure counts until that changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Tasks that may run at the same time."""

    position: order.Position
    tasks: tuple[Task, ...]
    wave: int = 0
    meanwhile: tuple[Task, ...] = ()
    """Repairs of the same objects as the revision before has them, while the wave waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in order, and the objects to prune once all are applied and healthy."""

    steps: tuple[Step, ...] = ()
    prune: tuple[Record, ...] = ()

    @property
    def tasks(self) -> list[Task]:
        """All tasks in order."""
        return [task for step in self.steps for task in step.tasks]

    @property
    def writes(self) -> bool:
        """Whether executing the plan may write anything."""
        return any(task.action not in (Action.NONE, Action.USE, Action.REFUSE, Action.AWAIT) for task in self.tasks)

    @property
    def upgrades(self) -> bool:
        """Whether executing the plan may do more than repair drift."""
        upgrading = (Action.APPLY, Action.CREATE, Action.TAKE_BACK, Action.TAKE_OVER)
        return bool(self.prune) or any(task.action in upgrading for task in self.tasks)


def make_plan(options: ApplyOptions, earlier: Collection[Target], observed: Mapping[ObjectKey, Record]) -> Plan:
    """Decide what to do about each object.

    Args:
        options: of the BundleDeployment; its revision is the target of every object it contains (rule 6).
        earlier: targets of the previous revision that may still exist.
        observed: the objects that carry our label, or that of one that takes over objects of ours.
    """

    def _task(target: Target, *, started: bool) -> Task:
        record = observed.get(target.key)
        if is_finished(target, record, started=started):
            return Task(target=target, action=Action.NONE)
        if target.kind in options.withdrawn:
            refusal = BundleError(Reason.KIND_NOT_SERVED, _WITHDRAWN.format(target.kind), place=str(target.key))
            return Task(target=target, action=Action.REFUSE, record=record, refusal=refusal, seen=state_of(record))
        return replace(decide(target, record, options), seen=state_of(record))

    tasks = [_task(target, started=options.is_started(target)) for target in options.wanted.targets]
    tasks += [_task(target, started=True) for target in earlier if target.key not in options.wanted.by_key]
    by_place: dict[tuple[int, order.Position], list[Task]] = {}
    for planned in tasks:
        by_place.setdefault((planned.target.wave, order.position_of(planned.target.key)), []).append(planned)
    meanwhile = _plan_meanwhile(options, earlier, observed) if len({wave for wave, _ in by_place}) > 1 else {}
    steps = [
        Step(wave=wave, position=position, tasks=tuple(planned), meanwhile=tuple(meanwhile.get((wave, position), ())))
        for (wave, position), planned in sorted(by_place.items(), key=lambda item: item[0])
    ]
    surplus = find_surplus(options.wanted.by_key, options.older, observed, options.owner)
    return Plan(steps=tuple(steps), prune=tuple(surplus))


def _plan_meanwhile(
    options: ApplyOptions, before: Iterable[Target], observed: Mapping[ObjectKey, Record]
) -> dict[tuple[int, order.Position], list[Task]]:
    found: dict[tuple[int, order.Position], list[Task]] = {}
    for target in before:
        wanted = options.wanted.by_key.get(target.key)
        if wanted and wanted.wave > options.reached and wanted.digest != target.digest:
            record = observed.get(target.key)
            task = replace(decide(target, record, options), seen=state_of(record))
            if not options.is_news(task) and not is_finished(target, record, started=True):
                found.setdefault((wanted.wave, order.position_of(target.key)), []).append(task)
    return found


def is_drift(task: Task, options: ApplyOptions, *, installed: bool) -> bool:
    """Whether another client has modified or deleted an object that was applied.

    Args:
        task: what is done with it.
        options: of its BundleDeployment, whose ledger has what was applied.
        installed: whether everything was; without that, what the ledger does not know may never have been there.
    """
    if task.action in (Action.CREATE, Action.TAKE_BACK, Action.AWAIT):
        return not task.target.bare and (installed or task.target.key in options.ledger.left)
    return task.action is Action.REPAIR


def is_finished(target: Target, record: Record | None, *, started: bool) -> bool:
    """Whether an object is a Job that its TTL has removed: applied again, it would run again.

    Args:
        target: the object.
        record: the object as it was last seen, if it was.
        started: whether it has been created as it is.
    """
    return record is None and assess_absent(target.manifest, started=started).state is State.HEALTHY


def state_of(record: Record | None, version: str = "") -> str:
    """Return what changes if another client changes an object, other than its status: a failure may end by that.

    Args:
        record: of the object.
        version: its resourceVersion after a write of ours that the watches have not shown yet.
    """
    if record is None:
        return ""
    return f"{record.uid} {record.generation or version or record.resource_version}"


def decide(target: Target, record: Record | None, options: ApplyOptions) -> Task:
    """Decide about one object by its record; `READ` without one."""
    if target.key in options.ledger.used and not _may_become_ours(target, options.ledger.used[target.key], options):
        return Task(target=target, action=Action.USE)
    if record is None:
        return Task(target=target, action=Action.READ)
    return decide_about(target, record, options)


def _may_become_ours(target: Target, record: Record | None, options: ApplyOptions) -> bool:
    # A Namespace that was only used so far is read again if it may be adopted or taken over.
    if record is None:
        return False
    is_given = options.hand_over.giver_of(record) is not None
    return is_given or not (target.bare or _judge(target, record, options).situation is Situation.USED)


def _judge(target: Target, record: Record | None, options: ApplyOptions) -> Judgement:
    return judge(
        record,
        options.owner,
        exists=options.exists,
        collision_protection=options.collision_protection,
        carries_reference=target.carries_reference,
        hand_over=options.hand_over,
    )


def decide_about(target: Target, record: Record | None, options: ApplyOptions) -> Task:
    """Decide about one object that was read: None means that it does not exist."""
    judgement = _judge(target, record, options)
    if record is None or (record.deleting and options.is_dropped(target.key)):
        return Task(target=target, action=Action.NONE if options.is_dropped(target.key) else Action.CREATE)
    if target.bare or judgement.situation is Situation.USED:
        return Task(target=target, action=Action.AWAIT if record.deleting else Action.USE, record=record)
    if judgement.situation is Situation.COLLISION:
        refusal = BundleError(Reason.COLLISION, judgement.problem, place=str(target.key))
        return Task(target=target, action=Action.REFUSE, record=record, refusal=refusal, handed_to=judgement.handed_to)
    if record.deleting or options.ledger.recreated.get(target.key) == record.uid:
        return Task(target=target, action=Action.AWAIT, record=record)
    if judgement.situation is Situation.OURS:
        action = _compare(target, record, options.ledger)
        is_left = is_unfinished(record, leaves=bool(target.ignored.paths))
        if action in (Action.NONE, Action.COMPARE) and is_left:
            # The controller was interrupted after its apply.
            action = Action.APPLY
        return Task(target=target, action=action, record=record)
    action = Action.TAKE_OVER if judgement.situation is Situation.TAKE_OVER else Action.TAKE_BACK
    return Task(target=target, action=action, record=record, evicts=judgement.evicts, handed_to=judgement.handed_to)


def _compare(target: Target, record: Record, ledger: Ledger) -> Action:
    if record.applied_digest != target.digest:
        left = ledger.left.get(target.key)
        return Action.REPAIR if left and left.digest == target.digest else Action.APPLY
    if target.ignored.accepts_drift:
        return Action.NONE
    left = ledger.left.get(target.key)
    if left is None or left.digest != target.digest:
        return Action.REPAIR if ledger.is_explained(record) else Action.COMPARE
    if left.entry_hash in (record.entry_hash, record.scaled_hash):
        return Action.NONE
    return Action.COMPARE if record.wiped else Action.REPAIR


def out_of_date(task: Task) -> BundleError:
    """Return why nothing more is sent: the spec has changed since the plan was made."""
    return BundleError(Reason.APPLYING, "spec changed; waiting for the next reconcile", place=str(task.target.key))
