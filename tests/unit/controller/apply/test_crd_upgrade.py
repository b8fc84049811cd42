"""What is read of the cluster before a definition is applied, and what comes of it.

What a schema finds wrong with an object, as the API server would after an update to that schema.

That the API server agrees on all of these is tested in integration/test_crd_upgrade.py.
"""

from __future__ import annotations

import json
import re
from operator import attrgetter
from typing import Any

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.policies import CrdUpgradeSafety
from rukpak.controller.apply.crd_upgrade import PAGE_ITEMS, admit, inspect_upgrade, validate
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import Resource
from tests.support.definitions import CASES, NAME, Fitting, Manifest, definition, on_cluster, schema, version
from tests.support.fake_cluster import SERVED, FakeCluster

GREETINGS = [Resource("example.com", name, "Greeting", "greetings", namespaced=True) for name in ("v1", "v2")]
PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
LIST = "LIST /apis/example.com/v1/greetings"
READ = f"GET {PATH}"
TEXT = {"type": "string"}
BOTH = {"type": "string", "enum": ["blue", "red"]}
BLUE = {"type": "string", "enum": ["blue"]}
RULE = {"x-kubernetes-validations": [{"rule": "self != ''"}]}


def of(name: str = "v1", /, *, served: bool = True, **properties: Any) -> Manifest:
    return version(name, schema(**properties), served=served)


def allowing(*checks: str, enforcement: str = "Warn", paths: tuple[str, ...] = ()) -> CrdUpgradeSafety:
    rule = {"crd": NAME, "checks": checks, "enforcement": enforcement, "paths": paths}
    return CrdUpgradeSafety.model_validate({"rules": [rule]})


class Bench:
    """A cluster with a definition and greetings, and what an inspector says and asks."""

    def __init__(self, live: Manifest | None = None) -> None:
        self.cluster = FakeCluster(*SERVED, *GREETINGS)
        if live:
            self.cluster.put(live if "status" in live else on_cluster(live))

    def greet(self, name: str, served: str = "v1", **spec: Any) -> None:
        metadata = {"name": name, "namespace": "ns"}
        self.cluster.put(
            {"apiVersion": f"example.com/{served}", "kind": "Greeting", "metadata": metadata, "spec": spec}
        )

    def inspect(self, new: Manifest, safety: CrdUpgradeSafety | None = None) -> tuple[str, ...]:
        self.cluster.taken()
        return inspect_upgrade(self.cluster.client, PATH, new, safety or CrdUpgradeSafety())

    def refusal(self, new: Manifest, safety: CrdUpgradeSafety | None = None) -> str:
        with pytest.raises(BundleError) as caught:
            self.inspect(new, safety)
        assert caught.value.reason is Reason.UNSAFE_CRD_UPGRADE
        return caught.value.message


def test_what_is_not_there_may_be_applied() -> None:
    bench = Bench()
    assert bench.inspect(definition(of(color=BLUE))) == ()
    assert bench.cluster.taken() == [READ]


def test_what_only_adds_lists_nothing() -> None:
    bench = Bench(definition(of(color=BLUE)))
    assert bench.inspect(definition(of(color=BOTH, text=TEXT), of("v2", color=BOTH, text=TEXT))) == ()
    assert bench.cluster.taken() == [READ]


def test_a_refusal_names_definition_version_path_check_and_the_switch() -> None:
    message = Bench(definition(of(color=BOTH))).refusal(definition(of(color=BLUE)))
    assert message == (
        'validating upgrade for CRD "greetings.example.com": '
        'v1: ^.spec.color: enum: allowed enum values removed : ["red"]; '
        "make the change compatible, or allow it in spec.crdUpgradeSafety: "
        "{rules: [{crd: greetings.example.com, checks: [enum], enforcement: Warn}]}"
    )


