from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from rukpak.api.v1alpha2.policies import HealthCheck
from rukpak.controller.observe.health.rules import assess, matching
from rukpak.controller.observe.health.verdict import Context, State, Verdict
from tests.unit.controller.observe.health.objects import Manifest, conditions, manifest

HEALTHY, PROGRESSING, FAILED = State.HEALTHY, State.PROGRESSING, State.FAILED

# As controller/observe/health/README.md has it.
CLUSTER: dict[str, Any] = {
    "group": "example.com",
    "kind": "Cache",
    "failed": [{"condition": {"type": "Ready", "status": "False", "reasons": ["Unrecoverable"]}}],
    "progressing": [{"field": {"path": "status.phase", "in": ["Creating", "Upgrading"]}}],
    "healthy": [
        {"condition": {"type": "Ready", "status": "True"}},
        {"field": {"path": "status.readyInstances", "equalsPath": "spec.instances"}},
    ],
}


def cache(*given: str, instances: int = 3, **status: Any) -> Manifest:
    return manifest(
        "example.com/v1 Cache",
        spec={"instances": instances},
        status={"readyInstances": 3, "conditions": conditions(*given), **status},
        generation=2,
    )


def judge(given: Manifest, *checks: Manifest) -> Verdict:
    written = [HealthCheck.model_validate(check).model_dump(by_alias=True, exclude_none=True) for check in checks]
    return assess(given, Context(checks=matching(written, given), reports_status=True))


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    given: Manifest
    expect: State
    reason: str
    message: str = ""


# fmt: off
CASES = [
    Case(name="all of healthy match", given=cache("Ready=True"), expect=HEALTHY, reason="Healthy"),
    Case(name="any of failed matches, with its own reason",
         given=cache("Ready=False/Unrecoverable/disk is gone", phase="Creating"), expect=FAILED, reason="Unrecoverable",
         message="disk is gone"),
    Case(name="another reason is no match", given=cache("Ready=False/Starting"), expect=PROGRESSING, reason="Starting",
         message="condition Ready is not True"),
    Case(name="any of progressing matches", given=cache("Ready=True", phase="Upgrading"), expect=PROGRESSING,
         reason="HealthCheckProgressing", message="status.phase is one of Creating, Upgrading"),
    Case(name="a missing condition matches nothing", given=cache(), expect=PROGRESSING, reason="HealthCheckNotMet",
         message="condition Ready is not True"),
    Case(name="two fields differ", given=cache("Ready=True", instances=5), expect=PROGRESSING,
         reason="HealthCheckNotMet", message="status.readyInstances is not equal to spec.instances"),
    Case(name="a field is missing", given=cache("Ready=True", readyInstances=None), expect=PROGRESSING,
         reason="HealthCheckNotMet", message="status.readyInstances is not equal to spec.instances"),
    Case(name="Stalled does not count where there is a check", given=cache("Ready=True", "Stalled=True"),
         expect=HEALTHY, reason="Healthy"),
    Case(name="the generation counts before the check", given=cache("Ready=True", observedGeneration=1),
         expect=PROGRESSING, reason="LatestGenerationNotObserved",
         message="its controller has not observed the latest generation yet"),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_a_check_says(case: Case) -> None:
    verdict = judge(case.given, CLUSTER)

    assert (verdict.state, verdict.reason, verdict.message) == (case.expect, case.reason, case.message)


def check(path: str, *values: str) -> dict[str, Any]:
    return {"group": "example.com", "kind": "Cache", "healthy": [{"field": {"path": path, "in": list(values)}}]}


@pytest.mark.parametrize(
    ("path", "value", "status"),
    [
        ("status.size", "3", {"size": 3}),
        ("status.on", "true", {"on": True}),
        ("status.on", "false", {"on": False}),
        ("status.a.b-c.d", "x", {"a": {"b-c": {"d": "x"}}}),
        ('status["example.com/state"]', "x", {"example.com/state": "x"}),
        ('status["a.b"].c["d.e"]', "x", {"a.b": {"c": {"d.e": "x"}}}),
    ],
)
def test_a_field_is_found_and_compared_as_text(path: str, value: str, status: dict[str, Any]) -> None:
    assert judge(manifest("example.com/v1 Cache", status=status), check(path, value)).state is HEALTHY


@pytest.mark.parametrize(
    "status",
    [{}, {"on": None}, {"on": []}, {"on": {"true": 1}}, "on", {"on": 1}],
    ids=["no field", "null", "a list", "a map", "no map to look into", "another value"],
)
def test_what_is_not_there_or_no_scalar_matches_nothing(status: Any) -> None:
    assert judge(manifest("example.com/v1 Cache", status=status), check("status.on", "true")).state is PROGRESSING


def test_true_is_not_one() -> None:
    same = {
        "group": "example.com",
        "kind": "Cache",
        "healthy": [{"field": {"path": "status.on", "equalsPath": "spec.on"}}],
    }

    assert judge(manifest("example.com/v1 Cache", spec={"on": 1}, status={"on": True}), same).state is PROGRESSING


def test_a_condition_of_another_generation_matches_nothing() -> None:
    outdated = {"type": "Ready", "status": "True", "observedGeneration": 1}
    given = manifest("example.com/v1 Cache", status={"conditions": [outdated]}, generation=2)
    ready = {**check("x", "y"), "healthy": [{"condition": {"type": "Ready", "status": "True"}}]}

    assert judge(given, ready).state is PROGRESSING


def test_a_check_without_healthy_is_content_where_nothing_matches() -> None:
    failing = {"group": "example.com", "kind": "Cache", "failed": CLUSTER["failed"]}

    assert judge(cache("Ready=False"), failing).state is HEALTHY


def test_a_check_replaces_the_rule_of_a_kind() -> None:
    service = manifest("v1 Service", spec={"type": "LoadBalancer"})

    assert judge(service).reason == "LoadBalancerPending"
    assert judge(service, {"kind": "Service", "always": "Healthy"}).state is HEALTHY


def test_what_is_being_deleted_is_terminating_even_if_always_healthy() -> None:
    deleted = manifest("example.com/v1 Cache", deletionTimestamp="2026-01-01T00:00:00Z")

    assert judge(deleted, {"group": "example.com", "kind": "Cache", "always": "Healthy"}).state is State.TERMINATING


def test_a_check_that_names_an_object_replaces_those_for_its_kind() -> None:
    always = {"group": "example.com", "kind": "Cache", "always": "Healthy"}
    named, other = {**CLUSTER, "name": "web"}, {**CLUSTER, "name": "other"}

    assert matching([always, other, named], cache()) == (named,)
    assert matching([always, other], cache()) == (always,)


def test_of_several_checks_the_worst_verdict_counts() -> None:
    assert judge(cache("Ready=True", phase="Broken"), CLUSTER, check("status.phase", "Fine")).state is PROGRESSING


def test_a_check_for_another_group_does_not_concern_an_object() -> None:
    assert matching([{**CLUSTER, "group": "example.org"}, {**CLUSTER, "group": ""}], cache()) == ()
