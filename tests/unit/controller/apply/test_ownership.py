"""Who owns an object, and which objects may be deleted."""

from __future__ import annotations

import copy
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.controller.apply.ownership import (
    MORE,
    Giver,
    HandOver,
    Judgement,
    Owner,
    RevisionObject,
    Situation,
    applied_digest,
    carries_owner_reference,
    describe_past,
    find_strays,
    find_surplus,
    is_changing_hands,
    is_ours,
    is_unfinished,
    judge,
    loses_reference,
    make_body,
    name_objects,
    name_past,
    write_left,
)
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.records import Record, project

OWNER = Owner("foo", "uid-foo")
ALIVE = {("foo", "uid-foo"), ("bar", "uid-bar")}
KEY = ObjectKey("", "ConfigMap", "shop", "settings")
NOBODYS = Record(key=KEY, resource_version="7")
CONTROLLED = replace(
    NOBODYS, controller_group="apps", controller_kind="ReplicaSet", controller_name="web", controller_uid="rs"
)
OURS = Record(
    key=KEY,
    owner="foo",
    owner_uid="uid-foo",
    applied_digest="v1:sha256:aa",
    controller_group=names.GROUP,
    controller_kind=names.KIND,
    controller_name="foo",
    controller_uid="uid-foo",
)
THEIRS = replace(OURS, owner="bar", owner_uid="uid-bar", controller_name="bar", controller_uid="uid-bar")
NO_CONTROLLER: dict[str, Any] = {
    "controller_group": "",
    "controller_kind": "",
    "controller_name": "",
    "controller_uid": "",
}
NAMESPACE = ObjectKey("", "Namespace", "", "shop")


def _judge(record: Record | None, protection: str = "Prevent", *, carries: bool = True) -> Judgement:
    return judge(
        record,
        OWNER,
        exists=lambda name, uid: (name, uid) in ALIVE,
        collision_protection=protection,
        carries_reference=carries,
    )


class Case(NamedTuple):
    name: str
    record: Record | None
    expect: Situation
    carries: bool = True


# fmt: off
PREVENTED = [
    Case("an object that is not there is absent", None, Situation.ABSENT),
    Case("an object with all our marks is ours", OURS, Situation.OURS),
    Case("one that by its kind carries no reference is ours without it", replace(OURS, **NO_CONTROLLER), Situation.OURS,
         False),
    Case("one that lost our reference is taken back", replace(OURS, **NO_CONTROLLER), Situation.TAKE_BACK),
    Case("one that lost our label is taken back", replace(OURS, owner=""), Situation.TAKE_BACK),
    Case("one that lost our UID is taken back", replace(OURS, owner_uid=""), Situation.TAKE_BACK),
    Case("one that we released is taken back", replace(NOBODYS, released_from="foo"), Situation.TAKE_BACK),
    Case("a kept one that Helm made first is taken back, too", replace(NOBODYS, released_from="foo", marks="Helm"),
         Situation.TAKE_BACK),
    Case("one that was restored without references is taken back", replace(OURS, owner_uid="old", **NO_CONTROLLER),
         Situation.TAKE_BACK),
    Case("one of an owner of our name that is gone is taken back", replace(OURS, owner_uid="old", controller_uid="old"),
         Situation.TAKE_BACK),
    Case("one that we released and another controls is refused", replace(CONTROLLED, released_from="foo"),
         Situation.COLLISION),
    Case("one that we released and another bundle has is refused", replace(THEIRS, released_from="foo"),
         Situation.COLLISION),
    Case("a child that an operator gave our label is refused", replace(CONTROLLED, owner="foo"), Situation.COLLISION),
    Case("our label alone proves nothing", replace(NOBODYS, owner="foo"), Situation.COLLISION),
    Case("one released by another bundle is refused", replace(NOBODYS, released_from="bar"), Situation.COLLISION),
    Case("a controller of our name and another group is another",
         replace(CONTROLLED, owner="foo", applied_digest="x", controller_kind=names.KIND,
         controller_group="fleet.cattle.io", controller_name="foo"), Situation.COLLISION),
    Case("an object that another controls is refused", CONTROLLED, Situation.COLLISION),
    Case("ours with another's controller reference is refused",
         replace(OURS, controller_kind="Cache", controller_uid="c"), Situation.COLLISION),
    Case("one of another bundle is refused", THEIRS, Situation.COLLISION),
    Case("one that nobody has is refused", NOBODYS, Situation.COLLISION),
    Case("a namespace that is not ours is used", replace(NOBODYS, key=NAMESPACE), Situation.USED, False),
    Case("a namespace of another bundle is used", replace(THEIRS, key=NAMESPACE, **NO_CONTROLLER), Situation.USED,
         False),
    Case("our namespace is ours", replace(OURS, key=NAMESPACE, **NO_CONTROLLER), Situation.OURS, False),
    Case("a namespace that we released is taken back", replace(NOBODYS, key=NAMESPACE, released_from="foo"),
         Situation.TAKE_BACK, False),
    Case("a kind of that name and another group is no namespace",
         replace(NOBODYS, key=ObjectKey("x.io", "Namespace", "", "a")), Situation.COLLISION),
]
# fmt: on