MIGRATE = (
    "keep these among its versions, with served: false if unused, until a storage migration has stored all objects at "
    "another version and removed these from status.storedVersions"
)
SCOPE = "keep the scope, or delete the definition with its objects, because the API server never changes it"
ALLOW = "make the change compatible, or allow it in spec.crdUpgradeSafety: "
FINAL = {
    "a stored version that is removed": (definition(of("v2")), f"stored versions removed : [v1]; {MIGRATE}"),
    "another scope": (definition(of(), scope="Cluster"), f'scope changed : "Namespaced" -> "Cluster"; {SCOPE}'),
    "beside what may be allowed": (
        definition(of("v2"), of("v3", color=BLUE)),
        f"{MIGRATE}; {ALLOW}{{rules: [{{crd: {NAME}, checks: [enum], enforcement: Warn}}]}}",
    ),
}


@pytest.mark.parametrize("case", FINAL)
def test_no_rule_is_proposed_for_what_the_api_server_refuses_as_well(case: str) -> None:
    new, expected = FINAL[case]
    old = definition(of(), of("v3", color=BOTH)) if "beside" in case else definition(of())
    assert Bench(old).refusal(new).endswith(expected)


def test_the_remedy_of_a_refusal_can_be_pasted_into_the_spec() -> None:
    message = Bench(definition(of(color=BOTH))).refusal(definition(of(color=BLUE)))
    pasted = json.loads(re.sub(r"([\w.-]+)", r'"\1"', message.rpartition("spec.crdUpgradeSafety: ")[2]))
    safety = CrdUpgradeSafety.model_validate(pasted)
    assert [(rule.crd, rule.checks, rule.enforcement) for rule in safety.rules] == [
        ("greetings.example.com", ("enum",), "Warn")
    ]


def test_a_long_refusal_keeps_its_remedy_within_a_condition() -> None:
    before, after = (schema(**{f"field{index:03}": each for index in range(100)}) for each in (BOTH, BLUE))
    message = Bench(definition(version(value=before))).refusal(definition(version(value=after)))
    assert len(message) < 950
    assert " more; make the change compatible" in message
    assert message.endswith("enforcement: Warn}]}")


def test_what_is_allowed_is_a_warning() -> None:
    warnings = Bench(definition(of(color=BOTH))).inspect(definition(of(color=BLUE)), allowing("enum"))
    title, text = 'validating upgrade for CRD "greetings.example.com"', 'allowed enum values removed : ["red"]'
    assert warnings == (f"{title}: v1: ^.spec.color: enum: {text}",)


def test_nothing_is_asked_where_all_is_off() -> None:
    bench = Bench(definition(of(color=BOTH)))
    assert bench.inspect(definition(of(color=BLUE)), CrdUpgradeSafety(enforcement="None")) == ()
    assert bench.cluster.taken() == []


@pytest.mark.parametrize("on_live", [True, False], ids=["on the cluster", "in the bundle"])
def test_the_annotation_on_the_definition_turns_all_off(on_live: bool) -> None:
    annotations = {names.SAFE_CRD_UPGRADE_VALIDATION: "false"}
    old = definition(of(color=BOTH), annotations=annotations if on_live else None)
    new = definition(of(color=BLUE), annotations=None if on_live else annotations)
    [warning] = Bench(old).inspect(new)
    assert warning == (
        'validating upgrade for CRD "greetings.example.com": not checked, '
        'since it has the annotation core.rukpak.io/safe-crd-upgrade-validation: "false"'
    )


def test_another_value_of_the_annotation_turns_nothing_off() -> None:
    annotations = {names.SAFE_CRD_UPGRADE_VALIDATION: "true"}
    Bench(definition(of(color=BOTH))).refusal(definition(of(color=BLUE), annotations=annotations))


def test_a_definition_that_cannot_be_read_is_not_applied() -> None:
    bench = Bench(definition())
    bench.cluster.faults[READ] = [ApiError(503, "ServiceUnavailable", "not now")]
    with pytest.raises(ApiError):
        bench.inspect(definition())


# existing objects


def test_an_existing_object_that_does_not_fit_is_named() -> None:
    bench = Bench(definition(of(color=BOTH)))
    for name, color in (("a", "blue"), ("b", "red"), ("c", "red")):
        bench.greet(name, color=color)
    message = bench.refusal(definition(of(color=BLUE)), allowing("enum"))
    fails = 'failed validation for new schema version v1: spec.color: must be one of ["blue"]'
    assert f"existingResources: existing custom object ns/b {fails} (3 checked, 2 invalid); " in message
    assert f"existingResources: existing custom object ns/c {fails}; " in message
    assert "checks: [existingResources]" in message


