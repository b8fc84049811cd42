from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from api import names
from controller.apply.ownership import Owner
from controller.apply.possession import (
    MORE,
    RevisionObject,
    describe_left,
    describe_past,
    find_strays,
    find_surplus,
    name_objects,
    name_past,
)
from controller.build.revision import Revision, Terms
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey, Record

OWNER = Owner("foo", "uid-foo")
KEY = ObjectKey("", "ConfigMap", "shop", "a")
OURS = Record(key=KEY, owner="foo", owner_uid="uid-foo", controller_uid="uid-foo")
CLAIM = ObjectKey("", "PersistentVolumeClaim", "shop", "data")
ROLE = ObjectKey("rbac.authorization.k8s.io", "Role", "shop", "system: x y")


def revision(*objects: dict[str, Any], left: tuple[str, ...] = ()) -> Revision:
    return Revision(digest="sha256:aa", objects=objects, terms=Terms(inputs="", install_namespace="shop", left=left))


def manifest(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}


def name(*revisions: Revision, orphan: bool = False) -> dict[ObjectKey, RevisionObject]:
    return name_objects(revisions, lambda kind: kind.kind != "Namespace", orphan=orphan)


def test_an_object_is_named_where_it_is() -> None:
    bundle = (manifest("ConfigMap", "a"), manifest("ConfigMap", "b", namespace="other"), manifest("Namespace", "n"))
    keys = {KEY, KEY._replace(name="b", namespace="other"), ObjectKey("", "Namespace", "", "n")}
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
    kinds = {KEY: "v1/ConfigMap", CLAIM: "v1/PersistentVolumeClaim", ROLE: "rbac.authorization.k8s.io/v1/Role"}
    left = {
        key: RevisionObject(kind=GroupVersionKind.parse(kind), carries_reference=key != CLAIM)
        for key, kind in kinds.items()
    }
    assert name(revision(left=describe_left(left))) == left


def test_very_many_names_are_left_to_the_revisions_that_have_them() -> None:
    left = {KEY: RevisionObject(kind=GroupVersionKind("", "v1", "ConfigMap"), carries_reference=True)}
    text = "v1/ConfigMap shop a"
    assert describe_left(left, len(text) + 4) == (text,)
    assert describe_left(left, len(text) + 3) == (MORE,)
    assert name(revision(left=(MORE,))) == {}


OBSERVED = {
    "an object that an older revision names": (OURS, {KEY}, set(), True, False),
    "one that the wanted one names, too": (OURS, {KEY}, {KEY}, False, False),
    "one that carries all marks, and that none names": (OURS, set(), set(), False, True),
    "a copy of its label": (replace(OURS, owner_uid="", controller_uid=""), {KEY}, set(), False, False),
    "one that is going": (replace(OURS, deleting=True), {KEY}, set(), False, False),
    "a claim that none names": (replace(OURS, key=CLAIM, controller_uid=""), set(), set(), False, True),
}


@pytest.mark.parametrize("case", OBSERVED)
def test_what_is_surplus_and_what_is_a_stray(case: str) -> None:
    record, older, wanted, is_surplus, is_stray = OBSERVED[case]
    observed = {record.key: record}
    assert bool(find_surplus(wanted, older, observed, OWNER, orphan=False)) is is_surplus
    assert bool(find_strays(observed, wanted, older, owner=OWNER, orphan=False)) is is_stray


B = KEY._replace(name="b")
TEXT = "v1/ConfigMap shop {}"


def older(*keys: ObjectKey) -> dict[ObjectKey, RevisionObject]:
    kind = GroupVersionKind("", "v1", "ConfigMap")
    return {key: RevisionObject(kind=kind, carries_reference=True) for key in keys}


PAST = {
    "what is retired now comes first": (older(KEY), [TEXT.format("b")], set(), 1000, ["a", "b"]),
    "each once": (older(KEY), [TEXT.format("a"), TEXT.format("b")], set(), 1000, ["a", "b"]),
    "without what the installed revision names itself": (older(KEY, B), [], {KEY}, 1000, ["b"]),
    "the oldest are dropped if not all fit": (older(KEY), [TEXT.format("b")], set(), 25, ["a"]),
}


@pytest.mark.parametrize("case", PAST)
def test_what_is_recorded_of_earlier_revisions(case: str) -> None:
    retired, earlier, own, most, expected = PAST[case]
    assert describe_past(retired, earlier, own, most) == tuple(map(TEXT.format, expected))


def test_of_what_earlier_revisions_had_only_what_exists_again_counts() -> None:
    found = revision()
    found = replace(found, terms=replace(found.terms, past=(TEXT.format("a"), TEXT.format("b"))))
    assert name_past([found], {KEY}, orphan=False) == older(KEY)
    assert name(found) == {}
