"""Expressions in CEL: what is wrong with one, what it says about an object, and what that says about its health."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from rukpak.api.v1alpha2.policies import HealthCheck
from rukpak.controller.observe.health.expressions import MISSING, Answer, evaluate, find_problem
from rukpak.controller.observe.health.rules import NOT_EVALUATED, assess
from rukpak.controller.observe.health.verdict import Context, State, Verdict
from tests.unit.controller.observe.health.objects import Manifest, conditions, manifest

HEALTHY, PROGRESSING, FAILED = State.HEALTHY, State.PROGRESSING, State.FAILED
CACHE = manifest("example.com/v1 Cache", status={"phase": "Up", "n": 3, "empty": None, "list": [1, 2]}, generation=2)

PARTS = "apiVersion, kind, metadata, spec, status, data; self is the object"
OF_DATA = "data.a, or self.data.a"
DIRECTLY = f" (fields are named directly: {PARTS})"
PROBLEMS = [
    ("status.phase == 'Up'", ""),
    ("self.status.phase == 'Up'", ""),
    ("self.?status.?phase.orValue('') == 'Up'", ""),
    ("status.ready", ""),  # may be a bool
    ("status.phase ==", "line 1, column 16: Syntax error: mismatched input '<EOF>'"),
    ("statu.phase == 'Up'", f"line 1, column 6: undeclared reference to 'statu.phase'{DIRECTLY}"),
    ("true &&\n  phase", f"line 2, column 3: undeclared reference to 'phase'{DIRECTLY}"),
    (
        "object.data.a == '1'",
        f"line 1, column 12: undeclared reference to 'object.data.a'{DIRECTLY.replace(PARTS, OF_DATA)}",
    ),
    (
        "has(oldObject.spec)",
        "line 1, column 4: undeclared reference to 'oldObject.spec' (fields are named directly: spec, or self.spec)",
    ),
    ("object == 1", f"line 1, column 1: undeclared reference to 'object'{DIRECTLY}"),
    ("object.rules == 1", f"line 1, column 7: undeclared reference to 'object.rules'{DIRECTLY}"),
    ("data.all(k, v == '1')", f"line 1, column 13: undeclared reference to 'v'{DIRECTLY}"),
    ("lookup('a')", "line 1, column 7: undeclared reference to 'lookup'"),
    ("self.lookup ('a')", "line 1, column 13: undeclared reference to 'lookup'"),
    ("'Up'", "is of type string; compare it with a value"),
    ("1 + 'a' == 2", "line 1, column 3: found no matching overload for '_+_' applied to '(int, string)'"),
    ("(" * 50 + "true" + ")" * 50, "is too long or nested too deeply"),
]


@pytest.mark.parametrize(("expression", "problem"), PROBLEMS)
def test_what_is_wrong_with_an_expression_is_told_with_its_place(expression: str, problem: str) -> None:
    assert find_problem(expression) == problem


ANSWERS: list[tuple[str, Answer]] = [
    ("status.phase == 'Up'", True),
    ("kind == 'Cache' && apiVersion.startsWith('example.com/')", True),
    ("metadata.generation > 2", False),
    ("status.n == 3.0", True),
    ("status.empty == null", True),
    ("status.list.exists(n, n == 2)", True),
    ("has(status.gone)", False),
    ("status.?gone.orValue('none') == 'none'", True),
    ("status.phase.lowerAscii() == 'up'", True),
    ("status.gone == 1", 'there is no field "gone"'),
    ("data.key == 'a'", 'there is no field "data"'),
    ("status[status.phase] == 1", "a field is missing"),  # its name is a value of the object
    ("status.n", "it is of type int, neither true nor false"),
    ("status.n > 'a'", "the types of its values do not match: _>_(int64, string)"),
    ("status.phase.matches('[')", "it cannot be evaluated"),
]


@pytest.mark.parametrize(("expression", "answer"), ANSWERS)
def test_what_an_expression_says_about_an_object(expression: str, answer: Answer) -> None:
    assert evaluate([expression], CACHE) == [answer]


def test_a_comprehension_ends_after_ten_thousand_steps() -> None:
    many = {"items": list(range(10_001))}
    assert evaluate(["self.items.all(n, n >= 0)"], many) == ["it takes more than 10,000 steps"]


def test_the_runtime_is_imported_only_for_an_expression() -> None:
    code = "import sys, rukpak.controller.observe.watches; sys.exit('cel_expr_python' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


def judge(given: Manifest, **expressions: str) -> Verdict:
    return judge_by({"expressions": expressions}, given)


def judge_by(written: Mapping[str, Any], given: Manifest) -> Verdict:
    check = HealthCheck.model_validate({"kind": given["kind"], **written})
    checks = (check.model_dump(mode="json", by_alias=True, exclude_defaults=True),)
    return assess(given, Context(checks=checks, evaluate=evaluate))


BUSY, BROKEN, UP = "status.phase == 'Busy'", "status.phase == 'Broken'", "status.phase == 'Up'"
ORDER = [
    ("Busy", PROGRESSING, "HealthCheckProgressing", "status.phase == 'Busy' is true"),
    ("Broken", FAILED, "HealthCheckFailed", "status.phase == 'Broken' is true"),
    ("Up", HEALTHY, "Healthy", ""),
    ("Other", PROGRESSING, "HealthCheckNotMet", "status.phase == 'Up' is not true"),
]


@pytest.mark.parametrize(("phase", "state", "reason", "message"), ORDER)
def test_the_first_expression_that_is_true_decides(phase: str, state: State, reason: str, message: str) -> None:
    given = manifest("example.com/v1 Cache", status={"phase": phase})
    assert judge(given, inProgress=BUSY, failed=BROKEN, current=UP) == Verdict(state, reason, message)


def test_what_is_in_progress_is_not_failed_although_both_are_true() -> None:
    assert judge(CACHE, inProgress=UP, failed=UP).state is PROGRESSING


def test_a_missing_field_is_not_yet_and_told_with_the_expression() -> None:
    found = judge(CACHE, inProgress="status.gone == 1", current=UP)
    message = 'status.gone == 1 is not known yet: there is no field "gone"'
    assert found == Verdict(PROGRESSING, "HealthCheckNotMet", message)


def test_what_has_failed_is_failed_although_another_expression_has_an_error() -> None:
    assert judge(CACHE, inProgress="status.gone == 1", failed=UP).state is FAILED


def test_without_current_an_object_is_healthy_that_is_neither_failed_nor_in_progress() -> None:
    assert judge(CACHE, inProgress=BUSY, failed=BROKEN).state is HEALTHY


def test_matchers_come_before_expressions_and_both_must_be_met() -> None:
    unmet = {"healthy": [{"field": {"path": "status.n", "in": ["4"]}}]}
    assert judge_by({**unmet, "expressions": {"current": UP}}, CACHE).state is PROGRESSING
    met = {"healthy": [{"field": {"path": "status.n", "in": ["3"]}}]}
    assert judge_by({**met, "expressions": {"current": UP}}, CACHE).state is HEALTHY
    assert judge_by({**met, "expressions": {"current": BUSY}}, CACHE).state is PROGRESSING


def test_where_nothing_is_evaluated_an_object_is_not_evaluated_unless_it_is_known_to_have_failed() -> None:
    by_expression = {"kind": "Cache", "group": "example.com", "expressions": {"current": UP}}
    progressing = {"kind": "Cache", "progressing": [{"field": {"path": "status.n", "in": ["3"]}}]}
    failed = {"kind": "Cache", "failed": progressing["progressing"]}
    assert assess(CACHE, Context(checks=(progressing, by_expression))) == NOT_EVALUATED
    assert assess(CACHE, Context(checks=(by_expression, failed))).state is FAILED


def test_an_old_generation_is_progressing_whatever_expressions_say() -> None:
    old = manifest("example.com/v1 Cache", status={"phase": "Up", "observedGeneration": 1}, generation=2)
    assert judge(old, current=UP).reason == "LatestGenerationNotObserved"


@dataclass(frozen=True, kw_only=True)
class Operator:
    """A kind of an operator, the expressions for it, and objects of it in each state."""

    name: str
    kind: str
    expressions: Mapping[str, str]
    cases: tuple[tuple[State, Mapping[str, Any]], ...]
    spec: Mapping[str, Any] | None = None


def of(kind: str, status: str) -> str:
    """Return Flux' way to ask for a condition."""
    return f"status.conditions.filter(e, e.type == '{kind}').all(e, e.status == '{status}')"


