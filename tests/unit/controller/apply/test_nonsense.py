"""Whatever a bundle or an object on the cluster contains, it is planned, compared and described without an error."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.policies import CrdUpgradeSafety
from rukpak.controller.apply import drift as explanation
from rukpak.controller.apply import hooks, managed_fields
from rukpak.controller.apply.crd_changes import compare, read_definition, tell
from rukpak.controller.apply.crd_upgrade import Survey, plan_trials
from rukpak.controller.apply.drift import covers, equal_by_value, find_uncovered
from rukpak.controller.apply.order import describe_awaited, plan_teardown
from rukpak.controller.apply.ownership import (
    Owner,
    RemovalCause,
    describe_past,
    dispose,
    is_unfinished,
    judge,
    name_objects,
    needs_mark,
    write_left,
)
from rukpak.controller.apply.plan import make_plan
from rukpak.controller.apply.removal import is_shared
from rukpak.controller.apply.replies import classify
from rukpak.controller.apply.rights import find_rights, make_roles
from rukpak.controller.apply.targets import (
    TargetSet,
    find_differences,
    find_dropped_replicas,
    find_left_behind,
    find_missing_labels,
    leave_out_missing,
    make_targets,
    pack_targets,
)
from rukpak.controller.building.revision import Revision, Terms, pack, pack_terms
from rukpak.controller.formats.applicable import make_applicable, revision_digest
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.encoding import encode
from rukpak.controller.kube.errors import reply_error
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import Context
from rukpak.controller.observe.records import Record, entries_of, entry_of, fields_of, project
from rukpak.controller.untrusted import decode
from tests.support.deployments import options_for
from tests.support.nonsense import (
    LIVE,
    MANAGED_FIELDS,
    OBJECTS,
    nested,
    nonsense_in,
    objects_like,
    with_value,
)

Item = dict[str, Any]
OWNER = Owner("web", "o")
MANAGER = "rukpak/web"
RULES = [
    {"group": "apps", "kind": "Deployment", "name": "web", "paths": ["spec.replicas", 'metadata.annotations["a"]']},
    {"kind": "ConfigMap", "paths": ["data", "data.a"]},
]
SCOPES = st.sampled_from([None, True, False])
REFUSED = ["spec.ports[0].name", "data[a.b]", "spec.template.spec.containers[0].image", "spec", "", "[", "x"]
REPLY = {
    "kind": "Status",
    "code": 422,
    "reason": "Invalid",
    "message": 'x "y" is invalid',
    "details": {
        "causes": [{"field": "spec.a[0]", "reason": "FieldValueInvalid", "message": 'Invalid value: "a": must be b'}],
        "retryAfterSeconds": 1,
    },
}


def of_kind(kind: str, examples: tuple[Item, ...]) -> st.SearchStrategy[Item]:
    return objects_like(*(each for each in examples if each["kind"] == kind))


def group_of(item: Item) -> str:
    return str(item["apiVersion"]).rpartition("/")[0]


def observed(item: Item) -> Record:
    return project(item, group_of(item), item["kind"], assess(item, Context()))


CONTENT = st.lists(objects_like(*OBJECTS), max_size=3)


@st.composite
def revisions(draw: st.DrawFn) -> Revision:
    """Return a revision as one is rendered from content with nonsense."""
    while True:
        items = draw(CONTENT)
        with suppress(BundleError):
            made = make_applicable(items, install_namespace="shop", is_namespaced=lambda *_: None)
            return revision_of(made)


def revision_of(made: list[Item]) -> Revision:
    ran = [{"manifest": item, "events": ["pre-install"], "weight": 0, "deletePolicies": []} for item in made]
    return Revision(
        digest=revision_digest(made),
        objects=tuple(made),
        hooks=tuple(ran),
        terms=Terms(inputs="", install_namespace="shop", drift={"ignore": RULES}),
    )


def targets_of(revision: Revision, scope: bool | None, *, orphan: bool) -> TargetSet:
    return make_targets(revision, replace(OWNER, orphan=orphan), lambda _: scope)


@given(revisions(), revisions(), st.lists(objects_like(*LIVE), max_size=4), SCOPES, st.booleans())
def test_any_revision_is_planned_beside_any_objects(
    new: Revision, old: Revision, live: list[Item], scope: bool | None, orphan: bool
) -> None:
    after, before = (targets_of(each, scope, orphan=orphan) for each in (new, old))
    records = {record.key: record for record in map(observed, live)}
    plan = make_plan(options_for(*after.targets, owner=OWNER), before.targets, records)
    assert len(plan.tasks) >= len(after.targets)
    plan_teardown(records, replace(OWNER, orphan=orphan))
    find_missing_labels(after, records)
    for record in records.values():
        describe_awaited(record)
        for cause in RemovalCause:
            dispose(record, cause)


ODD_FINALIZERS = with_value(OBJECTS[0], ("metadata", "finalizers"), [{"a": "b"}, 1])


@given(revisions(), revisions(), SCOPES, st.booleans())
@example(revision_of([]), revision_of([ODD_FINALIZERS]), None, False)
def test_any_two_revisions_are_compared(new: Revision, old: Revision, scope: bool | None, orphan: bool) -> None:
    after, before = (targets_of(each, scope, orphan=orphan) for each in (new, old))
    for first, second in ((before, after), (after, before), (after, after)):
        find_differences(first, second, prunes=True)
        find_dropped_replicas(first, second)
        find_left_behind(first, second)
    named = name_objects([new, old], lambda _: scope, orphan=orphan)
    write_left(named)
    describe_past(named, [], ())


@given(revisions(), SCOPES)
def test_any_revision_is_stored_and_its_hooks_are_sent(revision: Revision, scope: bool | None) -> None:
    assert pack(revision).unpacked() == revision
    pack_terms(revision)
    targets = leave_out_missing(targets_of(revision, scope, orphan=False), lambda _: True)
    if packed := pack_targets(targets, ()):
        packed.unpack([each.key for each in targets.targets])
    for event in hooks.HookEvent:
        for each in hooks.hooks_of(revision, event):
            encode(hooks.make_hook_body(each, OWNER))


@given(revisions())
def test_the_rights_that_any_revision_needs_are_found(revision: Revision) -> None:
    def find(kind: GroupVersionKind) -> Resource:
        return Resource(kind.group, kind.version, kind.kind, "things", namespaced=True)

    list(make_roles(find_rights(revision, find), name="a", account=("a", "b")))


@given(objects_like(*LIVE), st.booleans())
def test_any_object_on_the_cluster_has_an_owner_or_none(live: Item, exists: bool) -> None:
    record = observed(live)
    for protection in ("Prevent", "IfNoController", "None"):
        judge(record, OWNER, exists=lambda *_: exists, collision_protection=protection, carries_reference=not exists)
    needs_mark(record, OWNER, evicts=False)
    is_unfinished(record, leaves=exists)
    is_shared(live, "web")


@given(objects_like(*LIVE))
def test_any_object_on_the_cluster_is_a_hook_or_none(live: Item) -> None:
    hooks.is_a_hook(live, OWNER)
    hooks.has_started(live, [live])
    hooks.make_running_record(live, observed(live).key)
    for group, kind in (("batch", "Job"), ("", "Pod"), ("", "ConfigMap")):
        hooks.assess(live, ObjectKey(group, kind, "", "a"))


PAIRS = [(objects_like(live), objects_like(item, most=1), item) for live, item in zip(LIVE, OBJECTS, strict=True)]
ENTRIES = nonsense_in(MANAGED_FIELDS, most=4)


@st.composite
def compared(draw: st.DrawFn) -> tuple[Item, Item]:
    """Return an object on the cluster with nonsense, also in its managedFields, and what is applied of it."""
    on_cluster, content, example = draw(st.sampled_from(PAIRS))
    live, body = draw(on_cluster), draw(content)
    if draw(st.booleans()):
        live = with_value(live, ("metadata",), {**live["metadata"], "managedFields": draw(ENTRIES)})
    try:
        return live, make_applicable([body], install_namespace="shop", is_namespaced=lambda *_: None)[0]
    except BundleError:
        return live, example


@given(compared())
def test_any_managed_fields_are_compared_with_what_is_applied(pair: tuple[Item, Item]) -> None:
    live, body = pair
    entry = entry_of(live, MANAGER)
    assert covers(fields_of(entry), body) or any(True for _ in find_uncovered(fields_of(entry), body))
    equal_by_value(body, live)
    explanation.explain(observed(live).key, live, body, MANAGER).describe()


@given(compared())
def test_any_managed_fields_are_corrected(pair: tuple[Item, Item]) -> None:
    live, body = pair
    for entries in corrected(live, body):
        encode(entries)
        assert entries_of({"metadata": {"managedFields": entries}}) == list(entries or ())


def corrected(live: Item, body: Item) -> list[Any]:
    made: list[Any] = [
        managed_fields.inherited_entries(live, observed(live), "new", "v1"),
        managed_fields.moved_items(live, body, MANAGER),
        managed_fields.claimed_items(live, body, MANAGER),
        managed_fields.claimed_fields(live, body, MANAGER, REFUSED),
    ]
    for path in (("spec", "replicas"), ("data", "a", "b"), ("spec", "template", "spec", "containers", "a")):
        with suppress(ValueError):
            made.append(managed_fields.left_fields(live, [path], "web"))
    return [entries for entries in made if entries is not None]


@pytest.mark.parametrize("how", ["map", "list", "both"])
def test_the_deepest_objects_that_others_write_break_nothing(how: str) -> None:
    """An object has ten thousand levels at most, in its fields and in managedFields."""
    levels = 4900
    opening, closing = {"map": ('{"a":' * 2, "}}"), "list": ("[[", "]]"), "both": ('{"a":[', "]}")}[how]
    deep = opening * levels + "1" + closing * levels
    fields = '{"f:a":{"k:{\\"a\\":1}":' * levels + "{}" + "}}" * levels
    entries = [{**entry, "fieldsV1": "FIELDS"} for entry in MANAGED_FIELDS]
    item = {**LIVE[-2], "spec": "DEEP", "status": "DEEP"}
    item["metadata"] = {**item["metadata"], "managedFields": entries}
    live = decode(json.dumps(item).replace('"DEEP"', deep).replace('"FIELDS"', fields).encode())
    body = {**OBJECTS[-2], "spec": nested(195, how)}
    corrected(live, body)
    equal_by_value(body, live)
    all(find_uncovered(fields_of(entry_of(live, MANAGER)), body))
    explanation.explain(observed(live).key, live, body, MANAGER)


DEFINITION, CACHE = "CustomResourceDefinition", "Cache"
INSTALLED, BUNDLED = (next(each for each in found if each["kind"] == DEFINITION) for found in (LIVE, OBJECTS))
SPEC = ("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec")


@given(of_kind(DEFINITION, LIVE), of_kind(DEFINITION, OBJECTS), st.lists(of_kind(CACHE, LIVE)))
@example(INSTALLED, with_value(BUNDLED, SPEC, ["no schema"]), [each for each in LIVE if each["kind"] == CACHE])
def test_any_upgrade_of_a_definition_is_judged(live: Item, item: Item, objects: list[Item]) -> None:
    try:
        [bundled] = make_applicable([item], install_namespace="shop", is_namespaced=lambda *_: None)
    except BundleError:
        return
    old, new = read_definition(live), read_definition(bundled)
    findings = compare(old, new)
    tell(findings, 300)
    survey = Survey(new.name, CrdUpgradeSafety())
    for trials in plan_trials(old, new).values():
        for each in objects:
            survey.add(each, trials)
    tell(survey.findings(), 300)


@given(nonsense_in(REPLY, most=4), st.sampled_from([400, 403, 404, 409, 422, 429, 500, 503]), st.booleans())
def test_any_reply_becomes_a_failure_with_a_message(reply: Item, status: int, conceals: bool) -> None:
    error = reply_error(status, {}, json.dumps(reply).encode())
    failure = classify(error, ObjectKey("", "Secret", "n", "x"), install_namespace="n", conceals=conceals)
    assert failure.message
    assert str(error)
