from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply import order
from rukpak.controller.apply.ledger import Ledger, Left
from rukpak.controller.apply.ownership import RevisionObject
from rukpak.controller.apply.plan import Action, Plan, Step, Task, decide, decide_about, make_plan, state_of
from rukpak.controller.apply.targets import Target
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.records import Record
from tests.support.deployments import OWNER, options_for

KEY = ObjectKey("", "ConfigMap", "shop", "a")
NAMESPACE_KEY = ObjectKey("", "Namespace", "", "shop")


def target(key: ObjectKey = KEY, **changes: Any) -> Target:
    fields: dict[str, Any] = {
        "key": key,
        "kind": GroupVersionKind(key.group, "v1", key.kind),
        "digest": "new",
        "carries_reference": key.kind != "Namespace",
        "manifest": {},
    }
    return Target(**{**fields, **changes})


NOBODYS = Record(key=KEY)
OURS = Record(
    key=KEY, owner="foo", owner_uid="uid-foo", controller_uid="uid-foo", applied_digest="new", entry_hash="h1"
)
AS_LEFT = {KEY: Left("new", "h1")}


class Case(NamedTuple):
    name: str
    record: Record | None
    expect: Action
    left: dict[ObjectKey, Left] | None = None
    """How the ledger says that the object was left."""


# fmt: off
SITUATIONS = [
    Case("an object that the watches do not know is looked at", None, Action.READ),
    Case("one that was there before, too: somebody may have taken the label off", None, Action.READ, AS_LEFT),
    Case("one as we left it is not touched", OURS, Action.NONE, AS_LEFT),
    Case("one of an earlier revision is applied", replace(OURS, applied_digest="old"), Action.APPLY),
    Case("one of an earlier revision is applied, also if it was left so", replace(OURS, applied_digest="old"),
         Action.APPLY, {KEY: Left("old", "h1")}),
    Case("one whose digest somebody changed is repaired", replace(OURS, applied_digest="x"), Action.REPAIR, AS_LEFT),
    Case("one that this process never left is compared", OURS, Action.COMPARE),
    Case("one that was left for an earlier revision is compared: another process applied it", OURS, Action.COMPARE,
         {KEY: Left("old", "h0")}),
    Case("one of which somebody took a field is repaired", replace(OURS, entry_hash="h2"), Action.REPAIR, AS_LEFT),
    Case("one that lost our entry is repaired", replace(OURS, entry_hash=""), Action.REPAIR, AS_LEFT),
    Case("one that lost all entries is compared: that alone is not drift", replace(OURS, entry_hash="", wiped=True),
         Action.COMPARE, AS_LEFT),
    Case("one that lost all entries and was found to be as wanted is left alone",
         replace(OURS, entry_hash="generation 2", wiped=True), Action.NONE, {KEY: Left("new", "generation 2")}),
    Case("one that lost all entries and has changed since is compared again",
         replace(OURS, entry_hash="generation 3", wiped=True), Action.COMPARE, {KEY: Left("new", "generation 2")}),
    Case("one that is being deleted is awaited", replace(OURS, deleting=True), Action.AWAIT, AS_LEFT),
    Case("one that lost our reference is taken back", replace(OURS, controller_uid=""), Action.TAKE_BACK, AS_LEFT),
    Case("one that we released is taken back", replace(NOBODYS, released_from="foo"), Action.TAKE_BACK),
    Case("one that is nobody's is refused", NOBODYS, Action.REFUSE),
    Case("one of another owner is refused, also while it is being deleted",
         replace(NOBODYS, controller_uid="rs", controller_kind="ReplicaSet", controller_name="web", deleting=True),
         Action.REFUSE),
]
# fmt: on


def decided(record: Record | None, wanted: Target, ledger: Ledger, protection: str = "Prevent") -> Task:
    return decide(wanted, record, options_for(wanted, ledger=ledger, collision_protection=protection))


@pytest.mark.parametrize("case", SITUATIONS, ids=attrgetter("name"))
def test_what_is_done_with_one_object(case: Case) -> None:
    task = decided(case.record, target(), Ledger(left=case.left or {}))
    assert task.action is case.expect
    assert task.record == case.record
    assert bool(task.refusal) is (case.expect is Action.REFUSE)