@pytest.mark.parametrize("case", PREVENTED, ids=attrgetter("name"))
def test_under_prevent(case: Case) -> None:
    assert _judge(case.record, carries=case.carries).situation is case.expect


# Objects that pass to another bundle

BAR = Owner("bar", "uid-bar")
PAUSED = HandOver(givers={"bar": Giver(owner=BAR, user=None)})
RUNNING = HandOver(givers={"bar": Giver(owner=BAR, user=None, hindrance="which must be paused")})
ORPHANING = HandOver(givers={"bar": Giver(owner=replace(BAR, orphan=True), user=None)})
TAKEN = HandOver(takers={"bar"}, takes=lambda name, uid: (name, uid) == ("bar", "uid-bar"))
UNREFERENCED = replace(THEIRS, **NO_CONTROLLER)
CLAIM = ObjectKey("", "PersistentVolumeClaim", "shop", "data")


class Passing(NamedTuple):
    name: str
    record: Record
    hand_over: HandOver
    expect: Situation
    handed_to: str = ""


# fmt: off
PASSING = [
    Passing("one of a paused giver is taken over", THEIRS, PAUSED, Situation.TAKE_OVER),
    Passing("a namespace of a paused giver, too", replace(UNREFERENCED, key=NAMESPACE), PAUSED, Situation.TAKE_OVER),
    Passing("a claim of a paused giver, too", replace(UNREFERENCED, key=CLAIM), PAUSED, Situation.TAKE_OVER),
    Passing("one without reference of a giver that orphans, too", UNREFERENCED, ORPHANING, Situation.TAKE_OVER),
    Passing("one that lacks the reference of its giver is not the giver's", UNREFERENCED, PAUSED, Situation.COLLISION),
    Passing("one with the UID of a giver that is gone is not", replace(THEIRS, owner_uid="old"), PAUSED,
            Situation.COLLISION),
    Passing("one that another controls is not", replace(THEIRS, controller_uid="rs"), PAUSED, Situation.COLLISION),
    Passing("one of a giver that is not paused is refused", THEIRS, RUNNING, Situation.COLLISION),
    Passing("ours stays ours", OURS, PAUSED, Situation.OURS),
    Passing("one that was taken over is refused", THEIRS, TAKEN, Situation.COLLISION, "bar"),
    Passing("one of a taker of another UID is refused as any other", replace(THEIRS, owner_uid="old"), TAKEN,
            Situation.COLLISION),
    Passing("one that was taken over can be taken back from a taker that is paused", THEIRS,
            replace(TAKEN, givers=PAUSED.givers), Situation.TAKE_OVER, "bar"),
    Passing("until it is, it stays the taker's", THEIRS, replace(TAKEN, givers=RUNNING.givers), Situation.COLLISION,
            "bar"),
]
# fmt: on


@pytest.mark.parametrize("protection", ["Prevent", "None"])
@pytest.mark.parametrize("case", PASSING, ids=attrgetter("name"))
def test_which_objects_pass(case: Passing, protection: str) -> None:
    found = judge(
        case.record,
        OWNER,
        exists=lambda name, uid: (name, uid) in ALIVE,
        collision_protection="Prevent" if case.expect is Situation.COLLISION and not case.handed_to else protection,
        carries_reference=True,
        hand_over=case.hand_over,
    )
    assert (found.situation, found.handed_to) == (case.expect, case.handed_to)


def _problem(hand_over: HandOver) -> str:
    return judge(
        THEIRS, OWNER, exists=lambda *_: True, collision_protection="None", carries_reference=True, hand_over=hand_over
    ).problem


def test_a_refused_hand_over_says_what_to_do() -> None:
    assert _problem(RUNNING) == 'belongs to BundleDeployment "bar", which must be paused'
    assert _problem(TAKEN) == (
        'was handed over to BundleDeployment "bar"; remove it from this bundle or delete this '
        'BundleDeployment, or to take it back, pause BundleDeployment "bar" and name it in spec.takeOver'
    )


