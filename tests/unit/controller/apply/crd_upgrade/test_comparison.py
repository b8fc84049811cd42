"""What is compared with what: the whole definition, each version with itself, served versions with each other."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.apply.crd_upgrade.definition import CheckFinding, priority, read_definition, tell
from controller.apply.crd_upgrade.schemas import compare
from tests.support.definitions import definition, on_cluster, schema, version

TEXT = {"type": "string"}
BOTH = {"type": "string", "enum": ["blue", "red"]}
BLUE = {"type": "string", "enum": ["blue"]}
WEBHOOK = {"strategy": "Webhook"}


def of(name: str = "v1", /, *, served: bool = True, **properties: Any) -> Any:
    return version(name, schema(**properties), served=served)


class Case(NamedTuple):
    name: str
    old: Any
    new: Any
    errors: tuple[str, ...] = ()
    warns: tuple[str, ...] = ()


CASES = [
    Case("the same", definition(of(color=BOTH)), definition(of(color=BOTH))),
    # the whole definition
    Case(
        "another scope",
        definition(),
        definition(scope="Cluster"),
        ('scope: scope changed : "Namespaced" -> "Cluster"',),
    ),
    Case(
        "a stored version is removed",
        on_cluster(definition(of(), of("v1alpha1"), of("v1beta1")), "v1beta1", "v1alpha1", "v1"),
        definition(of()),
        ("storedVersionRemoval: stored versions removed : [v1alpha1 v1beta1]",),
    ),
    Case(
        "a served version is removed that is not stored",
        definition(of(), of("v1alpha1")),
        definition(of()),
        warns=("servedVersionRemoval: served versions removed : [v1alpha1]",),
    ),
    Case(
        "a version is not served any more, stored or not",
        on_cluster(definition(of(), of("v1alpha1")), "v1", "v1alpha1"),
        definition(of(), of("v1alpha1", served=False)),
        warns=("servedVersionRemoval: served versions removed : [v1alpha1]",),
    ),
    Case(
        "a version is removed that nobody could use",
        definition(of(), of("v1alpha1", served=False)),
        definition(of()),
    ),
    Case(
        "a field is removed in one version",
        definition(of(a=TEXT, b=TEXT), of("v2", a=TEXT, b=TEXT), conversion=WEBHOOK),
        definition(of(a=TEXT, b=TEXT), of("v2", b=TEXT), conversion=WEBHOOK),
        ("existingFieldRemoval: removed field : v2.^.spec.a",),
    ),
    # each version with itself
    Case(
        "a version that is not served is compared as well",
        definition(of(), of("v2", served=False, color=BOTH)),
        definition(of(), of("v2", served=False, color=BLUE)),
        ('v2: ^.spec.color: enum: allowed enum values removed : ["red"]',),
    ),
    Case("a version is added", definition(of(color=BOTH)), definition(of(color=BOTH), of("v2", color=BOTH))),
    # served versions with each other
    Case(
        "a version is added that the one before does not fit",
        definition(of(color=BOTH)),
        definition(of(color=BOTH), of("v2", color=BLUE)),
        ('v1 -> v2: ^.spec.color: enum: allowed enum values removed : ["red"]',),
    ),
    Case(
        "a version is added that lacks a field",
        definition(of(color={"type": "object", "properties": {"name": TEXT}})),
        definition(of(color={"type": "object", "properties": {"name": TEXT}}), of("v2")),
        ('v1 -> v2: ^.spec.color: type: type changed : "object" -> ""',),
    ),
    Case(
        "a version is added that lacks a field of any type",
        definition(of(color={"x-kubernetes-preserve-unknown-fields": True})),
        definition(of(color={"x-kubernetes-preserve-unknown-fields": True}), of("v2")),
        ("v1 -> v2: ^.spec.color: unhandled: unhandled changes found (node without type removed)",),
    ),
    Case(
        "a version is added that has a field more",
        definition(of(color=BOTH)),
        definition(of(color=BOTH), of("v2", color=BOTH, text=TEXT)),
    ),
    Case(
        "a lower version is added, which has a field less",
        on_cluster(definition(of("v2", color=BOTH, text=TEXT)), "v2"),
        definition(of("v2", color=BOTH, text=TEXT), of("v1beta1", color=BOTH)),
    ),
    Case(
        "a webhook converts to the version that is added",
        definition(of(color=BOTH)),
        definition(of(color=BOTH), of("v2", color=BLUE), conversion=WEBHOOK),
    ),
    Case(
        "nobody is served the version that is added",
        definition(of(color=BOTH)),
        definition(of(color=BOTH), of("v2", served=False, color=BLUE)),
    ),
    Case(
        "what two versions have against each other is no news",
        definition(of(color=BOTH), of("v2", color=BLUE)),
        definition(of(color=BOTH, text=TEXT), of("v2", color=BLUE, text=TEXT)),
    ),
    Case(
        "it is where no webhook converts any more",
        definition(of(color=BOTH), of("v2", color=BLUE), conversion=WEBHOOK),
        definition(of(color=BOTH), of("v2", color=BLUE)),
        ('v1 -> v2: ^.spec.color: enum: allowed enum values removed : ["red"]',),
    ),
    Case(
        "something else about the same field is news",
        definition(of(color=BOTH), of("v2", color=BLUE)),
        definition(of(color=BOTH), of("v2", color={**BLUE, "maxLength": 9})),
        (
            "v1 -> v2: ^.spec.color: maxLength: maxLength constraint added when there was none previously : 9",
            "v2: ^.spec.color: maxLength: maxLength constraint added when there was none previously : 9",
        ),
    ),
    # what the API server refuses
    Case("a definition without versions", definition(), {"metadata": {"name": "x"}, "spec": []}, (
        'scope: scope changed : "Namespaced" -> ""', "storedVersionRemoval: stored versions removed : [v1]",
    )),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_an_upgrade_changes(case: Case) -> None:
    old = case.old if "status" in case.old else on_cluster(case.old)
    findings = compare(read_definition(old), read_definition(case.new))
    assert tuple(sorted(f.line for f in findings if f.level == "Error")) == case.errors
    assert tuple(sorted(f.line for f in findings if f.level == "Warn")) == case.warns


def test_versions_are_sorted_as_kubernetes_sorts_them() -> None:
    names = ["foo10", "foo1", "v11alpha2", "v12alpha1", "v3beta1", "v10beta3", "v11beta2", "v1", "v2", "v10"]
    assert sorted(set(names), key=priority) == names


# how findings are told


def finding(version: str, path: str, text: str = "text") -> CheckFinding:
    return CheckFinding(check="enum", text=text, version=version, path=path)


def test_findings_are_told_by_version_path_and_check_and_existing_objects_last() -> None:
    existing = CheckFinding(check="existingResources", text="a/b", version="v1")
    scope = CheckFinding(check="scope", text="changed")
    found = [existing, finding("v2", "^.a"), finding("v1", "^.b"), finding("v1", "^.a"), scope]
    lines = ["scope: changed", "v1: ^.a: enum: text", "v1: ^.b: enum: text", "v2: ^.a: enum: text"]
    assert tell(found, 500) == [*lines, "existingResources: a/b"]
    assert tell(reversed(found), 500) == tell(found, 500)


def test_ten_lines_are_told_and_a_count() -> None:
    told = tell([finding("v1", f"^.f{index:02}") for index in range(15)], 500)
    assert told[:1] == ["v1: ^.f00: enum: text"]
    assert len(told) == 11
    assert told[-1] == "5 more"


def test_fewer_are_told_where_they_are_long() -> None:
    told = tell([finding("v1", f"^.f{index}", "x" * 200) for index in range(4)], 500)
    assert [len(line) for line in told] == [216, 216, 6]
    assert told[-1] == "2 more"


def test_a_line_that_is_too_long_is_cut() -> None:
    assert [len(line) for line in tell([finding("v1", "^.a", "x" * 5000)], 500)] == [500]