def test_a_refusal_says_whose_it_is_and_what_to_do() -> None:
    record = replace(NOBODYS, marks='Helm release "x"')
    refusal = decided(record, target(), Ledger()).refusal
    assert refusal is not None
    assert refusal.reason is Reason.COLLISION
    assert refusal.message.startswith('ConfigMap shop/a: already exists and belongs to Helm release "x"')


def test_under_another_collision_protection_it_is_taken() -> None:
    assert decided(NOBODYS, target(), Ledger(), "IfNoController").action is Action.TAKE_BACK


def test_what_was_looked_at_and_is_not_there_is_created() -> None:
    task = decide_about(target(), None, options_for(target()))
    assert task.action is Action.CREATE


NAMESPACES = [
    Case("a Namespace that is not ours is used", Record(key=NAMESPACE_KEY), Action.USE),
    Case("one that is being deleted is awaited", Record(key=NAMESPACE_KEY, deleting=True), Action.AWAIT),
    Case("one that we released is taken back", Record(key=NAMESPACE_KEY, released_from="foo"), Action.TAKE_BACK),
    Case("one of ours is compared", replace(OURS, key=NAMESPACE_KEY, controller_uid=""), Action.COMPARE),
]


@pytest.mark.parametrize("case", NAMESPACES, ids=attrgetter("name"))
def test_what_is_done_with_a_namespace(case: Case) -> None:
    assert decided(case.record, target(NAMESPACE_KEY), Ledger()).action is case.expect


def test_the_install_namespace_is_used_even_if_it_is_ours_of_before() -> None:
    ours = replace(OURS, key=NAMESPACE_KEY, controller_uid="")
    assert decided(ours, target(NAMESPACE_KEY, bare=True, digest=""), Ledger()).action is Action.USE


def test_a_namespace_that_was_seen_is_not_looked_at_again() -> None:
    assert decided(None, target(NAMESPACE_KEY, bare=True), Ledger(used={NAMESPACE_KEY: None})).action is Action.USE


# plans

NAMED = RevisionObject(kind=GroupVersionKind("", "v1", "ConfigMap"), carries_reference=True)


def plan(
    *targets: Target,
    earlier: tuple[Target, ...] = (),
    observed: tuple[Record, ...] = (),
    orphan: bool = False,
    installed: bool = False,
    started: tuple[str, ...] = (),
    named: bool = True,
) -> Plan:
    """Return the plan for one whose older revisions name all that is observed, or nothing."""
    older = {record.key: NAMED for record in observed} if named else {}
    options = options_for(
        *targets, owner=replace(OWNER, orphan=orphan), installed=installed, started=started, older=older
    )
    return make_plan(options, earlier, {record.key: record for record in observed})


def test_steps_are_in_the_order_of_applying_and_tasks_in_that_of_the_bundle() -> None:
    keys = [
        ObjectKey("apps", "Deployment", "shop", "web"),
        ObjectKey("", "ConfigMap", "shop", "b"),
        ObjectKey("", "ConfigMap", "shop", "a"),
        NAMESPACE_KEY,
    ]
    steps = plan(*map(target, keys)).steps
    assert [[task.target.key.name for task in step.tasks] for step in steps] == [["shop"], ["b", "a"], ["web"]]
    assert [step.position.stage for step in steps] == [1, 2, 3]


def test_what_only_the_revision_before_has_is_repaired_until_it_is_pruned() -> None:
    old = target(KEY._replace(name="old"))
    made = plan(target(), earlier=(old, target(digest="of before")), observed=(replace(OURS, key=old.key),))
    assert [(task.target.key.name, task.target.digest) for task in made.tasks] == [("a", "new"), ("old", "new")]
    assert [record.key for record in made.prune] == [old.key]


JOB = target(
    ObjectKey("batch", "Job", "shop", "migrate"),
    manifest={"apiVersion": "batch/v1", "kind": "Job", "spec": {"ttlSecondsAfterFinished": 60}},
)
ENDLESS = target(JOB.key, manifest={"apiVersion": "batch/v1", "kind": "Job", "spec": {}})


class Finished(NamedTuple):
    name: str
    options: Target
    expect: Action
    installed: bool = True
    started: tuple[str, ...] = ()
    earlier: bool = False


