"""The objects of a revision as targets, optional and packed ones, and compared with another revision."""

from __future__ import annotations

import random
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.controller.apply import targets as packed_targets
from rukpak.controller.apply.ownership import Owner, make_body
from rukpak.controller.apply.targets import (
    PackedTargets,
    TargetSet,
    find_missing_labels,
    find_reduced,
    leave_out_missing,
    make_targets,
    pack_targets,
)
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.records import Record

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
    return make_targets(revision, replace(OWNER, orphan=orphan), lambda kind: known.get(kind.kind))


def test_a_target_says_what_will_be_sent() -> None:
    target = targets(CONFIG_MAP).by_key[ObjectKey("", "ConfigMap", "shop", "a")]
    body = make_body(CONFIG_MAP, OWNER)
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
    made = make_targets(revision, OWNER, lambda _kind: next(answers))
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
    first = make_targets(revision, OWNER, lambda kind: SCOPES[kind.kind]).targets[0]
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


PLAIN_MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}},
}
KIND = {"group": "example.com", "kind": "Widget"}


def marked(value: str, manifest: dict[str, Any] = WIDGET) -> dict[str, Any]:
    return {**manifest, "metadata": {"name": "w", "annotations": {names.OPTIONAL: value}}}


def optional_targets(*objects: dict[str, Any], kinds: tuple[dict[str, str], ...] = ()) -> TargetSet:
    terms = Terms(inputs="", install_namespace="shop", optional=kinds)
    revision = Revision(digest="sha256:aa", objects=objects, terms=terms)
    served = {"ConfigMap": True, "CustomResourceDefinition": False}
    return make_targets(revision, Owner("foo", "uid"), lambda kind: served.get(kind.kind))


class OptionalCase(NamedTuple):
    name: str
    targets: TargetSet
    skipped: list[str]


OPTIONAL_CASES = [
    OptionalCase("an object that must be there is not skipped", optional_targets(WIDGET), []),
    OptionalCase("one that is marked is", optional_targets(marked("true"), PLAIN_MAP), ["w"]),
    OptionalCase("a mark that is not true means nothing", optional_targets(marked("false")), []),
    OptionalCase("one of a kind that the spec names is", optional_targets(WIDGET, PLAIN_MAP, kinds=(KIND,)), ["w"]),
    OptionalCase(
        "a kind of another group is another", optional_targets(WIDGET, kinds=({"group": "", "kind": "Widget"},)), []
    ),
    OptionalCase("one whose kind is served is applied", optional_targets(marked("true", PLAIN_MAP)), []),
    OptionalCase("one whose definition comes with it waits for that", optional_targets(marked("true"), DEFINITION), []),
]


@pytest.mark.parametrize("case", OPTIONAL_CASES, ids=attrgetter("name"))
def test_what_is_skipped(case: OptionalCase) -> None:
    present = leave_out_missing(case.targets, lambda kind: kind.kind == "Widget")
    assert [target.key.name for target in present.skipped] == case.skipped
    assert present.targets == tuple(target for target in case.targets.targets if target not in present.skipped)


def test_what_is_skipped_is_wanted_all_the_same() -> None:
    whole = optional_targets(marked("true"), PLAIN_MAP)
    present = leave_out_missing(whole, lambda kind: kind.kind == "Widget")
    assert present.by_key == whole.by_key
    assert {kind.kind for kind in present.kinds} == {"ConfigMap"}
    assert present.skipped_kinds == ("example.com/v1/Widget",)


PACKED_OWNER = Owner("shop", "uid")
RULES = {"ignore": [{"group": "", "kind": "ConfigMap", "name": "object-7", "paths": ["data.a"]}]}


def make_set(*objects: dict[str, Any]) -> TargetSet:
    terms = Terms(inputs="", install_namespace="shop", drift=RULES)
    revision = Revision(digest="sha256:1", objects=objects, terms=terms)
    return make_targets(revision, PACKED_OWNER, lambda kind: kind.kind != "Namespace")


def config_map(name: str, text: str = "1", **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": text, "b": "2"}}


MANY = make_set(*(config_map(f"object-{number}") for number in range(200)))
ODD = make_set(
    config_map("object-7"),
    config_map("recreated", **{f"core.rukpak.io/{name}": "true" for name in ("recreate", "optional")}),
    config_map("later", **{"core.rukpak.io/wave": "2"}),
    {**config_map("surrogate", "\ud800"), "data": {"a": [1, 1.5, None, True, {"b": []}], "big": 1 << 70}},
)


def test_what_a_revision_may_have_reduced_lacks_something_and_is_not_gone() -> None:
    def with_data(name: str, **data: str) -> dict[str, Any]:
        return {**config_map(name), "data": data}

    before = make_set(with_data("gone", a="1"), with_data("same", a="1"), with_data("less", a="1", b="2"), ROLE)
    after = make_set(with_data("same", a="1"), with_data("less", a="1"), ROLE, with_data("new", a="1"))
    assert [key.name for key in find_reduced(before, after)] == ["less"]
    more = make_set(with_data("same", a="1", b="2"), with_data("less", a="1", b="3"))
    assert not find_reduced(before, more)


def packed(wanted: TargetSet, *always: ObjectKey) -> PackedTargets:
    found = pack_targets(wanted, always)
    assert found
    return found


@pytest.mark.parametrize("wanted", [MANY, ODD, make_set()])
def test_what_is_unpacked_is_what_was_packed(wanted: TargetSet) -> None:
    assert packed(wanted).unpack(wanted.by_key) == wanted


def test_only_what_is_asked_for_is_unpacked_in_bundle_order_after_what_is_always_there() -> None:
    keys = [target.key for target in MANY.targets]
    found = packed(MANY, keys[9]).unpack([keys[150], keys[20], keys[100], ObjectKey("", "Secret", "shop", "x")])
    assert found
    assert [target.key for target in found.targets] == [keys[0], keys[9], keys[20], keys[100], keys[150]]
    assert MANY.targets[0].bare  # the install namespace
    assert (found.revision, found.resources) == (MANY.revision, MANY.resources)


def test_many_alike_need_little_memory() -> None:
    text = sum(len(str(target.manifest)) for target in MANY.targets)
    assert packed(MANY).size < text / 2


def test_a_few_large_ones_are_packed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_targets, "MOST_BYTES", 80_000)
    large = make_set(*(config_map(f"object-{number}", "x" * 8000) for number in range(8, 20)))
    found, keys = packed(large), [target.key for target in large.targets if not target.bare]
    assert len(found.blocks) == len(keys)
    assert found.unpack(keys[:2]) is not None
    assert found.unpack(keys) is None


TOO_MUCH: Any = []
for _ in range(3000):
    TOO_MUCH = [TOO_MUCH]
UNPACKABLE = [
    pytest.param("x" * packed_targets.MOST_BYTES, id="too large"),
    pytest.param(TOO_MUCH, id="nested too deeply"),
]


def test_large_ones_that_compress_badly_are_not_kept() -> None:
    def bundle(size: int) -> TargetSet:
        texts = (random.Random(number).randbytes(size // 2).hex() for number in range(80))
        return make_set(*(config_map(f"object-{number}", text) for number, text in enumerate(texts)))

    assert pack_targets(bundle(1000), ())
    assert pack_targets(bundle(3000), ()) is None


@pytest.mark.parametrize("value", UNPACKABLE)
def test_what_cannot_be_packed_is_not(value: Any) -> None:
    target = MANY.targets[1]
    odd = replace(target, manifest={**target.manifest, "data": value})
    assert pack_targets(replace(MANY, targets=(odd,), by_key={odd.key: odd}), ()) is None