def test_an_object_changes_hands_as_soon_as_its_entry_is_the_takers() -> None:
    assert is_changing_hands(replace(OURS, co_managers=("rukpak/bar",)), TAKEN)
    assert not is_changing_hands(replace(OURS, co_managers=("rukpak/other",)), TAKEN)
    assert not is_changing_hands(None, TAKEN)


def test_the_entry_of_a_hand_over_that_was_given_up_does_not_stay() -> None:
    assert is_unfinished(replace(OURS, co_managers=("rukpak/bar",)), leaves=True)
    assert not is_unfinished(OURS, leaves=True)


WITHOUT_REFERENCE = replace(THEIRS, **NO_CONTROLLER)
CLAIMS = [
    pytest.param(CONTROLLED, 'ReplicaSet "web"', id="a controller"),
    pytest.param(
        WITHOUT_REFERENCE, 'BundleDeployment "bar"', id="another bundle, for a kind that carries no reference"
    ),
    pytest.param(replace(NOBODYS, marks='Helm release "x"'), 'Helm release "x"', id="Helm"),
]


@pytest.mark.parametrize(("record", "claimant"), CLAIMS)
def test_what_another_claims_is_adopted_under_none_alone(record: Record, claimant: str) -> None:
    refused, adopted = _judge(record, "IfNoController"), _judge(record, "None")
    assert (refused.situation, adopted.situation) == (Situation.COLLISION, Situation.ADOPT)
    assert (refused.owner, adopted.owner) == (claimant, claimant)


@pytest.mark.parametrize("protection", ["IfNoController", "None"])
@pytest.mark.parametrize(
    "record", [NOBODYS, replace(WITHOUT_REFERENCE, owner_uid="gone")], ids=["unclaimed", "its bundle is gone"]
)
def test_what_nobody_claims_is_adopted(record: Record, protection: str) -> None:
    assert _judge(record, protection) == Judgement(situation=Situation.ADOPT)


@pytest.mark.parametrize("protection", ["Prevent", "IfNoController", "None"])
def test_a_namespace_that_others_have_is_never_adopted(protection: str) -> None:
    record = replace(CONTROLLED, key=NAMESPACE)
    assert _judge(record, protection, carries=False).situation is Situation.USED
    shared = replace(NOBODYS, key=NAMESPACE, owner="bar", owner_uid="uid-bar")
    assert _judge(shared, protection, carries=False).situation is Situation.USED


@pytest.mark.parametrize(
    ("protection", "expected"),
    [("Prevent", Situation.USED), ("IfNoController", Situation.ADOPT), ("None", Situation.ADOPT)],
)
def test_a_namespace_that_nobody_has_is_adopted_if_the_user_says_so(protection: str, expected: Situation) -> None:
    assert _judge(replace(NOBODYS, key=NAMESPACE), protection, carries=False).situation is expected


def test_another_controller_reference_has_to_go_before_ours_is_applied() -> None:
    assert _judge(CONTROLLED, "None").evicts
    assert _judge(replace(OURS, owner_uid="old", controller_uid="old")).evicts
    assert not _judge(NOBODYS, "None").evicts
    assert not _judge(replace(OURS, owner="")).evicts


def test_a_collision_says_whose_the_object_is_and_what_to_do() -> None:
    assert _judge(CONTROLLED).problem == (
        'already exists and belongs to ReplicaSet "web"; to take it over, have it no longer managed there, without '
        "deleting it, and set spec.collisionProtection to None"
    )
    for record in (THEIRS, replace(THEIRS, **NO_CONTROLLER)):
        assert _judge(record).problem == (
            'already exists and belongs to BundleDeployment "bar"; '
            "remove it from one of the two bundles, or hand it over: pause bar and name it in spec.takeOver"
        )
    assert _judge(NOBODYS).problem == (
        "already exists; set spec.collisionProtection to IfNoController to adopt it, or delete it"
    )


def _manifest(version: str = "v1", kind: str = "ConfigMap", **annotations: str) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in annotations.items()}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "shop", "annotations": named}}