def having(*given: str, **others: Any) -> Mapping[str, Any]:
    return {"conditions": conditions(*given), **others}


# fmt: off
OPERATORS = [
    Operator(name="cert-manager, as Flux documents it", kind="cert-manager.io/v1 Certificate", expressions={
        "inProgress": "status.conditions.filter(e, e.type == 'Issuing').exists(e, e.status == 'True')",
        "failed": of("Ready", "False"), "current": of("Ready", "True"),
    }, cases=((HEALTHY, having("Ready=True")), (FAILED, having("Ready=False/Failed")),
              (PROGRESSING, having("Ready=False", "Issuing=True")), (PROGRESSING, {}))),
    Operator(name="Sealed Secrets, as Flux documents it", kind="bitnami.com/v1alpha1 SealedSecret", expressions={
        "failed": of("Synced", "False"), "current": of("Synced", "True"),
    }, cases=((HEALTHY, having("Synced=True")), (FAILED, having("Synced=False")), (PROGRESSING, {}))),
    Operator(name="Cluster API, as Flux documents it", kind="cluster.x-k8s.io/v1beta1 Cluster", expressions={
        "failed": of("Ready", "False"), "current": of("Ready", "True"),
    }, cases=((HEALTHY, having("Ready=True")), (FAILED, having("Ready=False")), (PROGRESSING, {}))),
    Operator(name="Cluster API", kind="cluster.x-k8s.io/v1beta1 Cluster", expressions={
        "failed": "self.?status.?failureReason.hasValue() || self.?status.?phase.orValue('') == 'Failed'",
        "current": "status.phase == 'Provisioned' && status.controlPlaneReady && status.infrastructureReady",
    }, cases=((HEALTHY, {"phase": "Provisioned", "controlPlaneReady": True, "infrastructureReady": True}),
              (PROGRESSING, {"phase": "Provisioned", "controlPlaneReady": False, "infrastructureReady": True}),
              (PROGRESSING, {"phase": "Provisioning"}), (FAILED, {"phase": "Failed", "failureReason": "Quota"}))),
    Operator(name="CloudNativePG", kind="postgresql.cnpg.io/v1 Cluster", spec={"instances": 3}, expressions={
        "failed": "status.phase in ['Unable to create required cluster objects', 'Not enough disk space']",
        "current": "status.phase == 'Cluster in healthy state' && status.readyInstances == spec.instances",
    }, cases=((HEALTHY, {"phase": "Cluster in healthy state", "readyInstances": 3}),
              (PROGRESSING, {"phase": "Cluster in healthy state", "readyInstances": 2}),
              (PROGRESSING, {"phase": "Setting up primary"}),
              (FAILED, {"phase": "Not enough disk space", "readyInstances": 3}))),
    Operator(name="Strimzi", kind="kafka.strimzi.io/v1beta2 Kafka", expressions={
        "inProgress": "self.status.conditions.exists(c, c.type == 'NotReady' && c.reason == 'Creating')",
        "failed": "self.status.conditions.exists(c, c.type == 'NotReady' && c.status == 'True')",
        "current": "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
    }, cases=((HEALTHY, having("Ready=True/Ready")), (PROGRESSING, having("NotReady=True/Creating")),
              (FAILED, having("NotReady=True/InvalidResourceException")))),
    Operator(name="Crossplane", kind="s3.aws.upbound.io/v1beta2 Bucket", expressions={
        "failed": "status.conditions.exists(c, c.type == 'Synced' && c.status == 'False')",
        "current": "['Ready', 'Synced'].all(t, status.conditions.exists(c, c.type == t && c.status == 'True'))",
    }, cases=((HEALTHY, having("Ready=True", "Synced=True")), (PROGRESSING, having("Ready=False", "Synced=True")),
              (FAILED, having("Ready=True", "Synced=False/ReconcileError")), (PROGRESSING, {}))),
    Operator(name="External Secrets", kind="external-secrets.io/v1 ExternalSecret", expressions={
        "failed": "status.conditions.exists(c, c.type == 'Ready' && c.reason == 'SecretSyncedError')",
        "current": f"{of('Ready', 'True')} && has(status.refreshTime) && timestamp(status.refreshTime) > timestamp(0)",
    }, cases=((HEALTHY, having("Ready=True/SecretSynced", refreshTime="2026-05-01T10:00:00Z")),
              (PROGRESSING, having("Ready=True/SecretSynced")),
              (FAILED, having("Ready=False/SecretSyncedError")))),
    Operator(name="KubeVirt", kind="kubevirt.io/v1 VirtualMachine", spec={"runStrategy": "Always"}, expressions={
        "failed": "status.printableStatus in ['CrashLoopBackOff', 'ErrorUnschedulable', 'ErrImagePull']",
        "current": "spec.runStrategy == 'Halted' ? status.printableStatus == 'Stopped' : status.ready",
    }, cases=((HEALTHY, {"printableStatus": "Running", "ready": True}),
              (PROGRESSING, {"printableStatus": "Starting", "ready": False}),
              (PROGRESSING, {"printableStatus": "Starting"}),
              (FAILED, {"printableStatus": "ErrorUnschedulable", "ready": False}))),
    Operator(name="Argo Rollouts", kind="argoproj.io/v1alpha1 Rollout", expressions={
        "inProgress": "status.phase == 'Progressing' || status.phase == 'Paused'",
        "failed": "status.phase == 'Degraded' || (has(status.abort) && status.abort)",
        "current": "status.phase == 'Healthy' && status.observedGeneration == string(metadata.generation)",
    }, cases=((HEALTHY, {"phase": "Healthy", "observedGeneration": "1"}),
              (PROGRESSING, {"phase": "Healthy", "observedGeneration": "0"}),
              (PROGRESSING, {"phase": "Paused"}), (FAILED, {"phase": "Degraded"}), (PROGRESSING, {}))),
    Operator(name="Knative", kind="serving.knative.dev/v1 Service", expressions={
        "failed": of("Ready", "False"),
        "current": f"{of('Ready', 'True')} && status.latestReadyRevisionName == status.latestCreatedRevisionName",
    }, cases=((HEALTHY, having("Ready=True", latestReadyRevisionName="a-2", latestCreatedRevisionName="a-2")),
              (PROGRESSING, having("Ready=True", latestReadyRevisionName="a-1", latestCreatedRevisionName="a-2")),
              (PROGRESSING, having("Ready=Unknown")), (FAILED, having("Ready=False/RevisionFailed")))),
    Operator(name="Istio", kind="networking.istio.io/v1 VirtualService", expressions={
        "failed": "self.?status.?validationMessages.orValue([]).exists(m, m.level == 'ERROR')",
        "current": "!has(self.status) || !has(status.conditions) || "
                   "status.conditions.all(c, c.type != 'Reconciled' || c.status == 'True')",
    }, cases=((HEALTHY, {}), (HEALTHY, having("Reconciled=True")), (PROGRESSING, having("Reconciled=False")),
              (FAILED, {"validationMessages": [{"level": "ERROR"}]}))),
]
# fmt: on


@pytest.mark.parametrize("operator", OPERATORS, ids=attrgetter("name"))
def test_objects_of_well_known_operators(operator: Operator) -> None:
    def of_status(status: Mapping[str, Any]) -> Manifest:
        parts = {"spec": operator.spec or {}, **({"status": status} if status else {})}
        return manifest(operator.kind, generation=1, **parts)

    found = [judge(of_status(status), **operator.expressions).state for _, status in operator.cases]
    assert [find_problem(each) for each in operator.expressions.values()] == [""] * len(operator.expressions)
    assert found == [state for state, _ in operator.cases]


def test_without_the_extra_nothing_is_known_of_what_is_installed_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    assert evaluate(["true", "1 +"], {}) == [MISSING, MISSING]