def test_objects_that_fit_let_an_allowed_change_pass() -> None:
    bench = Bench(definition(of(color=BOTH)))
    bench.greet("a", color="blue")
    assert len(bench.inspect(definition(of(color=BLUE)), allowing("enum"))) == 1


def test_objects_are_listed_in_pages() -> None:
    bench = Bench(definition(of(color=BOTH)))
    for index in range(2 * PAGE_ITEMS + 1):
        bench.greet(f"g{index:03}", color="blue")
    bench.inspect(definition(of(color=BLUE)), allowing("enum"))
    assert bench.cluster.taken() == [READ, LIST, LIST, LIST]


def test_ten_objects_are_named_and_after_twenty_no_more_are_looked_at() -> None:
    bench = Bench(definition(of(color=BOTH)))
    for index in range(2 * PAGE_ITEMS):
        bench.greet(f"g{index:03}", color="red")
    message = bench.refusal(definition(of(color=BLUE)), allowing("enum"))
    assert "(20 checked, 20 invalid; the others were not checked)" in message
    assert bench.cluster.taken() == [READ, LIST]


def test_an_object_that_does_not_fit_now_either_is_only_a_warning() -> None:
    bench = Bench(definition(of(color=BLUE, text=TEXT)))
    bench.greet("a", color="red")
    narrow = definition(of(color=BLUE, text={**TEXT, "maxLength": 5}))
    warnings = bench.inspect(narrow, allowing("maxLength"))
    assert "existing custom object ns/a failed validation" in warnings[-1]


def test_an_object_that_becomes_worse_is_an_error_all_the_same() -> None:
    bench = Bench(definition(of(color=BLUE, text=TEXT)))
    bench.greet("a", color="red", text="long text")
    narrow = definition(of(color=BLUE, text={**TEXT, "maxLength": 5}))
    assert "spec.text: has more than 5 characters" in bench.refusal(narrow, allowing("maxLength"))


def test_objects_have_to_fit_a_version_that_is_added() -> None:
    bench = Bench(definition(of(text=TEXT)))
    bench.greet("a", text="long text")
    new = definition(of(text=TEXT), of("v2", served=False, text={**TEXT, "maxLength": 5}))
    assert "for new schema version v2: spec.text: has more than 5 characters" in bench.refusal(new)


def test_a_webhook_may_make_them_fit() -> None:
    bench = Bench(definition(of(text=TEXT)))
    bench.greet("a", text="long text")
    added = of("v2", text={**TEXT, "maxLength": 5})
    assert bench.inspect(definition(of(text=TEXT), added, conversion={"strategy": "Webhook"})) == ()


def test_values_that_nobody_looked_at_before_have_to_fit_a_new_field() -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    bench = Bench(definition(of(more=anything)))
    new = definition(of(more={**anything, "properties": {"size": {"type": "integer"}}}))
    assert bench.inspect(new) == ()
    bench.greet("a", more={"size": "large"})
    assert "spec.more.size: must be of type integer" in bench.refusal(new)


def test_a_version_that_is_not_served_cannot_be_listed() -> None:
    old = definition(of(text=TEXT), of("v2", served=False, text=TEXT))
    bench = Bench(old)
    new = definition(of(text=TEXT), of("v2", served=False, text={**TEXT, "maxLength": 5}))
    bench.inspect(new, allowing("maxLength"))
    assert bench.cluster.taken() == [READ]


def test_a_definition_that_was_never_served_has_no_objects() -> None:
    bench = Bench({**definition(of(color=BOTH)), "status": {}})
    bench.inspect(definition(of(color=BLUE)), allowing("enum"))
    assert bench.cluster.taken() == [READ]


def test_a_place_where_objects_need_not_fit() -> None:
    bench = Bench(definition(of(color=BOTH, text=TEXT)))
    bench.greet("a", color="red")
    safety = CrdUpgradeSafety.model_validate(
        {
            "enforcement": "Warn",
            "rules": [
                {"crd": "*", "checks": ["existingResources"], "enforcement": "Error"},
                {"crd": "*", "paths": ["^.spec.color"], "enforcement": "None"},
            ],
        }
    )
    assert bench.inspect(definition(of(color=BLUE, text=TEXT)), safety) == ()