FINISHED = [
    Finished("a Job that its TTL has removed is not run again", JOB, Action.NONE),
    Finished("before the revision is installed it is run", JOB, Action.READ, installed=False),
    Finished("also before, once it has been created", JOB, Action.NONE, installed=False, started=(JOB.started_as,)),
    Finished("another one is run", JOB, Action.READ, installed=False, started=("another",)),
    Finished("one without a TTL was removed by somebody", ENDLESS, Action.READ),
    Finished("one of the revision before is done with, too", JOB, Action.NONE, installed=False, earlier=True),
]


@pytest.mark.parametrize("case", FINISHED, ids=attrgetter("name"))
def test_what_is_done_about_a_job_that_is_gone(case: Finished) -> None:
    made = (
        plan(earlier=(case.options,))
        if case.earlier
        else plan(case.options, installed=case.installed, started=case.started)
    )
    assert [task.action for task in made.tasks] == [case.expect]


STATES = [
    ("nothing", None, "", ""),
    ("a kind with generations", Record(key=KEY, uid="u", generation=2, resource_version="7"), "9", "u 2"),
    ("a kind without", Record(key=KEY, uid="u", resource_version="7"), "", "u 7"),
    ("a kind without, after our write", Record(key=KEY, uid="u", resource_version="7"), "9", "u 9"),
]


@pytest.mark.parametrize(("record", "version", "expect"), [row[1:] for row in STATES], ids=[row[0] for row in STATES])
def test_what_changes_if_somebody_mends_an_object(record: Record | None, version: str, expect: str) -> None:
    assert state_of(record, version) == expect


CLAIM = KEY._replace(kind="PersistentVolumeClaim")
# fmt: off
SURPLUS = [
    Case("an object of ours goes", OURS, Action.NONE),
    Case("one that by its kind carries no reference goes", replace(OURS, key=CLAIM, controller_uid=""), Action.NONE),
    Case("one that was kept by a mark goes", replace(OURS, controller_uid="", prune="false"), Action.NONE),
    Case("a child that got our label from its operator stays", replace(OURS, owner_uid=""), Action.REFUSE),
    Case("one that copied label and UID, too", replace(OURS, controller_uid="rs"), Action.REFUSE),
    Case("one that is already being deleted", replace(OURS, deleting=True), Action.REFUSE),
]
# fmt: on


@pytest.mark.parametrize("case", SURPLUS, ids=attrgetter("name"))
def test_what_no_revision_wants_goes_if_it_is_really_ours(case: Case) -> None:
    assert bool(plan(observed=(case.record or OURS,)).prune) is (case.expect is Action.NONE)


def test_what_no_revision_names_stays_whatever_marks_it_carries() -> None:
    assert not plan(observed=(OURS,), named=False).prune


def test_under_orphan_nothing_carries_a_reference() -> None:
    assert plan(observed=(replace(OURS, controller_uid=""),), orphan=True).prune


class Property(NamedTuple):
    name: str
    action: Action
    writes: bool
    upgrades: bool


PROPERTIES = [
    Property("as we left it", Action.NONE, writes=False, upgrades=False),
    Property("not ours, and used", Action.USE, writes=False, upgrades=False),
    Property("refused", Action.REFUSE, writes=False, upgrades=False),
    Property("awaited", Action.AWAIT, writes=False, upgrades=False),
    Property("to be looked at", Action.READ, writes=True, upgrades=False),
    Property("to be compared", Action.COMPARE, writes=True, upgrades=False),
    Property("to be repaired", Action.REPAIR, writes=True, upgrades=False),
    Property("to be applied", Action.APPLY, writes=True, upgrades=True),
    Property("to be created", Action.CREATE, writes=True, upgrades=True),
    Property("to be taken back", Action.TAKE_BACK, writes=True, upgrades=True),
    Property("to be taken over", Action.TAKE_OVER, writes=True, upgrades=True),
]


@pytest.mark.parametrize("case", PROPERTIES, ids=attrgetter("name"))
def test_what_carrying_out_a_plan_may_do(case: Property) -> None:
    tasks = (Task(target=target(), action=Action.NONE), Task(target=target(), action=case.action))
    made = Plan(steps=(Step(position=order.position_of(KEY), tasks=tasks),))
    assert (made.writes, made.upgrades) == (case.writes, case.upgrades)


def test_a_plan_that_prunes_upgrades() -> None:
    assert Plan(prune=(OURS,)).upgrades


def test_every_action_is_in_the_table() -> None:
    assert {case.action for case in PROPERTIES} == set(Action)
