"""Whether what was found holds a definition back, as spec.crdUpgradeSafety says."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api.v1alpha2.policies import CrdUpgradeSafety
from controller.apply.crd_upgrade.definition import CheckFinding, is_off, level_of

CRD = "greetings.example.com"
ENUM = CheckFinding(check="enum", text="", version="v1", path="^.status.color")
PATTERN = CheckFinding(check="pattern", text="", version="v1", path="^.spec.text", level="Warn")
DESCRIPTION = CheckFinding(check="description", text="", version="v1", path="^.spec", level="None")
SCOPE = CheckFinding(check="scope", text="")


def rule(enforcement: str, *checks: str, crd: str = CRD, paths: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"crd": crd, "checks": checks, "enforcement": enforcement, "paths": paths}


def safety(*rules: dict[str, Any], default: str = "Error") -> CrdUpgradeSafety:
    return CrdUpgradeSafety.model_validate({"enforcement": default, "rules": rules})


class Case(NamedTuple):
    name: str
    finding: CheckFinding
    safety: CrdUpgradeSafety
    level: str


CASES = [
    Case("an error is one by default", ENUM, safety(), "Error"),
    Case("the default may warn", ENUM, safety(default="Warn"), "Warn"),
    Case("the default may be silent", ENUM, safety(default="None"), "None"),
    Case("a warning is not raised by the default", PATTERN, safety(), "Warn"),
    Case("a warning may be silenced by the default", PATTERN, safety(default="None"), "None"),
    Case("a description is never told by default", DESCRIPTION, safety(), "None"),
    Case("a rule for the check", ENUM, safety(rule("Warn", "enum")), "Warn"),
    Case("a rule for several checks", ENUM, safety(rule("Warn", "type", "enum")), "Warn"),
    Case("a rule for another check", ENUM, safety(rule("Warn", "type")), "Error"),
    Case("a rule for all checks", ENUM, safety(rule("None")), "None"),
    Case("a rule for another definition", ENUM, safety(rule("Warn", "enum", crd="x.example.com")), "Error"),
    Case("a rule for all definitions", ENUM, safety(rule("Warn", "enum", crd="*")), "Warn"),
    Case("a rule for a node above", ENUM, safety(rule("Warn", paths=("^.status",))), "Warn"),
    Case("a rule for the node itself", ENUM, safety(rule("Warn", paths=("^.spec", "^.status.color"))), "Warn"),
    Case("a rule for a node below", ENUM, safety(rule("Warn", paths=("^.status.color.x",))), "Error"),
    Case("a rule for a node whose name begins alike", ENUM, safety(rule("Warn", paths=("^.stat",))), "Error"),
    Case("a rule for a place, and a finding without one", SCOPE, safety(rule("Warn", paths=("^",))), "Error"),
    Case("the last rule counts", ENUM, safety(rule("None", "enum"), rule("Error", crd="*")), "Error"),
    Case("a rule makes an exception from silence", ENUM, safety(rule("Error", "enum"), default="None"), "Error"),
    Case("a rule that names a check raises its warning", PATTERN, safety(rule("Error", "pattern")), "Error"),
    Case("a rule for all checks raises no warning", PATTERN, safety(rule("Error"), default="None"), "Warn"),
    Case("a rule lets a description be told", DESCRIPTION, safety(rule("Warn", "description")), "Warn"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_the_level_of_a_finding(case: Case) -> None:
    assert level_of(case.finding, CRD, case.safety) == case.level


class Off(NamedTuple):
    name: str
    safety: CrdUpgradeSafety
    everything: bool
    existing: bool


OFF = [
    Off("by default nothing is off", safety(), False, False),
    Off("all is off", safety(default="None"), True, True),
    Off("one check is off", safety(rule("None", "existingResources")), False, True),
    Off("all is off for this definition", safety(rule("None")), True, True),
    Off("all is off for another definition", safety(rule("None", crd="x.example.com")), False, False),
    Off("a check is off in one place", safety(rule("None", "existingResources", paths=("^.spec",))), False, False),
    Off("a check is on in one place", safety(rule("Warn", "enum", paths=("^.spec",)), default="None"), False, True),
    Off("a rule turns all on again", safety(rule("None"), rule("Warn", crd="*")), False, False),
]


@pytest.mark.parametrize("case", OFF, ids=attrgetter("name"))
def test_what_is_off_costs_no_request(case: Off) -> None:
    assert is_off(CRD, case.safety) is case.everything
    assert is_off(CRD, case.safety, "existingResources") is case.existing