CARRYING = [
    pytest.param(_manifest(), True, id="an ordinary object carries one"),
    pytest.param(_manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition"), False, id="a CRD carries none"),
    pytest.param(_manifest(kind="PersistentVolumeClaim"), False, id="a PVC carries none"),
    pytest.param(_manifest(kind="PersistentVolume"), False, id="a PV carries none"),
    pytest.param(_manifest(kind="Namespace"), False, id="a Namespace carries none"),
    pytest.param(_manifest("example.com/v1", "PersistentVolume"), True, id="another kind of the same name carries one"),
    pytest.param(_manifest(**{"helm.sh/resource-policy": "keep"}), False, id="one that Helm keeps carries none"),
    pytest.param(_manifest(**{"helm.sh/resource-policy": " Keep "}), False, id="Helm's word counts as Helm reads it"),
    pytest.param(_manifest(**{"helm.sh/resource-policy": "delete"}), True, id="another policy keeps nothing"),
    pytest.param(_manifest(**{names.PRUNE: "false"}), False, id="one that is never pruned carries none"),
    pytest.param(_manifest(**{names.PRUNE: "true"}), True, id="one that may be pruned carries one"),
    pytest.param(
        _manifest(kind="PersistentVolumeClaim", **{names.PRUNE: "true"}), False, id="a PVC that may be pruned, none"
    ),
]


@pytest.mark.parametrize(("manifest", "expect"), CARRYING)
def test_which_objects_carry_an_owner_reference(manifest: dict[str, Any], expect: bool) -> None:
    group, kind = manifest["apiVersion"].rpartition("/")[0], manifest["kind"]
    assert carries_owner_reference(manifest, orphan=False) is expect
    assert loses_reference(project(manifest, group, kind), orphan=False) is not expect
    assert not carries_owner_reference(manifest, orphan=True)


def test_a_body_has_every_mark_of_ours_and_no_block_on_deletion() -> None:
    body = make_body(_manifest(), OWNER)
    assert body["metadata"]["labels"] == {names.OWNER_LABEL: "foo"}
    assert body["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "core.rukpak.io/v1alpha2",
            "kind": "BundleDeployment",
            "name": "foo",
            "uid": "uid-foo",
            "controller": True,
        }
    ]
    assert is_ours(project(body, "", "ConfigMap"), OWNER, carries_reference=True)


def test_a_body_under_orphan_is_ours_without_a_reference() -> None:
    body = make_body(_manifest(), replace(OWNER, orphan=True))
    assert "ownerReferences" not in body["metadata"]
    assert is_ours(project(body, "", "ConfigMap"), OWNER, carries_reference=False)


def test_the_manifest_is_left_as_it_is_and_its_marks_are_kept() -> None:
    manifest = _manifest(**{"example.com/a": "b"})
    manifest["metadata"]["labels"] = {"app": "web"}
    before = copy.deepcopy(manifest)
    body = make_body(manifest, OWNER)
    assert manifest == before
    assert body["metadata"]["labels"]["app"] == "web"
    assert body["metadata"]["annotations"]["example.com/a"] == "b"


def test_the_digest_is_of_the_body_without_itself() -> None:
    body = make_body(_manifest(), OWNER)
    digest = body["metadata"]["annotations"][names.APPLIED_DIGEST]
    assert digest.startswith("v1:sha256:")
    assert applied_digest(body) == digest


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    manifest = {**_manifest(), "data": {"a": "1", "b": "2"}}
    reordered = {**dict(reversed(manifest.items())), "data": {"b": "2", "a": "1"}}
    assert make_body(manifest, OWNER) == make_body(reordered, OWNER)


def test_the_digest_differs_with_content_owner_and_policy() -> None:
    bodies = [
        make_body(_manifest(), OWNER),
        make_body(_manifest(), replace(OWNER, orphan=True)),
        make_body(_manifest(), Owner("foo", "other")),
        make_body({**_manifest(), "data": {"a": "1"}}, OWNER),
    ]
    assert len({applied_digest(body) for body in bodies}) == len(bodies)


NAMED_KEY = ObjectKey("", "ConfigMap", "shop", "a")
NAMED = Record(key=NAMED_KEY, owner="foo", owner_uid="uid-foo", controller_uid="uid-foo")
ROLE = ObjectKey("rbac.authorization.k8s.io", "Role", "shop", "system: x y")


def revision(*objects: dict[str, Any], left: tuple[str, ...] = ()) -> Revision:
    return Revision(digest="sha256:aa", objects=objects, terms=Terms(inputs="", install_namespace="shop", left=left))


def manifest(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}


def name(*revisions: Revision, orphan: bool = False) -> dict[ObjectKey, RevisionObject]:
    return name_objects(revisions, lambda kind: kind.kind != "Namespace", orphan=orphan)


