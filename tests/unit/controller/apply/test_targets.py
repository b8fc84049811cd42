from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api import names
from controller.apply.ownership import Owner, make_body
from controller.apply.targets import TargetSet, find_missing_labels, make_targets
from controller.build.revision import Revision, Terms
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey, Record

OWNER = Owner("foo", "uid-foo")
CONFIG_MAP: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "shop"},
    "data": {"a": "1"},
}
NAMESPACE: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
ROLE: dict[str, Any] = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
WIDGET: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
SCOPES = {"ConfigMap": True, "Namespace": False, "ClusterRole": False, "CustomResourceDefinition": False}


def definition(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": spec,
    }


def targets(*objects: dict[str, Any], orphan: bool = False, **scopes: bool) -> TargetSet:
    revision = Revision(digest="sha256:aa", objects=objects, terms=Terms(inputs="", install_namespace="shop"))
    known = {**SCOPES, **scopes}
    return make_targets(revision, OWNER, orphan=orphan, is_namespaced=lambda kind: known.get(kind.kind))


def test_a_target_says_what_will_be_sent() -> None:
    target = targets(CONFIG_MAP).by_key[ObjectKey("", "ConfigMap", "shop", "a")]
    body = make_body(CONFIG_MAP, OWNER, orphan=False)
    assert target.digest == body["metadata"]["annotations"][names.APPLIED_DIGEST]
    assert target.kind == GroupVersionKind("", "v1", "ConfigMap")
    assert target.carries_reference
    assert target.manifest == CONFIG_MAP


def test_under_orphan_it_is_another_body_without_a_reference() -> None:
    key = ObjectKey("", "ConfigMap", "shop", "a")
    kept, owned = targets(CONFIG_MAP, orphan=True).by_key[key], targets(CONFIG_MAP).by_key[key]
    assert not kept.carries_reference
    assert kept.digest != owned.digest


class Case(NamedTuple):
    name: str
    objects: tuple[dict[str, Any], ...]
    expect: list[tuple[str, bool]]
    """Kind and whether it is bare."""