def test_objects_are_not_listed_where_that_is_off() -> None:
    bench = Bench(definition(of(color=BOTH)))
    bench.greet("a", color="red")
    bench.refusal(definition(of(color=BLUE)), allowing("existingResources", enforcement="None"))
    assert bench.cluster.taken() == [READ]


def test_rules_that_are_added_were_not_tried() -> None:
    bench = Bench(definition(of(text=TEXT)))
    *_, last = bench.inspect(definition(of(text={**TEXT, **RULE})), allowing("xvalidations"))
    assert last.endswith(
        "rules added to x-kubernetes-validations of version v1 were not evaluated for existing objects"
    )


def test_a_list_that_is_forbidden_is_no_pass() -> None:
    bench = Bench(definition(of(color=BOTH)))
    bench.cluster.faults[LIST] = [ApiError(403, "Forbidden", "you may not")]
    message = bench.refusal(definition(of(color=BLUE)), allowing("enum"))
    assert "existing custom objects of version v1 could not be listed: 403 Forbidden: you may not" in message


def test_a_list_that_fails_for_a_while_is_tried_again() -> None:
    bench = Bench(definition(of(color=BOTH)))
    bench.cluster.faults[LIST] = [ApiError(503, "ServiceUnavailable", "not now")]
    with pytest.raises(ApiError):
        bench.inspect(definition(of(color=BLUE)), allowing("enum"))


def test_what_is_refused_anyway_is_refused_although_a_list_fails() -> None:
    bench = Bench(definition(of(color=BOTH)))
    bench.cluster.faults[LIST] = [ApiError(503, "ServiceUnavailable", "not now")]
    message = bench.refusal(definition(of(color=BLUE)))
    assert "checks: [enum, existingResources]" in message


NAMED = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}


def said(value: Any, of: Any) -> list[str]:
    return [f"{violation.field}: {violation.reason}" for violation in validate(admit(value, of), of)]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_wrong_with_a_value(case: Fitting) -> None:
    found = said({"metadata": {"name": "x"}, "spec": {"value": case.value}}, schema(value=case.schema))
    assert found == ([f"spec.value{case.says}"] if case.says else [])


def test_of_metadata_only_the_name_counts() -> None:
    value = {"metadata": {"name": "long", "labels": 1, "uid": "x"}}
    assert said(value, {"type": "object", "properties": {"metadata": NAMED}}) == [
        "metadata.name: has more than 3 characters"
    ]


def test_the_status_counts_and_paths_lead_through_the_schema() -> None:
    color = {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string", "enum": ["a"]}}}
    of = {"type": "object", "properties": {"status": {"type": "object", "properties": {"colors": color}}}}
    [violation] = validate({"metadata": {"name": "x"}, "status": {"colors": [{"k": "b"}]}}, of)
    assert violation.field == "status.colors[0].k"
    assert violation.path == "^.status.colors.items.additionalProperties"


def test_no_reason_quotes_a_value() -> None:
    of = schema(a={"type": "string", "enum": ["x"], "pattern": "y", "maxLength": 1, "format": "uuid", "not": {}})
    value = {"metadata": {"name": "x"}, "spec": {"a": "secret"}}
    assert len(said(value, of)) == 5
    assert "secret" not in str(said(value, of))


def test_neither_object_nor_schema_is_changed() -> None:
    of = schema(a={"type": "object", "default": {"b": {}}, "properties": {"b": {"type": "object", "properties": {}}}})
    value: Any = {"metadata": {"name": "x"}, "spec": {"c": 1}}
    before = repr((of, value))
    assert admit(value, of) == {"metadata": {"name": "x"}, "spec": {"a": {"b": {}}}}
    assert repr((of, value)) == before


def test_what_cannot_be_a_pattern_matches_everything() -> None:
    assert said({"metadata": {"name": "x"}, "spec": {"a": "b"}}, schema(a={"pattern": "("})) == []


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1.5])
def test_what_is_no_whole_number_is_no_integer(value: float) -> None:
    of = schema(value={"type": "integer"})
    assert said({"metadata": {"name": "x"}, "spec": {"value": value}}, of) == ["spec.value: must be of type integer"]