def test_an_object_is_named_where_it_is() -> None:
    bundle = (manifest("ConfigMap", "a"), manifest("ConfigMap", "b", namespace="other"), manifest("Namespace", "n"))
    keys = {NAMED_KEY, NAMED_KEY._replace(name="b", namespace="other"), ObjectKey("", "Namespace", "", "n")}
    assert name(revision(*bundle)).keys() == keys


REFERENCES = {
    "an ordinary object": (manifest("ConfigMap", "a"), False, True),
    "a claim": (manifest("PersistentVolumeClaim", "a"), False, False),
    "what is marked to be kept": (manifest("ConfigMap", "a", annotations={names.PRUNE: "false"}), False, False),
    "anything under Orphan": (manifest("ConfigMap", "a"), True, False),
}


@pytest.mark.parametrize("case", REFERENCES)
def test_whether_the_collector_takes(case: str) -> None:
    value, orphan, expected = REFERENCES[case]
    [named] = name(revision(value), orphan=orphan).values()
    assert named.carries_reference is expected


def test_what_older_revisions_left_is_named_again() -> None:
    kinds = {NAMED_KEY: "v1/ConfigMap", CLAIM: "v1/PersistentVolumeClaim", ROLE: "rbac.authorization.k8s.io/v1/Role"}
    left = {
        key: RevisionObject(kind=GroupVersionKind.parse(kind), carries_reference=key != CLAIM)
        for key, kind in kinds.items()
    }
    assert name(revision(left=write_left(left))) == left


def test_very_many_names_are_left_to_the_revisions_that_have_them() -> None:
    left = {NAMED_KEY: RevisionObject(kind=GroupVersionKind("", "v1", "ConfigMap"), carries_reference=True)}
    text = "v1/ConfigMap shop a"
    assert write_left(left, len(text) + 4) == (text,)
    assert write_left(left, len(text) + 3) == (MORE,)
    assert name(revision(left=(MORE,))) == {}


OBSERVED = {
    "an object that an older revision names": (NAMED, {NAMED_KEY}, set(), True, False),
    "one that the wanted one names, too": (NAMED, {NAMED_KEY}, {NAMED_KEY}, False, False),
    "one that carries all marks, and that none names": (NAMED, set(), set(), False, True),
    "a copy of its label": (replace(NAMED, owner_uid="", controller_uid=""), {NAMED_KEY}, set(), False, False),
    "one that is going": (replace(NAMED, deleting=True), {NAMED_KEY}, set(), False, False),
    "a claim that none names": (replace(NAMED, key=CLAIM, controller_uid=""), set(), set(), False, True),
}


@pytest.mark.parametrize("case", OBSERVED)
def test_what_is_surplus_and_what_is_a_stray(case: str) -> None:
    record, older, wanted, is_surplus, is_stray = OBSERVED[case]
    observed = {record.key: record}
    assert bool(find_surplus(wanted, older, observed, OWNER)) is is_surplus
    assert bool(find_strays(observed, wanted, older, owner=OWNER)) is is_stray


B = NAMED_KEY._replace(name="b")
TEXT = "v1/ConfigMap shop {}"


def older(*keys: ObjectKey) -> dict[ObjectKey, RevisionObject]:
    kind = GroupVersionKind("", "v1", "ConfigMap")
    return {key: RevisionObject(kind=kind, carries_reference=True) for key in keys}


PAST = {
    "what is retired now comes first": (older(NAMED_KEY), [TEXT.format("b")], set(), 1000, ["a", "b"]),
    "each once": (older(NAMED_KEY), [TEXT.format("a"), TEXT.format("b")], set(), 1000, ["a", "b"]),
    "without what the installed revision names itself": (older(NAMED_KEY, B), [], {NAMED_KEY}, 1000, ["b"]),
    "the oldest are dropped if not all fit": (older(NAMED_KEY), [TEXT.format("b")], set(), 25, ["a"]),
}


@pytest.mark.parametrize("case", PAST)
def test_what_is_recorded_of_earlier_revisions(case: str) -> None:
    retired, earlier, own, most, expected = PAST[case]
    assert describe_past(retired, earlier, own, most) == tuple(map(TEXT.format, expected))


def test_of_what_earlier_revisions_had_only_what_exists_again_counts() -> None:
    found = revision()
    found = replace(found, terms=replace(found.terms, past=(TEXT.format("a"), TEXT.format("b"))))
    assert name_past([found], {NAMED_KEY}, orphan=False) == older(NAMED_KEY)
    assert name(found) == {}