# fmt: off
CASES = [
    Case("the install namespace comes first where objects need it", (CONFIG_MAP,),
         [("Namespace", True), ("ConfigMap", False)]),
    Case("one that the bundle brings is applied instead", (CONFIG_MAP, NAMESPACE),
         [("ConfigMap", False), ("Namespace", False)]),
    Case("objects of the cluster need none", (ROLE,), [("ClusterRole", False)]),
    Case("objects of another namespace need none",
         ({**CONFIG_MAP, "metadata": {"name": "a", "namespace": "elsewhere"}},), [("ConfigMap", False)]),
    Case("an empty revision has no targets", (), []),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_when_the_install_namespace_is_a_target(case: Case) -> None:
    assert [(target.kind.kind, target.bare) for target in targets(*case.objects).targets] == case.expect


def test_the_install_namespace_is_not_watched() -> None:
    assert targets(CONFIG_MAP).kinds == {GroupVersionKind("", "v1", "ConfigMap")}


def test_the_namespace_of_an_unknown_kind_is_decided_when_it_is_served() -> None:
    before, then = targets(WIDGET), targets(WIDGET, Widget=True)
    assert (before.undecided, then.undecided) == (True, False)
    assert [target.key.namespace for target in before.targets] == [""]
    assert [target.key for target in then.targets] == [
        ObjectKey("", "Namespace", "", "shop"),
        ObjectKey("example.com", "Widget", "shop", "w"),
    ]


def test_a_kind_that_comes_to_be_served_meanwhile_is_not_decided_yet() -> None:
    answers = iter([None, True])
    revision = Revision(digest="sha256:aa", objects=(WIDGET,), terms=Terms(inputs="", install_namespace="shop"))
    made = make_targets(revision, OWNER, orphan=False, is_namespaced=lambda _kind: next(answers))
    assert made.undecided
    assert [target.key.namespace for target in made.targets] == [""]


def test_an_unknown_kind_with_a_namespace_is_decided() -> None:
    assert not targets({**WIDGET, "metadata": {"name": "w", "namespace": "shop"}}).undecided


def test_the_manifest_is_left_as_it_is() -> None:
    metadata = dict(WIDGET["metadata"])
    targets(WIDGET, Widget=True)
    assert WIDGET["metadata"] == metadata


def test_what_the_bundle_defines_itself_is_known_before_it_is_served() -> None:
    names_ = {"kind": "Widget", "plural": "widgets"}
    defined = targets(definition(group="example.com", names=names_, scope="Namespaced")).resources
    resource = defined["example.com", "Widget"]
    assert (resource.plural, resource.namespaced) == ("widgets", True)


MALFORMED = [
    pytest.param({"group": ["example.com"], "names": {"kind": "Widget", "plural": "widgets"}}, id="a list as a group"),
    pytest.param({"group": "example.com", "names": ["Widget"]}, id="a list of names"),
    pytest.param({"group": "example.com", "names": {"kind": "Widget", "plural": "../pods"}}, id="a path as plural"),
    pytest.param({}, id="nothing"),
    pytest.param({"group": "example.com"}, id="no names"),
    pytest.param({"group": "example.com", "names": {"kind": "Widget"}}, id="no plural"),
    pytest.param({"names": {"kind": "Widget", "plural": "widgets"}}, id="no group"),
]


@pytest.mark.parametrize("spec", MALFORMED)
def test_a_definition_without_names_is_left_for_the_api_server_to_refuse(spec: dict[str, Any]) -> None:
    made = targets(definition(**spec))
    assert not made.resources
    assert [target.key.name for target in made.targets] == ["widgets.example.com"]


def test_a_definition_of_another_type_is_left_for_the_api_server_to_refuse() -> None:
    assert not targets({**definition(), "spec": 1}).resources


def test_a_created_install_namespace_has_what_the_rendering_says() -> None:
    terms = Terms(inputs="", install_namespace="shop")
    revision = Revision(digest="", objects=(CONFIG_MAP,), terms=terms, namespace={"labels": {"team": "a"}})
    first = make_targets(revision, OWNER, orphan=False, is_namespaced=lambda kind: SCOPES[kind.kind]).targets[0]
    assert first.bare
    assert first.manifest == {**NAMESPACE, "metadata": {"name": "shop", "labels": {"team": "a"}}}


class Used(NamedTuple):
    name: str
    seen: dict[str, str] | None
    """Labels of the Namespace when it was looked at; None: this process made it."""
    missing: str


USED = [
    Used("all are there, among others", {"a": "1", "b": "2", "c": "3"}, ""),
    Used("one is missing", {"a": "1"}, '"b=2"'),
    Used("one has another value, one is missing", {"a": "2"}, '"a=1", "b=2"'),
    Used("it was made", None, ""),
]


@pytest.mark.parametrize("case", USED, ids=attrgetter("name"))
def test_labels_that_a_used_namespace_lacks_are_warned_of(case: Used) -> None:
    labelled = {**NAMESPACE, "metadata": {"name": "shop", "labels": {"b": "2", "a": "1"}}}
    key = ObjectKey("", "Namespace", "", "shop")
    seen = None if case.seen is None else Record(key=key, labels=tuple(case.seen.items()))
    text = f"Namespace shop: not managed by this bundle, and lacks the labels {case.missing}; add them"
    expect = (text,) if case.missing else ()
    assert find_missing_labels(targets(labelled, CONFIG_MAP), {key: seen}) == expect
    assert find_missing_labels(targets(labelled, CONFIG_MAP), {}) == ()
    concealed = find_missing_labels(targets(labelled, CONFIG_MAP), {key: seen}, conceals=True)
    assert concealed == tuple(line.replace(case.missing, "of the bundle") for line in expect)
